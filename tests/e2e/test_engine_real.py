"""The deployment as a user runs it: Pulumi's own engine, a fresh checkout, the commands of docs/deploy.md.

AWS's provider is a stand-in that drives moto (`engine/`). So this proves what the program, the engine and the page do
with each other, and not what AWS does.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.engine.engine import Engine, Ran, engine
from nodefleet.model.names import ROLE_SERVER, ROLE_WORKER, TAG_CLUSTER, TAG_ROLE
from nodefleet.settings import settings_in
from support.deployed_functions import account_of_tests, functions_of
from support.infra_mocks import Graph, Made
from support.infra_on_moto import MotoCloud

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
ARTEFACTS = "build/arm64-py313/artefacts.json"
FULL = pytest.mark.skipif(
    not os.environ.get("NODEFLEET_E2E_FULL"),
    reason="NOT RUN: the rows of the upgrade table one by one; make e2e-full runs them",
)
WEBHOOK = "https://hooks.slack.com/services/T0/B0/only-here"


def block(heading: str, number: int = 0) -> str:
    """What stands in the page's shell blocks under this heading."""
    section = re.split(r"^#+ ", PAGE.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[number]


def plain(script: str) -> list[str]:
    """Its commands, without what it says of them."""
    return [line.split("  #")[0].strip() for line in script.splitlines()]


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
    _, up = plain(block("4. Deploy"))
    resumed = fresh.shell(up)
    assert {step.op for step in resumed.steps} == {"create"}
    assert not {str(step) for step in resumed.steps} & {str(step) for step in first.steps}
    return fresh


def test_making_a_stack_dirties_no_tracked_file_and_a_pull_overwrites_nothing(fresh):
    assert "encryptionsalt" in (fresh.checkout / "Pulumi.dev.yaml").read_text()
    assert fresh.shell("git status --porcelain").output == ""
    theirs = "git -c user.name=a -c user.email=a@b.c"
    fresh.shell(
        f"git worktree add --quiet -b theirs ../theirs && cd ../theirs && echo '# another line' >>Pulumi.dev.yaml"
        f" && {theirs} commit --quiet --all --message 'Another one'"
    )
    pulled = fresh.shell("git merge --quiet theirs", check=False)
    assert not pulled.ok
    assert "Pulumi.dev.yaml" in pulled.output
    assert "encryptionsalt" in (fresh.checkout / "Pulumi.dev.yaml").read_text()


def test_everything_that_is_wrong_with_the_configuration_is_said_at_once(fresh):
    changes = {"[ap-southeast-1a,": "[us-east-1a,", "max: 6": "max: 1", "- name: shop": "- name: shop\n      mater: {}"}
    with edited(fresh, "Pulumi.dev.yaml", changes):
        refused = fresh.preview(check=False)
    assert not refused.ok
    for said in ("us-east-1a", "limits", "mater"):
        assert re.search(rf"^ *- .*{said}", refused.output, re.MULTILINE), refused.output
    assert not refused.planned


def test_the_first_preview_of_a_fresh_checkout_creates_everything_and_does_nothing(fresh):
    preview, _ = plain(block("4. Deploy"))
    previewed = fresh.shell(preview)
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


# ── what an upgrade changes ──────────────────────────────────────────────────────────────────────────────────────

FUNCTIONS = {f"update Function {name}" for name in ("interruption", "notify", "reconcile", "report")}
ALIASES = {
    f"update Alias {name}"
    for name in ("interruption-urgent", "notify-live", "reconcile-tick", "reconcile-urgent", "report-live")
}
NEW_TEMPLATE = {"update LaunchTemplate shop-default", "update TableItem dev-shop-deployment"}


def replaced(what: str) -> set[str]:
    return {f"{op} {what}" for op in ("create-replacement", "delete-replaced", "replace")}


NEW_PROGRAM = {*replaced("BucketObjectv2 shop-master-program"), "update BucketObjectv2 shop-master-current"}
NEW_MASTER = {*replaced("Instance shop-master"), "update MetricAlarm shop-master-status-check"}


@contextmanager
def other_code(at: Engine) -> Iterator[None]:
    with (
        edited(at, "lambda/nodefleet/errors.py", {"class MalformedError": "# Another line.\nclass MalformedError"}),
        edited(at, "infra/nodefleet_infra/userdata/server.sh", {"\n\n": "\n: another line\n\n"}, first_only=True),
    ):
        at.shell("make setup layers")
        yield
    at.shell("make layers")


@contextmanager
def other_libraries(at: Engine) -> Iterator[None]:
    """As if the layer had been built from other versions, which takes half a minute and the network."""
    digest = json.loads((at.checkout / ARTEFACTS).read_text())["layer"]["content"]
    with edited(at, ARTEFACTS, {digest: digest[::-1]}):
        yield


@contextmanager
def other_policy(at: Engine) -> Iterator[None]:
    with edited(at, "Pulumi.dev.yaml", {"max: 6": "max: 7"}):
        yield


@contextmanager
def other_manifests(at: Engine) -> Iterator[None]:
    with edited(at, "infra/nodefleet_infra/manifests/budgets.yaml", {"\n": "\n# Another line.\n"}, first_only=True):
        yield


@contextmanager
def newer_image(at: Engine) -> Iterator[None]:
    at.publish_image("ami-0fedcba9876543210")
    yield
    at.withdraw_image()


@contextmanager
def other_template(at: Engine) -> Iterator[None]:
    with edited(at, "Pulumi.dev.yaml", {"limits: {min: 2": "labels: {example.com/tier: web}\n        limits: {min: 2"}):
        yield


@contextmanager
def other_k3s(at: Engine) -> Iterator[None]:
    release = f"k3s: {{version: v1.36.5+k3s1, sha256: {{x86_64: {'ab' * 32}}}}}"
    with edited(at, "Pulumi.dev.yaml", {"- name: shop": f"- name: shop\n      {release}"}):
        yield


@contextmanager
def other_settings(at: Engine) -> Iterator[None]:
    with edited(at, "Pulumi.dev.yaml", {"- name: shop": "- name: shop\n      master: {snapshot_cron: 0 */3 * * *}"}):
        yield


@contextmanager
def other_master(at: Engine) -> Iterator[None]:
    with edited(at, "Pulumi.dev.yaml", {"- name: shop": "- name: shop\n      master: {image: ami-0fedcba9876543210}"}):
        yield


Changing = Callable[[Engine], AbstractContextManager[None]]
# By the first column of the page's table.
ROWS: Mapping[str, tuple[Changing, set[str]]] = {
    "code": (other_code, FUNCTIONS | ALIASES | NEW_PROGRAM),
    "libraries": (other_libraries, FUNCTIONS | ALIASES | replaced("LayerVersion libraries")),
    "policy": (other_policy, {"update TableItem dev-shop-policy"}),
    "manifests": (other_manifests, {"update BucketObjectv2 shop-master-node-fleet-budgets.yaml"}),
    "workers' image": (newer_image, NEW_TEMPLATE),
    "workers' template (disk, labels, taints, user data, instance types)": (
        other_template,
        NEW_TEMPLATE | {"update TableItem dev-shop-policy"},
    ),
    "master's image": (other_master, NEW_MASTER),
    "K3s": (other_k3s, NEW_PROGRAM | NEW_TEMPLATE | {"update BucketObjectv2 shop-master-k3s"}),
    # Prometheus's rules say when a snapshot is late.
    "master's settings": (
        other_settings,
        NEW_PROGRAM | {"update BucketObjectv2 shop-master-node-fleet-prometheus.yaml"},
    ),
}
TOGETHER = ("code", "policy", "manifests", "workers' image", "K3s")


def test_each_row_of_the_page_is_here():
    table = PAGE.split("| what | how | what happens |\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    assert {line.split("|")[1].strip() for line in table} == {*ROWS}


@pytest.mark.parametrize("row", [pytest.param(each, marks=() if each == "master's image" else FULL) for each in ROWS])
def test_a_row_changes_what_the_page_says_and_nothing_else(dev, row):
    change, expected = ROWS[row]
    with change(dev):
        previewed = dev.preview()
    assert {str(step) for step in previewed.planned} == expected
    assert ("WILL BE REPLACED" in previewed.output) == (expected >= NEW_MASTER)


@FULL
def test_lean_is_switched_on_in_place(dev):
    change = {"node-fleet:clusters:": "node-fleet:autoscaler: {lean: true}\n  node-fleet:clusters:"}
    with edited(dev, "Pulumi.dev.yaml", change):
        planned = dev.preview().planned
    assert {step.op for step in planned if not step.type.endswith("BucketObjectv2")} <= {"create", "update", "delete"}
    gone = {
        "delete Dashboard dashboard",
        "delete Key alarms",
        "delete Secret slack",
        "delete SecretVersion slack-webhook",
    }
    assert {str(step) for step in planned} >= gone | {"create Parameter slack"}
    assert not [step for step in planned if step.type.endswith((":Instance", ":Table", ":Bucket", ":LaunchTemplate"))]


def test_the_master_is_replaced_by_the_pages_command_and_keeps_its_address(dev):
    (server,) = machines(dev, ROLE_SERVER, "running")
    kept = dev.outputs()["apiServers"]
    (command,) = [line for line in block("The master").splitlines() if line.startswith("pulumi")]
    done = dev.shell(command)
    assert {str(step) for step in done.steps} == NEW_MASTER
    (new,) = machines(dev, ROLE_SERVER, "running")
    assert new != server
    assert dev.outputs()["apiServers"] == kept


def test_code_policy_manifests_images_and_k3s_are_taken_up_together_and_the_master_stays(dev):
    (server,) = machines(dev, ROLE_SERVER, "running")
    with ExitStack() as stack:
        for row in TOGETHER:
            stack.enter_context(ROWS[row][0](dev))
        done = dev.up()
    assert {str(step) for step in done.steps} == set[str]().union(*(ROWS[row][1] for row in TOGETHER))
    assert machines(dev, ROLE_SERVER, "running") == [server]
    (template,) = dev.client("ec2").describe_launch_template_versions(
        LaunchTemplateName="node-fleet-dev-shop-default", Versions=["$Default"]
    )["LaunchTemplateVersions"]
    assert (template["VersionNumber"], template["LaunchTemplateData"]["ImageId"]) == (2, "ami-0fedcba9876543210")


def test_what_the_page_asks_afterwards_is_answered(dev):
    """With AWS's command line, if it is here."""
    asked = f"export AWS_DEFAULT_REGION={dev.region}  # its version 1 reads no other\n{block('5. See that it is well')}"
    if shutil.which("aws") is None:
        asked = asked.partition("MASTER=")[0]
    names = re.findall(r"(\w+)=", "\n".join(plain(asked)))
    ours = [name for name in names if name.startswith("NODEFLEET") or name == "MASTER"]
    told = dev.shell(f'{asked}\nfor name in {" ".join(dict.fromkeys(ours))}; do echo "$name=${{!name}}"; done').output
    found = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
    assert found["NODEFLEET_TABLE"] in dev.client("dynamodb").list_tables()["TableNames"]
    assert found["NODEFLEET_BUCKET"] in {each["Name"] for each in dev.client("s3").list_buckets()["Buckets"]}
    dev.client("secretsmanager").describe_secret(SecretId=found["NODEFLEET_SLACK_SECRET"])
    if "MASTER" in found:
        assert [found["MASTER"]] == machines(dev, ROLE_SERVER, "running")


# ── the page's other commands ────────────────────────────────────────────────────────────────────────────────────

NEEDS_A_MACHINE = "is typed on the master or through it: nothing here is an instance"
# Of each block of the page what no test runs, by how its command begins, and why.
NOT_RUN: Mapping[tuple[str, int], Mapping[str, str]] = {
    ("5. See that it is well", 1): {"aws ssm start-session": NEEDS_A_MACHINE},
    ("5. See that it is well", 2): {".venv/bin/nodefleet doctor": "on real parts: test_laptop_real.py"},
    ("6. Make pods wait", 0): {
        "aws ssm start-session": NEEDS_A_MACHINE,
        "sudo k3s kubectl": f"{NEEDS_A_MACHINE}; pods that wait on real parts: test_pending_real.py",
    },
    ("Going back", 0): {"nodefleet policy": "needs versions that runs took up: tests/cli/test_policy_cli.py"},
    ("Going back", 1): {
        "aws lambda list-versions-by-function": "functions are the stand-in's own, not moto's",
        "aws lambda update-alias": "functions are the stand-in's own, not moto's",
    },
    ("A worker did not join", 0): {"aws ec2 get-console-output": NEEDS_A_MACHINE},
    ("Permission errors", 0): {"": "asks how AWS evaluates a role, which moto does not do"},
}
RUN: Mapping[tuple[str, int], str] = {
    ("1. Build what ships", 0): "fresh",
    ("2. Make a stack", 0): "fresh",
    ("2. Make a stack", 1): "test_the_pages_other_commands_work",
    ("3. Slack", 0): "fresh",
    ("3. Slack", 1): "test_the_webhook_can_be_kept_away_from_pulumi",
    ("4. Deploy", 0): "dev, test_the_first_preview_of_a_fresh_checkout_creates_everything_and_does_nothing",
    ("5. See that it is well", 0): "test_what_the_page_asks_afterwards_is_answered",
    ("5. See that it is well", 2): "test_the_kubeconfig_of_the_page_is_one",
    ("Demand sources in your network", 0): "test_the_login_of_a_demand_source_lies_where_the_functions_look",
    ("Upgrading", 0): "test_the_pages_other_commands_work",
    ("Freezing", 0): "test_the_pages_other_commands_work",
    ("The master", 0): "test_the_master_is_replaced_by_the_pages_command_and_keeps_its_address",
    ("Destroying", 0): "test_the_functions_run_on_what_was_made_and_a_destroy_sweeps_what_they_launched",
}
needs_aws = pytest.mark.skipif(shutil.which("aws") is None, reason="AWS's command line is missing: NOT run")


def all_blocks() -> Iterator[tuple[tuple[str, int], str]]:
    for heading in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE):
        section = re.split(r"^#+ ", PAGE.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
        blocks = re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        yield from (((heading, number), script) for number, script in enumerate(blocks))


def test_every_block_of_the_page_is_run_or_says_why_not():
    found = dict(all_blocks())
    assert found.keys() == RUN.keys() | NOT_RUN.keys()
    for where, reasons in NOT_RUN.items():
        unused = [
            begins for begins in reasons if not any(line.startswith(begins) for line in found[where].splitlines())
        ]
        assert not unused, (where, unused)
        if where not in RUN:
            typed = [line for line in plain(found[where].replace("\\\n", " ")) if line]
            assert not [line for line in typed if not line.startswith(tuple(reasons))], where


def in_the_region(at: Engine, script: str) -> str:
    return f"export AWS_DEFAULT_REGION={at.region} AWS_REGION={at.region}\n{script}"


@needs_aws
def test_the_webhook_can_be_kept_away_from_pulumi(dev):
    other = '{"url": "https://hooks.slack.com/services/T1/B1/by-hand"}'
    dev.shell(in_the_region(dev, f"export EDITOR='tee'\n{block('3. Slack', 1)}"), stdin=other)
    kept = dev.client("secretsmanager").get_secret_value(SecretId=dev.outputs()["slackSecret"])
    assert json.loads(kept["SecretString"]) == json.loads(other)
    assert not (dev.checkout / "slack.json").exists()


@needs_aws
def test_the_login_of_a_demand_source_lies_where_the_functions_look(dev):
    dev.shell(
        in_the_region(dev, f"export EDITOR='tee'\n{block('Demand sources in your network')}"), stdin='{"password": "x"}'
    )
    variables = graph_of(dev).one("lambda/function:Function", "reconcile").inputs["environment"]["variables"]
    name = f"{settings_in(variables).source_secrets('dev-shop')}/redis"
    secrets = dev.client("secretsmanager")
    assert json.loads(secrets.get_secret_value(SecretId=name)["SecretString"]) == {"password": "x"}
    secrets.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)  # an operator's own: no destroy removes it


@needs_aws
@pytest.mark.skipif(not shutil.which("jq") or not shutil.which("kubectl"), reason="jq or kubectl is missing: NOT run")
def test_the_kubeconfig_of_the_page_is_one(dev):
    """With a login as the master publishes it."""
    login = {"server": "https://10.0.0.1:6443", "token": "t0ken", "ca": "-----BEGIN CERTIFICATE-----\n"}
    login |= {"metrics_username": "node-fleet", "metrics_password": "sesame"}
    secret = "node-fleet-dev/dev-shop/kubernetes"  # noqa: S105
    dev.client("secretsmanager").put_secret_value(SecretId=secret, SecretString=json.dumps(login))
    script = block("5. See that it is well", 2).replace(".venv/bin/nodefleet doctor", "")
    shown = 'kubectl config view --raw --minify -o json; echo "$PROMETHEUS_USERNAME:$PROMETHEUS_PASSWORD"'
    told = dev.shell(in_the_region(dev, f"{script}\n{shown}")).output
    config, end = json.JSONDecoder().raw_decode(told)
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:6443"
    assert config["users"][0]["user"] == {"token": "t0ken"}
    assert told[end:].strip() == "node-fleet:sesame"


@needs_aws
def test_the_pages_other_commands_work(dev):
    see = block("5. See that it is well").partition("MASTER=")[0]
    dev.environment["PATH"] = f"{dev.checkout / '.venv/bin'}{os.pathsep}{dev.environment['PATH']}"
    assert "database migration" in dev.shell(in_the_region(dev, f"{see}\n{block('Freezing')}")).output
    dev.shell(in_the_region(dev, f"{see}\nnodefleet resume"))
    dev.shell(in_the_region(dev, f"{see}\n{block('Upgrading')}"))  # there are no workers yet to be named
    listed = block("The master").splitlines()[0].replace(")/etcd/", ")/server/")  # there is no snapshot without K3s
    assert "current" in dev.shell(in_the_region(dev, listed)).output
    dev.shell(f"{block('2. Make a stack', 1)}\npulumi stack rm --yes mine && pulumi stack select dev")


# ── a second stack ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_production_stack_beside_it_is_made_and_refuses_to_be_destroyed(dev):
    before = {str(step) for step in dev.preview().planned}
    dev.shell("cp infra/examples/Pulumi.production.yaml . && pulumi stack init production")
    made = dev.up()
    assert {step.op for step in made.steps} == {"create"}
    refused = dev.shell("pulumi destroy", check=False)
    assert not refused.ok
    assert not refused.steps, "a destroy that is refused does nothing"
    dev("stack", "select", "dev")
    assert len(machines(dev, ROLE_SERVER, "running")) == 1
    assert {str(step) for step in dev.preview().planned} == before, "two stacks in one account do not touch each other"


# ── and away again ───────────────────────────────────────────────────────────────────────────────────────────────


def test_the_functions_run_on_what_was_made_and_a_destroy_sweeps_what_they_launched(dev, tmp_path):
    with functions_of(graph_of(dev), MotoCloud(dev.region), tmp_path) as functions:
        assert functions.tick()
        assert len(functions.workers()) == 2
    workers, (server,) = machines(dev, ROLE_WORKER, "running"), machines(dev, ROLE_SERVER, "running")
    refused = destroy_with_credentials_of_another_account(dev)
    assert not refused.ok
    assert re.search(r"are for the account 111111111111, and this stack is in\s+123456789012", refused.output)
    assert states_of(dev, [*workers, server]) == dict.fromkeys([*workers, server], "running")
    gone = dev.shell(block("Destroying"))
    assert {step.op for step in gone.steps} == {"delete"}
    order = [str(step) for step in (*refused.steps, *gone.steps)]
    sweep = order.index("delete Sweep shop")
    after = (*refused.steps, *gone.steps)[sweep:]
    starts = [step.op for step in after if step.type.endswith((":Schedule", ":EventRule", ":EventTarget"))]
    assert not starts, "something could still start a run"
    assert order.index("delete TopicSubscription reconcile-wake") < sweep
    master = order.index("delete Instance shop-master")
    assert not [step for step in refused.steps if step.type.endswith((":Function", ":Instance", ":Sweep"))]
    functions_gone = [index for index, step in enumerate(order) if step.startswith("delete Function ")]
    assert sweep < min([master, *functions_gone])
    states = dict.fromkeys([*workers, server], "terminated")
    assert states_of(dev, [*workers, server]) == states
    assert not left_of(dev, "dev")


def destroy_with_credentials_of_another_account(at: Engine) -> Ran:
    """From a shell that is logged in elsewhere."""
    role, kept = "arn:aws:iam::111111111111:role/deployer", dict(at.environment)
    given = at.client("sts").assume_role(RoleArn=role, RoleSessionName="elsewhere")["Credentials"]
    at.environment |= {
        "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
        "AWS_SESSION_TOKEN": given["SessionToken"],
    }
    refused = at.destroy(check=False)
    at.environment = kept
    return refused


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
