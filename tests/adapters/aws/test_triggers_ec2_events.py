from datetime import UTC, datetime, timedelta

import pytest

from nodefleet.adapters.aws.triggers import NO_EVENTS, InstanceEvents, read_events
from nodefleet.errors import MalformedError
from nodefleet.model.inventory import Notice, NoticeKind
from support.builders import NOON, after

SPOT_WARNING = "EC2 Spot Instance Interruption Warning"
REBALANCE = "EC2 Instance Rebalance Recommendation"
STATE_CHANGE = "EC2 Instance State-change Notification"
HEALTH = "AWS Health Event"
LIFECYCLE = "EC2 Instance-terminate Lifecycle Action"


def event(kind, detail, source="aws.ec2", time="2026-11-16T11:59:30Z", **changes):
    base = {
        "version": "0",
        "id": "1e5527d7-bb36-4607-3370-4164db56a40e",
        "detail-type": kind,
        "source": source,
        "account": "123456789012",
        "time": time,
        "region": "us-east-1",
        "resources": ["arn:aws:ec2:us-east-1b:instance/i-0fffffffffffffff0"],
        "detail": detail,
    }
    return base | changes


def spot_warning(**changes):
    detail = {"instance-id": "i-0b662ef9931388ba0", "instance-action": "terminate"}
    return event(SPOT_WARNING, detail) | changes


def health(*entities, **changes):
    detail = {
        "eventArn": "arn:aws:health:region::event/id",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_DEDICATED_HOST_NETWORK_MAINTENANCE_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "startTime": "Wed, 18 Nov 2026 15:10:09 GMT",
        "affectedEntities": list(entities) or [{"entityValue": "i-12345678", "tags": {"stage": "prod"}}],
    }
    return event(HEALTH, detail | changes, source="aws.health")


def notice(kind, instance, at):
    return Notice(instance=instance, kind=kind, at=at)


# What another project's handler does with the same shapes: which instances, and whether it acts on them.
SHAPES = {
    "spot interruption warning": (spot_warning(time="1970-01-01T00:00:00Z"), ("i-0b662ef9931388ba0",), True),
    "spot interruption warning without time": (spot_warning(time=""), ("i-0b662ef9931388ba0",), True),
    "rebalance recommendation": (event(REBALANCE, {"instance-id": "i-0b662e"}), ("i-0b662e",), True),
    "state change pending": (event(STATE_CHANGE, {"instance-id": "i-ab", "state": "pending"}), ("i-ab",), False),
    "state change running": (event(STATE_CHANGE, {"instance-id": "i-ab", "state": "running"}), ("i-ab",), False),
    "state change stopping": (event(STATE_CHANGE, {"instance-id": "i-ab", "state": "stopping"}), ("i-ab",), True),
    "state change stopped": (event(STATE_CHANGE, {"instance-id": "i-ab", "state": "stopped"}), ("i-ab",), True),
    "shutting-down": (event(STATE_CHANGE, {"instance-id": "i-ab", "state": "shutting-down"}), ("i-ab",), True),
    "state change terminated": (event(STATE_CHANGE, {"instance-id": "i-ab", "state": "terminated"}), ("i-ab",), True),
    "AWS Health scheduled change": (health(), ("i-12345678",), True),
    "AWS Health, not scheduledChange": (health(eventTypeCategory="issue"), (), False),
    "AWS Health, not EC2": (health(service="RDS"), (), False),
    "ASG terminate lifecycle": (event(LIFECYCLE, {"EC2InstanceId": "i-06"}, source="aws.autoscaling"), (), False),
    "ASG test notification": (event(LIFECYCLE, {"Event": "TEST"}, source="aws.autoscaling"), (), False),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_whom_an_event_concerns_and_whether_it_is_urgent(shape):
    sent, instances, urgent = SHAPES[shape]
    told = read_events(sent, NOON)
    assert (told.instances, told.urgent) == (instances, urgent)


def test_a_spot_warning_counts_from_when_it_was_given():
    expected = notice(NoticeKind.SPOT_INTERRUPTION, "i-0b662ef9931388ba0", after(-30))
    assert read_events(spot_warning(), NOON) == InstanceEvents(
        notices=(expected,), instances=("i-0b662ef9931388ba0",), region="us-east-1", urgent=True
    )


def test_the_instance_is_read_from_the_detail_never_from_the_arn():
    assert read_events(spot_warning(resources=[]), NOON).instances == ("i-0b662ef9931388ba0",)


@pytest.mark.parametrize("action", ["terminate", "stop", "hibernate"])
def test_whatever_ec2_does_with_it_the_machine_goes(action):
    detail = {"instance-id": "i-1", "instance-action": action}
    assert read_events(event(SPOT_WARNING, detail), NOON).notices[0].kind is NoticeKind.SPOT_INTERRUPTION


def test_a_rebalance_recommendation_is_a_notice_of_its_own_kind():
    told = read_events(event(REBALANCE, {"instance-id": "i-1"}), NOON)
    assert told.notices == (notice(NoticeKind.REBALANCE, "i-1", after(-30)),)


@pytest.mark.parametrize("state", ["stopping", "stopped", "shutting-down", "terminated", "pending"])
def test_a_state_change_makes_no_notice(state):
    assert read_events(event(STATE_CHANGE, {"instance-id": "i-1", "state": state}), NOON).notices == ()


@pytest.mark.parametrize(
    "time",
    ["", None, 7, "soon", "2026-11-16T11:59:30", "1970-01-01T00:00:00Z", "2026-11-16T12:00:01Z", "9" * 40],
)
def test_a_time_that_is_missing_or_cannot_be_is_now(time):
    assert read_events(spot_warning(time=time), NOON).notices[0].at == NOON


@pytest.mark.parametrize(("age", "kept"), [(timedelta(days=1), True), (timedelta(days=1, seconds=1), False)])
def test_an_event_is_at_most_a_day_old(age, kept):
    told = read_events(spot_warning(time=(NOON - age).isoformat()), NOON)
    assert told.notices[0].at == (NOON - age if kept else NOON)


def test_a_late_event_keeps_its_own_time():
    assert read_events(spot_warning(time="2026-11-16T06:00:00Z"), NOON).notices[0].at == NOON - timedelta(hours=6)


# ── AWS Health ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("start", "at"),
    [
        ("Wed, 18 Nov 2026 15:10:09 GMT", datetime(2026, 11, 18, 15, 10, 9, tzinfo=UTC)),
        ("2026-11-18T15:10:09Z", datetime(2026, 11, 18, 15, 10, 9, tzinfo=UTC)),
        ("Sat, 05 Jun 2016 15:10:09 GMT", after(-30)),  # it has begun: the event's own time is later
        ("in two weeks", after(-30)),
        ("Wed, 18 Nov 99999999999999999999 15:10:09 GMT", after(-30)),
        (None, after(-30)),
    ],
)
def test_a_scheduled_change_counts_from_its_start_or_from_the_event_if_that_is_later(start, at):
    assert [one.at for one in read_events(health(startTime=start), NOON).notices] == [at]


