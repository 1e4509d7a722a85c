"""`nodefleet clusters`: clusters of one deployment, added, listed, paused and removed, on moto."""

import json
from datetime import timedelta

import pytest
from typer.testing import CliRunner

from nodefleet import settings
from nodefleet.adapters.dynamodb.records import fleet_item
from nodefleet.handlers import FUNCTION
from nodefleet.model.names import TAG_FLEET
from nodefleet.model.snapshot import FleetParts
from nodefleet_tools.cli import main
from nodefleet_tools.dashboard.server import Dashboard
from nodefleet_tools.fleet import first_tick
from support.deployed import account, environment, two_clusters
from support.wording import assert_wording

__all__ = ["account", "two_clusters"]

GROUP = "node-fleet-fleet"


@pytest.fixture
def fleet(two_clusters, monkeypatch):
    environment(monkeypatch, ["*"], two_clusters.table, two_clusters.bucket)
    assert FUNCTION.settings.registry  # read now
    monkeypatch.delenv("NODEFLEET_CLUSTER", raising=False)
    monkeypatch.delenv(settings.CLUSTERS)  # an operator's shell names none
    monkeypatch.delenv("KUBECONFIG", raising=False)
    scheduler = two_clusters.client("scheduler")
    if not any(each["Name"] == GROUP for each in scheduler.list_schedule_groups()["ScheduleGroups"]):
        scheduler.create_schedule_group(Name=GROUP)
    parts = FleetParts(
        name=GROUP,
        prefix="shop-",
        queue="https://sqs.us-east-1.amazonaws.com/123456789012/runs.fifo",
        queue_arn="arn:aws:sqs:us-east-1:123456789012:runs.fifo",
        schedule_group=GROUP,
        schedule_role="arn:aws:iam::123456789012:role/scheduler",
        every=timedelta(minutes=2),
    )
    two_clusters.client("dynamodb").put_item(TableName=two_clusters.table, Item=fleet_item(parts))
    return two_clusters


def at(*arguments):
    return CliRunner().invoke(main.app, ["clusters", *arguments], env={"COLUMNS": "200"})


def schedule_of(fleet, cluster):
    return fleet.client("scheduler").get_schedule(Name=f"{GROUP}-{cluster}-tick", GroupName=GROUP)


def listed(*arguments):
    done = at("list", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return {row["name"]: row for row in json.loads(done.stdout)}


def test_a_cluster_that_is_added_has_its_own_schedule_into_its_own_message_group(fleet):
    shop, _ = fleet.sites
    done = at("add", shop, "--by", "anna")
    assert done.exit_code == 0, done.output
    target = schedule_of(fleet, shop)["Target"]
    assert target["SqsParameters"] == {"MessageGroupId": shop}
    assert json.loads(target["Input"]) == {
        "cluster": shop,
        "scheduled": True,
        "tick": "<aws.scheduler.scheduled-time>",  # EventBridge's own words: two ticks are never the same message
    }
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}
    assert FUNCTION.registry().find(shop).by == "anna"
    assert "resumed" in fleet.events(shop)


def test_counts_of_a_cluster_without_a_decision_are_not_zero(fleet):
    shop, _ = fleet.sites
    at("add", shop)
    row = listed()[shop]
    assert (row["decided_at"], row["nodes"], row["target"], row["pending"]) == (None, None, None, None)
    (line,) = [each.split() for each in at("list").stdout.splitlines() if each.startswith(shop)]
    assert line[-3:] == ["never", "-", "-"]


def test_what_it_launches_with_gets_the_fleet_s_tag(fleet):
    (name, shop), _ = fleet.sites.items()
    at("add", name)
    tags = fleet.client("ec2").describe_tags(Filters=[{"Name": "key", "Values": [TAG_FLEET]}])["Tags"]
    assert {each["ResourceId"] for each in tags} >= {shop.template, *shop.subnets.values()}
    assert {each["Value"] for each in tags} == {GROUP}


def test_adding_it_again_changes_nothing_and_a_pause_switches_its_schedule_off(fleet):
    shop, _ = fleet.sites
    assert [at("add", shop).exit_code for _ in range(2)] == [0, 0]
    assert at("pause", shop).exit_code == 0
    assert schedule_of(fleet, shop)["State"] == "DISABLED"
    assert listed()[shop]["paused"]
    assert at("resume", shop).exit_code == 0
    assert schedule_of(fleet, shop)["State"] == "ENABLED"
    assert not listed()[shop]["paused"]


