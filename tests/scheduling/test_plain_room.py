"""The fast room for plain pods gives each pod the place that the scheduler simulation gives it."""

from random import Random

import pytest

from nodefleet.model.inventory import Resources
from nodefleet.model.workload import HOST_LABEL, ZONE_LABEL, PodTerm, Rules, Selector, Toleration
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix, Pool, Steps
from nodefleet.scheduling.index import PlainRoom
from nodefleet.scheduling.packing import pack_pools, packing_input
from nodefleet.scheduling.predicates import NodeModel, NodeState
from nodefleet.scheduling.simulation import SchedulerSimulation
from support.builders import GIB, look, pod, waiting

STEPS = Steps(pending_fill="queue", pending_spare=4, pending_sure=90, pending_excess=0)
POLICY = Policy(pools=(Pool(market=MarketMix(types=("t3.small", "t3.large"), memory_overhead_percent=0), steps=STEPS),))
SIZES = (100, 300, 450, 600, 700, 900, 1000)
RULES = (
    Rules(),
    Rules(node_selector={ZONE_LABEL: "a"}),
    Rules(tolerations=(Toleration(operator="Exists"),)),
)
APART = Rules(anti_affinity=(PodTerm(topology=HOST_LABEL, selector=Selector(labels={"app": "web"})),))


def wants(name, cpu, memory=64, on=None, **changes):
    make = waiting if on is None else (lambda name, **changes: pod(name, on, **changes))
    return make(name, requests=Resources(cpu=cpu, memory=memory), **changes)


def drawn(seed):
    """Pods that wait, beside nodes that are partly full."""
    random = Random(seed)  # noqa: S311  # no secret
    there = random.randint(0, 4)
    running = [
        wants(f"run-{number}", random.choice(SIZES), on=random.choice(list(look(there).kubernetes.nodes)).name)
        for number in range(there * 2)
    ]
    pending = [
        wants(
            f"new-{number}",
            random.choice(SIZES),
            memory=random.choice((64, GIB // 2, GIB)),
            rules=random.choice(RULES),
            priority=random.choice((0, 0, 10)),
        )
        for number in range(random.randint(1, 25))
    ]
    return look(there, pods=[*running, *pending])


def packed(seen):
    return pack_pools(packing_input(seen, POLICY, derive_workers(seen, POLICY)))


def simulated(seen):
    return packing_input(seen, POLICY, derive_workers(seen, POLICY)).simulation


def test_packing_buys_the_same_with_and_without_it(monkeypatch):
    scenes = [drawn(seed) for seed in range(120)]
    used, make = [], SchedulerSimulation.plain_room

    def counted(self, pods):
        used.append(make(self, pods))
        return used[-1]

    monkeypatch.setattr(SchedulerSimulation, "plain_room", counted)
    fast = [packed(seen) for seen in scenes]
    assert len([room for room in used if room]) > 60
    monkeypatch.setattr(SchedulerSimulation, "plain_room", lambda *_: None)
    assert [packed(seen) for seen in scenes] == fast
    monkeypatch.setattr("nodefleet.scheduling.packing._allow_for_other_orders", lambda *_: None)
    without = [packed(seen) for seen in scenes]
    assert sum(one != other for one, other in zip(without, fast, strict=True)) > 10  # other orders did decide something


@pytest.mark.parametrize("seed", range(30))
def test_each_pod_gets_the_same_place(seed):
    seen = drawn(seed)
    pods = [each for each in seen.kubernetes.pods if each.node is None]
    for together in (False, True):
        simulation = simulated(seen)
        room = simulation.plain_room(pods).copy()
        ways = [each.placing_on_emptiest() if together else each.place for each in (simulation, room)]
        one, other = ([way(each) for each in pods] for way in ways)
        assert one == other


def test_a_pod_that_others_decide_about_needs_the_whole_simulation():
    held = wants("web-1", 100, on=look(1).kubernetes.nodes[0].name, rules=APART)
    simulation = simulated(look(1, pods=[held]))
    assert simulation.plain_room([wants("web-2", 100)]) is None
    assert simulation.plain_room([wants("api-1", 100, rules=APART)]) is None
    assert simulation.plain_room([wants("api-1", 100)]) is not None


def test_a_node_that_is_leaving_is_no_place():
    simulation, asked = simulated(look(1, pods=())), wants("web-1", 100)
    name = look(1).kubernetes.nodes[0].name
    assert simulation.plain_room([asked]).copy().place(asked) == name
    simulation.take_out(name)
    assert simulation.plain_room([asked]).copy().place(asked) is None


def test_what_is_not_asked_for_may_be_overbooked_and_a_slot_may_not():
    full = NodeState(NodeModel(name="full"), 0)
    full.cpu, full.memory, full.slots = -5, 100, 1
    room = PlainRoom([full], [wants("a-1", 0, memory=50)])
    assert room.place(wants("a-1", 0, memory=50)) == "full"
    assert room.place(wants("a-2", 0, memory=0)) is None
