"""Which notifications belong to one thread."""

from dataclasses import replace

import pytest

from nodefleet.model.alerts import CATALOGUE, AlertKind, Severity
from nodefleet.model.state import Level
from nodefleet.notifications.incoming import AlarmState, incident_of
from support.message_examples import alarm, event


def test_an_alarm_is_one_incident_from_its_ringing_to_its_end():
    rings, ends = incident_of([alarm()]), incident_of([alarm(state=AlarmState.OK)])
    assert rings.key == ends.key
    assert (rings.over, ends.over) == (False, True)
    assert incident_of([alarm(name="another")]).key != rings.key


def test_degraded_and_recovered_are_one_incident_whatever_the_level():
    degraded = incident_of([event(AlertKind.DEGRADED, subjects=("degraded",))])
    partial = incident_of([event(AlertKind.DEGRADED, subjects=("partial",), level=Level.PARTIAL)])
    recovered = incident_of([event(AlertKind.RECOVERED)])
    assert degraded.key == partial.key == recovered.key
    assert (degraded.over, recovered.over) == (False, True)


def test_a_reminder_belongs_to_what_it_reminds_of_and_another_node_does_not():
    first = event(AlertKind.DRAIN_BLOCKED, subjects=("w001",))
    later = replace(first, id="later", text="still")
    other = replace(first, subjects=("w002",))
    assert incident_of([first]).key == incident_of([later]).key
    assert incident_of([first]).key != incident_of([other]).key
    assert incident_of([first]).key != incident_of([replace(first, pool="blog")]).key


@pytest.mark.parametrize("kind", [kind for kind, spec in CATALOGUE.items() if spec.severity is Severity.INFO])
def test_what_is_no_trouble_stands_by_itself(kind):
    assert incident_of([event(kind)]) is None


def test_a_dry_run_has_no_incident():
    assert incident_of([event(AlertKind.AT_MAX, dry=True)]) is None


def test_a_crowd_is_an_incident_only_if_all_of_it_is_the_same_one():
    one, two = event(AlertKind.NO_CAPACITY, subjects=("a",)), event(AlertKind.NO_CAPACITY, subjects=("b",))
    assert incident_of([one, one]) == incident_of([one])
    assert incident_of([one, two]) is None
    assert incident_of([one, event(AlertKind.SCALE_UP)]) is None


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (event(AlertKind.AT_MAX), False),
        (event(AlertKind.QUOTA), True),
        (event(AlertKind.RECOVERED), True),
        (alarm(), True),
        (alarm(state=AlarmState.OK), True),
    ],
)
def test_what_is_critical_or_over_is_shown_in_the_channel_too(told, shown):
    assert incident_of([told]).in_channel is shown


def test_a_key_stays_short_however_many_subjects_there_are():
    assert len(incident_of([event(AlertKind.AT_MAX, subjects=tuple(f"node-{n}" for n in range(500)))]).key) < 100
