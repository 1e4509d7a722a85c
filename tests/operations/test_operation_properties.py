"""What holds whatever is seen: steps may be repeated, and nothing but the operation's own target is touched."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import assume, example, given
from hypothesis import strategies as st

from nodefleet.model.inventory import Instance, InstanceState, Node, Notice, NoticeKind
from nodefleet.model.operations import (
    Cordon,
    DeleteNode,
    Evict,
    ForceDelete,
    MarkFailed,
    OrphanKind,
    Refusal,
    RemovalReason,
    Save,
    SendLaunch,
    Terminate,
    Uncordon,
)
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.model.workload import Owner, Pod, PodPhase
from nodefleet.operations.advance import advance
from nodefleet.policy.pool import RemovalRules
from support.builders import after
from support.operation_builders import AWAY, POLICY, budget, cleanup, closed, effects, launch, removal, told

SECONDS = st.sampled_from([0, 10, 89, 90, 119, 120, 299, 300, 310, 420, 600, 1320, 5000])
PAST = st.sampled_from([-3600, -400, -10, 0])
MACHINES = {"i-1": "w1", "i-2": "w2", "i-cp": "master"}
OWNERS = (None, *(Owner(kind=kind, name="o", replicas=2) for kind in ("ReplicaSet", "DaemonSet", "StatefulSet")))
CONTROL_PLANE = {"i-cp", "master"}


@st.composite
def machines(draw) -> tuple[Instance, ...]:
    return tuple(
        Instance(
            id=identity,
            zone="a",
            state=draw(st.sampled_from(InstanceState)),
            launched_at=after(draw(PAST)),
            operation=draw(st.sampled_from(["l1", ""])),
            worker=identity != "i-cp",
            failed=draw(st.booleans()),
            pool=draw(st.sampled_from(["default", "default", "gone"])),
        )
        for identity in draw(st.sets(st.sampled_from(sorted(MACHINES))))
    )


@st.composite
def nodes(draw) -> tuple[Node, ...]:
    return tuple(
        Node(
            name=MACHINES[identity],
            instance=identity,
            control_plane=identity == "i-cp",
            ready=draw(st.booleans()),
            ready_changed_at=after(draw(PAST)),
            cordoned=draw(st.booleans()),
            removal=draw(st.sampled_from(["", "r1", "r0"])),
        )
        for identity in draw(st.sets(st.sampled_from(sorted(MACHINES))))
    )


@st.composite
def pods(draw) -> tuple[Pod, ...]:
    return tuple(
        Pod(
            name=f"p-{number}",
            uid=str(number),
            labels={"app": draw(st.sampled_from(["web", "db"]))},
            node=draw(st.sampled_from([None, *MACHINES.values()])),
            owner=draw(st.sampled_from(OWNERS)),
            phase=draw(st.sampled_from(PodPhase)),
            deleted_at=draw(st.sampled_from([None, None, after(-500), after(80), after(300)])),
            mirror=draw(st.booleans()) and draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 4)))
    )


@st.composite
def views(draw) -> ClusterView:
    return ClusterView(
        nodes=draw(nodes()),
        pods=draw(pods() | st.none()),
        budgets=draw(st.sampled_from([(), (budget(),), (budget(needed="1"),), (budget(), budget("too"))])),
    )


removals = st.builds(
    removal,
    st.sampled_from(RemovalReason),
    instance=st.sampled_from(sorted(MACHINES)),
    node=st.sampled_from(["", *MACHINES.values()]),
    force_from=st.sampled_from([None, after(90)]),
    cordoned=st.booleans(),
    evicting=st.booleans(),
    terminating=st.booleans(),
    asked_at=st.sampled_from([None, after(5)]),
    forced=st.booleans(),
    cancelled=st.sampled_from(["", "pods wait"]),
    silent=st.sampled_from([timedelta(0), timedelta(seconds=200)]),
    silent_since=st.sampled_from([None, after(-50)]),
)
launches = st.builds(
    launch,
    count=st.integers(1, 2),
    answered=st.booleans(),
    answered_at=st.sampled_from([None, after(0)]),
    instances=st.sampled_from([(), ("i-1",), ("i-1", "i-2"), ("i-cp",)]),
    refusals=st.sampled_from([(), (Refusal(type="t3.small"),)]),
    silent_since=st.sampled_from([None, after(-50)]),
)
cleanups = st.builds(
    lambda debris, target: cleanup(debris, target=target),
    st.sampled_from(OrphanKind),
    st.sampled_from([*MACHINES, *MACHINES.values()]),
)
notices = st.sampled_from([(), (Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=after(0)),)])
looks = st.builds(
    Observation,
    at=SECONDS.map(after),
    instances=machines() | st.just(AWAY),
    kubernetes=views() | st.just(AWAY),
    notices=notices,
    operations=st.sampled_from([(), (removal(RemovalReason.INTERRUPTED, id="r9"),)]),
)
anything = removals | launches | cleanups


def repeated(progress):
    """What is asked for at every iteration, without the count of how often. A mark is set before its launch is
    stored."""
    return [
        SendLaunch(replace(step.launch, attempts=0)) if isinstance(step, SendLaunch) else step
        for step in effects(progress)
        if not isinstance(step, MarkFailed)
    ]


TOO_LATE = Instance(
    id="i-1", zone="a", state=InstanceState.PENDING, launched_at=after(-400), operation="l1", worker=True
)


@example(launch(silent_since=after(-50)), Observation(at=after(0), instances=(TOO_LATE,), kubernetes=ClusterView()))
@given(anything, looks)
def test_a_second_look_at_the_same_world_asks_for_the_same_and_teaches_nothing_new(operation, seen):
    assert advance(operation, seen, POLICY) == advance(operation, seen, POLICY)
    first = advance(operation, seen, POLICY)
    assume(closed(first) is None)
    stored = [operation, *(step.operation for step in first.steps if isinstance(step, Save))][-1]
    second = advance(stored, seen, POLICY)
    assert repeated(second) == repeated(first)
    assert second.lessons == ()
    assert told(second) == []
    assert closed(second) is None


def has_to_move(pod, now):
    stuck = pod.deleted_at is not None and now > pod.deleted_at + pod.grace + RemovalRules().stuck_after
    return pod.movable and not stuck


@st.composite
def drains(draw) -> Observation:
    """An iteration at an instance that runs, whose node is cordoned by us or was deleted."""
    own = Node(name="w1", instance="i-1", cordoned=True, removal="r1", ready=draw(st.booleans()))
    view = replace(draw(views()), nodes=draw(st.sampled_from([(own,), ()])), pods=draw(pods()))
    running = Instance(id="i-1", zone="a", launched_at=after(-3600))
    return Observation(at=after(draw(SECONDS)), instances=(running,), kubernetes=view)


@given(removals, drains())
def test_a_voluntary_removal_never_terminates_a_node_with_pods_that_have_to_move(operation, seen):
    operation = replace(operation, why=RemovalReason.VOLUNTARY, instance="i-1", node="w1")
    if any(isinstance(step, Terminate) for step in advance(operation, seen, POLICY).steps):
        assert not [pod for pod in seen.kubernetes.pods if pod.node == "w1" and has_to_move(pod, seen.at)]


@given(removals, looks)
def test_a_removal_touches_only_its_own_machine_node_and_pods(operation, seen):
    progress = advance(operation, seen, POLICY)
    view = seen.kubernetes if isinstance(seen.kubernetes, ClusterView) else ClusterView()
    own = {node.name for node in view.nodes if node.instance == operation.instance} or {operation.node}
    on_node = {pod.uid for pod in view.pods or () if pod.node in own}
    for step in effects(progress):
        match step:
            case Terminate():
                assert step.instance == operation.instance
            case Cordon() | DeleteNode():
                assert step.node in own
            case Uncordon():
                assert step.node in own
                assert step.removal == operation.id
            case Evict() | ForceDelete():
                assert step.node in own
                assert step.pods
                assert {pod.uid for pod in step.pods} <= on_node
            case _:
                raise AssertionError(step)


@given(cleanups, looks)
def test_a_cleanup_touches_only_its_target(operation, seen):
    for step in effects(advance(operation, seen, POLICY)):
        assert isinstance(step, DeleteNode if operation.debris is OrphanKind.NODE else Terminate)
        assert operation.target == (step.node if isinstance(step, DeleteNode) else step.instance)


@given(launches, looks)
def test_a_launch_only_sends_itself_and_marks_its_own(operation, seen):
    tagged = set() if seen.instances is AWAY else {each.id for each in seen.instances if each.operation == "l1"}
    for step in effects(advance(operation, seen, POLICY)):
        assert isinstance(step, SendLaunch | MarkFailed)
        if isinstance(step, MarkFailed):
            assert step.instance in tagged | set(operation.instances)


@given(anything, looks)
def test_the_control_plane_is_never_touched(operation, seen):
    for step in effects(advance(operation, seen, POLICY)):
        match step:
            case Terminate() | MarkFailed():
                assert step.instance not in CONTROL_PLANE
            case Cordon() | Uncordon() | DeleteNode() | Evict() | ForceDelete():
                assert step.node not in CONTROL_PLANE
