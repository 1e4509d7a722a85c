"""Placing pods, letting nodes go, and taking it all back."""

from dataclasses import replace

import pytest

from nodefleet.model.inventory import Resources, Taint
from nodefleet.model.workload import (
    HOST_LABEL,
    ZONE_LABEL,
    HostPort,
    NodeTerm,
    Operator,
    Owner,
    Pod,
    PodPhase,
    PodTerm,
    Requirement,
    Rules,
    Selector,
    Spread,
    Volume,
    VolumeKind,
)
from nodefleet.scheduling.index import FirstFit
from nodefleet.scheduling.predicates import NodeModel, NodeState
from nodefleet.scheduling.simulation import SchedulerSimulation, UnplaceablePod
from support.builders import NOON
from support.wording import assert_wording

WEB = Selector(labels={"app": "web"})


def node(name, zone="a", **changes):
    labels = {HOST_LABEL: name, ZONE_LABEL: zone, **changes.pop("labels", {})}
    return NodeModel(name=name, labels=labels, allocatable=Resources(cpu=4, memory=4, pods=10), **changes)


def pod(name, cpu=1, on=None, **changes):
    rules = Rules(**{key: changes.pop(key) for key in list(changes) if hasattr(Rules(), key)})
    return Pod(name=name, node=on, requests=Resources(cpu=cpu), rules=rules, **changes)


def web(name, on=None, **changes):
    return pod(name, on=on, labels={"app": "web"}, **changes)


# ── volumes that are attached ────────────────────────────────────────────────────────────────────────────────────


def attaching(name, limit):
    return node(name, attach_limits={"ebs": limit})


def with_volumes(name, *handles, driver="ebs", **changes):
    volumes = tuple(Volume(kind=VolumeKind.CLAIM, name=each, driver=driver, handle=each) for each in handles)
    return pod(name, cpu=0, volumes=volumes, **changes)


def test_a_node_attaches_only_so_many_volumes():
    room = SchedulerSimulation([attaching("w1", 2), attaching("w2", 1)])
    assert [room.place(with_volumes(name, name)) for name in "abcd"] == ["w1", "w1", "w2", None]
    assert room.place(pod("plain", cpu=0)) == "w1"


def test_pods_that_share_a_volume_need_it_attached_once():
    room = SchedulerSimulation([attaching("w1", 1)], [with_volumes("a", "shared", on="w1")])
    assert room.place(with_volumes("b", "own")) is None
    assert room.place(with_volumes("c", "shared")) == "w1"


def test_a_driver_without_a_limit_attaches_any_number():
    room = SchedulerSimulation([attaching("w1", 1)])
    assert [room.place(with_volumes(name, name, driver="efs")) for name in "abc"] == ["w1"] * 3


def test_a_pod_with_more_volumes_than_the_limit_fits_nowhere():
    room = SchedulerSimulation([attaching("w1", 2)])
    assert room.place(with_volumes("a", "1", "2", "3")) is None
    assert_wording(room.why_not(with_volumes("a", "1", "2", "3"), "w1"))


def test_what_is_rolled_back_is_no_longer_attached():
    room = SchedulerSimulation([attaching("w1", 1)], [with_volumes("a", "shared", on="w1")])
    mark = room.mark()
    assert room.place(with_volumes("b", "shared")) == "w1"
    room.roll_back(mark)
    assert room.place(with_volumes("c", "shared")) == "w1"
    assert [pod.name for pod in room.take_out("w1")] == ["a", "c"]
    room.roll_back(mark)
    assert room.place(with_volumes("d", "own")) is None


def test_a_node_whose_volumes_the_others_cannot_attach_stays():
    nodes = [attaching("w1", 2), attaching("w2", 2)]
    pods = [with_volumes("a", "1", on="w1"), with_volumes("b", "2", "3", on="w2")]
    room = SchedulerSimulation(nodes, pods)
    assert room.try_drain("w2").pod.name == "b"
    assert room.try_drain("w1").pod.name == "a"


# ── first fit ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pods_fill_the_nodes_in_their_order():
    room = SchedulerSimulation([node("w2"), node("w1")])
    assert [room.place(pod(f"p{number}", cpu=2)) for number in range(5)] == ["w2", "w2", "w1", "w1", None]


