"""What must hold for every iteration, whatever it shows. Found by hypothesis, not by example."""

import json
from dataclasses import replace
from datetime import timedelta

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nodefleet.engine.decide import decide
from nodefleet.eviction.budgets import BudgetTracker, EvictionRefused
from nodefleet.eviction.drain import plan_drain
from nodefleet.model.decision import Action, Decision
from nodefleet.model.inventory import InstanceState, Market, Notice, NoticeKind, Resources
from nodefleet.model.operations import CancelRemoval, Create, Launch, Removal, RemovalReason
from nodefleet.model.serialization import from_plain, to_plain
from nodefleet.model.snapshot import ClusterView, Missing, Observation, Pause, PoolReadings, Reading, Scale
from nodefleet.model.state import Breaches, Loss, Memory, PoolMemory
from nodefleet.model.workload import Budget, Owner, Selector, Volume, VolumeKind
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, Pool
from support.builders import CATALOG, NOON, TARGET, after, instance, node, only, pod, waiting

SETTINGS = settings()
STATES = st.sampled_from(
    [
        *["ready"] * 3,
        *["booting", "failed", "unready", "sick", "cordoned", "doomed", "unlisted", "orphan", "ending"],
    ]
)
PERCENT = st.floats(0, 100, allow_nan=False)


@st.composite
def samples(draw):
    kind = draw(st.sampled_from(["fresh", "fresh", "fresh", "missing", "stale"]))
    if kind == "missing":
        return Missing("timeout")
    return Reading(draw(PERCENT), after(-10 if kind == "fresh" else -900))


@st.composite
def policies(draw):
    least = draw(st.integers(0, 4))
    return Policy(pools=(Pool(limits=Limits(min=least, max=least + draw(st.integers(1, 8)))),))


def _worker(number, state):
    """The instance, the node and the notice of one worker in this state."""
    machine, member, notice = instance(number), node(number), None
    match state:
        case "booting":
            machine, member = instance(number, launched_at=after(-30)), None
        case "failed":
            member = None
        case "unready":
            member = node(number, ready=False, ready_changed_at=after(-60))
        case "sick":
            member = node(number, ready=False, ready_changed_at=after(-600))
        case "cordoned":
            member = node(number, cordoned=True)
        case "doomed":
            notice = Notice(instance=machine.id, kind=NoticeKind.SPOT_INTERRUPTION, at=after(-20))
        case "unlisted":
            machine = None
        case "orphan":
            machine, member = None, node(number, ready=False, ready_changed_at=after(-60))
        case "ending":
            machine = instance(number, state=InstanceState.SHUTTING_DOWN)
    return machine, member, notice


@st.composite
def running_pods(draw, names):
    """Pods on these nodes: some protected, some under budgets, some not ready."""
    found = []
    for number, name in enumerate(draw(st.lists(st.sampled_from(names), max_size=8)) if names else []):
        app = draw(st.sampled_from(["web", "api", "db"]))
        changes = {"ready": draw(st.booleans()), "requests": Resources(cpu=draw(st.sampled_from([100, 900, 1900])))}
        match draw(st.sampled_from(["plain", "plain", "unmanaged", "local", "daemon", "system", "only"])):
            case "unmanaged":
                changes["owner"] = None
            case "local":
                changes["volumes"] = (Volume(kind=VolumeKind.LOCAL, node=name),)
            case "daemon":
                changes["owner"] = Owner(kind="DaemonSet", name="agent", uid="ds")
            case "system":
                changes["namespace"] = "kube-system"
            case "only":
                changes["owner"] = Owner(kind="StatefulSet", name=app, uid=f"sts-{app}", replicas=1)
        found.append(pod(f"{app}-{number}", name, **changes))
    return tuple(found)


