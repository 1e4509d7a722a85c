"""What outlives a run: nothing of it is public, readable by the wrong one, or lost by a slip."""

import json

import pytest

from nodefleet.adapters.dynamodb.codec import PARTITION, SORT, STACK_DEPLOYMENT, STACK_POLICY, TTL, decode_body, text
from nodefleet.adapters.dynamodb.records import KEEP_RECORDS, state_in
from nodefleet.model.snapshot import Deployment
from nodefleet.policy.loading import load
from nodefleet_infra.names import Names
from nodefleet_infra.state import KEEP_LOOKS_DAYS
from support.infra_mocks import ACCOUNT, DEV, PRODUCTION, declared, deployed_stack

BOTH = [DEV, PRODUCTION]
HOOK = "https://hooks.slack.com/services/T0/B0/secret-part"


@pytest.fixture(scope="module")
def with_webhook():
    """The dev stack again, with Slack's webhook in its configuration."""
    config = {"aws:region": "ap-southeast-1", **_dev(), "node-fleet:slackWebhook": HOOK}
    return declared(config, "dev", secret=["node-fleet:slackWebhook"])


def records(graph):
    """The stack's items, by cluster and record."""
    items = [json.loads(each.inputs["item"]) for each in graph.of("TableItem")]
    return {(text(item, PARTITION), text(item, SORT)): item for item in items}


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_the_table_is_what_the_code_reads_and_writes(file):
    (table,) = deployed_stack(file).of("dynamodb/table:Table")
    assert (table.inputs["hashKey"], table.inputs["rangeKey"]) == (PARTITION, SORT)
    assert {each["name"]: each["type"] for each in table.inputs["attributes"]} == {PARTITION: "S", SORT: "S"}
    assert table.inputs["ttl"] == {"attributeName": TTL, "enabled": True}
    assert (table.inputs["streamEnabled"], table.inputs["streamViewType"]) == (True, "NEW_IMAGE")
    assert table.inputs["billingMode"] == "PAY_PER_REQUEST"
    assert table.inputs["pointInTimeRecovery"] == {"enabled": True}
    assert table.inputs["serverSideEncryption"] == {"enabled": True}


def test_a_production_table_cannot_be_deleted_by_mistake():
    def protected(file):
        return deployed_stack(file).one("dynamodb/table:Table", "table").inputs["deletionProtectionEnabled"]

    assert (protected(DEV), protected(PRODUCTION)) == (False, True)


def test_production_refuses_to_delete_what_is_kept():
    """Pulumi checks that in a destroy's preview, so that nothing at all happens."""
    kinds = ("dynamodb/table:Table", "s3/bucket:Bucket", "secretsmanager/secret:Secret")
    settings = (
        "BucketPublicAccessBlock",
        "BucketOwnershipControls",
        "BucketServerSideEncryptionConfiguration",
        "BucketVersioning",
        "BucketLifecycleConfiguration",
        "BucketPolicy",
    )
    for kind in (*kinds, *settings):
        assert deployed_stack(PRODUCTION).of(kind)
        assert all(each.protected for each in deployed_stack(PRODUCTION).of(kind)), kind
        assert not any(each.protected for each in deployed_stack(DEV).of(kind)), kind
    for kind in settings:  # a bucket that stays behind stays as private as it was
        assert all(each.retained for file in BOTH for each in deployed_stack(file).of(kind)), kind
    for kind in kinds:
        assert not any(each.retained for file in BOTH for each in deployed_stack(file).of(kind)), kind


# ── the stack's records ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_the_store_reads_what_the_stack_wrote(file):
    graph = deployed_stack(file)
    warnings = []
    for cluster in graph.exports["clusters"]:
        items = [item for (owner, _), item in sorted(records(graph).items()) if owner == cluster]
        state = state_in(iter(items), warnings.append)
        assert state.deployment is not None
        assert state.declared is not None
        assert (state.declared.number, state.declared.source) == (0, "stack")
        pools = {pool.name for pool in load(state.declared.data).policy.pools}
        assert {target.pool for target in state.deployment.targets} == pools
    assert warnings == []


def test_the_deployment_says_where_everything_is():
    graph = deployed_stack(PRODUCTION)
    deployment = decode_body(Deployment, records(graph)["production-shop", STACK_DEPLOYMENT], print)
    templates = {each.name: each for each in graph.of("LaunchTemplate")}
    subnets = {
        each.inputs["availabilityZone"]: each.id for each in graph.of("ec2/subnet:Subnet") if "workers" in each.name
    }
    assert [target.pool for target in deployment.targets] == ["services", "builds"]
    for target in deployment.targets:
        assert target.template == templates[f"shop-{target.pool}"].id
        assert target.template_version == "1"
        assert target.subnets == subnets
    address = graph.of("NetworkInterface")[0].outputs["privateIp"]
    assert deployment.api_server == f"https://{address}:6443"
    assert deployment.prometheus == f"http://{address}:9090"
    assert deployment.api_secret == Names(project="node-fleet", stack="production").api_secret("production-shop")
    assert deployment.prices["c6i.xlarge"] == 0.196
    assert deployment.dashboard.endswith("#dashboards/dashboard/node-fleet-production")
    assert "$252Faws$252Flambda$252Fnode-fleet-production-reconcile" in deployment.logs


