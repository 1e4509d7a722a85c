"""A deployment as the stack makes it, on moto and loopback: a table, a bucket, launch templates and secrets, and for
each cluster an API server over TLS and a Prometheus.

The handlers run in it as Lambda starts them, through the shipped wiring. Only waiting is not real: a pause moves the
clock instead. moto takes a second to start, so a module's tests share one account; no name is used twice. The table has
its stream only where a test reads it: moto copies all of it for each transaction.
"""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from moto import mock_aws

from nodefleet import bootstrap, settings
from nodefleet.adapters.aws.session import DUALSTACK_VARIABLE
from nodefleet.adapters.clock import LambdaTime
from nodefleet.adapters.dynamodb.codec import EVENTS, PARTITION, SORT
from nodefleet.adapters.dynamodb.records import declared_item, deployment_item
from nodefleet.adapters.kubernetes import NEEDED, NEEDED_PATHS
from nodefleet.handlers import FUNCTION, interruption, notify, reconcile
from nodefleet.model.decision import PolicyVersion
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet.policy.loading import digest_of
from nodefleet.ports import History, Store
from support.deployed_site import IMAGE, Context, MovedClock, Site
from support.ec2_fakes import REGION, isolate
from support.fake_api_certificates import authority
from support.fake_api_server import TOKEN, FakeApiServer, serving
from support.prometheus_stand_in import prometheus, vector

PASSWORD = "prometheus-password"  # noqa: S105  # good for nothing
POLICY = {"limits": {"min": 2, "max": 6}}
TIMEOUT = timedelta(seconds=120)  # of the functions
_NUMBERS = count(1)


@dataclass
class Deployed:
    clock: MovedClock
    table: str
    bucket: str
    sites: dict[str, Site]

    @property
    def site(self) -> Site:
        """The only cluster, or the first."""
        return next(iter(self.sites.values()))

    # ── what Lambda does ─────────────────────────────────────────────────────────────────────────────────────────

    def context(self, limit: timedelta = TIMEOUT) -> Context:
        return Context(self.clock, self.clock() + limit)

    def tick(self) -> dict[str, Any]:
        """The schedule starts the first cluster's run; its part of the answer."""
        (ran,) = self.reconcile({"cluster": self.site.name})["runs"]
        return dict(ran)

    def reconcile(self, event: Any, limit: timedelta = TIMEOUT) -> dict[str, Any]:
        return reconcile.handler(event, self.context(limit))

    def interruption(self, event: Any, limit: timedelta = TIMEOUT) -> dict[str, Any]:
        return interruption.handler(event, self.context(limit))

    def notify(self, event: Any) -> dict[str, Any]:
        return notify.handler(event, self.context())

    # ── looking at it ────────────────────────────────────────────────────────────────────────────────────────────

    def client(self, service: str) -> Any:
        return FUNCTION.shared.session.client(service)

    def store(self, cluster: str = "") -> Store:
        return FUNCTION.store_of(cluster or self.site.name)

    def history(self, cluster: str = "") -> History:
        return FUNCTION.history_of(cluster or self.site.name)

    def events(self, cluster: str = "") -> list[str]:
        """The kinds of all events so far, oldest first."""
        a_day, now = timedelta(days=1), self.clock()
        return [event.kind.value for event in reversed(self.history(cluster).events(now - a_day, now + a_day))]

    def items(self, prefix: str = "", cluster: str = "") -> list[dict[str, Any]]:
        """A cluster's records in the table, as DynamoDB has them."""
        answer = self.client("dynamodb").query(
            TableName=self.table,
            KeyConditionExpression=f"{PARTITION} = :cluster",
            ExpressionAttributeValues={":cluster": {"S": cluster or self.site.name}},
            ConsistentRead=True,
        )
        return [item for item in answer["Items"] if item[SORT]["S"].startswith(prefix)]

    def stream(self, cluster: str = "") -> dict[str, Any]:
        """What the table's stream brings of the events."""
        changes = [
            {"SequenceNumber": str(number), "Keys": {key: item[key] for key in (PARTITION, SORT)}, "NewImage": item}
            for number, item in enumerate(self.items(EVENTS, cluster), start=1)
        ]
        return to_function([{"eventName": "INSERT", "dynamodb": change} for change in changes])

    # ── what the stack does ──────────────────────────────────────────────────────────────────────────────────────

    def put_secret(self, name: str, content: Mapping[str, str]) -> None:
        secrets, text = self.client("secretsmanager"), json.dumps(content)
        try:
            secrets.create_secret(Name=name, SecretString=text)
        except secrets.exceptions.ResourceExistsException:
            secrets.put_secret_value(SecretId=name, SecretString=text)

    def put_api_secret(self, site: Site, token: str = TOKEN) -> None:
        login = {"server": site.server.url, "token": token, "ca": authority().ca}
        self.put_secret(f"node-fleet/{site.name}/kubernetes", login)

    def declare(self, site: Site, policy: Mapping[str, Any]) -> None:
        version = PolicyVersion(number=0, source="stack", at=self.clock(), data=policy, digest=digest_of(policy))
        self._write(declared_item(site.name, version))

    def deploy(self, site: Site) -> None:
        deployment = Deployment(
            cluster=site.name,
            api_server=site.server.url,
            api_secret=f"node-fleet/{site.name}/kubernetes",
            prometheus=site.prometheus.address,
            prometheus_secret=f"node-fleet/{site.name}/prometheus",
            targets=(LaunchTarget(template=site.template, template_version="1", subnets=site.subnets),),
            prices={"t3.small": 0.0208},
            dashboard="https://dashboard.invalid/shop",
            logs="https://logs.invalid/shop",
        )
        self._write(deployment_item(site.name, deployment))

    def _write(self, item: Mapping[str, Any]) -> None:
        self.client("dynamodb").put_item(TableName=self.table, Item=item)


