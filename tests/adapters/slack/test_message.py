"""What a message says."""

import json
from datetime import timedelta

import pytest

from nodefleet.adapters.slack.message import Links, build_message, cost, payload, size
from nodefleet.model.alerts import CATALOGUE, AlertKind
from nodefleet.model.snapshot import Deployment
from nodefleet.model.state import Level
from nodefleet.notifications.alarm_catalog import MEANINGS, alarm_text
from nodefleet.notifications.incoming import AlarmState, DeliveryLimits, NotificationForm
from support.message_examples import AT, LINKS, OF_A_KIND, alarm, event, later, several, single
from support.wording import assert_wording


def of(told, links=LINKS):
    return build_message(single(told), links, DeliveryLimits())


def many(*told, form=NotificationForm.MANY):
    return build_message(several(form, *told), LINKS, DeliveryLimits())


def facts(made):
    return {name: figure for name, figure in made.facts if figure}


# ── one event ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", OF_A_KIND)
def test_every_kind_has_words_and_its_text_is_not_changed(kind):
    made = of(OF_A_KIND[kind])
    assert CATALOGUE[kind].headline.split(":")[0] in made.headline
    assert made.body == OF_A_KIND[kind].text


def test_only_reports_leave_open_what_to_do():
    assert [kind for kind, spec in CATALOGUE.items() if not spec.todo] == [AlertKind.REPORT, AlertKind.DAILY]


def test_the_headline_names_cluster_and_pool():
    assert_wording(of(event(AlertKind.UNHEALTHY)).headline)
    assert_wording(of(event(AlertKind.UNHEALTHY, pool="")).headline)


@pytest.mark.parametrize(
    ("kind", "change", "headline"),
    [
        (AlertKind.SCALE_UP, 1, "Scale-up: 1 node more · shop / default"),
        (AlertKind.SCALE_UP, 2, "Scale-up: 2 nodes more · shop / default"),
        (AlertKind.SCALE_UP, 0, "Scale-up · shop / default"),
        (AlertKind.SCALE_DOWN, -1, "Scale-down: 1 node fewer · shop / default"),
        (AlertKind.UNHEALTHY, -1, "A node is unhealthy · shop / default"),
    ],
)
def test_scaling_says_by_how_many_nodes(kind, change, headline):
    assert of(event(kind, change=change)).headline == headline


@pytest.mark.parametrize(
    ("now", "change", "shown"),
    [
        (4, 1, "3 → 4"),
        (3, -1, "4 → 3"),
        (4, 0, "4"),
        (0, 0, "0"),
        (None, -1, "−1"),
        (None, 1, "+1"),
        (None, 2, "+2"),
        (None, 0, ""),
    ],
)
def test_how_many_nodes_there_are_now(now, change, shown):
    assert size(now, change) == shown


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (0.96, "≈ +$0.96 per day"),
        (-0.96, "≈ −$0.96 per day"),
        (1234.5, "≈ +$1,234.50 per day"),
        (0.004, "no change"),
        (-0.0, "no change"),
        (None, ""),
    ],
)
def test_what_it_costs_per_day(usd, shown):
    assert cost(usd) == shown


def test_a_cost_that_is_not_known_is_left_out():
    assert facts(of(event(nodes=4, change=1))) == {"Nodes": "3 → 4"}


def test_a_level_that_is_not_normal_is_named_once():
    assert facts(of(event(level=Level.RECOVERY))) == {"Level": "recovery"}
    assert facts(of(event(AlertKind.DEGRADED, level=Level.PARTIAL))) == {}


def test_a_dry_run_is_marked_three_times_and_asks_for_nothing():
    made = of(event(AlertKind.INTERRUPTED, dry=True))
    assert_wording(made.headline)
    assert_wording(made.mark)
    assert made.todo.startswith("Nothing. ")
    assert "dry_run" in made.todo
    assert of(event(AlertKind.INTERRUPTED)).mark == ""


def test_the_sign_tells_how_urgent_it_is():
    signs = [
        of(event(kind)).sign for kind in (AlertKind.QUOTA, AlertKind.AT_MAX, AlertKind.SCALE_UP, AlertKind.RECOVERED)
    ]
    assert signs == ["🔴", "🟠", "🔵", "🟢"]


def test_links_lead_to_the_dashboard_and_the_logs():
    made = of(event(), Links(dashboard="https://d", logs="https://l"))
    assert [(link.words, link.url) for link in made.links] == [("Dashboard", "https://d"), ("Logs", "https://l")]


def test_links_come_from_the_deployment_if_there_is_one():
    assert Links.of(Deployment(cluster="shop", dashboard="https://d", logs="https://l")) == Links(
        dashboard="https://d", logs="https://l"
    )
    assert Links.of(None) == Links()


