"""The bucket where observations are kept.

S3 has no way to ask whether one may write. An upload in parts that is begun and abandoned needs the same permission and
stores nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws.errors import DENIALS, calling, code_of
from nodefleet.errors import DeniedError
from nodefleet.settings import BUCKET
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint, wrong

_NOBODY_S = "doctor/nothing"  # a name under which nothing is ever stored
_LOOKS_BACK = 50  # decisions, for one whose look was kept


def bucket(ctx: DoctorContext) -> Iterator[Finding]:
    name = ctx.parts.bucket
    if not name:
        yield hint("there is none: observations are not kept, and no decision can be replayed", f"Set {BUCKET}")
        return
    client = ctx.client("s3")
    unwritable = _refused(lambda: _begin_and_abandon(client, name))
    kept = _newest_kept(ctx)
    unreadable = _refused(lambda: _look_at(client, name, kept or _NOBODY_S))
    if not unwritable:
        yield fine(f"{name} can be written (an upload was begun and abandoned: nothing is stored by that)")
    if not unreadable:
        yield fine(f"{name} can be read")
    elif kept:
        yield hint(f"{name} cannot be read, so nothing can be replayed: {unreadable.cause}", unreadable.remedy)
    if unwritable and unreadable:
        yield wrong(f"{name} can be neither written nor read: {unwritable.cause}", unwritable.remedy)
    elif unwritable:
        yield hint(f"{name} can be read, but not written with these credentials: {unwritable.cause}", unwritable.remedy)


def _newest_kept(ctx: DoctorContext) -> str:
    """The name of an object that should be there: of one that is not S3 says “denied” to callers that may not list."""
    ctx.state.needed()
    records = ctx.parts.history().decisions(_LOOKS_BACK)
    return next((record.archived for record in records if record.archived), "")


def _refused(ask: Callable[[], None]) -> DeniedError | None:
    try:
        with calling("S3"):
            ask()
    except DeniedError as problem:
        return problem
    return None


def _begin_and_abandon(client: Any, bucket: str) -> None:
    begun = client.create_multipart_upload(Bucket=bucket, Key=_NOBODY_S)
    try:
        client.abort_multipart_upload(Bucket=bucket, Key=_NOBODY_S, UploadId=begun["UploadId"])
    except ClientError as problem:
        if code_of(problem) not in DENIALS:  # then the bucket's lifecycle abandons it
            raise


def _look_at(client: Any, bucket: str, key: str) -> None:
    try:
        client.head_object(Bucket=bucket, Key=key)
    except ClientError as problem:
        if code_of(problem) not in ("404", "NoSuchKey"):
            raise