def test_a_smaller_pod_still_finds_what_a_larger_one_left():
    room = SchedulerSimulation([node("w1"), node("w2")])
    assert [room.place(pod(name, cpu=cpu)) for name, cpu in [("a", 3), ("b", 2), ("c", 1)]] == ["w1", "w2", "w1"]


def test_a_node_holds_no_more_pods_than_it_may():
    room = SchedulerSimulation([NodeModel(name="w1", allocatable=Resources(pods=2))])
    assert [room.place(pod(f"p{number}", cpu=0)) for number in range(3)] == ["w1", "w1", None]


def test_who_is_there_takes_room_even_while_it_is_being_deleted_but_not_when_it_has_finished():
    there = [
        pod("done", cpu=4, on="w1", phase=PodPhase.SUCCEEDED),
        pod("failed", cpu=4, on="w1", phase=PodPhase.FAILED),
        pod("going", cpu=3, on="w1", deleted_at=NOON),
        pod("lost", cpu=4, on="gone"),
        pod("waiting", cpu=4),
    ]
    room = SchedulerSimulation([node("w1")], there)
    assert room.place(pod("big", cpu=2)) is None
    assert room.place(pod("small", cpu=1)) == "w1"


def test_taints_and_labels_lead_a_pod_past_nodes_that_have_room():
    room = SchedulerSimulation(
        [node("w1", taints=(Taint(key="dedicated"),)), node("w2"), node("w3", labels={"disk": "ssd"})]
    )
    assert room.place(pod("plain")) == "w2"
    assert room.place(pod("picky", node_selector={"disk": "ssd"})) == "w3"
    assert room.place(pod("impossible", node_selector={"disk": "tape"})) is None


def test_a_label_that_is_asked_for_late_is_still_told_apart():
    room = SchedulerSimulation([node("w1"), node("w2", labels={"disk": "ssd"}), node("w3", labels={"disk": "ssd"})])
    room.take_out("w2")
    assert room.place(pod("plain")) == "w1"
    assert room.place(pod("picky", node_selector={"disk": "ssd"})) == "w3"


def test_pods_of_different_zones_do_not_share_an_answer():
    room = SchedulerSimulation([node("w1", "a"), node("w2", "b")])
    in_zone = [Volume(kind=VolumeKind.CLAIM, zones=(zone,)) for zone in "abc"]
    rules = Rules()
    pods = [Pod(name=f"p{number}", rules=rules, volumes=(volume,)) for number, volume in enumerate(in_zone)]
    assert [room.place(each) for each in pods] == ["w1", "w2", None]


def test_a_pod_bound_to_one_node_goes_there_or_nowhere():
    room = SchedulerSimulation([node("w1"), node("w2")])
    local = (Volume(kind=VolumeKind.LOCAL, node="w2"),)
    assert room.place(pod("data", volumes=local)) == "w2"
    assert room.place(pod("more-data", cpu=4, volumes=local)) is None
    assert room.place(pod("lost-data", volumes=(Volume(kind=VolumeKind.LOCAL, node="w9"),))) is None


def test_a_pod_may_ask_for_a_host_whose_label_is_not_its_name():
    odd = NodeModel(name="w2", labels={HOST_LABEL: "ip-10-0-0-2"}, allocatable=Resources(cpu=4, pods=10))
    room = SchedulerSimulation([node("w1"), odd])
    assert room.place(pod("by-label", node_selector={HOST_LABEL: "ip-10-0-0-2"})) == "w2"
    by_field = NodeTerm(fields=(Requirement(key="metadata.name", values=("w2",)),))
    assert room.place(pod("by-name", node_terms=(by_field,))) == "w2"


def test_a_pod_may_avoid_one_host_by_name():
    not_w1 = NodeTerm(labels=(Requirement(key=HOST_LABEL, operator=Operator.NOT_IN, values=("w1",)),))
    room = SchedulerSimulation([node("w1"), node("w2")])
    assert room.place(pod("shy", node_terms=(not_w1,))) == "w2"


