"""A deployment as of `deployed`, with its table on Amazon's own DynamoDB, and function instances that run in it.

The rest of AWS is moto's: for the test itself as always, for the instances, which are other processes, over HTTP.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from e2e.instances import Gate, Instance, Order, Outcome, StartLine
from e2e.parts.running import RunningParts
from nodefleet.adapters.aws import session
from nodefleet.adapters.dynamodb import codec
from nodefleet.handlers import FUNCTION
from support.deployed import Deployed, account, deployment
from support.moto_over_http import moto_over_http

__all__ = ["account"]


@pytest.fixture(scope="module")
def on_dynamodb(account: None, real_parts: RunningParts) -> Iterator[None]:
    """Everything of AWS is moto's but the table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", real_parts.dynamodb_endpoint)
        patch.setattr(session, "TABLE_READ_SECONDS", 60)  # the first table takes its time on a busy instance
        FUNCTION.forget()
        yield
        FUNCTION.forget()


@dataclass
class Shop:
    """A deployment, and function instances that run in it."""

    deployed: Deployed
    aws: str  # moto's address, for other processes
    started: list[Instance] = field(default_factory=list)

    def starts(self, *gates: Gate | StartLine, urgent: bool = False, **how: Any) -> Instance:
        return self.invokes("reconcile", {"cluster": self.deployed.site.name, "urgent": urgent}, *gates, **how)

    def invokes(self, handler: str, event: Any, *gates: Gate | StartLine, **how: Any) -> Instance:
        order = Order(handler=handler, event=event, environment=self.environment(), gates=gates, **how)
        self.started.append(Instance(order))
        return self.started[-1]

    def environment(self) -> dict[str, str]:
        """What other processes need to find all of this."""
        return {**os.environ, "AWS_ENDPOINT_URL": self.aws}

    def run(self, **how: Any) -> dict[str, Any]:
        return ran(self.starts(**how).outcome())

    @property
    def lease(self) -> dict[str, Any]:
        (item,) = self.deployed.items(codec.LEASE)
        return item

    @property
    def is_free(self) -> bool:
        return "owner" not in self.lease and self.lease["scaling_in_progress"] == {"BOOL": False}

    def everything(self) -> tuple[Any, ...]:
        """All that a run could change: the table, the instances, the nodes, the archive."""
        objects = self.deployed.client("s3").list_objects_v2(Bucket=self.deployed.bucket)
        archived = [each["Key"] for each in objects.get("Contents", ())]
        return self.deployed.items(), sorted(self.deployed.site.ids()), self.deployed.site.writes(), archived


@pytest.fixture
def shop(on_dynamodb: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Shop]:
    with deployment(monkeypatch, tmp_path, clusters=1) as deployed, moto_over_http() as aws:
        made = Shop(deployed, aws.address)
        try:
            yield made
        finally:
            for instance in made.started:
                instance.kill()


def ran(outcome: Outcome) -> dict[str, Any]:
    """Its cluster's part of the answer."""
    assert not outcome.error, outcome.error
    (only,) = outcome.answer["runs"]
    return dict(only)
