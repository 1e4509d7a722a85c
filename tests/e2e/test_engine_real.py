"""The deployment as a user runs it: Pulumi's own engine, a fresh checkout, the commands of docs/deploy.md.

AWS's provider is a stand-in that drives moto (`engine/`). So this proves what the program, the engine and the page do
with each other, and not what AWS does.
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deployed_functions import account_of_tests, functions_of
from e2e.engine.engine import Engine, Ran, engine
from infra_mocks import Graph, Made
from infra_on_moto import MotoCloud
from nodefleet.domain.names import ROLE_SERVER, ROLE_WORKER, TAG_CLUSTER, TAG_ROLE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
WEBHOOK = "https://hooks.slack.com/services/T0/B0/only-here"


def block(heading: str, number: int = 0) -> str:
    """What stands in the page's shell blocks under this heading."""
    section = re.split(r"^#+ ", PAGE.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[number]


def machines(at: Engine, role: str, *states: str) -> list[str]:
    wanted = {f"tag:{TAG_ROLE}": [role], f"tag:{TAG_CLUSTER}": ["dev-shop"], "instance-state-name": list(states)}
    filters = [{"Name": name, "Values": values} for name, values in wanted.items() if values]
    found = at.client("ec2").describe_instances(Filters=filters)["Reservations"]
    return [each["InstanceId"] for reservation in found for each in reservation["Instances"]]


def graph_of(at: Engine) -> Graph:
    """What the stack's state says was made."""
    made = [
        Made(
            type=each["type"],
            name=each["urn"].split("::", 3)[3],
            urn=each["urn"],
            id=each["id"],
            inputs=each["inputs"],
            outputs=each["outputs"],
            needs=frozenset(each.get("dependencies", ())),
            secret=frozenset(),
            protected=bool(each.get("protect")),
            retained=bool(each.get("retainOnDelete")),
            ignored=frozenset(each.get("ignoreChanges", ())),
        )
        for each in at.resources()
        if each["custom"] and not each["type"].startswith("pulumi:")
    ]
    return Graph(made=made, exports=at.outputs())


@contextmanager
def edited(at: Engine, file: str, changes: Mapping[str, str], *, first_only: bool = False) -> Iterator[None]:
    """For a while."""
    path = at.checkout / file
    kept = path.read_text()
    new = kept
    for old, by in changes.items():
        assert old in new, f"{file} has no {old}"
        new = new.replace(old, by, 1 if first_only else -1)
    path.write_text(new)
    yield
    path.write_text(kept)


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A fresh checkout after "Build what ships" and "Make a stack"."""
    with account_of_tests(tmp_path_factory.mktemp("aws")), engine(tmp_path_factory.mktemp("engine")) as at:
        at.shell(block("1. Build what ships"))
        at.shell(block("2. Make a stack"))
        at.shell(block("3. Slack"), stdin=WEBHOOK)
        yield at


@pytest.fixture(scope="module")
def first(fresh: Engine) -> Ran:
    """The first `up`, refused half-way."""
    fresh.refuse("create Instance::shop-master")
    return fresh.up(check=False)


@pytest.fixture(scope="module")
def dev(fresh: Engine, first: Ran) -> Engine:
    assert not first.ok
    fresh.refuse()
    resumed = fresh.up()
    assert {step.op for step in resumed.steps} == {"create"}
    assert not {str(step) for step in resumed.steps} & {str(step) for step in first.steps}
    return fresh


def test_everything_that_is_wrong_with_the_configuration_is_said_at_once(fresh):
    changes = {"[ap-southeast-1a,": "[us-east-1a,", "max: 6": "max: 1", "- name: shop": "- name: shop\n      mater: {}"}
    with edited(fresh, "Pulumi.dev.yaml", changes):
        refused = fresh.preview(check=False)
    assert not refused.ok
    for said in ("us-east-1a", "limits", "mater"):
        assert re.search(rf"^ *- .*{said}", refused.output, re.MULTILINE), refused.output
    assert not refused.planned


def test_the_first_preview_of_a_fresh_checkout_creates_everything_and_does_nothing(fresh):
    previewed = fresh.shell("pulumi preview")
    assert {step.op for step in previewed.planned} == {"create"}
    assert len(previewed.planned) > 170
    assert not previewed.steps
    assert not fresh.client("ec2").describe_security_groups(Filters=[{"Name": "group-name", "Values": ["node-*"]}])[
        "SecurityGroups"
    ]


def test_an_up_that_failed_half_way_goes_on_where_it_was(first, dev):
    assert "shop-master: RuntimeError('refused, as the test wants it')" in first.output
    assert first.steps, "what does not depend on it is made"
    assert len(machines(dev, ROLE_SERVER, "running")) == 1


def test_a_second_preview_finds_nothing_to_do(dev):
    again = dev.preview("--expect-no-changes")
    assert not again.planned


def test_the_functions_run_on_what_was_made_and_a_destroy_sweeps_what_they_launched(dev, tmp_path):
    with functions_of(graph_of(dev), MotoCloud(dev.region), tmp_path) as functions:
        assert functions.tick()
        assert len(functions.workers()) == 2
    workers, (server,) = machines(dev, ROLE_WORKER), machines(dev, ROLE_SERVER)
    gone = dev.shell(block("Destroying"))
    assert {step.op for step in gone.steps} == {"delete"}
    order = [str(step) for step in gone.steps]
    sweep = order.index("delete Sweep shop")
    starts = [step.op for step in gone.steps[sweep:] if step.type.endswith((":Schedule", ":EventRule", ":EventTarget"))]
    assert not starts, "something could still start a run"
    assert order.index("delete TopicSubscription reconcile-wake") < sweep
    master = order.index("delete Instance shop-master")
    functions_gone = [index for index, step in enumerate(gone.steps) if step.type.endswith(":Function")]
    assert sweep < min([master, *functions_gone])
    states = dict.fromkeys([*workers, server], "terminated")
    assert states_of(dev, [*workers, server]) == states
    assert not left_of(dev, "dev")


def states_of(at: Engine, ids: list[str]) -> dict[str, str]:
    found = at.client("ec2").describe_instances(InstanceIds=ids)["Reservations"]
    return {each["InstanceId"]: each["State"]["Name"] for one in found for each in one["Instances"]}


def left_of(at: Engine, stack: str) -> list[str]:
    """Of what a destroy should remove, the names that are still in the account."""
    ec2: Any = at.client("ec2")
    named: list[Any] = [
        at.left(),
        *(ec2.describe_vpcs()["Vpcs"], ec2.describe_subnets()["Subnets"], ec2.describe_addresses()["Addresses"]),
        *(ec2.describe_network_interfaces()["NetworkInterfaces"], ec2.describe_launch_templates()["LaunchTemplates"]),
        *(ec2.describe_security_groups()["SecurityGroups"], ec2.describe_internet_gateways()["InternetGateways"]),
        at.client("dynamodb").list_tables()["TableNames"],
        at.client("s3").list_buckets()["Buckets"],
        at.client("sqs").list_queues().get("QueueUrls", []),
        at.client("sns").list_topics()["Topics"],
        at.client("secretsmanager").list_secrets()["SecretList"],
    ]
    found = [json.dumps(each, default=str) for kind in named for each in kind]
    return [each for each in found if f"node-fleet-{stack}" in each]
