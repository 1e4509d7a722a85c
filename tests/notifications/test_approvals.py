"""A question in Slack: who may answer, until when, and that every step may be repeated."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from nodefleet.errors import DeniedError, UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.snapshot import Drain
from nodefleet.notifications.approvals import (
    NO,
    YES,
    Answer,
    Approval,
    Approver,
    Settled,
    ask,
    instances_to_approve,
    settle,
)
from nodefleet.notifications.incoming import DeliveryLimits, IncomingItem, Notification, NotificationForm
from support.message_examples import AT, alarm, event, single
from support.notifying_fakes import Crash, Notes
from support.wording import assert_wording

LIMITS = DeliveryLimits()
ANNA, BEN, EVE = "U0ANNA", "U0BEN", "U0EVE"
UNOWNED = event(AlertKind.CLEANUP_NEEDS_OPERATOR, pool="", subjects=("i-1", "i-2"), id="e1")
OPEN = Approval(
    id="e1", cluster="shop", instances=("i-1", "i-2"), message="7.1", asked=AT, until=AT + timedelta(hours=4)
)
SOON = AT + timedelta(minutes=1)


# ── which messages ask ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_message_about_unowned_workers_asks_about_each_until_the_question_ends():
    assert ask(single(UNOWNED), "7.1", AT, LIMITS) == OPEN
    assert OPEN.until - OPEN.asked == LIMITS.approval


@pytest.mark.parametrize(
    "told",
    [
        replace(UNOWNED, dry=True),
        replace(UNOWNED, pool="default"),  # remains of a pool: there is no command for them
        replace(UNOWNED, subjects=()),
        replace(UNOWNED, kind=AlertKind.DRAIN_BLOCKED),
        replace(UNOWNED, subjects=tuple(f"i-{number}" for number in range(LIMITS.approval_workers + 1))),
        alarm(),
    ],
)
def test_no_other_message_asks(told):
    assert instances_to_approve(single(told), LIMITS) == ()


def test_a_message_that_folds_several_does_not_ask():
    news = (IncomingItem(receipt="1", told=UNOWNED), IncomingItem(receipt="2", told=UNOWNED))
    assert instances_to_approve(Notification(form=NotificationForm.MANY, news=news), LIMITS) == ()


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reactions", "at", "answer"),
    [
        ({}, SOON, None),
        ({YES: [EVE]}, SOON, None),
        ({NO: [EVE]}, SOON, None),
        ({"thumbsup": [ANNA]}, SOON, None),
        ({YES: [EVE, ANNA]}, SOON, Settled(answer=Answer.APPROVED, by=ANNA)),
        ({YES: [BEN, ANNA]}, SOON, Settled(answer=Answer.APPROVED, by=ANNA)),
        ({YES: [ANNA], NO: [BEN]}, SOON, Settled(answer=Answer.DENIED, by=BEN)),
        ({YES: [ANNA], NO: [EVE]}, SOON, Settled(answer=Answer.APPROVED, by=ANNA)),
        ({YES: [ANNA]}, OPEN.until - timedelta(seconds=1), Settled(answer=Answer.APPROVED, by=ANNA)),
        ({YES: [ANNA]}, OPEN.until, Settled(answer=Answer.EXPIRED)),
        (None, SOON, Settled(answer=Answer.WITHDRAWN)),
    ],
)
def test_only_approvers_answer_and_only_before_the_end(reactions, at, answer):
    assert settle(OPEN, reactions, (ANNA, BEN), at) == answer


# ── carrying it out ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class World:
    """Slack, the table and its commands. `dies` ends the process right after that many writes."""

    reactions: dict[str, list[str]] | None = field(default_factory=dict)
    stands: list[Approval] = field(default_factory=lambda: [OPEN])
    commands: dict[str, Drain] = field(default_factory=dict)
    events: dict[str, object] = field(default_factory=dict)
    clusters: set[str] = field(default_factory=set)
    replies: list[tuple[str, str]] = field(default_factory=list)
    away: dict[str, Exception] = field(default_factory=dict)
    asked: int = 0
    dies: int = 99

    def all(self):
        return tuple(self.stands)

    def drop(self, approval):
        self.write()
        self.stands = [each for each in self.stands if each != approval]

    def of(self, message):
        self.asked += 1
        if message in self.away:
            raise self.away[message]
        return self.reactions

    def reply(self, message, text):
        if "reply" in self.away:
            raise self.away["reply"]
        self.replies.append((message, text))

    def order(self, command, told):
        self.write()
        self.commands[command.instance] = command
        self.events.setdefault(told.id, told)

    def write(self):
        if not self.dies:
            raise Crash
        self.dies -= 1

    def at(self, cluster):
        self.clusters.add(cluster)
        return self

    def poll(self, now=SOON):
        notes = Notes()
        approver = Approver(
            approvals=self, reactions=self, orders=self.at, approvers=(ANNA, BEN), limits=LIMITS, telemetry=notes
        )
        return approver.poll(now), notes


def test_an_approval_orders_the_drain_of_each_worker_in_the_approvers_name():
    world = World(reactions={YES: [ANNA]})
    settled, _ = world.poll()
    assert settled == {"approved": ["e1"]}
    assert set(world.commands) == {"i-1", "i-2"}
    assert world.clusters == {"shop"}
    (by,) = {each.by for each in world.commands.values()}
    assert by.split()[-1] == ANNA
    assert_wording(by)
    assert all(each.until > OPEN.until for each in world.commands.values())
    assert [each.kind for each in world.events.values()] == [AlertKind.HANDED_OVER] * 2
    assert all(ANNA in each.text and each.cluster == "shop" for each in world.events.values())
    assert not world.stands
    ((message, text),) = world.replies
    assert message == "7.1"
    assert f"<@{ANNA}>" in text


@pytest.mark.parametrize(
    ("reactions", "at", "answer", "replies"),
    [
        ({NO: [BEN]}, SOON, "denied", 1),
        ({YES: [ANNA]}, OPEN.until, "expired", 1),
        (None, SOON, "withdrawn", 0),
    ],
)
def test_every_other_answer_orders_nothing_and_ends_the_question(reactions, at, answer, replies):
    world = World(reactions=reactions)
    settled, _ = world.poll(at)
    assert settled == {answer: ["e1"]}
    assert not world.commands
    assert not world.events
    assert not world.stands
    assert len(world.replies) == replies


def test_a_question_without_an_answer_stands():
    world = World(reactions={YES: [EVE]})
    assert world.poll()[0] == {}
    assert world.stands == [OPEN]
    assert not world.commands


def test_a_second_press_changes_nothing():
    world = World(reactions={YES: [ANNA]})
    world.poll()
    before = dict(world.commands)
    world.reactions = {YES: [ANNA, BEN], NO: [BEN]}
    assert world.poll(SOON + timedelta(minutes=2))[0] == {}
    assert world.commands == before
    assert len(world.replies) == 1


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_run_that_dies_anywhere_is_carried_on_with_the_same_commands_and_one_event_each(writes):
    whole = World(reactions={YES: [ANNA]})
    whole.poll()
    world = World(reactions={YES: [ANNA]}, dies=writes)
    with pytest.raises(Crash):
        world.poll()
    assert world.stands == [OPEN]
    world.dies = 99
    world.poll(SOON + timedelta(minutes=2))
    assert world.commands == whole.commands
    assert world.events == whole.events
    assert not world.stands


def test_without_slack_the_question_stands():
    world = World(reactions={YES: [ANNA]}, away={"7.1": UnavailableError("Slack", "HTTP 503")})
    settled, notes = world.poll()
    assert settled == {}
    assert len(notes.warned) == 1
    assert world.stands == [OPEN]
    assert not world.commands


def test_one_questions_trouble_keeps_no_other_from_its_answer():
    other = replace(OPEN, id="e2", message="8.1", instances=("i-3",))
    refused = DeniedError("Slack", "missing_scope", "add it")
    world = World(reactions={YES: [ANNA]}, stands=[OPEN, other], away={"7.1": refused})
    with pytest.raises(DeniedError):
        world.poll()
    assert set(world.commands) == {"i-3"}
    assert world.stands == [OPEN]


def test_after_the_end_slack_is_not_asked_and_its_absence_keeps_nothing_open():
    world = World(reactions={YES: [ANNA]}, away={"7.1": UnavailableError("Slack", "HTTP 503")})
    assert world.poll(OPEN.until)[0] == {"expired": ["e1"]}
    assert world.asked == 0


def test_an_outcome_that_slack_does_not_take_is_carried_out_all_the_same():
    world = World(reactions={YES: [ANNA]}, away={"reply": UnavailableError("Slack", "HTTP 503")})
    settled, notes = world.poll()
    assert settled == {"approved": ["e1"]}
    assert len(notes.warned) == 1
    assert not world.stands
