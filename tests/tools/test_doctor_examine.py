"""Running checks: all at once, in their order, each bounded, and no failure spoils another."""

import time
from datetime import timedelta
from threading import Barrier, Event

import pytest

from nodefleet.errors import DeniedError, MisconfiguredError, UnavailableError
from nodefleet.model.serialization import ValidationError, ValidationIssue
from nodefleet_tools.doctor.context import Fact
from nodefleet_tools.doctor.examine import examine
from nodefleet_tools.doctor.findings import Check, UnknownError, Verdict, fine, hint, wrong
from support.wording import assert_wording

SHORT = timedelta(milliseconds=100)
DENIED = DeniedError("IAM", "GetRole: AccessDenied", "Allow iam:GetRole to the autoscaler's role")


def check(look, *, name="check", needed=True):
    return Check(name=name, look=look, needed=needed)


def raising(problem):
    def look():
        raise problem
        yield

    return look


def only(each, limit=timedelta(seconds=5)):
    (checked,) = examine([each], limit)
    return checked.findings


def test_the_order_of_checks_is_kept_whichever_is_done_first():
    slow_may_go = Event()

    def slow():
        assert slow_may_go.wait(5)
        yield fine("slow")

    def quick():
        slow_may_go.set()
        yield fine("quick")

    found = list(examine([check(slow, name="first"), check(quick, name="second")]))
    assert [(each.name, each.findings[0].found) for each in found] == [("first", "slow"), ("second", "quick")]


def test_checks_are_made_at_the_same_time():
    both = Barrier(2, timeout=5)

    def meets():
        both.wait()
        yield fine("met")

    assert all(each.findings == (fine("met"),) for each in examine([check(meets), check(meets)]))


def test_what_does_not_answer_is_not_waited_for_and_the_others_are_told():
    never = Event()

    def hangs():
        never.wait(5)
        yield fine("too late")

    began = time.monotonic()
    late, good = examine([check(hangs), check(lambda: [fine("here")])], SHORT)
    never.set()
    assert time.monotonic() - began < 2
    assert late.findings == (wrong("no answer within 0.1 s", "See that it is reachable from here"),)
    assert good.findings == (fine("here"),)


@pytest.mark.parametrize(
    ("problem", "needed", "finding"),
    [
        (DENIED, True, wrong("IAM: GetRole: AccessDenied", "Allow iam:GetRole to the autoscaler's role")),
        (DENIED, False, hint("these credentials may not check it: IAM: GetRole: AccessDenied")),
        (UnknownError("the table cannot be read"), True, hint("not checked: the table cannot be read")),
        (MisconfiguredError("no region"), False, wrong("no region", "")),
        (UnavailableError("EC2", "timed out"), True, wrong("EC2: timed out", "")),
        (UnavailableError("EC2", "timed out"), False, hint("EC2: timed out")),
        (
            ValidationError([ValidationIssue(path="limits.max", value=0, wrong="is too low", right="1 or more")]),
            True,
            wrong("limits.max is too low", "1 or more"),
        ),
        (KeyError("Quota"), False, wrong("the check itself failed: KeyError: 'Quota'", "Please report this")),
    ],
)
def test_a_check_that_fails_is_a_finding(problem, needed, finding):
    assert only(check(raising(problem), needed=needed)) == (finding,)


def test_what_was_found_before_a_failure_counts():
    def half():
        yield fine("so far")
        raise UnavailableError("EC2", "timed out")

    assert [finding.verdict for finding in only(check(half))] == [Verdict.FINE, Verdict.WRONG]


def test_a_check_without_findings_says_so():
    assert only(check(list)) == (hint("there was nothing to check"),)


def test_only_what_is_wrong_makes_a_check_wrong():
    (hinted,) = examine([check(lambda: [fine("a"), hint("b")])])
    (broken,) = examine([check(lambda: [fine("a"), wrong("b", "c")])])
    assert (hinted.is_wrong, broken.is_wrong) == (False, True)


# ── facts ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fact_is_found_out_once():
    asked = []
    fact = Fact("not known", lambda: asked.append(1) or len(asked))
    assert [fact.found(), fact.needed(), fact.or_else(None)] == [1, 1, 1]


def test_a_fact_that_cannot_be_had_is_told_once_and_unknown_to_the_others():
    asked = []

    def find():
        asked.append(1)
        raise UnavailableError("DynamoDB", "timed out")

    fact = Fact("the table cannot be read", find)
    with pytest.raises(UnavailableError):
        fact.found()
    with pytest.raises(UnknownError) as caught:
        fact.needed()
    assert_wording(str(caught.value))
    assert fact.or_else("instead") == "instead"
    assert len(asked) == 1
