"""What operators hear of a decision: that the fleet changes and what it costs, and on a node why it cannot leave."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, Decision, KeepReason, KeptNode, PoolDecision
from nodefleet.model.fleet import Count, Phase
from nodefleet.model.inventory import Market
from nodefleet.model.operations import Create
from nodefleet.model.state import Level, LoopState, Memory
from nodefleet.reconcile.run import explain_stays
from nodefleet.reconcile.unit_of_work import alert_scaling
from support.book_builders import OpenBook
from support.builders import CATALOG, NOON, look
from support.operation_builders import launch, removal

PRICES = {"t3.small": (0.02, 0.005), "t3a.small": (0.018, 0.006)}
PRICED = tuple(
    replace(kind, hourly_usd=PRICES[kind.name][0], spot_usd=PRICES[kind.name][1])
    for kind in CATALOG
    if kind.name in PRICES
)


def decided(action=Action.GROW, **changes):
    base = PoolDecision(
        pool="web", action=action, count=Count(ready=3, booting=1), target=6, reason="two pods wait", votes=("cpu: +2",)
    )
    return replace(base, **changes)


def told(*decisions, catalog=PRICED):
    """The events, which are those that are written."""
    book = OpenBook(journal=LoopState(memory=Memory(level=Level.DEGRADED)))
    for decision in decisions:
        alert_scaling(book, decision, look(3, catalog=catalog))
    assert book.written().events == tuple(book.events)
    return book.events


@pytest.mark.parametrize("dry", [True, False])
def test_growth_is_told_with_its_figures(dry):
    growth = decided(dry_run=dry)
    (event,) = told(growth)
    assert (event.kind, event.pool, event.text) == (AlertKind.SCALE_UP, "web", growth.reason)
    assert (event.nodes, event.change, event.details) == (6, 2, ("cpu: +2",))
    assert (event.level, event.dry) == (Level.DEGRADED, dry)


def test_shrinking_is_told_when_the_node_is_gone_and_at_once_only_where_nothing_is_done():
    assert told(decided(Action.SHRINK)) == []
    (event,) = told(decided(Action.SHRINK, target=3, dry_run=True))
    assert (event.kind, event.change, event.dry) == (AlertKind.SCALE_DOWN, -1, True)


@pytest.mark.parametrize("dry", [True, False])
def test_a_fleet_that_stays_is_not_told_of(dry):
    assert told(decided(Action.HOLD, dry_run=dry)) == []


def test_real_growth_is_told_each_time_and_a_dry_one_once_for_each_target():
    assert len(told(decided(), decided())) == 2
    dry = decided(dry_run=True)
    assert [event.nodes for event in told(dry, dry, replace(dry, target=7))] == [6, 7]


def opened(**changes):
    return Create(launch(**changes))


@pytest.mark.parametrize(
    ("plan", "usd_per_day"),
    [
        ((), None),
        ((Create(removal()),), None),
        ((opened(),), 0.006 * 2 * 24),
        ((opened(market=Market.ON_DEMAND),), 0.02 * 2 * 24),
        ((opened(), Create(removal()), opened(market=Market.ON_DEMAND, count=1)), 0.006 * 2 * 24 + 0.02 * 24),
        ((opened(types=("t3.small", "unknown")),), 0.005 * 2 * 24),
        ((opened(), opened(types=("unknown",))), None),
    ],
    ids=["no plan", "no launch", "spot", "on-demand", "two", "one price unknown", "no price known"],
)
def test_the_cost_is_that_of_the_most_expensive_types_of_all_launches(plan, usd_per_day):
    (event,) = told(decided(plan=plan))
    assert event.usd_per_day == (usd_per_day and pytest.approx(usd_per_day))


# ── on the nodes ─────────────────────────────────────────────────────────────────────────────────────────────────


def stay(number, reason=KeepReason.LOCAL_DATA, detail=""):
    return KeptNode(worker=f"w{number:03}", phase=Phase.READY, reason=reason, detail=detail)


def noted(*pools, book=None):
    notes = []
    cluster = SimpleNamespace(note=lambda node, reason, text, *, warning: notes.append((node, reason, text, warning)))
    decision = Decision(
        at=NOON,
        cluster="shop",
        level=Level.NORMAL,
        pools=tuple(decided(Action.HOLD, stays=tuple(stays)) for stays in pools),
        memory=Memory(),
    )
    explain_stays(SimpleNamespace(cluster=cluster), book or OpenBook(), decision)
    return notes


def test_a_node_that_cannot_leave_says_why():
    assert noted([stay(1, detail="web-1 keeps data on it")], [stay(2)]) == [
        ("w001", "NodeFleetStays", "cannot leave: web-1 keeps data on it", False),
        ("w002", "NodeFleetStays", f"cannot leave: {KeepReason.LOCAL_DATA.value}", False),
    ]


def test_the_reasons_of_the_autoscaler_itself_are_no_news_on_a_node_and_hide_no_others():
    own = [
        KeepReason.NOT_ASKED,
        KeepReason.CHOSEN,
        KeepReason.OUTRANKED,
        KeepReason.ONE_AT_A_TIME,
        KeepReason.NOT_READY,
    ]
    stays = [*(stay(number, reason) for number, reason in enumerate(own)), stay(9)]
    assert [node for node, *_ in noted(stays)] == ["w009"]


def test_each_reason_is_noted_once():
    book = OpenBook()
    assert len(noted([stay(1)], book=book)) == 1
    assert noted([stay(1)], book=book) == []
    assert len(noted([stay(1, KeepReason.BUDGET)], book=book)) == 1


def test_at_most_ten_nodes_are_noted_in_an_iteration_and_the_others_in_the_next():
    book = OpenBook()
    stays = [stay(number) for number in range(12)]
    first, second = noted(stays[:6], stays[6:], book=book), noted(stays, book=book)
    assert [node for node, *_ in (*first, *second)] == [f"w{number:03}" for number in range(12)]
    assert len(first) == 10
