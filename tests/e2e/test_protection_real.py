"""Pulumi's own engine refuses to destroy production, keeps the master through upgrades, and acts in one account.

The stack has what the examples do not have: the lean autoscaler, persistent volumes, a load balancer, a key of its own
and a budget.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.engine.engine import Engine, Ran, engine
from support.deployed_functions import account_of_tests
from support.infra_on_moto import ACCOUNT_ID as ACCOUNT

STACK, FILE = "prod", "Pulumi.prod.yaml"
ROLE_POLICY, OBJECT = "aws:iam/rolePolicy:RolePolicy", "aws:s3/bucketObjectv2:BucketObjectv2"
VISITORS = ("203.0.113.0/24", "2001:db8::/32")
FOREIGN = "arn:aws:iam::111111111111:role/deployer"


def disk_key(at: Engine) -> str:
    """An operator's own, which is there before the stack."""
    kms = at.client("kms")
    listed = kms.list_keys()["Keys"]
    return str(listed[0]["KeyArn"] if listed else kms.create_key()["KeyMetadata"]["Arn"])


def configure(at: Engine, *, production: bool = True, **master: object) -> None:
    """The dev stack's configuration under another name, with all options; what Pulumi wrote into the file stays."""
    path = at.checkout / FILE
    kept = yaml.safe_load(path.read_text()) if path.exists() else {}
    config = yaml.safe_load((at.checkout / "Pulumi.dev.yaml").read_text())["config"]
    config["node-fleet:production"] = production
    config["node-fleet:autoscaler"] = {"lean": True}
    config["node-fleet:budget"] = {"monthly_usd": 150, "emails": ["oncall@example.com"]}
    options = {"persistent_volumes": True, "ingress": {"cidrs": list(VISITORS)}, "disk_key": disk_key(at)}
    config["node-fleet:clusters"][0] |= {**options, "master": master}
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


def parameters_of_the_stack(at: Engine) -> dict[str, str]:
    ours = [{"Key": "Name", "Option": "BeginsWith", "Values": [f"/node-fleet-{STACK}/"]}]
    listed = at.client("ssm").describe_parameters(ParameterFilters=ours)["Parameters"]
    return {each["Name"]: each["Type"] for each in listed}


def test_a_lean_stack_has_no_dashboard_and_no_key_and_its_webhook_in_a_parameter(production):
    kinds = {each["type"] for each in production.resources()}
    assert not kinds & {"aws:cloudwatch/dashboard:Dashboard", "aws:kms/key:Key"}
    assert parameters_of_the_stack(production) == {production.outputs()["slackSecret"]: "SecureString"}


def test_volumes_of_ones_own_come_with_a_driver_and_the_right_to_make_them(production):
    state = production.resources()
    (policy,) = [each["inputs"] for each in state if each["type"] == ROLE_POLICY and "::shop-master" in each["urn"]]
    statements = json.loads(policy["policy"])["Statement"]
    (making,) = [each for each in statements if each["Sid"] == "VolumesMake"]
    assert making["Condition"]["StringEquals"]["ec2:VolumeType"] == "gp3"
    keys = [each["id"] for each in state if each["type"] == OBJECT and "volumes" in each["urn"].rpartition("::")[2]]
    bucket = production.outputs()["backups"]
    (text,) = [production.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read().decode() for key in keys]
    classes = [each for each in yaml.safe_load_all(text) if each["kind"] == "StorageClass"]
    assert [(each["provisioner"], each["parameters"]["kmsKeyId"]) for each in classes] == [
        ("ebs.csi.aws.com", disk_key(production))
    ]


def test_a_way_in_leads_from_the_visitors_to_the_servers_address(production):
    balancing = production.client("elbv2")
    (balancer,) = balancing.describe_load_balancers()["LoadBalancers"]
    assert production.outputs()["ingress"] == {"prod-shop": balancer["DNSName"]}
    listeners = balancing.describe_listeners(LoadBalancerArn=balancer["LoadBalancerArn"])["Listeners"]
    assert {each["Port"] for each in listeners} == {80, 443}
    (server,) = (address for address in [*production.outputs()["apiServers"].values()])
    for listener in listeners:
        arn = listener["DefaultActions"][0]["TargetGroupArn"]
        (target,) = balancing.describe_target_health(TargetGroupArn=arn)["TargetHealthDescriptions"]
        assert (target["Target"]["Id"], target["Target"]["Port"]) == (
            server.split("/")[2].split(":")[0],
            listener["Port"],
        )
    (group,) = production.client("ec2").describe_security_groups(GroupIds=balancer["SecurityGroups"])["SecurityGroups"]
    let_in = group["IpPermissions"]
    four = {block["CidrIp"] for each in let_in for block in each["IpRanges"]}
    assert four | {block["CidrIpv6"] for each in let_in for block in each["Ipv6Ranges"]} == set(VISITORS)


def test_disks_have_the_operators_key_and_the_services_that_launch_have_grants_on_it(production):
    key = disk_key(production)
    (template,) = production.client("ec2").describe_launch_template_versions(
        LaunchTemplateName="node-fleet-prod-shop-default", Versions=["$Default"]
    )["LaunchTemplateVersions"]
    (disk,) = template["LaunchTemplateData"]["BlockDeviceMappings"]
    assert (disk["Ebs"]["Encrypted"], disk["Ebs"]["KmsKeyId"]) == (True, key)
    (server,) = [each for each in production.resources() if each["type"] == "aws:ec2/instance:Instance"]
    assert server["inputs"]["rootBlockDevice"]["kmsKeyId"] == key
    granted = production.client("kms").list_grants(KeyId=key)["Grants"]
    assert {each["GranteePrincipal"].rpartition("/")[2] for each in granted} == {
        "AWSServiceRoleForEC2Fleet",
        "AWSServiceRoleForEC2Spot",
    }


def test_a_budget_writes_to_the_operator(production):
    budgets = production.client("budgets")
    (budget,) = budgets.describe_budgets(AccountId=ACCOUNT)["Budgets"]
    assert float(budget["BudgetLimit"]["Amount"]) == 150
    told = budgets.describe_notifications_for_budget(AccountId=ACCOUNT, BudgetName=budget["BudgetName"])
    assert {each["NotificationType"] for each in told["Notifications"]} == {"ACTUAL", "FORECASTED"}


def assert_buckets_are_as_they_were(at: Engine) -> None:
    """In S3; their policies in the state alone, because moto's own would refuse what comes without TLS."""
    storage, names = at.client("s3"), [at.outputs()["backups"], at.outputs()["looks"]]
    for name in names:
        blocked = storage.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]
        assert all(blocked.values())
    policies = [each["inputs"] for each in at.resources() if each["type"] == "aws:s3/bucketPolicy:BucketPolicy"]
    assert {each["bucket"] for each in policies if "aws:SecureTransport" in each["policy"]} == set(names)
    assert storage.get_bucket_versioning(Bucket=at.outputs()["backups"])["Status"] == "Enabled"


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
    assert_buckets_are_as_they_were(production)
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
    assert "WILL BE REPLACED" not in ran.output
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
    left: list[Any] = [
        production.client("elbv2").describe_load_balancers()["LoadBalancers"],
        production.client("elbv2").describe_target_groups()["TargetGroups"],
        production.client("kms").list_grants(KeyId=disk_key(production))["Grants"],
        parameters_of_the_stack(production),
        production.client("budgets").describe_budgets(AccountId=ACCOUNT)["Budgets"],
    ]
    assert not any(left), left
