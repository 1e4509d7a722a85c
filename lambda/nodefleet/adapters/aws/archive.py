"""ports.Archive on S3: whole inputs of decisions that changed something, so that they can be replayed.

Content comes and goes as bytes; the caller packs it. The bucket's lifecycle forgets it after some weeks.
"""

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import DENIALS, calling, code_of
from nodefleet.errors import ChangedError, DeniedError

PART = "S3"
_MISSING = frozenset({"NoSuchKey", "404"})
_TYPES = {".gz": "application/gzip", ".json": "application/json"}
_ANY_TYPE = "application/octet-stream"


class S3Archive:
    """Everything under one prefix of one bucket."""

    def __init__(self, client: Callable[[], Any], bucket: str, prefix: str = "", *, encryption: str = "AES256") -> None:
        """`client` gives botocore's client when it is needed: most runs archive nothing, and one that launches does so
        before it archives."""
        self._client = client
        self._bucket = bucket
        folder = prefix.strip("/")
        self._prefix = f"{folder}/" if folder else ""
        self._encryption = encryption  # or "aws:kms", with the bucket's own key

    def keep(self, key: str, content: bytes) -> None:
        """Overwrites what has the same name: names are made of the content."""
        with calling(PART):
            self._client().put_object(
                Bucket=self._bucket,
                Key=f"{self._prefix}{key}",
                Body=content,
                ContentType=next((kind for end, kind in _TYPES.items() if key.endswith(end)), _ANY_TYPE),
                ServerSideEncryption=self._encryption,
            )

    def fetch(self, key: str) -> bytes:
        """ChangedError if it is not there any more."""
        name = f"{self._prefix}{key}"
        with calling(PART):
            try:
                answer = self._client().get_object(Bucket=self._bucket, Key=name)
            except ClientError as problem:
                if code_of(problem) in _MISSING:
                    raise ChangedError(
                        f"{name} is not in {self._bucket} any more: it is kept for some weeks"
                    ) from problem
                if code_of(problem) in DENIALS:
                    raise _denied_error(self._bucket, name, code_of(problem)) from problem
                raise
            content: bytes = answer["Body"].read()  # may break off too
            return content


def _denied_error(bucket: str, name: str, code: str) -> DeniedError:
    """S3 answers the same for a missing object when the caller may not list the bucket."""
    cause = f"GetObject of {name} in {bucket}: {code}"
    return DeniedError(PART, cause, "Either it is not there any more, or s3:GetObject on this prefix is not allowed")
