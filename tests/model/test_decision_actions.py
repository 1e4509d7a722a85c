"""The sentence that operators read of each action, and the nodes and instances that it concerns."""

import pytest

from nodefleet.model.decision import ActionKind, ExecutedAction

SENTENCES = [
    (
        ExecutedAction(kind=ActionKind.LAUNCH, instances=("i-7", "i-8"), asked=2, market="spot", zone="a"),
        "asked EC2 for 2 spot in a: got i-7, i-8",
    ),
    (
        ExecutedAction(kind=ActionKind.LAUNCH, asked=1, market="on-demand", zone="b"),
        "asked EC2 for 1 on-demand in b: got none",
    ),
    (
        ExecutedAction(kind=ActionKind.START, instances=("i-7",), asked=2, market="on-demand", zone="b"),
        "asked EC2 to start 2 warm in b: got i-7",
    ),
    (
        ExecutedAction(kind=ActionKind.KEEP_WARM, instance="i-1", reason="it is idle"),
        "stopped i-1 and keeps it warm: it is idle",
    ),
    (ExecutedAction(kind=ActionKind.CORDON, node="w1", instance="i-1"), "cordoned w1"),
    (ExecutedAction(kind=ActionKind.UNCORDON, node="w1"), "let w1 back in"),
    (
        ExecutedAction(kind=ActionKind.EVICT, node="w1", results={"failed": 1, "evicted": 2}),
        "evicted from w1: 2 evicted, 1 failed",
    ),
    (ExecutedAction(kind=ActionKind.FORCE_DELETE, node="w1", results={"forced": 1}), "deleted 1 pod on w1 by force"),
    (ExecutedAction(kind=ActionKind.FORCE_DELETE, node="w1", results={"forced": 2}), "deleted 2 pods on w1 by force"),
    (ExecutedAction(kind=ActionKind.TERMINATE, instance="i-1", reason="it is idle"), "terminated i-1: it is idle"),
    (ExecutedAction(kind=ActionKind.DELETE_NODE, node="w1"), "deleted node w1"),
    (ExecutedAction(kind=ActionKind.MARK_FAILED, instance="i-1"), "marked i-1 as failed to join"),
    (ExecutedAction(kind=ActionKind.ASSIGN, node="w1", instance="i-1", pool="web"), "handed w1 to pool web"),
    (ExecutedAction(kind=ActionKind.ASSIGN, instance="i-1", pool="web"), "handed i-1 to pool web"),
]


@pytest.mark.parametrize(("action", "sentence"), SENTENCES)
def test_every_action_has_its_sentence(action, sentence):
    assert str(action) == sentence


def test_no_kind_is_without_a_sentence():
    assert {action.kind for action, _ in SENTENCES} == set(ActionKind)


def test_an_action_concerns_nodes_and_instances_by_name():
    assert SENTENCES[0][0].targets == {"i-7", "i-8"}
    assert SENTENCES[4][0].targets == {"w1", "i-1"}