@st.composite
def looks(draw):
    parts = [_worker(number, draw(STATES)) for number in range(draw(st.integers(0, 7)))]
    nodes = tuple(member for _, member, _ in parts if member)
    waits = tuple(
        waiting(f"new-{n}", requests=Resources(cpu=draw(st.sampled_from([100, 1900, 64000]))))
        for n in range(draw(st.integers(0, 8)))
    )
    pods = (*draw(running_pods([member.name for member in nodes])), *waits)
    budgets = tuple(
        Budget(
            name=app, selector=Selector(labels={"app": app}), max_unavailable=draw(st.sampled_from(["0", "1", "50%"]))
        )
        for app in draw(st.sets(st.sampled_from(["web", "api", "db"])))
    )
    counted = draw(st.booleans())
    view = ClusterView(
        nodes=nodes, pods=None if counted else pods, budgets=budgets, unschedulable={"default": len(waits)}
    )
    commands = draw(
        st.lists(
            st.one_of(
                st.builds(Pause, until=st.sampled_from([None, after(60), after(-60)])),
                st.builds(Scale, nodes=st.integers(0, 20), until=st.sampled_from([after(60), after(-60)])),
            ),
            max_size=1,
        )
    )
    return Observation(
        at=NOON,
        instances=tuple(machine for machine, _, _ in parts if machine),
        kubernetes=view,
        readings={"default": PoolReadings(cpu=draw(samples()), memory=draw(samples()))},
        notices=tuple(notice for _, _, notice in parts if notice),
        commands=tuple(commands),
        operations=tuple(draw(st.lists(removals(), max_size=1))),
        targets=(TARGET,),
        catalog=CATALOG,
    )


@st.composite
def removals(draw):
    number = draw(st.integers(0, 6))
    return Removal(
        id=f"r{number}",
        pool="default",
        instance=f"i-{number:03}",
        node=f"w{number:03}",
        why=draw(st.sampled_from(list(RemovalReason))),
        reason="before",
        started=after(-60),
        deadline=after(240),
    )


@st.composite
def memories(draw):
    calm = tuple(after(-130 - 120 * ago) for ago in range(3, -1, -1))
    quiet = Breaches(times=calm, since=calm[0], last=calm[-1])
    busy = Breaches(times=calm[-1:], since=calm[-1], last=calm[-1])
    breaches = draw(
        st.sampled_from([{}, {"cpu:down": quiet, "memory:down": quiet}, {"cpu:up": busy}, {"memory:up": busy}])
    )
    losses = tuple(Loss(worker=f"i-9{n}", at=after(-60), cause="gone") for n in range(draw(st.integers(0, 2))))
    pool = PoolMemory(
        breaches=breaches,
        last_grow=draw(st.sampled_from([None, after(-60), after(-400), after(-5000)])),
        last_shrink=draw(st.sampled_from([None, after(-60), after(-5000)])),
        members=tuple(f"i-{n:03}" for n in range(draw(st.integers(0, 7)))),
        losses=losses,
    )
    return Memory(pools={"default": pool})


def launched(decision: Decision) -> int:
    return sum(
        step.operation.count
        for step in only(decision).plan
        if isinstance(step, Create) and isinstance(step.operation, Launch)
    )


def let_go(decision: Decision) -> list[Removal]:
    return [
        step.operation
        for step in only(decision).plan
        if isinstance(step, Create)
        and isinstance(step.operation, Removal)
        and step.operation.why is RemovalReason.VOLUNTARY
    ]


@SETTINGS
@given(looks(), memories(), policies())
def test_never_past_max_by_its_own_act(seen, memory, policy):
    decision = decide(seen, memory, policy)
    count, most = only(decision).count, policy.pools[0].limits.max
    assert count.occupied + launched(decision) <= max(most, count.occupied)


@SETTINGS
@given(looks(), memories(), policies())
def test_never_below_min_by_its_own_act(seen, memory, policy):
    decision = decide(seen, memory, policy)
    if let_go(decision):
        assert only(decision).count.capacity - len(let_go(decision)) >= policy.pools[0].limits.min


@SETTINGS
@given(looks(), memories(), policies())
def test_at_least_min_is_restored_when_nothing_forbids_it(seen, memory, policy):
    decision = decide(seen, memory, policy)
    pool, count = policy.pools[0], only(decision).count
    brought_back = sum(isinstance(step, CancelRemoval) for step in only(decision).plan)
    room = pool.limits.max - (count.occupied - count.capacity)
    if not isinstance(seen.kubernetes, Missing):
        assert count.capacity + launched(decision) + brought_back >= min(pool.limits.min, room)


