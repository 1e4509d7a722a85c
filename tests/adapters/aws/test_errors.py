import pytest
from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from nodefleet.adapters.aws.errors import action, calling, code_of, said_in
from nodefleet.errors import (
    ChangedError,
    DeniedError,
    MisconfiguredError,
    NodeFleetError,
    ThrottledError,
    UnavailableError,
)
from support.sentences import is_explained
from support.wording import assert_wording

URL = "https://ec2.us-east-1.api.aws"
NOT_AUTHORIZED = (
    "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/nf/run is not authorized to"
    " perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:subnet/subnet-1 because no identity-based policy"
    " allows the ec2:RunInstances action. Encoded authorization failure message: " + "Xy9" * 900
)


def client_error(code: str, message: str = "some words", operation: str = "DescribeInstances") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


def becomes(problem: Exception, part: str = "EC2") -> NodeFleetError:
    with pytest.raises(NodeFleetError) as caught, calling(part):
        raise problem
    assert caught.value.__cause__ is problem
    if isinstance(problem, ClientError | BotoCoreError | ResponseParserError):
        assert is_explained(caught.value, part)
    return caught.value


# ── what AWS answered ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("RequestLimitExceeded", ThrottledError),
        ("Throttling", ThrottledError),
        ("ThrottlingException", ThrottledError),
        ("ProvisionedThroughputExceededException", ThrottledError),
        ("SlowDown", ThrottledError),
        ("UnauthorizedOperation", DeniedError),
        ("AccessDenied", DeniedError),
        ("AccessDeniedException", DeniedError),
        ("403", DeniedError),
        ("AuthFailure", DeniedError),
        ("ExpiredTokenException", DeniedError),
        ("RequestExpired", DeniedError),
        ("PendingVerification", DeniedError),
        ("ResourceNotFoundException", MisconfiguredError),
        ("NoSuchBucket", MisconfiguredError),
        ("AWS.SimpleQueueService.NonExistentQueue", MisconfiguredError),
        ("InternalError", UnavailableError),
        ("ServiceUnavailable", UnavailableError),
        ("SomethingNew", UnavailableError),
        ("", UnavailableError),
    ],
)
def test_a_code_becomes_one_of_our_errors(code, kind):
    assert type(becomes(client_error(code))) is kind


def test_an_unknown_code_is_told_with_the_part_the_call_and_its_words():
    problem = becomes(client_error("SomethingNew", "it went wrong"))
    assert isinstance(problem, UnavailableError)
    assert problem.part == "EC2"
    assert_wording(str(problem))


def test_a_denial_names_the_action_and_the_resource_that_aws_names():
    problem = becomes(client_error("UnauthorizedOperation", NOT_AUTHORIZED, "CreateFleet"))
    assert isinstance(problem, DeniedError)
    wanted = "Allow ec2:RunInstances on arn:aws:ec2:us-east-1:1:subnet/subnet-1 to the autoscaler's role"
    assert problem.remedy == wanted
    assert "Encoded" not in str(problem)
    assert "Xy9" not in str(problem)


@pytest.mark.parametrize(
    ("part", "operation", "named"),
    [
        ("EC2", "CreateTags", "ec2:CreateTags"),
        ("Secrets Manager", "GetSecretValue", "secretsmanager:GetSecretValue"),
        ("S3", "HeadObject", "s3:GetObject"),
        ("DynamoDB", "TransactGetItems", "dynamodb:GetItem"),
    ],
)
def test_a_denial_without_words_names_the_action_by_the_call(part, operation, named):
    problem = becomes(client_error("AccessDenied", "Access Denied", operation), part)
    assert isinstance(problem, DeniedError)
    assert_wording(problem.remedy)


def test_an_action_is_read_without_a_resource_too():
    assert action("SQS", "x is not authorized to perform: sqs:getqueueattributes", "") == "sqs:getqueueattributes"
    said = "is not authorized to perform: kms:Decrypt on resource: arn:aws:kms:eu:1:key/abc."
    assert action("S3", said, "GetObject") == "kms:Decrypt on arn:aws:kms:eu:1:key/abc"


