"""DynamoDB and Secrets Manager as the stand-in answers them: moto, or DynamoDB Local, behind a real connection."""

import threading
from typing import Any

import boto3  # type: ignore[import-untyped]
import requests
from moto import mock_aws

from nodefleet.adapters.dynamodb.codec import PARTITION, SORT

REGION = "eu-west-1"
TABLE = "node-fleet"
_DYNAMODB = f"https://dynamodb.{REGION}.amazonaws.com/"
_SECRETS = f"https://secretsmanager.{REGION}.amazonaws.com/"
_MADE_UP = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}


class Records:
    """moto answers one question at a time: its state knows no threads. `dynamodb` is where the table is instead."""

    def __init__(self, dynamodb: str = "") -> None:
        mock_aws().start()
        self._addresses = {"DynamoDB": dynamodb or _DYNAMODB, "Secrets Manager": _SECRETS}
        self._one_at_a_time = threading.Lock()
        self._dynamodb = boto3.client("dynamodb", **_MADE_UP, endpoint_url=dynamodb or None)
        self._secrets = boto3.client("secretsmanager", **_MADE_UP)
        self._known: set[str] = set()

    def forwarded(self, part: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """What moto says to the very request that came in."""
        kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
        with self._one_at_a_time:
            answer = requests.post(self._addresses[part], headers=kept, data=body, timeout=10)
        return answer.status_code, answer.content

    def reset(self, wanted: dict[str, Any]) -> None:
        """A table with only these items, and these secrets."""
        with self._one_at_a_time:
            if TABLE in self._dynamodb.list_tables()["TableNames"]:
                self._dynamodb.delete_table(TableName=TABLE)
            keys = [(PARTITION, "HASH"), (SORT, "RANGE")]
            self._dynamodb.create_table(
                TableName=TABLE,
                KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys],
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
                BillingMode="PAY_PER_REQUEST",
            )
            for item in wanted["items"]:
                self._dynamodb.put_item(TableName=TABLE, Item=item)
            for name, text in wanted["secrets"].items():
                if name not in self._known:
                    self._secrets.create_secret(Name=name, SecretString=text)
                    self._known.add(name)
