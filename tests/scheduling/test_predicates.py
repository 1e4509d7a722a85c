"""What keeps a pod off a node. The rows on taints and cordons are the scheduler's own, in our words.

Left out of those: tolerations that compare numbers, which are an option that is off; they tolerate nothing here.
"""

import pytest

from nodefleet.model.inventory import Effect, Resources, Taint
from nodefleet.model.workload import (
    HOST_LABEL,
    ZONE_LABEL,
    HostPort,
    NodeTerm,
    Operator,
    Pod,
    Requirement,
    Rules,
    Toleration,
    Volume,
    VolumeKind,
)
from nodefleet.scheduling.predicates import (
    NodeModel,
    NodeState,
    asks_by_name,
    labels_asked_for,
    names_asked_for,
    shortage,
    tolerates,
    unmet_predicate,
)
from support.wording import assert_wording

NO, PREFER_NO, OUT = Effect.NO_SCHEDULE, Effect.PREFER_NO_SCHEDULE, Effect.NO_EXECUTE
MIB = 1 << 20


def tol(key="", value="", operator="Equal", effect=None):
    return Toleration(key=key, value=value, operator=operator, effect=effect)


def taint(key, value="", effect=NO):
    return Taint(key=key, value=value, effect=effect)


USER_1 = taint("dedicated", "user1")
FOO = taint("foo", "bar")


@pytest.mark.parametrize(
    ("taints", "tolerations", "fits"),
    [
        ([USER_1], [], False),
        ([USER_1], [tol("dedicated", "user1", effect=NO)], True),
        ([USER_1], [tol("dedicated", "user2", effect=NO)], False),
        ([FOO], [tol("foo", operator="Exists", effect=NO)], True),
        ([taint("dedicated", "user2"), FOO], [tol("dedicated", "user2"), tol("foo", operator="Exists")], True),
        ([FOO], [tol("foo", "bar", effect=PREFER_NO)], False),
        ([FOO], [tol("foo", "bar")], True),
        ([taint("dedicated", "user1", PREFER_NO)], [tol("dedicated", "user2", effect=NO)], True),
        ([taint("dedicated", "user1", PREFER_NO)], [], True),
        ([taint("sla", "950")], [tol("sla", "750", operator="Gt", effect=NO)], False),
        ([taint("sla", "800")], [tol("sla", "950", operator="Lt", effect=NO)], False),
        ([USER_1], [tol("dedicated", "user1"), tol("sla", "750", operator="Gt")], True),
        ([USER_1, taint("sla", "950")], [tol("dedicated", "user1"), tol("sla", "750", operator="Gt")], False),
        ([taint("foo", "bar", OUT)], [], False),
        ([taint("foo", "bar", OUT)], [tol("foo", "bar", effect=NO)], False),
        ([taint("foo", "bar", OUT)], [tol("foo", "bar", effect=OUT)], True),
        ([FOO, taint("other")], [tol("foo", "bar")], False),
        ([FOO, taint("other", "x", OUT)], [tol(operator="Exists")], True),
        ([FOO], [tol("other", operator="Exists")], False),
    ],
)
def test_every_taint_that_keeps_pods_off_must_be_tolerated(taints, tolerations, fits):
    pod = Pod(name="p", rules=Rules(tolerations=tuple(tolerations)))
    assert (unmet_predicate(pod, NodeModel(name="w", taints=tuple(taints))) is None) is fits


def test_the_taint_is_named():
    node = NodeModel(name="w", taints=(taint("a", effect=PREFER_NO), taint("b", "c", OUT)))
    assert_wording(unmet_predicate(Pod(name="p"), node))
    assert_wording(unmet_predicate(Pod(name="p"), NodeModel(name="w", taints=(taint("b"),))))


def test_a_toleration_of_one_effect_does_not_tolerate_another():
    assert tolerates(tol("foo", "bar", effect=NO), FOO)
    assert not tolerates(tol("foo", "bar", effect=OUT), FOO)


