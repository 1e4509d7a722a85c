"""A plan as an operator reads it."""

from datetime import timedelta

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import KeepReason, KeptNode
from nodefleet.model.fleet import Phase
from nodefleet.model.inventory import Market
from nodefleet.model.operations import (
    CancelRemoval,
    Cleanup,
    Close,
    Cordon,
    Create,
    DeleteNode,
    Evict,
    ForceDelete,
    Launch,
    MarkFailed,
    OrphanKind,
    Outcome,
    PodRef,
    Purpose,
    Removal,
    RemovalReason,
    Save,
    SendAlert,
    SendLaunch,
    Terminate,
    Uncordon,
)
from nodefleet_tools.cli.plan_words import any_of, names, sentence, stay_lines
from support.builders import NOON
from support.wording import assert_wording

POD = PodRef(namespace="shop", name="web", uid="1")


def launch(**changes) -> Launch:
    return Launch(
        **{
            "id": "l1",
            "pool": "default",
            "zone": "b",
            "market": Market.SPOT,
            "types": ("t3.small", "t2.small"),
            "count": 2,
            "template": "lt",
            "template_version": "1",
            "subnet": "s",
            "max_price_usd": 0.02,
            "reason": "more",
            "started": NOON,
            "deadline": NOON,
            **changes,
        }
    )


def removal(why: RemovalReason, **changes) -> Removal:
    return Removal(
        **{
            "id": "r1",
            "pool": "default",
            "instance": "i-1",
            "node": "w1",
            "why": why,
            "reason": "because",
            "started": NOON,
            "deadline": NOON + timedelta(minutes=5),
            **changes,
        }
    )


CLEANUP = Cleanup(
    id="c1",
    pool="default",
    debris=OrphanKind.NODE,
    target="w9",
    reason="its instance is gone",
    first_seen=NOON,
    started=NOON,
    deadline=NOON,
)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (Create(launch()), "launch 2 Spot workers in zone b (t3.small or t2.small, at most 0.02 USD/h)"),
        (
            Create(
                launch(
                    count=1,
                    market=Market.ON_DEMAND,
                    max_price_usd=None,
                    types=("t3.small",),
                    purpose=Purpose.RESTORE,
                )
            ),
            "launch 1 On-Demand worker in zone b (t3.small); it makes up for a missing one",
        ),
        (
            Create(removal(RemovalReason.VOLUNTARY)),
            "cordon and drain w1, then terminate it; uncordon it if it is not empty by 12:05:00",
        ),
        (
            Create(removal(RemovalReason.INTERRUPTED, force_from=NOON + timedelta(seconds=90))),
            "cordon and drain w1 now, gone by 12:05:00: because; what is left at 12:01:30 is deleted by force",
        ),
        (
            Save(removal(RemovalReason.INTERRUPTED, node="")),
            "go on, as things have changed: cordon and drain i-1 now, gone by 12:05:00: because",
        ),
        (Create(removal(RemovalReason.UNHEALTHY)), "drain w1 until 12:05:00 and terminate it: because"),
        (Create(CLEANUP), "clean up node w9: its instance is gone"),
        (Close(operation="l1", outcome=Outcome.FAILED, detail="no answer"), "close l1 as failed: no answer"),
        (
            SendLaunch(launch()),
            "ask EC2: launch 2 Spot workers in zone b (t3.small or t2.small, at most 0.02 USD/h)",
        ),
        (Cordon(node="w1", removal="r1", reason="it leaves", deadline=NOON), "cordon w1: it leaves"),
        (Uncordon("w1", "r1"), "let w1 back in"),
        (Evict(node="w1", pods=(POD, POD)), "evict 2 pods from w1"),
        (ForceDelete(node="w1", pods=(POD,)), "delete 1 pod on w1 by force"),
        (Terminate("i-1", "it is empty"), "terminate i-1: it is empty"),
        (DeleteNode("w1"), "delete the Node w1"),
        (MarkFailed("i-1"), "mark i-1 as failed to join, and keep it"),
        (
            CancelRemoval(operation="r1", reason="more load"),
            "let a leaving worker back in instead of buying one (r1)",
        ),
        (SendAlert(alert=AlertKind.AT_MAX, pool="default", text="Raise it."), "tell operators (at-max): Raise it."),
    ],
)
def test_a_step_in_words(step, words):
    assert sentence(step) == words


def stay(worker: str, reason: KeepReason, detail: str = "", phase: Phase = Phase.READY) -> KeptNode:
    return KeptNode(worker=worker, phase=phase, reason=reason, detail=detail)


def test_workers_with_the_same_reason_stand_together():
    stays = [
        stay("w1", KeepReason.BUDGET, "budget a allows 0"),
        stay("w2", KeepReason.NOT_ASKED),
        stay("w3", KeepReason.BUDGET, "budget b allows 0"),
        stay("w4", KeepReason.BUDGET, "budget a allows 0"),
        stay("w5", KeepReason.NOT_READY, phase=Phase.BOOTING),
        stay("w6", KeepReason.NOT_READY, phase=Phase.INTERRUPTED),
        stay("w7", KeepReason.LOCAL_DATA),
    ]
    assert_wording(stay_lines(stays))


@pytest.mark.parametrize(
    ("number", "lines"),
    [
        (5, [(f"w{n}", f"pod {n} fits nowhere") for n in range(5)]),
        (6, [("w0, w1, … (6 workers)", "nowhere-to-go, for example: pod 0 fits nowhere")]),
    ],
)
def test_many_different_details_become_an_example(number, lines):
    assert (
        stay_lines([stay(f"w{n}", KeepReason.NOWHERE_TO_GO, f"pod {n} fits nowhere") for n in range(number)]) == lines
    )


def test_a_few_names_are_all_named():
    assert names(f"w{n}" for n in range(5)) == "w0, w1, w2, w3, w4"
    assert names(f"w{n}" for n in range(6)) == "w0, w1, … (6 workers)"


def test_a_choice_in_words():
    assert_wording([any_of(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])])
