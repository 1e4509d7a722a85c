"""The weekly report as Lambda calls it: which week, told once, errors not swallowed."""

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from nodefleet import bootstrap
from nodefleet.errors import MalformedError, UnavailableError
from nodefleet.handlers import FUNCTION
from nodefleet.handlers.report import handler
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import PolicyVersion
from nodefleet.policy.loading import digest_of
from nodefleet.ports import State
from nodefleet.settings import Settings
from support.week_builders import CATALOG, MONDAY, NINE, TUNED, hours, told, used
from support.wording import assert_wording

BERLIN_MONDAY = datetime(2026, 11, 16, 8, 0, 30, tzinfo=UTC)  # nine o'clock there


@dataclass
class Table:
    """A history and a store that keeps each event once."""

    hours: tuple = ()
    happened: tuple = ()
    broken: bool = False
    asked: list = field(default_factory=list)
    events: dict = field(default_factory=dict)

    def usage(self, since, until):
        self.asked.append((since, until))
        return tuple(each for each in self.hours if since <= each.hour < until)

    def events_between(self, since, until):
        self.asked.append((since, until))
        return tuple(each for each in self.happened if since <= each.at < until)

    def tell(self, event):
        if self.broken:
            raise UnavailableError("DynamoDB", "timed out")
        self.events.setdefault(event.id, event)


@pytest.fixture
def deployed(monkeypatch):
    """A deployment of two clusters with a table each; gives what it recorded and told."""
    tables = {"shop": Table(hours=hours((168, used(4, 2))), happened=(told(AlertKind.QUOTA),)), "blog": Table()}
    said, aside = [], []
    clock = {"now": NINE, "zone": "UTC"}

    def store_of(cluster):
        data = {"time_zone": clock["zone"]}
        policy = PolicyVersion(number=1, source="op", at=NINE, data=data, digest=digest_of(data))
        state = State(policy=policy, tuned=(TUNED,))
        return SimpleNamespace(state=lambda: state, tell=tables[cluster].tell)

    @contextmanager
    def telemetry(cluster, context):
        yield SimpleNamespace(line=lambda message, **fields: said.append((message, fields)))

    def set_aside(event, error, context):
        aside.append(error)
        return {"set_aside": str(error)}

    monkeypatch.setattr(FUNCTION, "store_of", store_of)
    monkeypatch.setattr(
        FUNCTION,
        "history_of",
        lambda cluster: SimpleNamespace(usage=tables[cluster].usage, events=tables[cluster].events_between),
    )
    monkeypatch.setattr(FUNCTION, "telemetry", telemetry)
    monkeypatch.setattr(bootstrap, "utc_now", lambda: clock["now"])
    monkeypatch.setattr("nodefleet.handlers.report.Ec2.catalog", lambda *_: CATALOG)
    monkeypatch.setattr(FUNCTION, "set_aside", set_aside)
    monkeypatch.setitem(FUNCTION.__dict__, "settings", Settings(table="t", clusters=tuple(tables)))
    return SimpleNamespace(tables=tables, said=said, aside=aside, clock=clock)


def test_the_schedule_tells_one_cluster_its_week(deployed):
    assert handler({"cluster": "shop"}, None) == {"told": ["report/shop/2026-W46"]}
    (event,) = deployed.tables["shop"].events.values()
    assert event.kind is AlertKind.REPORT
    assert_wording(event.text)
    assert_wording(event.details)
    assert deployed.tables["blog"].events == {}


def test_a_daily_line_is_about_yesterday_and_told_once(deployed):
    for _ in range(2):
        assert handler({"cluster": "shop", "daily": True}, None) == {"told": ["daily/shop/2026-11-15"]}
    (event,) = deployed.tables["shop"].events.values()
    assert (event.kind, event.details) == (AlertKind.DAILY, ())
    assert event.text.startswith("2026-11-15: 144 node-hours")
    start, end = datetime(2026, 11, 15, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC)
    assert set(deployed.tables["shop"].asked) == {(start, end)}


def test_the_day_is_the_policy_s_time_zone_s(deployed):
    deployed.clock.update(now=BERLIN_MONDAY, zone="Europe/Berlin")
    handler({"cluster": "shop", "daily": True}, None)
    start, end = datetime(2026, 11, 14, 23, tzinfo=UTC), datetime(2026, 11, 15, 23, tzinfo=UTC)
    assert deployed.tables["shop"].asked == [(start, end)] * 2


def test_a_day_without_a_record_says_so(deployed):
    handler({"cluster": "blog", "daily": True}, None)
    (event,) = deployed.tables["blog"].events.values()
    assert_wording(event.text)


def test_the_log_has_the_report_too(deployed):
    handler({"cluster": "shop"}, None)
    ((message, fields),) = deployed.said
    (event,) = deployed.tables["shop"].events.values()
    assert (message, fields["report"], fields["details"]) == (event.text, event.id, list(event.details))


def test_a_second_delivery_tells_nothing_new(deployed):
    handler({"cluster": "shop"}, None)
    handler({"cluster": "shop"}, None)
    assert len(deployed.tables["shop"].events) == 1


def test_the_week_is_the_policy_s_time_zone_s(deployed):
    deployed.clock.update(now=BERLIN_MONDAY, zone="Europe/Berlin")
    handler({"cluster": "shop"}, None)
    start, end = datetime(2026, 11, 8, 23, tzinfo=UTC), datetime(2026, 11, 15, 23, tzinfo=UTC)
    assert deployed.tables["shop"].asked == [(start, end)] * 2


def test_a_cluster_that_never_ran_hears_of_it(deployed):
    handler({"cluster": "blog"}, None)
    (event,) = deployed.tables["blog"].events.values()
    assert_wording(event.text)


@pytest.mark.parametrize("event", [None, {}, {"cluster": "nowhere"}, {"cluster": ["shop"]}, {"source": "aws.events"}])
def test_an_event_that_names_no_cluster_is_set_aside_and_not_retried(deployed, event):
    assert "set_aside" in handler(event, None)
    (error,) = deployed.aside
    assert isinstance(error, MalformedError)


def test_a_table_that_does_not_answer_fails_the_run_so_that_it_is_tried_again(deployed):
    deployed.tables["shop"].broken = True
    with pytest.raises(UnavailableError):
        handler({"cluster": "shop"}, None)
    assert deployed.said == []


def test_hours_of_other_weeks_are_not_in_it(deployed):
    deployed.tables["shop"].hours = hours((400, used(4, 2)), start=MONDAY)
    handler({"cluster": "shop"}, None)
    (event,) = deployed.tables["shop"].events.values()
    assert "1,008 node-hours" in event.text
