"""How urgent news is."""

import pytest

from message_examples import OF_A_KIND, alarm, event
from nodefleet.domain.events import CRITICAL, EventKind
from nodefleet.domain.memory import Level
from nodefleet.notifying.news import AlarmState
from nodefleet.notifying.weight import Urgency, most_urgent, urgency


@pytest.mark.parametrize("kind", OF_A_KIND)
def test_every_kind_has_its_urgency(kind):
    assert urgency(OF_A_KIND[kind]) in Urgency


def test_critical_kinds_are_those_on_which_somebody_has_to_act_now():
    act = {kind for kind in EventKind if urgency(event(kind)) is Urgency.ACT}
    assert act - {EventKind.ALARM} == CRITICAL


@pytest.mark.parametrize(
    ("state", "wanted"),
    [(AlarmState.ALARM, Urgency.ACT), (AlarmState.NO_DATA, Urgency.LOOK), (AlarmState.OK, Urgency.OVER)],
)
def test_an_alarm_is_as_urgent_as_its_state(state, wanted):
    assert urgency(alarm(state=state)) is wanted


def test_without_ec2_or_kubernetes_a_person_is_needed_now():
    assert urgency(event(EventKind.DEGRADED, level=Level.PARTIAL)) is Urgency.ACT
    assert urgency(event(EventKind.DEGRADED, level=Level.DEGRADED)) is Urgency.LOOK


def test_a_letter_is_as_urgent_as_the_worst_in_it():
    assert most_urgent([event(EventKind.SCALE_UP), event(EventKind.AT_MAX), event(EventKind.RECOVERED)]) is Urgency.LOOK