@SETTINGS
@given(looks(), memories(), policies(), st.sampled_from(["cpu", "memory"]), st.booleans())
def test_missing_or_stale_data_never_shrinks(seen, memory, policy, reading, stale):
    bad = Reading(1.0, after(-900)) if stale else Missing("timeout")
    seen = replace(seen, readings={"default": replace(seen.readings["default"], **{reading: bad})})
    assume(any(worker.is_capacity and worker.node for worker in derive_workers(seen, policy)))
    assert let_go(decide(seen, memory, policy)) == []


@SETTINGS
@given(looks(), memories(), policies())
def test_the_same_look_decides_the_same(seen, memory, policy):
    assert decide(seen, memory, policy) == decide(seen, memory, policy)


@SETTINGS
@given(looks(), memories(), policies())
def test_a_stored_look_replays_to_the_same_decision(seen, memory, policy):
    def stored(value):
        return from_plain(type(value), json.loads(json.dumps(to_plain(value))))

    decision = decide(seen, memory, policy)
    assert (stored(seen), stored(memory), stored(policy), stored(decision)) == (seen, memory, policy, decision)
    assert decide(stored(seen), stored(memory), stored(policy)) == decision


@SETTINGS
@given(looks(), memories(), policies(), st.integers(0, 6), st.integers(0, 6))
def test_more_unschedulable_pods_never_buy_fewer_nodes(seen, memory, policy, fewer, more):
    fewer, more = sorted((fewer, more))
    pods = seen.kubernetes.pods or ()
    others = tuple(each for each in pods if each.node)

    def with_waiting(number):
        pods = (*others, *(waiting(f"same-{n}", requests=Resources(cpu=900)) for n in range(number)))
        view = replace(seen.kubernetes, unschedulable={"default": number})
        return replace(seen, kubernetes=view if view.pods is None else replace(view, pods=pods))

    assert launched(decide(with_waiting(fewer), memory, policy)) <= launched(decide(with_waiting(more), memory, policy))


@SETTINGS
@given(looks(), memories(), policies(), st.booleans())
def test_a_repeated_look_buys_nothing_twice(seen, memory, policy, forgets):
    """Even if the memory of the first decision were lost: what is open counts."""
    first = decide(seen, memory, policy)
    if launched(first) == 0:
        return
    opened = [step.operation for step in only(first).plan if isinstance(step, Create)]
    replaced = {step.operation for step in only(first).plan if isinstance(step, CancelRemoval)}
    assume(not replaced)
    gone = first.memory.pool("default").vanished  # would be worked out again from the members of the iteration before
    pool = replace(memory.pool("default"), losses=(), members=(), vanished=gone)
    lost_nothing = replace(first.memory, pools={"default": pool})
    before = lost_nothing if forgets else first.memory
    again = decide(replace(seen, operations=(*seen.operations, *opened)), before, policy)
    assert launched(again) == 0


@SETTINGS
@given(looks(), memories(), policies())
def test_growing_and_then_the_same_readings_does_not_shrink(seen, memory, policy):
    """No to and fro between the thresholds: what was just bought is not given back."""
    decision = decide(seen, memory, policy)
    assume(launched(decision))
    number = 100
    machines, members = [], []
    for step in only(decision).plan:
        if isinstance(step, Create) and isinstance(step.operation, Launch):
            for _ in range(step.operation.count):
                machines.append(instance(number, zone=step.operation.zone, launched_at=NOON))
                members.append(node(number, ready_changed_at=after(90)))
                number += 1
    remembered = decision.memory
    for minutes in range(2, 10, 2):
        at = after(60 * minutes)
        readings = {name: _at(each, at) for name, each in seen.readings.items()}
        view = replace(seen.kubernetes, nodes=(*seen.kubernetes.nodes, *members))
        later = replace(
            seen, at=at, instances=(*seen.instances, *machines), kubernetes=view, readings=readings, commands=()
        )
        following = decide(later, remembered, policy)
        if decision.memory.pool("default").last_grow == NOON:
            assert let_go(following) == [] or only(following).count.capacity > policy.pools[0].limits.max
        remembered = following.memory


