"""AWS at this site: moto for everything but DynamoDB, which is Amazon's own."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from e2e.parts.part import LOOPBACK, Part, answers, free_ports

_TESTS = Path(__file__).resolve().parents[2]
_KEYS = {"aws_access_key_id": "site", "aws_secret_access_key": "site"}
_DYNAMODB = ("dynamodb", "dynamodbstreams")


class Aws:
    """Clients are made once for each service and may be used from any thread."""

    def __init__(self, folder: Path, region: str, dynamodb: str) -> None:
        (port,) = free_ports(1)
        self.region, self.dynamodb = region, dynamodb
        self.endpoint = f"http://{LOOPBACK}:{port}"
        self._delays = folder / "aws_delays.json"
        self._delays.write_text("{}")
        self._clients: dict[str, Any] = {}
        command = [sys.executable, "-m", "e2e.site.aws_process", str(port), str(self._delays)]
        path = ":".join(map(str, (_TESTS, _TESTS.parent / "lambda")))
        self.part = Part(
            "aws",
            command,
            ready=lambda: answers(self.endpoint, below=500),  # it refuses who has not signed
            folder=folder,
            environment={"PYTHONPATH": path},
        )

    def client(self, service: str) -> Any:
        if service not in self._clients:
            where = self.dynamodb if service in _DYNAMODB else self.endpoint
            self._clients[service] = boto3.session.Session().client(
                service, region_name=self.region, endpoint_url=where, **_KEYS
            )
        return self._clients[service]

    def environment(self) -> dict[str, str]:
        """What leads a function here instead of to AWS."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_DYNAMODB": self.dynamodb,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_ACCESS_KEY_ID": _KEYS["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": _KEYS["aws_secret_access_key"],
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @contextmanager
    def slow(self, seconds: float, *services: str) -> Iterator[None]:
        """Each answer of these services (all but DynamoDB if none is named) takes so much longer."""
        self._delays.write_text(json.dumps(dict.fromkeys(services or ("ec2", "s3", "secretsmanager", "sns"), seconds)))
        try:
            yield
        finally:
            self._delays.write_text("{}")
