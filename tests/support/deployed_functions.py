"""The functions in a stack that lies in moto: each gets the environment that the program declares for it, and runs
through the shipped wiring.

The master does not boot: what it would publish is put into its secret, and its address leads to a stand-in on this
instance.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from urllib3.util import connection

from nodefleet import bootstrap
from nodefleet.adapters.aws.session import DUALSTACK_VARIABLE
from nodefleet.adapters.clock import LambdaTime
from nodefleet.handlers import FUNCTION, interruption, notify, reconcile, report
from nodefleet.model.names import TAG_CLUSTER, TAG_ROLE
from nodefleet_infra.functions import FUNCTIONS
from support.deployed_site import Context, MovedClock
from support.ec2_fakes import isolate
from support.fake_api_certificates import authority
from support.fake_api_server import TOKEN, FakeApiServer, serving
from support.infra_mocks import REGION, Graph
from support.infra_on_moto import MotoCloud
from support.loopback_slack import LoopbackSlack, loopback_slack
from support.prometheus_stand_in import prometheus, vector

HANDLERS = {"reconcile": reconcile, "interruption": interruption, "notify": notify, "report": report}
TIMEOUTS = {function.name: timedelta(seconds=function.timeout) for function in FUNCTIONS}


@dataclass
class Deployed:
    """One stack in moto, with a master that answers and a Slack."""

    graph: Graph
    cloud: MotoCloud
    monkeypatch: pytest.MonkeyPatch
    server: FakeApiServer
    slack: LoopbackSlack
    clock: MovedClock = field(default_factory=MovedClock)

    @property
    def cluster(self) -> str:
        (only,) = self.graph.exports["clusters"]
        return str(only)

    @property
    def base(self) -> str:
        return str(self.graph.exports["table"]).removesuffix("-state")

    def starts(self, function: str, event: Any) -> Any:
        """As Lambda does, with the environment that the program declares. Only clients of AWS are kept, for speed."""
        made = self.graph.one("lambda/function:Function", function)
        for name, value in made.inputs["environment"]["variables"].items():
            self.monkeypatch.setenv(name, value)
        self.monkeypatch.setenv(DUALSTACK_VARIABLE, "none")
        self.monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", made.inputs["name"])
        FUNCTION.forget_settings()
        return HANDLERS[function].handler(event, Context(self.clock, self.clock() + TIMEOUTS[function]))

    def tick(self) -> list[str]:
        schedule = next(
            each for each in self.graph.of("scheduler/schedule:Schedule") if ":tick" in each.inputs["target"]["arn"]
        )
        (ran,) = self.starts("reconcile", json.loads(schedule.inputs["target"]["input"]))["runs"]
        return list(ran["did"])

    def workers(self) -> list[dict[str, Any]]:
        ours = {f"tag:{TAG_CLUSTER}": self.cluster, f"tag:{TAG_ROLE}": "worker", "instance-state-name": "running"}
        filters = [{"Name": name, "Values": [value]} for name, value in ours.items()]
        found = self.cloud.client("ec2").describe_instances(Filters=filters)["Reservations"]
        return [machine for each in found for machine in each["Instances"]]

    def put_secret(self, name: str, content: dict[str, str]) -> None:
        self.cloud.client("secretsmanager").put_secret_value(SecretId=name, SecretString=json.dumps(content))

    def stream(self) -> dict[str, Any]:
        """What the table's stream brings of the events, as the mapping's filter lets them through."""
        table = self.graph.exports["table"]
        items = self.cloud.client("dynamodb").scan(TableName=table)["Items"]
        mapping = self.graph.one("EventSourceMapping", "notify-stream")
        (pattern,) = [json.loads(each["pattern"]) for each in mapping.inputs["filterCriteria"]["filters"]]
        ((key, condition),) = pattern["dynamodb"]["Keys"].items()
        (prefix,) = [each["prefix"] for each in condition["S"]]
        new = [item for item in items if item[key]["S"].startswith(prefix)]
        changes = [
            {
                "SequenceNumber": str(number),
                "Keys": {name: item[name] for name in ("cluster_id", "record")},
                "NewImage": item,
            }
            for number, item in enumerate(new, 1)
        ]
        return {
            "Records": [{"eventName": "INSERT", "eventSource": "aws:dynamodb", "dynamodb": each} for each in changes]
        }


def _address_of_master(graph: Graph) -> str:
    (interface,) = graph.of("NetworkInterface")
    return str(interface.outputs["privateIp"])


@contextmanager
def account_of_tests(folder: Path) -> Iterator[None]:
    """No credentials, proxies or addresses of this machine's own. moto answers only at the ordinary addresses."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, folder)
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
        monkeypatch.setenv(DUALSTACK_VARIABLE, "none")
        FUNCTION.forget()
        yield
        FUNCTION.forget()


@contextmanager
def functions_of(graph: Graph, account: MotoCloud, folder: Path) -> Iterator[Deployed]:
    """Of a stack of one cluster, with a master that answers and a Slack."""
    address = _address_of_master(graph)
    signed = authority(host=address)
    with ExitStack() as stack:
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        server = stack.enter_context(serving(folder, signed))
        readings = stack.enter_context(prometheus(vector()))
        slack = stack.enter_context(loopback_slack())
        _lead(monkeypatch, {(address, 6443): server.url, (address, 9090): readings.address})
        made = Deployed(graph, account, monkeypatch, server, slack)
        monkeypatch.setattr("nodefleet.adapters.clock.utc_now", made.clock)
        monkeypatch.setattr(bootstrap, "utc_now", made.clock)
        monkeypatch.setattr(bootstrap, "LambdaTime", lambda context: LambdaTime(context, made.clock.pause))
        login = {"server": f"https://{address}:6443", "token": TOKEN, "ca": signed.ca}
        made.put_secret(f"{made.base}/{made.cluster}/kubernetes", login)
        made.put_secret(str(graph.exports["slackSecret"]), {"url": slack.hook.url})
        yield made


def _lead(monkeypatch: pytest.MonkeyPatch, ways: dict[tuple[str, int], str]) -> None:
    """Connections to the master's address arrive on this machine. Nothing else gets out."""
    real = connection.create_connection

    def connected(address: tuple[str, int], *args: Any, **options: Any) -> Any:
        host, port = address
        if host != "127.0.0.1":
            led = urlsplit(ways[host, port])
            host, port = str(led.hostname), int(led.port or 0)
        return real((host, port), *args, **options)

    monkeypatch.setattr(connection, "create_connection", connected)