# ── alarms ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("node-fleet-prod-no-invocation", "no-invocation"),
        ("NodeFleet/dev/No_Invocation", "no-invocation"),
        ("shop-at-max-web", "at-max"),
        ("no-invocation", "no-invocation"),
    ],
)
def test_an_alarm_is_known_by_a_part_of_its_name(name, key):
    assert alarm_text(name) is MEANINGS[key]


@pytest.mark.parametrize("name", ["chat-maximum", "checkout-errors", "", "что-то"])
def test_other_alarms_are_not_taken_for_ours(name):
    assert alarm_text(name) is None


@pytest.mark.parametrize("key", MEANINGS)
def test_every_meaning_reaches_its_own_alarm(key):
    made = of(alarm(f"node-fleet-dev-{key}"))
    assert (made.body, made.todo) == (MEANINGS[key].says, MEANINGS[key].todo)


def test_an_unknown_alarm_is_told_by_its_description():
    made = of(alarm("checkout-errors", description="Checkouts fail. https://wiki.example/x"))
    assert_wording(made.body)
    assert_wording([link.words for link in made.links])


def test_an_alarm_of_prometheus_is_not_looked_for_in_cloudwatch():
    made = of(
        alarm("node-fleet-dev-shop-web-0-queue-growing", source="Prometheus", console="", reason="31 in a minute")
    )
    assert_wording(made.details)
    assert "CloudWatch" not in json.dumps(payload(made))


def test_an_alarm_without_any_description_still_says_what_was_measured():
    made = of(alarm("checkout-errors", rule="Average of Errors > 2 within 5 min"))
    assert_wording(made.body)
    assert_wording(facts(made)["Rule"])


def test_an_alarm_that_is_over_says_so_and_asks_for_nothing():
    made = of(alarm(state=AlarmState.OK))
    assert_wording((made.sign, made.headline))
    assert_wording(made.body)
    assert made.todo == "Nothing."


def test_an_alarm_without_data_is_neither():
    made = of(alarm(state=AlarmState.NO_DATA))
    assert_wording((made.sign, made.headline))


def test_an_alarm_names_the_cluster_and_the_pool_if_it_knows_them():
    assert facts(of(alarm(pool="web")))["Cluster"] == "shop / web"
    assert "Cluster" not in facts(of(alarm(cluster="")))


# ── several ──────────────────────────────────────────────────────────────────────────────────────────────────────


def ups(count, **changes):
    return [
        event(id=str(i), text=f"step {i}", at=later(i), nodes=4 + i, change=1, usd_per_day=0.5, **changes)
        for i in range(count)
    ]


def test_a_flood_is_counted_and_the_first_few_are_told():
    made = many(*ups(5))
    assert made.headline == "5 × Scale-up · shop / default"
    assert made.details == ("03:12:05 step 0", "03:13:05 step 1", "03:14:05 step 2", "… and 2 more")
    assert (made.since, made.until) == (AT, AT + timedelta(minutes=4))


def test_a_flood_adds_up_nodes_and_cost():
    assert facts(many(*ups(4))) == {"Nodes": "3 → 7", "Cost": "≈ +$2.00 per day"}


def test_a_sum_with_an_unknown_part_is_unknown():
    assert "Cost" not in facts(many(*ups(4), event(id="x")))


def test_pools_are_not_added_up_to_one_size():
    made = many(*ups(2), *ups(2, pool="web"))
    assert facts(made)["Nodes"] == "+4"
    assert made.headline == "4 × Scale-up · shop"
    assert_wording(made.details[0])


def test_of_what_stands_out_more_is_told():
    flood = [event(AlertKind.INTERRUPTED, f"node {i}", id=str(i)) for i in range(12)]
    assert len(many(*flood).details) == 11
    assert many(*flood).details[-1] == "… and 2 more"


def test_many_dry_runs_are_marked_too():
    made = many(*ups(4, dry=True))
    assert_wording((made.headline, made.mark))


def test_several_alarms_are_told_by_name():
    made = many(alarm("a"), alarm("b"), alarm("c"), alarm("d"))
    assert_wording(made.headline)
    assert_wording(made.details[0])


def test_a_mixed_letter_counts_the_kinds_most_of_them_first():
    made = many(
        event(AlertKind.UNHEALTHY), event(id="1"), event(id="2"), event(id="3", dry=True), form=NotificationForm.MIXED
    )
    assert_wording(made.details)
    assert made.sign == "🟠"


def test_old_events_are_counted_but_what_stands_out_is_told():
    made = many(*ups(3), event(AlertKind.QUOTA, "quota reached"), form=NotificationForm.OLD)
    assert_wording(made.headline)
    assert_wording(made.details)
    assert_wording(many(event(), form=NotificationForm.OLD).headline)
