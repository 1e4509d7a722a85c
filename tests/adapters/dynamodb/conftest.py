"""Where these tests keep their table: on moto, and on DynamoDB Local when it is there."""

import os

import pytest
from moto import mock_aws

from support.dynamo_tables import LOCAL, Client, dynamodb, table_on

pytest.register_assert_rewrite("contracts.store_contract")


@pytest.fixture(scope="module")
def _moto_client():
    with mock_aws():
        yield dynamodb()


@pytest.fixture(scope="session")
def _local_client():
    address = os.environ.get(LOCAL)
    if not address:
        pytest.skip(f"DynamoDB Local is not there: start it and set {LOCAL} to its address")
    return dynamodb(address)


@pytest.fixture
def on_moto(_moto_client):
    with table_on(Client(_moto_client, one_at_a_time=True)) as world:
        yield world


@pytest.fixture
def on_local(_local_client):
    with table_on(Client(_local_client)) as world:
        yield world


@pytest.fixture(params=["on_moto", "on_local"])
def table(request):
    """A test that asks for this runs on both."""
    return request.getfixturevalue(request.param)