def _at(readings, at):
    moved = {
        name: Reading(sample.value, at - timedelta(seconds=10))
        for name in ("cpu", "memory")
        if isinstance(sample := getattr(readings, name), Reading)
    }
    return replace(readings, **moved)


@SETTINGS
@given(looks(), memories(), policies())
def test_every_decision_has_a_reason_with_figures(seen, memory, policy):
    reason = only(decide(seen, memory, policy)).reason
    assert any(character.isdigit() for character in reason)
    assert reason.startswith(("Growing", "Shrinking", "Holding"))
    assert "\n" not in reason


@SETTINGS
@given(looks(), memories(), policies())
def test_every_worker_that_stays_has_a_reason(seen, memory, policy):
    decision = decide(seen, memory, policy)
    assert [stay.worker for stay in only(decision).stays] == [worker.name for worker in derive_workers(seen, policy)]


@SETTINGS
@given(looks(), memories(), policies())
def test_removal_never_picks_a_protected_node(seen, memory, policy):
    for removal in let_go(decide(seen, memory, policy)):
        own = [each for each in seen.kubernetes.pods if each.node == removal.node]
        chosen = next(worker for worker in derive_workers(seen, policy) if worker.name == removal.node)
        assert not chosen.held_by_person
        assert not [each for each in own if each.owner is None]
        assert not [each for each in own if each.movable and any(v.kind is VolumeKind.LOCAL for v in each.volumes)]
        assert not [each for each in own if each.movable and each.owner.kind == "StatefulSet"]
        assert not plan_drain(own, RemovalReason.VOLUNTARY, policy.pools[0].removal, seen.at, since=seen.at).blocked


@SETTINGS
@given(looks(), memories(), policies())
def test_planned_evictions_never_break_a_budget(seen, memory, policy):
    for removal in let_go(decide(seen, memory, policy)):
        own = [each for each in seen.kubernetes.pods if each.node == removal.node and each.movable]
        ledger = BudgetTracker(seen.kubernetes.budgets, seen.kubernetes.pods)
        assert not [each for each in own if isinstance(ledger.verdict(each), EvictionRefused)]


@SETTINGS
@given(looks(), memories(), policies())
def test_one_voluntary_removal_at_a_time(seen, memory, policy):
    decision = decide(seen, memory, policy)
    open_ones = [o for o in seen.operations if o.why is RemovalReason.VOLUNTARY and _still_there(o, seen, policy)]
    assert len(let_go(decision)) + len(open_ones) <= max(1, len(open_ones))


def _still_there(operation, seen, policy):
    return any(worker.operation == operation for worker in derive_workers(seen, policy))


@SETTINGS
@given(looks(), memories(), policies())
def test_target_and_action_agree_with_the_plan(seen, memory, policy):
    decision = decide(seen, memory, policy)
    pool = only(decision)
    back = sum(isinstance(step, CancelRemoval) for step in pool.plan)
    change = launched(decision) + back - len(let_go(decision))
    assert pool.target == pool.count.capacity + change
    assert pool.action is (Action.GROW if change > 0 else Action.SHRINK if change < 0 else Action.HOLD)


@SETTINGS
@given(looks(), memories(), policies())
def test_the_memory_stays_bounded(seen, memory, policy):
    after_it = decide(seen, memory, policy).memory.pool("default")
    fleet = len(derive_workers(seen, policy))
    assert len(after_it.members) <= fleet
    assert len(after_it.suspects) <= fleet
    assert len(after_it.losses) <= len(memory.pool("default").members) + len(memory.pool("default").losses)


@SETTINGS
@given(looks(), memories(), policies())
def test_new_nodes_keep_the_on_demand_base(seen, memory, policy):
    decision = decide(seen, memory, policy)
    staying = [w for w in derive_workers(seen, policy) if w.is_capacity]
    have = sum(w.instance is not None and w.instance.market is Market.ON_DEMAND for w in staying)
    new = [s.operation for s in only(decision).plan if isinstance(s, Create) and isinstance(s.operation, Launch)]
    if new and not any(isinstance(step, CancelRemoval) for step in only(decision).plan):
        assert have + sum(each.count for each in new if each.market is Market.ON_DEMAND) >= 1
