"""Pulumi's own engine refuses to destroy production, keeps the master through upgrades, and acts in one account."""

import re
from collections.abc import Iterator

import pytest
import yaml

from e2e.engine.engine import Engine, Ran, engine
from support.deployed_functions import account_of_tests

STACK, FILE = "prod", "Pulumi.prod.yaml"
FOREIGN = "arn:aws:iam::111111111111:role/deployer"


def configure(at: Engine, *, production: bool = True, **master: object) -> None:
    """The dev stack's configuration under another name; what Pulumi wrote into the file stays."""
    path = at.checkout / FILE
    kept = yaml.safe_load(path.read_text()) if path.exists() else {}
    config = yaml.safe_load((at.checkout / "Pulumi.dev.yaml").read_text())["config"]
    config["node-fleet:production"] = production
    config["node-fleet:clusters"][0]["master"] = master
    path.write_text(yaml.safe_dump({**kept, "config": config}))


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with account_of_tests(tmp_path_factory.mktemp("aws")), engine(tmp_path_factory.mktemp("engine")) as at:
        at.shell("make layers")
        configure(at)
        at.shell(f"pulumi login --local && pulumi stack init {STACK}")
        yield at


@pytest.fixture(scope="module")
def in_another_account(fresh: Engine) -> Ran:
    """An `up` whose configuration leads the program's own calls elsewhere; the stand-in provider does not follow it."""
    fresh("config", "set", "--path", "aws:assumeRoles[0].roleArn", FOREIGN)
    ran = fresh.up(check=False)
    configure(fresh)
    return ran


@pytest.fixture(scope="module")
def production(fresh: Engine, in_another_account: Ran) -> Engine:
    fresh.up()
    return fresh


def master_of(at: Engine) -> str:
    (found,) = [each["id"] for each in at.resources() if each["type"] == "aws:ec2/instance:Instance"]
    return str(found)


def test_a_stack_of_ones_own_dirties_no_tracked_file(fresh):
    assert "encryptionsalt" in (fresh.checkout / FILE).read_text()
    assert fresh.shell("git status --porcelain --untracked-files=no").output == ""


def test_dynamic_providers_follow_the_stacks_credentials_and_refuse_in_another_account(in_another_account):
    assert not in_another_account.ok
    assert re.search(
        r"are for the account 111111111111, and this stack is in\s+123456789012", in_another_account.output
    )
    assert not [step for step in in_another_account.steps if step.type.endswith("ServiceRole")]


@pytest.mark.parametrize("arguments", [(), ("--skip-preview",)])
def test_a_destroy_of_production_is_refused(production, arguments):
    """With its preview nothing happens at all; without it what nothing protected depends on goes, and comes back."""
    before = {each["urn"] for each in production.resources()}
    refused = production("destroy", *arguments, check=False)
    assert not refused.ok
    assert "because it is protected" in refused.output
    gone = {step.type.rpartition("/")[2].partition(":")[2] for step in refused.steps if step.name != "scheduler"}
    if not arguments:
        assert not gone
        assert {each["urn"] for each in production.resources()} == before
    kept = {"Function", "Instance", "Table", "Bucket", "Secret", "Vpc", "Subnet", "Role", "LaunchTemplate"}
    kept |= {"BucketPolicy", "BucketPublicAccessBlock", "BucketVersioning", "NetworkInterface"}
    assert not gone & kept, gone & kept
    assert "delete Sweep shop" not in {str(step) for step in refused.steps}
    if arguments:
        production.up()
        assert {each["urn"] for each in production.resources()} == before


def test_another_release_of_this_program_neither_replaces_the_master_nor_brings_another_k3s(production):
    before, release = master_of(production), production.outputs()["k3s"]
    infra = production.checkout / "infra/nodefleet_infra"
    kept = {path: path.read_text() for path in (infra / "k3s.py", infra / "userdata/server.sh")}
    (version,) = re.findall(r'version="(\S+)"', kept[infra / "k3s.py"])
    (infra / "k3s.py").write_text(kept[infra / "k3s.py"].replace(version, "v9.9.9+k3s1"))
    with (infra / "userdata/server.sh").open("a") as script:
        script.write("\ntrue # this release does something else\n")
    ran = production.up()
    for path, text in kept.items():
        path.write_text(text)
    assert master_of(production) == before
    assert production.outputs()["k3s"] == release == {"prod-shop": version}
    assert "v9.9.9+k3s1" in ran.output
    assert {step.name for step in ran.steps} == {"shop-master-program", "shop-master-current"}


def test_a_replacement_of_a_production_master_is_refused_until_it_is_allowed_and_then_told_in_words(production):
    configure(production, restore="etcd-snapshot-3")
    refused = production.preview(check=False)
    assert not refused.ok
    assert "unable to replace resource" in refused.output
    configure(production, restore="etcd-snapshot-3", allow_replacement=True)
    told = production.preview()
    assert "WILL BE REPLACED" in told.output
    assert "replace Instance shop-master" in {str(step) for step in told.planned}
    configure(production)
    assert "WILL BE REPLACED" not in production.preview().output


def test_a_stack_that_is_no_longer_production_is_destroyed_to_the_last_resource(production):
    configure(production, production=False)
    let_go = production.up()
    others = [step for step in let_go.steps if step.name != "shop-master-program"]  # which the tests before changed
    assert {step.op for step in others} <= {"update"}
    assert not [each["urn"] for each in production.resources() if each.get("protect")]
    gone = production("destroy")
    assert gone.ok
    assert "delete Instance shop-master" in {str(step) for step in gone.steps}
    assert production.resources() == []
    assert not [name for name in production.client("dynamodb").list_tables()["TableNames"] if f"-{STACK}-" in name]