def test_of_several_named_nodes_the_first_in_order_is_taken():
    either = NodeTerm(labels=(Requirement(key=HOST_LABEL, values=("w3", "w2")),))
    room = SchedulerSimulation([node("w1"), node("w2"), node("w3")])
    assert room.place(pod("p", node_terms=(either,))) == "w2"


def test_the_reason_is_given_for_one_node():
    room = SchedulerSimulation(
        [node("w1"), node("w2", cordoned=True)], [web("there", on="w1", host_ports=(HostPort(port=80),))]
    )
    assert room.why_not(pod("p"), "w1") is None
    assert_wording(room.why_not(pod("p", cpu=5000), "w1"))
    assert_wording(room.why_not(pod("p"), "w2"))
    assert_wording(room.why_not(pod("p", host_ports=(HostPort(port=80),)), "w1"))
    assert_wording(room.why_not(web("p", anti_affinity=(PodTerm(topology=HOST_LABEL, selector=WEB),)), "w1"))


def test_a_pod_put_on_a_named_node_takes_its_room():
    room = SchedulerSimulation([node("w1"), node("w2")])
    assert room.place_on(pod("big", cpu=3), "w2") is None
    assert_wording(room.place_on(pod("bigger", cpu=2), "w2"))
    assert [room.place(pod(f"p{number}", cpu=2)) for number in range(3)] == ["w1", "w1", None]


# ── taking back ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_placed_can_be_taken_back():
    room = SchedulerSimulation([node("w1")])
    room.place(pod("kept", cpu=2))
    mark = room.mark()
    assert room.place(pod("p", cpu=2)) == "w1"
    assert room.place(pod("q", cpu=2)) is None
    room.roll_back(mark)
    assert room.place(pod("q", cpu=2)) == "w1"
    assert room.place(pod("r", cpu=1)) is None


def test_a_node_that_is_added_comes_last_and_can_be_taken_back():
    room = SchedulerSimulation([node("w1")])
    mark = room.mark()
    room.add(node("new"), [pod("daemon", cpu=1)])
    assert [room.place(pod(f"p{number}", cpu=2)) for number in range(4)] == ["w1", "w1", "new", None]
    room.roll_back(mark)
    assert [room.place(pod(f"p{number}", cpu=2)) for number in range(3)] == ["w1", "w1", None]
    with pytest.raises(KeyError):
        room.why_not(pod("p"), "new")


def test_many_nodes_can_be_added():
    room = SchedulerSimulation([])
    assert room.place(pod("early")) is None
    for number in range(9):
        room.add(node(f"n{number}"))
    assert [room.place(pod(f"p{number}", cpu=4)) for number in range(10)] == [*(f"n{each}" for each in range(9)), None]


def test_a_place_that_did_not_fit_is_tried_again_after_a_roll_back():
    port = (HostPort(port=80),)
    room = SchedulerSimulation([node("w1"), node("w2")])
    rules = Rules(host_ports=port)
    first, second, third = (Pod(name=name, rules=rules) for name in "abc")
    mark = room.mark()
    assert [room.place(each) for each in (first, second, third)] == ["w1", "w2", None]
    room.add(node("w3"))
    assert room.place(third) == "w3"
    room.roll_back(mark)
    assert [room.place(each) for each in (third, second, first)] == ["w1", "w2", None]


# ── letting a node go ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_is_taken_out_gives_up_the_pods_that_need_another_place():
    daemon = pod("daemon", on="w1", owner=Owner(kind="DaemonSet", name="logs"))
    mirror = pod("mirror", on="w1", mirror=True)
    going = pod("going", on="w1", deleted_at=NOON)
    plain = pod("plain", on="w1")
    room = SchedulerSimulation([node("w1"), node("w2")], [daemon, mirror, going, plain])
    assert room.take_out("w1") == (plain,)
    assert_wording(room.why_not(plain, "w1"))
    assert room.place(plain) == "w2"
    assert room.place(pod("bound", node_selector={HOST_LABEL: "w1"})) is None


def test_a_node_can_go_when_its_pods_fit_elsewhere_and_then_they_are_elsewhere():
    room = SchedulerSimulation([node("w1"), node("w2")], [pod("a", cpu=2, on="w1"), pod("b", cpu=1, on="w2")])
    assert room.try_drain("w1") is None
    assert room.place(pod("c", cpu=2)) is None
    assert room.place(pod("c", cpu=1)) == "w2"


