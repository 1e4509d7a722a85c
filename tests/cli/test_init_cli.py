"""`nodefleet init`, and docs/adopt.md line by line, on moto with an API server and a Prometheus on loopback."""

import base64
import json
import re
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from nodefleet import settings
from nodefleet.model.serialization import ValidationError
from nodefleet.policy.loading import load
from nodefleet_infra import iam
from nodefleet_infra.interfaces import ClusterArns, Facts, Place
from nodefleet_infra.statements import document
from nodefleet_tools.adopting import plan
from nodefleet_tools.cli import main
from nodefleet_tools.cli.deployment_file import read_deployment
from support.adopting import (
    FOLLOWED,
    JOINS,
    label_readings,
    lines_of_page,
    machines_of_k3s,
    take_dry_run_out,
    variables,
)
from support.deployed import Deployed, account, deployed
from support.fake_api_certificates import authority
from support.fake_api_server import TOKEN
from support.wording import assert_wording

__all__ = ["account", "deployed"]

PLACEHOLDER = plan.NO_TEMPLATE


@pytest.fixture
def shop(deployed: Deployed, monkeypatch, tmp_path):
    """A K3s cluster that nothing of ours has touched: a server and two workers, nodes named after their hosts."""
    for name in (settings.CLUSTERS, settings.TABLE, settings.BUCKET, settings.SLACK):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    site = deployed.site
    for node in machines_of_k3s(deployed):
        site.server.objects.put("nodes", node)
    site.server.on("get", "", lambda: setattr(site.server, "date", format_datetime(datetime.now(UTC), usegmt=True)))
    label_readings(deployed)
    config = tmp_path / "kubeconfig"
    config.write_text(yaml.safe_dump(kubeconfig(site.server.url)))
    monkeypatch.setenv("KUBECONFIG", str(config))
    return deployed


def kubeconfig(server: str) -> dict:
    return {
        "current-context": "shop",
        "contexts": [{"name": "shop", "context": {"cluster": "shop", "user": "ann"}}],
        "clusters": [
            {
                "name": "shop",
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(authority().ca.encode()).decode(),
                },
            }
        ],
        "users": [{"name": "ann", "user": {"token": TOKEN}}],
    }


def nodefleet(*arguments: str, env: dict[str, str] | None = None):
    return CliRunner().invoke(main.app, list(arguments), env={"COLUMNS": "200", **(env or {})})


def init(shop: Deployed, *arguments: str):
    return nodefleet("init", "--cluster", "shop", "--prometheus", shop.site.prometheus.address, *arguments)


def made(shop: Deployed) -> tuple[list[str], list[str]]:
    tables = [name for name in shop.client("dynamodb").list_tables()["TableNames"] if name.startswith("node-fleet")]
    templates = shop.client("ec2").describe_launch_templates()["LaunchTemplates"]
    return tables, [
        each["LaunchTemplateName"] for each in templates if each["LaunchTemplateName"].startswith("node-fleet")
    ]


@pytest.fixture(autouse=True)
def leave_nothing(shop):
    yield
    tables, templates = made(shop)
    running = shop.client("ec2").describe_instances()["Reservations"]
    shop.client("ec2").terminate_instances(
        InstanceIds=[each["InstanceId"] for it in running for each in it["Instances"]]
    )
    for name in tables:
        shop.client("dynamodb").delete_table(TableName=name)
    for name in templates:
        shop.client("ec2").delete_launch_template(LaunchTemplateName=name)


def test_without_apply_files_are_written_and_nothing_is_created(shop):
    done = init(shop)
    assert done.exit_code == 0, done.stderr
    assert made(shop) == ([], [])
    assert_wording(next(line for line in done.stderr.splitlines() if "--apply" in line))
    written = {path.name: path for path in Path("node-fleet").iterdir()}
    assert set(written) == {
        *("policy.yaml", "deployment.yaml", "table.json", "launch-template.json", "user-data.sh"),
        *("iam-policy.json", "rbac.yaml"),
    }
    assert oct(written["user-data.sh"].stat().st_mode)[-3:] == "600"
    policy = load(yaml.safe_load(written["policy.yaml"].read_text())).policy
    (pool,) = policy.pools
    assert (pool.dry_run, pool.strategy, pool.limits.max, pool.market.types) == (
        *(True, "adaptive", 2 * len(shop.site.subnets)),
        ("t3.small",),
    )
    with pytest.raises(ValidationError, match=PLACEHOLDER):  # it is not put by mistake
        read_deployment(written["deployment.yaml"], "shop")
    text = written["deployment.yaml"].read_text()
    written["deployment.yaml"].write_text(text.replace(PLACEHOLDER, "lt-0123456789abcdef0"))
    deployment = read_deployment(written["deployment.yaml"], "shop")
    assert deployment.targets[0].subnets == shop.site.subnets