def to_function(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Records of a stream as Lambda hands them to a function: in JSON, where bytes are Base64."""
    return {"Records": [{**_without_bytes(record), "eventSource": "aws:dynamodb"} for record in records]}


def _without_bytes(value: Any) -> Any:
    match value:
        case bytes():
            return b64encode(value).decode()
        case dict():
            return {name: _without_bytes(held) for name, held in value.items()}
        case _:
            return value


# ── making one ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One account for a module's tests. The functions stay warm as far as AWS's clients go."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        isolate(monkeypatch, tmp_path_factory.mktemp("aws"))
        monkeypatch.setenv(DUALSTACK_VARIABLE, "none")  # moto answers at the ordinary addresses only
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        FUNCTION.forget()
        with mock_aws():
            yield
        FUNCTION.forget()


@pytest.fixture
def deployed(account: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Deployed]:
    """With one cluster."""
    with deployment(monkeypatch, tmp_path, clusters=1) as made:
        yield made


@pytest.fixture
def two_clusters(account: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Deployed]:
    with deployment(monkeypatch, tmp_path, clusters=2) as made:
        yield made


@contextmanager
def deployment(monkeypatch: pytest.MonkeyPatch, folder: Path, clusters: int) -> Iterator[Deployed]:
    number = next(_NUMBERS)
    names = [f"shop-{number}-{place}" for place in range(clusters)]
    made = Deployed(MovedClock(), f"table-{uuid4().hex}", f"bucket-{number}", {})
    environment(monkeypatch, names, made.table, made.bucket)
    monkeypatch.setenv(settings.SLACK, f"node-fleet/slack-{number}")
    monkeypatch.setattr("nodefleet.adapters.clock.utc_now", made.clock)
    # Launches, too, bear the tests' time: only an instance that is younger than two join limits is marked.
    monkeypatch.setattr("moto.ec2.models.instances.utcnow", lambda: made.clock().replace(tzinfo=None))
    monkeypatch.setattr(bootstrap, "utc_now", made.clock)
    monkeypatch.setattr(bootstrap, "LambdaTime", lambda context: LambdaTime(context, made.clock.pause))
    _create_table(made)
    made.client("s3").create_bucket(Bucket=made.bucket)
    with ExitStack() as stack:
        for name in names:
            made.sites[name] = _site(made, name, folder, stack)
        yield made
        for site in made.sites.values():
            _check_permissions(site.server)
    made.client("dynamodb").delete_table(TableName=made.table)  # moto copies all tables for each transaction
    lukewarm()


def environment(monkeypatch: pytest.MonkeyPatch, clusters: Sequence[str], table: str, bucket: str = "") -> None:
    """What the stack tells the functions."""
    monkeypatch.setenv(settings.TABLE, table)
    monkeypatch.setenv(settings.CLUSTERS, ",".join(clusters))
    monkeypatch.setenv(settings.BUCKET, bucket)
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "node-fleet-reconcile")
    for name in (settings.METRICS, settings.SECRETS, settings.SLACK):
        monkeypatch.delenv(name, raising=False)
    lukewarm()


def lukewarm() -> None:
    """As a warm function whose settings have changed: clusters are made again."""
    FUNCTION.forget_settings()


def cold() -> None:
    """As a function that has just started, but for the clients of AWS, which are expensive to make."""
    common = FUNCTION.shared
    common.secrets._kept.clear()
    common.redact._known = frozenset()
    FUNCTION._answers.clear()
    lukewarm()


@contextmanager
def dynamodb_at(address: str) -> Iterator[None]:
    """For a function that has just started."""
    session = FUNCTION.shared.session
    before = session.client("dynamodb")
    del session._clients["dynamodb"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL_DYNAMODB", address)
        cold()
        yield
    session._clients["dynamodb"] = before
    cold()


def _create_table(made: Deployed) -> None:
    made.client("dynamodb").create_table(
        TableName=made.table,
        KeySchema=[{"AttributeName": PARTITION, "KeyType": "HASH"}, {"AttributeName": SORT, "KeyType": "RANGE"}],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in (PARTITION, SORT)],
        BillingMode="PAY_PER_REQUEST",
    )


def _site(made: Deployed, name: str, folder: Path, stack: ExitStack) -> Site:
    ec2 = made.client("ec2")
    template = ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"ImageId": IMAGE})
    zones = [f"{REGION}{notification}" for notification in "ab"]
    found = ec2.describe_subnets(Filters=[{"Name": "availability-zone", "Values": zones}])["Subnets"]
    site = Site(
        name=name,
        clock=made.clock,
        ec2=ec2,
        server=stack.enter_context(serving(folder)),
        prometheus=stack.enter_context(prometheus(vector())),
        template=template["LaunchTemplate"]["LaunchTemplateId"],
        subnets={subnet["AvailabilityZone"]: subnet["SubnetId"] for subnet in found},
    )
    site.prometheus.answer = site.answer
    made.put_api_secret(site)
    made.put_secret(f"node-fleet/{name}/prometheus", {"username": "fleet", "password": PASSWORD})
    made.deploy(site)
    made.declare(site, POLICY)
    return site


def _check_permissions(server: FakeApiServer) -> None:
    """Every request must be one that our role allows."""
    allowed = {(verb, each.group, each.resource) for each in NEEDED for verb in each.verbs}
    for asked in server.asked:
        if asked.resource:
            assert (asked.verb, asked.group, asked.resource) in allowed, f"no permission covers {asked}"
        else:
            assert asked.path in NEEDED_PATHS