def test_a_node_stays_when_one_of_its_pods_fits_nowhere_and_nothing_has_changed():
    small, big = pod("small", cpu=1, on="w1"), pod("big", cpu=3, on="w1")
    room = SchedulerSimulation([node("w1"), node("w2")], [small, big, pod("there", cpu=2, on="w2")])
    assert room.try_drain("w1") == UnplaceablePod(big, "fits on no other node")
    assert room.place(pod("c", cpu=2)) == "w2"
    assert room.place(pod("d", cpu=1)) is None


def test_a_node_stays_when_a_small_pod_may_take_the_only_place_of_a_big_one():
    small, big = pod("a", cpu=1, on="w1"), pod("b", cpu=3, on="w1")
    there = [pod("x", cpu=1, on="w2"), pod("y", cpu=3, on="w3")]
    room = SchedulerSimulation([node("w1"), node("w2"), node("w3")], [small, big, *there])
    assert room.try_drain("w1") == UnplaceablePod(
        big, "may fit on no other node once the pods that leave with it are there"
    )
    assert room.place(pod("c", cpu=3)) == "w2"


def test_the_pod_that_keeps_a_node_does_not_depend_on_whether_equal_rules_are_one_object():
    """Rules that were read twice are two equal objects, and one after a replay reads them from the archive."""
    twins = [pod(name, cpu=3, on="w1") for name in ("a", "b")]
    shared = [twins[0], replace(twins[1], rules=twins[0].rules)]
    others = [pod("s", on="w1"), pod("x", on="w2"), pod("y", on="w3"), pod("z", cpu=3, on="w4")]
    nodes = [node(name) for name in ("w1", "w2", "w3", "w4")]
    kept = [SchedulerSimulation(nodes, [*pods, *others]).try_drain("w1").pod.name for pods in (twins, shared)]
    assert kept == ["b", "b"]


def test_a_node_can_go_when_a_big_pod_has_more_places_than_there_are_small_ones_to_take_them():
    on_w1 = [pod("a", cpu=1, on="w1"), pod("b", cpu=3, on="w1")]
    there = [pod("x", cpu=1, on="w2"), pod("y", cpu=1, on="w3")]
    assert SchedulerSimulation([node("w1"), node("w2"), node("w3")], [*on_w1, *there]).try_drain("w1") is None


def test_pods_that_leave_a_node_go_to_the_emptiest_one_by_one():
    on_w1 = [pod("a", cpu=1, on="w1"), pod("b", cpu=1, on="w1"), pod("c", cpu=1, on="w1")]
    room = SchedulerSimulation([node("w1"), node("w2"), node("w3")], [*on_w1, pod("x", cpu=1, on="w2")])
    assert room.try_drain("w1") is None
    assert room.why_not(pod("d", cpu=3), "w2") is not None
    assert [room.place(pod("e", cpu=2)), room.place(pod("f", cpu=2))] == ["w2", "w3"]


def test_a_node_stays_when_the_emptiest_node_takes_only_the_first_of_those_that_keep_together():
    together = (PodTerm(topology=HOST_LABEL, selector=WEB),)
    group = [web(f"p{number}", on="w1", cpu=2, affinity=together) for number in range(2)]
    small = NodeModel(name="w3", labels={HOST_LABEL: "w3"}, allocatable=Resources(cpu=3, memory=3, pods=10))
    large = NodeModel(name="w2", labels={HOST_LABEL: "w2"}, allocatable=Resources(cpu=8, memory=8, pods=10))
    taken = pod("x", cpu=2, on="w2")
    assert SchedulerSimulation([node("w1"), large, small], [*group, taken]).try_drain("w1").pod == group[1]
    assert SchedulerSimulation([node("w1"), large, small], group).try_drain("w1") is None


def test_of_two_pods_the_one_with_more_memory_is_settled_first_and_then_names_decide():
    def need(name, memory):
        return Pod(name=name, node="w1", requests=Resources(cpu=1, memory=memory))

    full = [NodeModel(name="w2", allocatable=Resources(cpu=9, memory=0, pods=9))]
    assert SchedulerSimulation([node("w1"), *full], [need("a", 1), need("b", 2)]).try_drain("w1").pod.name == "b"
    assert SchedulerSimulation([node("w1"), *full], [need("d", 1), need("c", 1)]).try_drain("w1").pod.name == "c"


