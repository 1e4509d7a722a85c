"""Alerts are sent once for each condition: what makes two alerts the same one, and when it is news again."""

import ast
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from nodefleet.model.alerts import CRITICAL, NEVER_HELD_BACK, AlertKind
from nodefleet.model.serialization import from_plain
from nodefleet.model.state import AlertRecord
from nodefleet.policy.cluster import Messages
from nodefleet.reconcile.unit_of_work import AlertDeduplicator, event_id, key_of
from support.builders import NOON, after
from support.wording import assert_wording

HOUR = 3600
RULES = Messages(
    remind_after=timedelta(hours=6), remind_critical=timedelta(hours=1), over_after=timedelta(minutes=15), most=5
)


class Alerts:
    """One alert after the other, as iterations send them; `sent` holds the times of those that were news."""

    def __init__(self, kind=AlertKind.AT_MAX, pool="default"):
        self.kind, self.pool = kind, pool
        self.said = {}
        self.sent = []
        self.texts = []

    def at(self, seconds, *subjects, text="x", **options):
        deduplicator = AlertDeduplicator.since(self.said, "shop", after(seconds), RULES)
        event = deduplicator.event(self.kind, self.pool, text, subjects, **options)
        self.said = deduplicator.records
        if event:
            self.sent.append(seconds)
            self.texts.append(event.text)
        return event is not None


def says(*seconds, kind=AlertKind.AT_MAX):
    alerts = Alerts(kind)
    return [alerts.at(moment) for moment in seconds]


def test_what_is_so_on_every_look_is_said_once():
    assert says(0, 120, 240, 360) == [True, False, False, False]


def test_what_is_still_so_after_hours_is_said_again():
    alerts = Alerts()
    for minutes in range(0, 725, 10):
        alerts.at(minutes * 60)
    assert alerts.sent == [0, 6 * HOUR, 12 * HOUR]


@pytest.mark.parametrize("kind", sorted(CRITICAL, key=lambda kind: kind.value))
def test_reminders_of_a_critical_condition_come_sooner(kind):
    alerts = Alerts(kind)
    for minutes in range(0, 185, 10):
        alerts.at(minutes * 60)
    assert alerts.sent == [0, HOUR, 2 * HOUR, 3 * HOUR]


def test_whoever_sends_it_may_know_that_it_is_critical():
    alerts = Alerts(AlertKind.DEGRADED)
    for minutes in range(0, 125, 10):
        alerts.at(minutes * 60, critical=True)
    assert alerts.sent == [0, HOUR, 2 * HOUR]


def test_what_comes_back_after_a_while_is_news():
    assert says(0, 899, 1799) == [True, False, True]


def test_what_flaps_is_not_news():
    assert says(0, 300, 600, 900) == [True, False, False, False]


def test_what_shows_only_on_attempts_lasts_in_between():
    alerts = Alerts(AlertKind.DRAIN_BLOCKED)
    for attempt in range(13):  # two hours apart, as after many failed drains
        alerts.at(attempt * 2 * HOUR, "budget shop/web")
    assert alerts.sent == [0, 6 * HOUR, 12 * HOUR, 18 * HOUR, 24 * HOUR]


def test_figures_and_names_in_the_text_do_not_matter():
    alerts = Alerts()
    assert alerts.at(0, text="At max: CPU 91.0 % > 70 %; shop/web-x2x4z waits")
    assert not alerts.at(120, text="At max: 7 pods need 2 more nodes; shop/web-b7k2q waits")


def test_a_new_subject_is_news_and_a_known_one_is_not():
    alerts = Alerts()
    assert alerts.at(0, "a")
    assert alerts.at(120, "a", "b")
    assert not alerts.at(240, "b", "a")
    assert not alerts.at(360, "b")
    assert not alerts.at(480, "a")


def test_new_alerts_of_a_kind_are_counted_since_the_first_of_them():
    alerts = Alerts()
    assert alerts.at(0, "a")
    assert alerts.at(300, "b")
    counted = alerts.said[key_of(AlertKind.AT_MAX.value, "default", "*")]
    assert counted == AlertRecord(told_at=NOON, seen_at=after(300), times=2)


def test_an_event_is_known_by_kind_pool_subjects_and_time():
    made = AlertDeduplicator.since({}, "shop", NOON, RULES).make_event(AlertKind.SCALE_DOWN, "p", "x", ("a", "b"))
    assert made.id == event_id("shop", key_of(AlertKind.SCALE_DOWN.value, "p", "a,b"), NOON)


def test_the_order_of_subjects_does_not_matter_for_the_event():
    one, other = (
        AlertDeduplicator.since({}, "shop", NOON, RULES).event(AlertKind.UNHEALTHY, "p", "x", s) for s in ("ab", "ba")
    )
    assert one.id == other.id


def test_pools_and_kinds_are_told_apart():
    keys = {key_of(kind, pool, "x") for kind in ("at-max", "sick") for pool in ("a", "b")}
    assert len(keys) == 4