def test_the_new_workers_are_like_the_old_ones_and_known_as_their_instances(shop):
    init(shop)
    data = json.loads(Path("node-fleet/launch-template.json").read_text())["LaunchTemplateData"]
    assert (data["ImageId"], data["InstanceType"]) == ("ami-12345678", "t3.small")
    assert data["IamInstanceProfile"]["Arn"].endswith(":instance-profile/k3s-agent")
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    script = base64.b64decode(data["UserData"]).decode()
    assert script == Path("node-fleet/user-data.sh").read_text()
    assert script.startswith("#!/bin/bash\n")
    assert script.endswith(JOINS.partition("\n")[2])
    assert script.index("provider-id=aws:///") < script.index("get.k3s.io")
    tags = {each["Key"]: each["Value"] for each in data["TagSpecifications"][0]["Tags"]}
    assert tags == {"node-fleet:cluster": "shop", "node-fleet:pool": "default", "node-fleet:role": "worker"}


def test_with_apply_everything_is_there_and_the_doctor_finds_nothing_wrong(shop):
    done = init(shop, "--apply", "--yes")
    assert done.exit_code == 0, done.stderr
    assert made(shop) == (["node-fleet-shop"], ["node-fleet-shop-default"])
    env = {"NODEFLEET_CLUSTER": "shop", "NODEFLEET_TABLE": "node-fleet-shop"}
    assert PLACEHOLDER not in Path("node-fleet/deployment.yaml").read_text()
    assert PLACEHOLDER not in Path("node-fleet/iam-policy.json").read_text()
    examined = json.loads(nodefleet("doctor", "--json", env=env).stdout)
    wrong = [
        f"{check['check']}: {each['found']}"
        for check in examined["checks"]
        for each in check["findings"]
        if each["verdict"] == "wrong"
    ]
    assert wrong == []


def test_a_second_try_keeps_what_exists(shop):
    init(shop, "--apply", "--yes")
    done = init(shop, "--apply", "--yes")
    assert done.exit_code == 0, done.stderr
    assert_wording([line for line in done.stderr.splitlines() if line.endswith("kept.")])
    assert made(shop) == (["node-fleet-shop"], ["node-fleet-shop-default"])


def test_files_of_a_later_version_name_what_exists_and_can_be_compared_line_by_line(shop):
    """docs/upgrade.md compares them with those that are in use."""
    init(shop, "--apply", "--yes")
    done = init(shop, "--out", "new")
    assert done.exit_code == 0, done.stderr
    for name in ("deployment.yaml", "iam-policy.json", "rbac.yaml", "table.json"):
        assert Path("new", name).read_text() == Path("node-fleet", name).read_text()
    assert max(len(line) for line in Path("new/iam-policy.json").read_text().splitlines()) < 200
    answer = json.loads(init(shop, "--json").stdout)
    assert (answer["template"], answer["next"]) == (made_template(shop), [])
    assert PLACEHOLDER not in Path("node-fleet/iam-policy.json").read_text()


def made_template(shop: Deployed) -> str:
    (found,) = shop.client("ec2").describe_launch_templates(LaunchTemplateNames=["node-fleet-shop-default"])[
        "LaunchTemplates"
    ]
    return found["LaunchTemplateId"]