@pytest.mark.parametrize(
    ("cordoned", "tolerations", "reason"),
    [
        (True, [], "the node is cordoned"),
        (False, [], None),
        (True, [tol("node.kubernetes.io/unschedulable", effect=NO)], None),
        (True, [tol("node.kubernetes.io/unschedulable", effect=OUT)], "the node is cordoned"),
        (True, [tol(operator="Exists")], None),
    ],
)
def test_a_cordoned_node_takes_only_pods_that_tolerate_a_cordon(cordoned, tolerations, reason):
    pod = Pod(name="p", rules=Rules(tolerations=tuple(tolerations)))
    assert unmet_predicate(pod, NodeModel(name="w", cordoned=cordoned)) == reason


def test_a_closed_node_takes_nobody():
    pod = Pod(name="p", rules=Rules(tolerations=(tol(operator="Exists"),)))
    assert_wording(unmet_predicate(pod, NodeModel(name="w", closed="the node is unready")))


def test_the_label_that_is_wanted_is_named():
    pod = Pod(name="p", rules=Rules(node_selector={"disk": "ssd"}))
    assert_wording(unmet_predicate(pod, NodeModel(name="w", labels={"disk": "hdd"})))
    assert unmet_predicate(pod, NodeModel(name="w", labels={"disk": "ssd"})) is None


def test_a_node_affinity_that_does_not_match_keeps_it_off():
    term = NodeTerm(labels=(Requirement(key="disk", operator=Operator.EXISTS),))
    pod = Pod(name="p", rules=Rules(node_terms=(term,)))
    assert_wording(unmet_predicate(pod, NodeModel(name="w")))
    assert unmet_predicate(pod, NodeModel(name="w", labels={"disk": ""})) is None


@pytest.mark.parametrize(
    ("volume", "reason"),
    [
        (Volume(kind=VolumeKind.CLAIM, name="data"), None),
        (Volume(kind=VolumeKind.CLAIM, name="data", zones=("a",)), None),
        (Volume(kind=VolumeKind.CLAIM, name="data", zones=("b", "a")), None),
        (Volume(kind=VolumeKind.CLAIM, name="data", zones=("b", "c")), "its volume data is in b or c"),
        (Volume(kind=VolumeKind.LOCAL, name="data", node="w1"), None),
        (Volume(kind=VolumeKind.LOCAL, name="data", node="w2"), "its volume data is on node w2"),
        (Volume(kind=VolumeKind.LOCAL, name="data", node="w1", zones=("b",)), "its volume data is in b"),
        (Volume(kind=VolumeKind.CLAIM, name="data", unusable="does not exist"), "its claim data does not exist"),
    ],
)
def test_a_pod_goes_where_its_data_is(volume, reason):
    pod = Pod(name="p", volumes=(Volume(kind=VolumeKind.EMPTY_DIR), volume))
    assert unmet_predicate(pod, NodeModel(name="w1", labels={ZONE_LABEL: "a"})) == reason


def test_a_node_without_a_zone_cannot_reach_a_volume_that_has_one():
    pod = Pod(name="p", volumes=(Volume(kind=VolumeKind.CLAIM, name="data", zones=("a",)),))
    assert_wording(unmet_predicate(pod, NodeModel(name="w1")))


def port(number, protocol="TCP", address="0.0.0.0"):  # noqa: S104
    return HostPort(port=number, protocol=protocol, address=address)


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        ([], [port(80)], True),
        ([port(80)], [], True),
        ([port(80)], [port(80)], False),
        ([port(80)], [port(81)], True),
        ([port(80)], [port(80, "UDP")], True),
        ([port(80)], [port(80, address="10.0.0.1")], False),
        ([port(80, address="10.0.0.1")], [port(80)], False),
        ([port(80, address="10.0.0.1")], [port(80, address="10.0.0.1")], False),
        ([port(80, address="10.0.0.1")], [port(80, address="10.0.0.2")], True),
        ([port(80), port(443)], [port(8080), port(443)], False),
    ],
)
def test_a_host_port_is_free_if_nobody_has_it_on_a_common_address(taken, wanted, fits):
    place = NodeState(NodeModel(name="w", allocatable=Resources(pods=9)), 0)
    place.put(Pod(name="there", rules=Rules(host_ports=tuple(taken))))
    reason = shortage(Pod(name="p", rules=Rules(host_ports=tuple(wanted))), place)
    assert reason == (None if fits else "its host port is taken")