def test_a_cluster_that_is_removed_has_neither_schedule_nor_record(fleet):
    shop, blog = fleet.sites
    at("add", shop)
    at("add", blog)
    assert at("remove", shop, "--yes").exit_code == 0
    assert list(listed()) == [blog]
    with pytest.raises(fleet.client("scheduler").exceptions.ResourceNotFoundException):
        schedule_of(fleet, shop)
    again = at("remove", shop, "--yes")
    assert again.exit_code == 2
    assert_wording(again.stderr, shop=shop)


def test_the_list_shows_each_cluster_by_its_last_decision_and_who_is_late(fleet, monkeypatch):
    shop, blog = fleet.sites
    at("add", shop)
    at("add", blog)
    fleet.reconcile({"cluster": shop})
    rows = listed()
    assert (rows[shop]["level"], rows[shop]["target"], rows[shop]["troubled"]) == ("normal", 2, False)
    assert (rows[blog]["decided_at"], rows[blog]["troubled"]) == (None, False)
    monkeypatch.setattr("nodefleet_tools.cli.connections.utc_now", lambda: fleet.clock() + timedelta(minutes=7))
    assert set(listed("--troubled")) == {shop, blog}
    shown = at("list").stdout
    assert_wording(shown.splitlines()[-1])


def test_one_page_shows_all_clusters_and_opens_one(fleet, monkeypatch):
    shop, blog = fleet.sites
    at("add", shop)
    at("add", blog)
    fleet.reconcile({"cluster": shop})
    seen = {}

    def shown(page):
        page.source.poll_once()
        seen["rows"] = json.loads(page.source.updates(0, 0)[1])["clusters"]
        seen["link"] = page.source.command({"kind": "open", "cluster": shop}, "ann")
        seen["home"] = page.home

    monkeypatch.setattr(Dashboard, "serve", lambda page: shown(page) if page.home != "index.html" else None)
    done = CliRunner().invoke(main.app, ["dashboard", "--all", "--no-browser"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    rows = {row["name"]: row for row in seen["rows"]}
    assert (rows[shop]["state"], rows[shop]["target"], rows[shop]["usd"]) == ("normal", 2, 0)
    assert (rows[blog]["state"], rows[blog]["age"]) == ("new", None)
    assert seen["link"].startswith("http://127.0.0.1:")


def test_a_cluster_without_a_deployment_record_is_refused(fleet):
    done = at("add", "shop-nobody-knows")
    assert done.exit_code == 2
    assert_wording(done.stderr)


def test_a_cluster_whose_id_the_fleet_s_role_does_not_cover_is_refused(fleet):
    done = at("add", "blog")
    assert done.exit_code == 2
    assert "shop-" in done.stderr


def test_a_table_of_a_single_cluster_says_what_is_missing(fleet):
    shop, _ = fleet.sites
    fleet.client("dynamodb").delete_item(
        TableName=fleet.table, Key={"cluster_id": {"S": "@all"}, "record": {"S": "state#stack#fleet"}}
    )
    done = at("add", shop)
    assert done.exit_code == 2
    assert "autoscaler.fleet" in done.stderr


def test_ticks_of_many_clusters_are_spread_over_the_interval():
    every = timedelta(minutes=2)
    seconds = [int(first_tick(f"cluster-{number}", every).total_seconds()) for number in range(1000)]
    at_once = [sum(begin <= second < begin + 10 for second in seconds) for begin in range(0, 120, 10)]
    assert max(at_once) < 2 * 1000 / 12
    assert min(at_once) > 0.5 * 1000 / 12


def test_one_report_sums_the_week_of_all_clusters_and_names_those_that_cannot_be_read(fleet):
    shop, blog = fleet.sites
    at("add", shop)
    at("add", blog)
    fleet.client("dynamodb").put_item(
        TableName=fleet.table,
        Item={"cluster_id": {"S": blog}, "record": {"S": "state#policy"}, "body": {"S": "not JSON"}},
    )
    done = CliRunner().invoke(main.app, ["report", "--all", "--json"], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [each["cluster"] for each in found["clusters"]] == [shop]
    assert list(found["unreadable"]) == [blog]
    shown = CliRunner().invoke(main.app, ["report", "--all"], env={"COLUMNS": "200"}).stdout
    assert "1 cluster: 0.00 USD" in shown