def test_two_nodes_cannot_both_go_to_the_same_free_place():
    there = [pod("a", cpu=3, on="w1"), pod("b", cpu=3, on="w2")]
    room = SchedulerSimulation([node("w1"), node("w2"), node("w3")], there)
    assert room.try_drain("w1") is None
    assert room.try_drain("w2").pod == there[1]


def test_a_pod_never_moves_to_a_node_that_is_itself_about_to_leave():
    room = SchedulerSimulation([node("w1"), node("w2")], [pod("a", on="w2")])
    room.take_out("w1")
    assert room.try_drain("w2").pod.name == "a"


def test_a_node_on_which_data_lies_cannot_go():
    data = pod("data", on="w1", volumes=(Volume(kind=VolumeKind.LOCAL, node="w1"),))
    assert SchedulerSimulation([node("w1"), node("w2")], [data]).try_drain("w1").pod == data


def test_a_leaving_node_still_counts_as_an_empty_domain_for_pods_that_are_spread():
    spread = (Spread(topology=HOST_LABEL, selector=WEB),)
    one_each = [web(f"p{number}", on=f"w{number}", spread=spread) for number in range(3)]
    room = SchedulerSimulation([node(f"w{number}") for number in range(3)], one_each)
    assert room.try_drain("w0").pod == one_each[0]


# ── the tree ─────────────────────────────────────────────────────────────────────────────────────────────────────


def places(*free):
    return [
        NodeState(NodeModel(name=f"w{index}", allocatable=Resources(cpu=cpu, memory=memory, pods=1)), index)
        for index, (cpu, memory) in enumerate(free)
    ]


def anyone(place):
    return True


def test_the_first_place_needs_enough_of_both():
    tree = FirstFit(NodeModel(name="w"), places((1, 9), (9, 1), (5, 5), (6, 6)))
    assert tree.first(Resources(cpu=5, memory=5), anyone, 0).index == 2
    assert tree.first(Resources(cpu=6, memory=5), anyone, 0).index == 3
    assert tree.first(Resources(cpu=7, memory=5), anyone, 0) is None
    assert tree.first(Resources(cpu=9), anyone, 0).index == 1
    assert tree.first(Resources(memory=9), anyone, 0).index == 0


def test_the_search_starts_where_it_is_told_to():
    tree = FirstFit(NodeModel(name="w"), places((1, 1), (1, 1), (1, 1)))
    assert [tree.first(Resources(cpu=1), anyone, start) for start in (1, 2)] == tree._places[1:]
    assert tree.first(Resources(cpu=1), anyone, 3) is None
    tree.append(NodeState(NodeModel(name="w3", allocatable=Resources(cpu=1, pods=1)), 3))
    assert tree.first(Resources(cpu=1), anyone, 3).index == 3


def test_places_that_do_not_suit_are_passed_by():
    tree = FirstFit(NodeModel(name="w"), places((1, 1), (1, 1), (1, 1)))
    assert tree.first(Resources(cpu=1), lambda place: place.index != 0, 0).index == 1


def test_whole_branches_without_room_are_not_looked_at():
    looked_at = []
    many = places(*[(1, 1)] * 500, (9, 9), *[(1, 1)] * 499)

    def note(place):
        looked_at.append(place.index)
        return True

    tree = FirstFit(NodeModel(name="w"), many)
    assert tree.first(Resources(cpu=5), note, 0).index == 500
    assert looked_at == [500]


def test_a_full_tree_has_no_place_for_a_pod_that_asks_for_nothing():
    (full,) = places((1, 1))
    full.put(Pod(name="there"))
    tree = FirstFit(NodeModel(name="w"), [full])
    assert tree.first(Resources(), anyone, 0) is None
    full.take_last()
    tree.refresh(full)
    assert tree.first(Resources(), anyone, 0) is full
    tree.close(full)
    assert tree.first(Resources(), anyone, 0) is None
