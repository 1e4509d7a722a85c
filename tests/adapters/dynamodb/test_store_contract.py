"""The store on DynamoDB keeps the contract of every store, on moto and on Amazon's own DynamoDB."""

import pytest

from contracts.store_contract import StoreContract


class TestOnMoto(StoreContract):
    @pytest.fixture
    def world(self, on_moto):
        return on_moto


class TestOnDynamoDbLocal(StoreContract):
    @pytest.fixture
    def world(self, on_local):
        return on_local
