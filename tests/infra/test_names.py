"""Names: derived from project and stack, the same ones that the code reads, short enough for AWS."""

import re

import pytest

from nodefleet.model.names import ROLE_SERVER, ROLE_WORKER, TAG_CLUSTER, TAG_POOL, TAG_ROLE
from nodefleet.settings import CLUSTERS, SECRETS, TABLE, settings_in
from nodefleet_infra.names import Names
from nodefleet_infra.stack import LONGEST_BASE
from support.infra_mocks import DEV, PRODUCTION, deployed_stack

NAMES = Names(project="node-fleet", stack="dev", extra={"CostCenter": "shop"})

# The longest that AWS takes, for what is named after something.
LONGEST = {
    "lambda/function:Function": ("name", 64),
    "iam/role:Role": ("name", 64),
    "scheduler/schedule:Schedule": ("name", 64),
    "EventRule": ("name", 64),
    "s3/bucket:Bucket": ("bucket", 63),
    "sqs/queue:Queue": ("name", 80),
    "LaunchTemplate": ("name", 128),
}


def test_everything_begins_with_project_and_stack():
    assert NAMES.of("reconcile") == "node-fleet-dev-reconcile"
    assert NAMES.pool("shop", "web") == "node-fleet-dev-shop-web"


def test_the_functions_find_the_secrets_that_the_stack_makes():
    environment = {TABLE: "t", CLUSTERS: "dev-shop", SECRETS: NAMES.secrets}
    assert settings_in(environment).api_secret("dev-shop") == NAMES.api_secret("dev-shop")
    assert NAMES.api_secret("dev-shop") == "node-fleet-dev/dev-shop/kubernetes"
    assert NAMES.slack_secret == f"{NAMES.base}/slack"


def test_tags_tell_whose_and_what_for():
    assert NAMES.tags("x") == {
        "CostCenter": "shop",
        "Project": "node-fleet",
        "Stack": "dev",
        "ManagedBy": "pulumi",
        "Name": "x",
    }
    server, worker = NAMES.server_tags("dev-shop", "m"), NAMES.worker_tags("dev-shop", "web", "w")
    assert (server[TAG_CLUSTER], server[TAG_ROLE]) == ("dev-shop", ROLE_SERVER)
    assert (worker[TAG_CLUSTER], worker[TAG_ROLE], worker[TAG_POOL]) == ("dev-shop", ROLE_WORKER, "web")


@pytest.mark.parametrize("file", [DEV, PRODUCTION])
def test_no_name_is_too_long_and_none_is_used_twice(file):
    graph = deployed_stack(file)
    for kind, (field, longest) in LONGEST.items():
        names = [each.inputs[field] for each in graph.of(kind)]
        assert names, kind
        assert len(names) == len(set(names)), kind
        assert all(len(name) <= longest for name in names), names


def test_the_longest_names_that_a_configuration_may_have_still_fit():
    base, cluster = "x" * LONGEST_BASE, "c" * 20
    names = Names(project="node-fleet", stack=base.removeprefix("x" * 11))
    assert len(names.base) == LONGEST_BASE
    for part in ("workers", "master", "report", "night"):
        assert len(names.of(cluster, part)) <= 64
    assert len(names.of("backups", "123456789012")) <= 63


def test_buckets_carry_the_account_because_their_names_are_the_whole_worlds():
    names = [each.inputs["bucket"] for each in deployed_stack(DEV).of("s3/bucket:Bucket")]
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9.-]+-123456789012", name) for name in names)