def test_a_scheduled_change_concerns_every_instance_once_and_no_other_thing():
    entities = [{"entityValue": name} for name in ("i-1", "i-2", "i-1", "vol-1", "arn:aws:ec2:x:1:instance/i-3", 5)]
    told = read_events(health(*entities), NOON)
    assert told.instances == ("i-1", "i-2")
    assert {one.kind for one in told.notices} == {NoticeKind.SCHEDULED_CHANGE}


def test_a_change_that_is_over_or_called_off_is_withdrawn():
    closed = read_events(health(statusCode="closed"), NOON)
    assert closed.urgent
    assert closed.notices
    assert all(notice.withdrawn for notice in closed.notices)
    done = health({"entityValue": "i-1", "status": "RESOLVED"}, {"entityValue": "i-2", "status": "PENDING"})
    assert [(each.instance, each.withdrawn) for each in read_events(done, NOON).notices] == [
        ("i-1", True),
        ("i-2", False),
    ]


def test_a_change_says_when_it_was_told_and_by_which_event():
    (notice, *_) = read_events(health(), NOON).notices
    assert notice.told_at == after(-30)
    assert notice.event == "arn:aws:health:region::event/id"
    assert read_events(health(eventArn=None), NOON).notices[0].event == ""


def test_a_change_of_volumes_only_is_not_urgent():
    assert read_events(health({"entityValue": "vol-1"}), NOON) == NO_EVENTS


# ── what cannot be understood ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({}, "The event has no source"),
        (None, "The event is not an object but NoneType"),
        ([], "not an object but list"),
        ("spot", "not an object but str"),
        (spot_warning(source=5), "no source"),
        (spot_warning(**{"detail-type": None}), "no detail-type"),
        (spot_warning(detail=None), "Its detail is not an object"),
        (spot_warning(detail={}), "no instance-id"),
        (event(SPOT_WARNING, {"instance-id": ["i-1"]}), "no instance-id"),
        (event(SPOT_WARNING, {"instance-id": "arn:aws:ec2:x:1:instance/i-1"}), "is no instance id"),
        (event(SPOT_WARNING, {"instance-id": "i-1/../2"}), "is no instance id"),
        (event(STATE_CHANGE, {"instance-id": "i-1"}), "no state"),
        (event(STATE_CHANGE, {"instance-id": "i-1", "state": "dreaming"}), "'dreaming' is no state"),
        (health(affectedEntities=None), "^The scheduled change names no affectedEntities$"),
        (health("i-1"), "^An affected entity is not an object but str$"),
        (health() | {"detail": None}, "^Its detail is not an object but NoneType$"),
        (health() | {"detail": []}, "^Its detail is not an object but list$"),
    ],
)
def test_what_cannot_be_understood_says_why(sent, why):
    with pytest.raises(MalformedError, match=why):
        read_events(sent, NOON)


@pytest.mark.parametrize(
    "sent",
    [
        event("EC2 Fleet Instance Change", {}, source="aws.ec2fleet"),
        event("EBS Volume Notification", None),
        event(SPOT_WARNING, {"instance-id": "i-1"}, source="my.app"),
        event("AWS Health Abuse Event", {}, source="aws.health"),
    ],
)
def test_what_is_about_something_else_says_nothing(sent):
    assert read_events(sent, NOON) == NO_EVENTS