def test_names_stay_the_same_from_release_to_release():
    """They are stored: after another rule every lasting condition would be told once more."""
    key = key_of("at-max", "default", "w1")
    assert key == "0a95759ee16cd393"
    assert event_id("shop", key, NOON) == "0a95759ee16cd393-9ca4bdb068ea"


def test_an_event_is_named_after_its_first_subject():
    event = AlertDeduplicator.since({}, "shop", NOON, RULES).event(AlertKind.UNHEALTHY, "p", "x", ("w2", "w1"))
    assert event.id == event_id("shop", key_of(AlertKind.UNHEALTHY.value, "p", "w1"), NOON)


def test_a_reminder_says_the_same_as_the_alert():
    alerts = Alerts()
    for minutes in range(0, 365, 10):
        alerts.at(minutes * 60, text="At max.")
    assert alerts.texts == ["At max."] * 2


def test_many_subjects_one_after_the_other_are_a_few_alerts():
    alerts = Alerts(AlertKind.CANNOT_HOLD)
    for minute in range(24 * 60):
        alerts.at(minute * 60, f"shop/{minute}")
    assert all(sum(start <= each < start + 6 * HOUR for each in alerts.sent) <= 5 for start in alerts.sent)
    assert len(alerts.sent) == 20
    assert len(alerts.said) <= 2 * 5 + 1


def test_the_last_alert_before_others_are_held_back_says_so():
    alerts = Alerts(AlertKind.CANNOT_HOLD)
    for minute in range(6):
        alerts.at(minute * 60, f"shop/{minute}")
    assert_wording(alerts.texts)


def test_what_is_held_back_is_sent_when_the_time_is_over():
    alerts = Alerts(AlertKind.CANNOT_HOLD)
    for minute in range(5):
        alerts.at(minute * 60, f"shop/{minute}")
    assert not alerts.at(6 * HOUR - 1, "shop/new")
    assert alerts.at(6 * HOUR, "shop/new")


def test_while_others_are_held_back_known_conditions_stay_known_and_are_reminded_of():
    alerts = Alerts(AlertKind.QUOTA)
    for minute in range(5):
        alerts.at(minute * 60, f"{minute}")
    assert not alerts.at(30 * 60, "0", "new")
    assert alerts.at(HOUR, "0")


@pytest.mark.parametrize("kind", sorted(NEVER_HELD_BACK, key=lambda kind: kind.value))
def test_what_happens_to_a_node_is_never_held_back(kind):
    alerts = Alerts(kind)
    assert all(alerts.at(number, f"w{number}") for number in range(100))


def test_a_condition_that_comes_and_goes_is_a_few_alerts_a_day():
    alerts = Alerts(AlertKind.AT_MAX)
    for number in range(72):
        alerts.at(number * 20 * 60)
    assert len(alerts.sent) == 20
    assert min(later - earlier for earlier, later in pairwise(alerts.sent)) >= 15 * 60


def test_what_is_long_over_is_forgotten():
    deduplicator = AlertDeduplicator.since({}, "shop", NOON, RULES)
    deduplicator.event(AlertKind.AT_MAX, "default", "x")
    assert AlertDeduplicator.since(deduplicator.records, "shop", after(6 * 3600 - 1), RULES).records
    assert not AlertDeduplicator.since(deduplicator.records, "shop", after(6 * 3600), RULES).records


def test_notes_on_nodes_follow_the_same_times():
    said, sent = {}, []
    for minutes in (0, 14, 28, 43, 60, 403):
        deduplicator = AlertDeduplicator.since(said, "shop", after(minutes * 60), RULES)
        sent += [minutes] if deduplicator.is_news("stay|w1|x") else []
        said = deduplicator.records
    assert sent == [0, 43, 60, 403]


def test_an_event_that_is_made_twice_in_a_look_is_one_event():
    first, again = (
        AlertDeduplicator.since({}, "shop", NOON, RULES).make_event(AlertKind.SCALE_UP, "default", "x")
        for _ in range(2)
    )
    assert first.id == again.id
    later = AlertDeduplicator.since({}, "shop", after(1), RULES).make_event(AlertKind.SCALE_UP, "default", "x")
    assert later.id != first.id


def test_every_alert_is_an_event():
    assert {alert.value for alert in AlertKind} <= {kind.value for kind in AlertKind}


def test_what_an_older_release_stored_is_still_read():
    plain = {"told_at": "2026-11-16T12:00:00+00:00", "seen_at": "2026-11-16T12:00:00+00:00"}
    assert from_plain(AlertRecord, plain) == AlertRecord(told_at=NOON, seen_at=NOON)


def test_whoever_sends_an_alert_says_what_it_is_about():
    """Without subjects, two conditions of one kind would be one. Where that is meant, it is written down."""
    shipped = Path(__file__).parents[2] / "lambda" / "nodefleet"
    silent = [
        f"{path.relative_to(shipped)}:{call.lineno}"
        for path in shipped.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Tell"
        if "subjects" not in {keyword.arg for keyword in call.keywords}
    ]
    assert silent == []


def test_an_alert_without_subjects_is_known_by_its_kind_and_pool_alone():
    alerts = Alerts()
    alerts.at(0)
    assert key_of(AlertKind.AT_MAX.value, "default", "") in alerts.said
