"""What botocore raises, as the loop's own errors. The one place where AWS's error codes are sorted.

    with calling("DynamoDB"):
        client.put_item(…)

An adapter that knows better what a code means to it catches the ClientError inside the block; `code_of` reads it.
What is not known here is Unavailable: whether AWS did what was asked is then not known either.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from nodefleet.errors import DeniedError, MisconfiguredError, NodeFleetError, ThrottledError, UnavailableError

THROTTLES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
DENIALS = frozenset(
    {
        "403",  # S3 answers a HEAD without a body
        "AccessDenied",
        "AccessDeniedException",
        "AuthorizationError",
        "NotAuthorized",
        "UnauthorizedException",
        "UnauthorizedOperation",
    }
)
_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",
        "InvalidToken",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_CLOCK = frozenset({"RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"})
_ACCOUNT = frozenset({"Blocked", "OptInRequired", "PendingVerification"})
_MISSING = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchBucket",
        "QueueDoesNotExist",
        "ResourceNotFoundException",
    }
)
_UNCONFIGURED = frozenset(
    {
        "ConfigNotFound",
        "ConfigParseError",
        "InvalidConfigError",
        "InvalidRegionError",
        "NoAuthTokenError",
        "NoCredentialsError",
        "NoRegionError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "SSOTokenLoadError",
        "UnauthorizedSSOTokenError",
        "UnknownEndpointError",
        "UnknownRegionError",
    }
)
_UNFITTING = frozenset({"ParamValidationError", "EndpointResolutionError", "EndpointProviderError"})

# Calls whose permission has another name than the call.
_PERMISSIONS = {
    ("S3", "HeadObject"): "s3:GetObject",
    ("S3", "HeadBucket"): "s3:ListBucket",
    ("S3", "ListObjectsV2"): "s3:ListBucket",
    ("DynamoDB", "TransactWriteItems"): "dynamodb:PutItem, UpdateItem, DeleteItem and ConditionCheckItem",
    ("DynamoDB", "TransactGetItems"): "dynamodb:GetItem",
}
_ACTION = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z0-9]+)(?: on resource: (arn:\S+[^\s.,]))?")
_ENCODED = re.compile(r"\s*Encoded authorization failure message:.*", re.DOTALL)  # kilobytes, and nothing to read


@contextmanager
def calling(part: str) -> Iterator[None]:
    """Raises nodefleet.errors in place of what botocore raises. `part` is the service's name for operators: "EC2"."""
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]  # noqa: PLC0415  # slow to import

    try:
        yield
    except ClientError as problem:
        raise from_code(part, code_of(problem), said_in(problem), problem.operation_name) from problem
    except BotoCoreError as problem:
        raise _local(part, problem) from problem
    except ResponseParserError as problem:
        raise UnavailableError(part, f"its answer cannot be read: {_shorten(str(problem))}") from problem


def code_of(problem: ClientError) -> str:
    """AWS's own word for it."""
    return str(problem.response.get("Error", {}).get("Code", ""))


def from_code(part: str, code: str, said: str, operation: str) -> NodeFleetError:
    """The error that a code stands for."""
    cause = f"{operation}: {code}: {said}" if said else f"{operation}: {code}"
    if code in THROTTLES:
        return ThrottledError(part, cause)
    if code in DENIALS:
        return DeniedError(part, cause.rstrip("."), f"Allow {action(part, said, operation)} to the autoscaler's role")
    if code in _CREDENTIALS:
        return DeniedError(part, cause.rstrip("."), "Check the AWS credentials: they are wrong, expired or disabled")
    if code in _CLOCK:
        return DeniedError(
            part, cause.rstrip("."), "Set this machine's clock: AWS refuses requests that are minutes off"
        )
    if code in _ACCOUNT:
        return DeniedError(
            part, cause.rstrip("."), "The AWS account itself is held back: look at its messages from AWS"
        )
    if code in _MISSING:
        return MisconfiguredError(f"{part}: {cause.rstrip('.')}. Check its name and region in the deployment")
    return UnavailableError(part, cause)


def action(part: str, said: str, operation: str) -> str:
    """The permission that was lacking: as AWS names it, else by the call's name."""
    named = _ACTION.search(said)
    if named:
        return f"{named[1]} on {named[2]}" if named[2] else named[1]
    return _PERMISSIONS.get((part, operation), f"{part.lower().replace(' ', '')}:{operation}")


def said_in(problem: ClientError) -> str:
    """AWS's own sentence about it, without the part that only AWS can decode."""
    return _shorten(_ENCODED.sub("", str(problem.response.get("Error", {}).get("Message", ""))))


def _local(part: str, problem: BotoCoreError) -> NodeFleetError:
    """What went wrong before AWS answered, or without its answer."""
    name, said = type(problem).__name__, _shorten(str(problem))
    if name in _UNCONFIGURED:
        return MisconfiguredError(f"{part}: {said.rstrip('.')}. Set AWS credentials and AWS_REGION, or AWS_PROFILE")
    if name in _UNFITTING:
        return MisconfiguredError(f"{part}: the request cannot be sent: {said}")
    return UnavailableError(part, said)


def _shorten(text: str, most: int = 500) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most]}…"