def test_a_policy_that_was_edited_is_kept_and_stored(shop):
    init(shop)
    file = Path("node-fleet/policy.yaml")
    edited = {**yaml.safe_load(file.read_text()), "limits": {"min": 1, "max": 3}}
    file.write_text(text := f"# ours\n{yaml.safe_dump(edited)}")
    assert init(shop, "--apply", "--yes").exit_code == 0
    assert file.read_text() == text
    env = {"NODEFLEET_CLUSTER": "shop", "NODEFLEET_TABLE": "node-fleet-shop"}
    (pool,) = json.loads(nodefleet("status", "--json", env=env).stdout)["pools"]
    assert (pool["min"], pool["max"], pool["dry_run"]) == (1, 3, True)
    file.write_text("limits: {min: 9, max: 3}")
    assert init(shop).exit_code == 2
    file.unlink()
    assert init(shop).exit_code == 0
    assert load(yaml.safe_load(file.read_text())).policy.pools[0].limits.max != 3


def test_existing_workers_are_handed_over_only_when_asked(shop):
    def tagged() -> dict[str, str]:
        ours = {"tag:node-fleet:cluster": "shop", "instance-state-name": "running"}
        filters = [{"Name": name, "Values": [value]} for name, value in ours.items()]
        found = shop.client("ec2").describe_instances(Filters=filters)["Reservations"]
        machines = [machine for each in found for machine in each["Instances"]]
        return {
            machine["InstanceId"]: next(tag["Value"] for tag in machine["Tags"] if tag["Key"] == "node-fleet:role")
            for machine in machines
        }

    init(shop, "--apply", "--yes")
    assert sorted(tagged().values()) == ["server"]
    init(shop, "--apply", "--yes", "--manage-existing")
    assert sorted(tagged().values()) == ["server", *["worker"] * len(shop.site.subnets)]


def test_without_yes_nothing_is_created(shop):
    done = init(shop, "--apply")
    assert done.exit_code == 2
    assert made(shop) == ([], [])


def test_programs_get_the_files_and_what_comes_next(shop):
    answer = json.loads(init(shop, "--apply", "--yes", "--json").stdout)
    assert answer["table"] == "node-fleet-shop"
    assert answer["template"].startswith("lt-")
    assert_wording(answer["next"])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--worker", "i-0123456789abcdef0"], "--worker"),
        (["--min", "5", "--max", "2"], "limits"),
        (["--cluster", "our shop"], "--cluster"),
        (["--table", "a/b"], "--table"),
        (["--prometheus", "10.0.1.10:9090"], "prometheus"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(shop, arguments, word):
    done = init(shop, *arguments)
    assert done.exit_code == 2
    assert word in done.stderr
    assert not Path("node-fleet").exists()


def test_the_role_may_do_what_a_stacks_loop_may_and_no_more(shop):
    """For the same cluster; what only functions do (their log, the archive, the secret) is left out."""
    init(shop, "--apply", "--yes")
    written = Path("node-fleet/iam-policy.json").read_text()
    statements = {each["Sid"]: each for each in json.loads(written)["Statement"]}

    def arns(kind: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(re.findall(rf'"(arn:aws:[a-z0-9]+:us-east-1:[0-9]+:{kind}/[a-z][^*"]*)"', written)))

    facts = Facts(
        place=Place(partition="aws", region="us-east-1", account=arns("table")[0].split(":")[4]),
        table=arns("table")[0],
        stream="",
        looks="",
        slack_secret="",
        queues={},
        events="",
        log_groups={},
        clusters=(
            ClusterArns(
                cluster="shop",
                api_secret="",
                templates=arns("launch-template"),
                worker_role=statements["PassRole"]["Resource"],
                subnets=arns("subnet"),
                groups=arns("security-group"),
                types=("t3.small",),
                disk_gb=8,
            ),
        ),
    )
    stack = {each["Sid"]: each for each in json.loads(document(iam._loop(facts)))["Statement"]}
    assert {sid: each for sid, each in stack.items() if sid not in ("Looks", "Secrets")} == statements


# ── the page ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_can_be_followed_line_by_line(shop, monkeypatch):
    """Every line of its shell blocks; pipx is what tests/test_wheel.py does."""
    config = Path("kubeconfig").resolve()
    followed = []
    for words in lines_of_page(shop.site.prometheus.address):
        if words[0] == "export":
            for name, value in variables(words, config).items():
                monkeypatch.setenv(name, value)
            continue
        if words[:3] == ["nodefleet", "policy", "apply"]:
            take_dry_run_out(Path(words[3]))
        done = nodefleet(*words[1:])
        assert done.exit_code == 0, f"{words}\n{done.stdout}{done.stderr}"
        followed.append(words[1])
    assert followed == FOLLOWED
