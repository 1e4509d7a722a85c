"""How urgent news is."""

import pytest

from nodefleet.model.alerts import CRITICAL, AlertKind, Severity
from nodefleet.model.state import Level
from nodefleet.notifications.incoming import AlarmState, highest_severity, severity_of
from support.message_examples import OF_A_KIND, alarm, event


@pytest.mark.parametrize("kind", OF_A_KIND)
def test_every_kind_has_its_urgency(kind):
    assert severity_of(OF_A_KIND[kind]) in Severity


def test_critical_kinds_are_those_on_which_somebody_has_to_act_now():
    act = {kind for kind in AlertKind if severity_of(event(kind)) is Severity.CRITICAL}
    assert act == CRITICAL


@pytest.mark.parametrize(
    ("state", "wanted"),
    [(AlarmState.ALARM, Severity.CRITICAL), (AlarmState.NO_DATA, Severity.WARNING), (AlarmState.OK, Severity.OVER)],
)
def test_an_alarm_is_as_urgent_as_its_state(state, wanted):
    assert severity_of(alarm(state=state)) is wanted


def test_without_ec2_or_kubernetes_a_person_is_needed_now():
    assert severity_of(event(AlertKind.DEGRADED, level=Level.PARTIAL)) is Severity.CRITICAL
    assert severity_of(event(AlertKind.DEGRADED, level=Level.DEGRADED)) is Severity.WARNING


def test_a_letter_is_as_urgent_as_the_worst_in_it():
    assert (
        highest_severity([event(AlertKind.SCALE_UP), event(AlertKind.AT_MAX), event(AlertKind.RECOVERED)])
        is Severity.WARNING
    )