def test_wrong_credentials_a_wrong_clock_and_a_held_back_account_have_their_own_remedies():
    remedies = [becomes(client_error(code)).remedy for code in ("InvalidClientTokenId", "RequestExpired", "Blocked")]
    assert [remedy.split()[0] for remedy in remedies] == ["Check", "Set", "The"]
    assert "credentials" in remedies[0]
    assert "clock" in remedies[1]
    assert "account" in remedies[2]


@pytest.mark.parametrize(("length", "cut"), [(500, False), (501, True)])
def test_a_long_answer_is_cut(length, cut):
    said = said_in(client_error("X", "x" * length))
    assert said == ("x" * 500 + "…" if cut else "x" * length)


@pytest.mark.parametrize(
    "code", ["UnauthorizedOperation", "InvalidClientTokenId", "RequestExpired", "Blocked", "NoSuchBucket"]
)
def test_a_sentence_of_aws_is_ended_once(code):
    text = str(becomes(client_error(code, "It may not.")))
    assert_wording(text)


@pytest.mark.parametrize(
    "code", ["UnauthorizedOperation", "InvalidClientTokenId", "RequestExpired", "Blocked", "NoSuchBucket"]
)
def test_of_a_sentence_of_aws_only_the_full_stop_goes(code):
    assert "it may not use X. " in str(becomes(client_error(code, "it may not use X.")))


def test_what_only_aws_can_decode_leaves_nothing_behind():
    assert said_in(client_error("UnauthorizedOperation", NOT_AUTHORIZED)) == NOT_AUTHORIZED.partition(" Encoded")[0]


def test_without_words_the_code_alone_is_told():
    assert str(becomes(client_error("SomethingNew", ""))) == "EC2: DescribeInstances: SomethingNew"


@pytest.mark.parametrize("answer", [{}, {"Error": {}}])
def test_an_answer_without_an_error_in_it_has_no_code_and_no_words(answer):
    problem = ClientError(answer, "DescribeInstances")
    assert (code_of(problem), said_in(problem)) == ("", "")


# ── what went wrong without an answer ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "problem",
    [
        exceptions.EndpointConnectionError(endpoint_url=URL),
        exceptions.ConnectTimeoutError(endpoint_url=URL),
        exceptions.ReadTimeoutError(endpoint_url=URL),
        exceptions.ConnectionClosedError(endpoint_url=URL),
        exceptions.SSLError(endpoint_url=URL, error="certificate verify failed"),
        exceptions.HTTPClientError(error="cut"),
        exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2),
        exceptions.PaginationError(message="the same token twice"),
        exceptions.CredentialRetrievalError(provider="process", error_msg="timed out"),
        ResponseParserError("no element found: line 1, column 0"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_no_answer_or_half_of_one_is_unavailable(problem):
    found = becomes(problem, "S3")
    assert type(found) is UnavailableError
    assert found.part == "S3"


@pytest.mark.parametrize(
    "problem",
    [
        exceptions.NoCredentialsError(),
        exceptions.PartialCredentialsError(provider="env", cred_var="secret_key"),
        exceptions.NoRegionError(),
        exceptions.ProfileNotFound(profile="x"),
        exceptions.ParamValidationError(report="Missing required parameter"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_what_is_not_set_up_is_misconfigured(problem):
    assert type(becomes(problem)) is MisconfiguredError


def test_missing_credentials_say_what_to_set():
    said = str(becomes(exceptions.NoCredentialsError()))
    assert_wording(said)


def test_our_own_errors_and_faults_pass_as_they_are():
    for problem in (ChangedError("another instance"), ZeroDivisionError()):
        with pytest.raises(type(problem)) as caught, calling("EC2"):
            raise problem
        assert caught.value is problem


def test_nothing_wrong_is_nothing_raised():
    with calling("EC2"):
        pass