def test_a_pod_that_left_gives_back_its_room_and_ports():
    place = NodeState(
        NodeModel(name="w", allocatable=Resources(cpu=2, memory=3, storage=4, pods=2, extended={"g": 1})), 0
    )
    before = place.free
    place.put(Pod(name="plain", requests=Resources(cpu=1)))
    there = Pod(
        name="there",
        requests=Resources(cpu=1, memory=3, storage=4, extended={"g": 1, "h": 2}),
        rules=Rules(host_ports=(port(80),)),
    )
    place.put(there)
    assert place.free == Resources(extended={"g": 0, "h": -2})
    assert place.take_last() is there
    assert place.has_ports((port(80),))
    place.take_last()
    assert place.free == Resources(cpu=2, memory=3, storage=4, pods=2, extended={"g": 1, "h": 0})
    assert before == Resources(cpu=2, memory=3, storage=4, pods=2, extended={"g": 1})


def test_what_is_short_is_said_with_both_figures():
    free = Resources(cpu=1930, memory=512 * MIB, storage=-MIB, pods=1, extended={"gpu": 1})
    asked = Resources(cpu=4000, memory=2048 * MIB, storage=MIB // 2, extended={"gpu": 2, "fpga": 1})
    place = NodeState(NodeModel(name="w", allocatable=free), 0)
    assert_wording(shortage(Pod(name="p", requests=asked), place))


def term(*labels, fields=()):
    return NodeTerm(labels=labels, fields=fields)


def req(key, *values, operator=Operator.IN):
    return Requirement(key=key, operator=operator, values=values)


NAME = "metadata.name"


@pytest.mark.parametrize(
    ("rules", "volumes", "by_name", "names"),
    [
        (Rules(), (), False, None),
        (Rules(node_selector={"disk": "ssd"}), (), False, None),
        (Rules(node_selector={HOST_LABEL: "w1"}), (), True, {"w1"}),
        (Rules(node_terms=(term(req("disk", "ssd")),)), (), False, None),
        (Rules(node_terms=(term(fields=(req(NAME, "w1"),)),)), (), True, {"w1"}),
        (Rules(node_terms=(term(req(HOST_LABEL, "w1", "w2")),)), (), True, {"w1", "w2"}),
        (Rules(node_terms=(term(req("disk", "ssd"), req(HOST_LABEL, "w1")),)), (), True, {"w1"}),
        (Rules(node_terms=(term(req(HOST_LABEL, "w1")), term(fields=(req(NAME, "w2"),)))), (), True, {"w1", "w2"}),
        (Rules(node_terms=(term(req(HOST_LABEL, "w1")), term(req("disk", "ssd")))), (), True, None),
        (Rules(node_terms=(term(req(HOST_LABEL, "w1", operator=Operator.NOT_IN)),)), (), True, None),
        (Rules(node_terms=(term(fields=(req(NAME, "w1", operator=Operator.NOT_IN),)),)), (), True, None),
        (Rules(), (Volume(kind=VolumeKind.LOCAL, node="w3"),), True, {"w3"}),
        (Rules(), (Volume(kind=VolumeKind.CLAIM, zones=("a",)),), False, None),
        (
            Rules(node_terms=(term(req(HOST_LABEL, "w1", "w2")),)),
            (Volume(kind=VolumeKind.LOCAL, node="w3"),),
            True,
            {"w3"},
        ),
    ],
)
def test_rules_that_speak_of_single_nodes_are_recognised(rules, volumes, by_name, names):
    pod = Pod(name="p", rules=rules, volumes=volumes)
    assert asks_by_name(pod) is by_name
    assert names_asked_for(pod) == names


def test_the_labels_asked_for_leave_out_the_one_that_names_a_node():
    rules = Rules(
        node_selector={"disk": "ssd", HOST_LABEL: "w1"},
        node_terms=(term(req("arch", "arm64"), req(HOST_LABEL, "w1")), term(req("gpu", "yes"))),
    )
    assert list(labels_asked_for(rules)) == ["disk", "arch", "gpu"]
