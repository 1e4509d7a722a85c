"""Big things in S3."""

import io
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.response import StreamingBody
from moto import mock_aws

from nodefleet.adapters.aws.archive import S3Archive
from nodefleet.errors import ChangedError, DeniedError, MisconfiguredError, ThrottledError, UnavailableError
from support.sentences import is_explained
from support.wording import assert_wording

BUCKET = "looks-of-the-shop"
KEY = "shop/2026/11/16/abc.json.gz"


@pytest.fixture(scope="module")
def s3():
    with mock_aws():
        client = boto3.client(
            "s3",
            region_name="eu-west-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106  # not one
        )
        client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        yield client


@dataclass
class Stub:
    """An S3 that gives one answer."""

    answer: Any

    def _call(self, **_):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    get_object = put_object = _call


def refused(code, operation="GetObject"):
    return ClientError({"Error": {"Code": code, "Message": "said S3"}}, operation)


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b\x00packed\xff", bytes(range(256)) * 4096])
def test_what_is_kept_is_fetched_as_it_was(s3, content):
    archive = S3Archive(lambda: s3, BUCKET, "observations")
    archive.keep(KEY, content)
    assert archive.fetch(KEY) == content


def test_the_same_name_is_overwritten(s3):
    archive = S3Archive(lambda: s3, BUCKET)
    archive.keep(KEY, b"one")
    archive.keep(KEY, b"two")
    assert archive.fetch(KEY) == b"two"


@pytest.mark.parametrize(
    ("prefix", "name"),
    [("", KEY), ("/", KEY), ("observations", f"observations/{KEY}"), ("/a/b/", f"a/b/{KEY}")],
)
def test_everything_is_under_the_prefix(s3, prefix, name):
    S3Archive(lambda: s3, BUCKET, prefix).keep(KEY, b"x")
    assert s3.get_object(Bucket=BUCKET, Key=name)["Body"].read() == b"x"


@pytest.mark.parametrize(
    ("key", "kind"),
    [("a.json.gz", "application/gzip"), ("a.json", "application/json"), ("a", "application/octet-stream")],
)
def test_it_is_encrypted_and_says_what_it_is(s3, key, kind):
    S3Archive(lambda: s3, BUCKET).keep(key, b"x")
    head = s3.head_object(Bucket=BUCKET, Key=key)
    assert (head["ServerSideEncryption"], head["ContentType"]) == ("AES256", kind)
    assert "ContentEncoding" not in head  # whoever downloads it gets the bytes that were kept


def test_the_buckets_own_key_can_be_used(s3):
    S3Archive(lambda: s3, BUCKET, encryption="aws:kms").keep(KEY, b"x")
    assert s3.head_object(Bucket=BUCKET, Key=KEY)["ServerSideEncryption"] == "aws:kms"


def test_what_is_not_there_any_more_is_said_so(s3):
    with pytest.raises(ChangedError) as caught:
        S3Archive(lambda: s3, BUCKET).fetch("gone.json.gz")
    assert_wording(str(caught.value))


def test_a_denial_may_also_mean_that_it_is_not_there():
    """S3 does not tell whoever may not list the bucket."""
    with pytest.raises(DeniedError) as raised:
        S3Archive(lambda: Stub(refused("AccessDenied")), BUCKET, "observations").fetch(KEY)
    assert_wording(str(raised.value))
    assert is_explained(raised.value, "S3")
    for figure in (f"observations/{KEY}", BUCKET, "AccessDenied"):
        assert figure in raised.value.cause


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (refused("SlowDown"), ThrottledError),
        (refused("NoSuchBucket"), MisconfiguredError),
        (refused("InternalError"), UnavailableError),
        (EndpointConnectionError(endpoint_url="https://s3"), UnavailableError),
    ],
)
def test_what_goes_wrong_is_said_in_our_own_words(problem, error):
    archive = S3Archive(lambda: Stub(problem), BUCKET)
    with pytest.raises(error) as fetching:
        archive.fetch(KEY)
    with pytest.raises(error) as keeping:
        archive.keep(KEY, b"x")
    assert is_explained(fetching.value, "S3")
    assert is_explained(keeping.value, "S3")


def test_a_denied_write_is_denied():
    with pytest.raises(DeniedError, match="s3:PutObject"):
        S3Archive(lambda: Stub(refused("AccessDenied", "PutObject")), BUCKET).keep(KEY, b"x")


def test_an_answer_that_breaks_off_is_not_taken_for_the_whole():
    cut = StreamingBody(io.BytesIO(b"half"), content_length=8)
    with pytest.raises(UnavailableError, match="S3"):
        S3Archive(lambda: Stub({"Body": cut}), BUCKET).fetch(KEY)