def test_the_same_configuration_writes_the_same_records(with_webhook):
    assert records(with_webhook) == records(deployed_stack(DEV))


def _dev():
    zones = ["ap-southeast-1a", "ap-southeast-1b"]
    policy = {"limits": {"min": 2, "max": 6}, "market": {"types": ["t3.small", "t3a.small"]}}
    policy["rotation"] = {"max_age": "14d", "drift": True}
    return {
        "node-fleet:network": {"zones": zones},
        "node-fleet:clusters": [{"name": "shop", "policy": policy}],
        "node-fleet:prices": {"t3.small": 0.0264, "t3a.small": 0.0236},
    }


def test_the_policy_is_declared_as_it_was_written():
    item = records(deployed_stack(DEV))["dev-shop", STACK_POLICY]
    assert json.loads(item["body"]["S"]) == _dev()["node-fleet:clusters"][0]["policy"]


# ── buckets ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_buckets_are_private_encrypted_and_reached_by_tls_only(file):
    graph = deployed_stack(file)
    for bucket in graph.of("s3/bucket:Bucket"):
        block = graph.one("BucketPublicAccessBlock", bucket.name).inputs
        assert all(
            block[each]
            for each in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets")
        )
        (rule,) = graph.one("BucketServerSideEncryptionConfiguration", bucket.name).inputs["rules"]
        assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "AES256"}
        assert graph.one("BucketOwnershipControls", bucket.name).inputs["rule"] == {
            "objectOwnership": "BucketOwnerEnforced"
        }
        (statement,) = json.loads(graph.one("BucketPolicy", bucket.name).inputs["policy"])["Statement"]
        assert (statement["Effect"], statement["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
        assert bucket.inputs["bucket"].endswith(ACCOUNT)


def test_looks_are_kept_as_long_as_the_decisions_that_name_them():
    (rule,) = deployed_stack(DEV).one("BucketLifecycleConfiguration", "looks").inputs["rules"]
    assert rule["expiration"] == {"days": 30}
    assert KEEP_RECORDS.days == KEEP_LOOKS_DAYS == 30


def test_a_deleted_backup_can_be_had_back_for_a_week():
    graph = deployed_stack(DEV)
    assert graph.one("BucketVersioning", "backups").inputs["versioningConfiguration"] == {"status": "Enabled"}
    (rule,) = graph.one("BucketLifecycleConfiguration", "backups").inputs["rules"]
    assert rule["noncurrentVersionExpiration"] == {"noncurrentDays": 7}
    assert "days" not in rule["expiration"]


def test_only_production_keeps_buckets_that_hold_something():
    assert all(each.inputs["forceDestroy"] for each in deployed_stack(DEV).of("s3/bucket:Bucket"))
    assert not any(each.inputs["forceDestroy"] for each in deployed_stack(PRODUCTION).of("s3/bucket:Bucket"))


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_secrets_are_made_empty():
    graph = deployed_stack(DEV)
    assert {each.inputs["name"] for each in graph.of("secretsmanager/secret:Secret")} == {
        "node-fleet-dev/dev-shop/kubernetes",
        "node-fleet-dev/dev-shop/agent-token",
        "node-fleet-dev/dev-shop/server-token",
        "node-fleet-dev/slack",
    }
    assert not graph.of("SecretVersion")


def test_only_the_key_to_a_production_clusters_snapshots_can_be_had_back():
    def days(file):
        found = deployed_stack(file).of("secretsmanager/secret:Secret")
        return {each.inputs["name"].rpartition("/")[2]: each.inputs["recoveryWindowInDays"] for each in found}

    assert days(DEV) == {"kubernetes": 0, "agent-token": 0, "server-token": 0, "slack": 0}
    assert days(PRODUCTION) == days(DEV) | {"server-token": 30}


def test_a_webhook_from_the_configuration_goes_into_its_secret_and_nowhere_else(with_webhook):
    graph = with_webhook
    (version,) = graph.of("SecretVersion")
    assert json.loads(version.inputs["secretString"]) == {"url": HOOK}
    assert "secretString" in version.secret
    others = [each for each in graph.made if each is not version]
    assert not [each.name for each in others if "secret-part" in json.dumps(each.inputs, default=str)]
    assert "secret-part" not in json.dumps(graph.exports)
