"""What a new node would be like, and which nodes are on their way."""

from dataclasses import replace

import pytest

from nodefleet.model.inventory import NOTHING, InstanceState, InstanceType, Market, Notice, NoticeKind, Resources, Taint
from nodefleet.model.operations import Launch, Removal, RemovalReason
from nodefleet.model.snapshot import LaunchTarget, Missing
from nodefleet.model.workload import (
    HOST_LABEL,
    TYPE_LABEL,
    ZONE_LABEL,
    HostPort,
    NodeTerm,
    Operator,
    Owner,
    PodPhase,
    Requirement,
    Rules,
    Toleration,
    Volume,
    VolumeKind,
)
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix, Pool
from nodefleet.scheduling.packing import expected_nodes, simulate_fleet, zones_in_use
from nodefleet.scheduling.templates import (
    ANY_STORAGE,
    KUBELET_PODS,
    observed_sizes,
    template_refusal,
    template_source,
)
from support.builders import CATALOG, GIB, SMALL, TARGET, after, instance, look, node, pod, templates, waiting
from support.wording import assert_wording

POOL = Pool(market=MarketMix(types=("t3.small",), memory_overhead_percent=0))
POLICY = Policy(pools=(POOL,))


def daemon(name, on="w000", cpu=100, namespace="kube-system", **changes):
    rules = Rules(
        node_terms=(NodeTerm(fields=(Requirement(key="metadata.name", values=(on,)),)),),
        tolerations=(Toleration(operator="Exists"),),
    )
    owner = Owner(kind="DaemonSet", name=name.split("-")[0])
    base = pod(name, on, namespace=namespace, owner=owner, requests=Resources(cpu=cpu, memory=GIB // 8), rules=rules)
    return replace(base, **changes)


# ── templates ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_there_is_one_template_for_each_type_and_zone_in_the_policys_order():
    pool = Pool(market=MarketMix(types=("t3a.small", "unheard.of", "t3.small")))
    found = templates(pool, look(0, pods=[]))
    assert [(each.pool, each.type, each.zone) for each in found] == [
        ("default", "t3a.small", "a"),
        ("default", "t3a.small", "b"),
        ("default", "t3.small", "a"),
        ("default", "t3.small", "b"),
    ]


def test_a_pool_without_subnets_or_without_known_types_has_no_template():
    assert templates(POOL, look(0, pods=[], targets=())) == ()
    assert templates(POOL, look(0, pods=[], catalog=())) == ()
    assert templates(replace(POOL, name="other"), look(0, pods=[])) == ()


def test_a_new_node_has_the_labels_and_taints_of_its_pool():
    taints = (Taint(key="dedicated", value="batch"),)
    pool = replace(POOL, name="batch", labels={"disk": "ssd"}, taints=taints)
    target = LaunchTarget(pool="batch", subnets={"a": "subnet-a"})
    (template,) = templates(pool, look(0, pods=[], targets=(TARGET, target)))
    assert template.with_name("i-1").labels == {
        "disk": "ssd",
        ZONE_LABEL: "a",
        TYPE_LABEL: "t3.small",
        HOST_LABEL: "i-1",
        "node-fleet.io/pool": "batch",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    assert template.with_name("i-1").name == "i-1"
    assert template.node.taints == taints


@pytest.mark.parametrize(
    ("type_name", "arch"),
    [
        ("t3.small", "amd64"),
        ("t4g.small", "arm64"),
        ("m7gd.large", "arm64"),
        ("is4gen.large", "arm64"),
        ("a1.large", "arm64"),
        ("g5.large", "amd64"),
        ("g5g.large", "arm64"),
        ("m7i-flex.large", "amd64"),
        ("t3a.small", "amd64"),
    ],
)
def test_the_architecture_follows_from_the_types_name_until_a_node_tells(type_name, arch):
    pool = Pool(market=MarketMix(types=(type_name,)))
    seen = look(0, pods=[], catalog=(InstanceType(name=type_name, resources=SMALL),))
    assert templates(pool, seen)[0].node.labels["kubernetes.io/arch"] == arch


def test_a_node_of_the_type_teaches_what_all_such_nodes_have_and_not_what_a_person_added():
    base = node(0)
    taught = {"kubernetes.io/arch": "riscv", "topology.kubernetes.io/region": "eu", "by-hand": "yes"}
    seen = look(0, pods=[], instances=[instance(0)], nodes=[replace(base, labels={**base.labels, **taught})])
    labels = templates(POOL, seen)[1].node.labels
    assert (labels["kubernetes.io/arch"], labels["topology.kubernetes.io/region"]) == ("riscv", "eu")
    assert (labels[ZONE_LABEL], labels["kubernetes.io/os"], "by-hand" in labels) == ("b", "linux", False)


@pytest.mark.parametrize(
    ("zone", "region"), [("eu-west-1a", "eu-west-1"), ("us-west-2-lax-1a", "us-west-2"), ("a", None)]
)
def test_the_region_follows_from_the_zones_name(zone, region):
    seen = look(0, pods=[], targets=(replace(TARGET, subnets={zone: "subnet"}),))
    assert templates(POOL, seen)[0].node.labels.get("topology.kubernetes.io/region") == region


def test_the_smallest_ready_node_of_each_of_the_pools_types_is_remembered():
    sizes = {"t3.small": replace(SMALL, cpu=1), "t9.gone": SMALL}
    seen = look(0, pods=[], instances=[instance(0)], nodes=[node(0, allocatable=replace(SMALL, cpu=1800))])
    assert observed_sizes(POOL, seen, sizes) == {"t3.small": replace(SMALL, cpu=1800)}
    assert observed_sizes(POOL, replace(seen, kubernetes=Missing("away")), sizes) == {"t3.small": sizes["t3.small"]}


def test_what_a_node_of_the_type_offers_is_learned_from_the_smallest_ready_one():
    sizes = {0: 1900, 1: 1800, 2: 1700, 3: 1600, 4: 1500}
    nodes = [node(number, allocatable=replace(SMALL, cpu=cpu)) for number, cpu in sizes.items()]
    nodes[2] = replace(nodes[2], ready=False)
    nodes[3] = replace(nodes[3], control_plane=True)
    nodes[4] = replace(nodes[4], pool=None)
    seen = look(0, pods=[], instances=map(instance, sizes), nodes=nodes)
    assert {each.free.cpu for each in templates(POOL, seen)} == {1800}


def test_what_one_pool_learned_is_not_taken_for_another():
    other = node(0, pool="other", allocatable=replace(SMALL, cpu=1))
    assert templates(POOL, look(0, pods=[], nodes=[other]))[0].free == replace(SMALL, storage=ANY_STORAGE)


def test_a_catalogue_that_does_not_know_the_disk_does_not_keep_pods_away():
    offer = InstanceType(name="t3.small", resources=Resources(cpu=1))
    free = templates(POOL, look(0, pods=[], catalog=(offer,)))[0].free
    assert (free.storage, free.pods) == (ANY_STORAGE, KUBELET_PODS)


def disk_of(disk_gb, **scene):
    pool = replace(POOL, market=replace(POOL.market, disk_overhead_percent=10))
    return templates(pool, look(0, pods=[], targets=(replace(TARGET, disk_gb=disk_gb),), **scene))[0].free.storage


def test_the_disk_of_a_new_node_is_the_launch_templates():
    assert disk_of(20) == 18 * GIB
    assert disk_of(0) == ANY_STORAGE


def test_a_node_that_joined_teaches_how_much_of_the_disk_pods_may_use():
    there = {"instances": [instance(0)], "nodes": [node(0, allocatable=replace(SMALL, storage=19 * GIB))]}
    assert disk_of(20, **there) == 19 * GIB
    assert disk_of(50, **there) == 45 * GIB  # the launch template was changed after the node was launched


def attaching(number, limit, **changes):
    return node(number, attach_limits={"ebs.csi.aws.com": limit}, **changes)


def test_a_new_node_attaches_as_many_volumes_as_the_least_of_its_type():
    nodes = [attaching(0, 25), attaching(1, 24), attaching(2, 3)]
    instances = [instance(0), instance(1), instance(2, type="t2.small")]
    seen = look(0, pods=[], instances=instances, nodes=nodes)
    assert templates(POOL, seen)[0].node.attach_limits == {"ebs.csi.aws.com": 24}


def test_the_least_of_all_nodes_stands_for_a_type_that_none_has():
    seen = look(0, pods=[], instances=[instance(0, type="t2.small")], nodes=[attaching(0, 3)])
    assert templates(POOL, seen)[0].node.attach_limits == {"ebs.csi.aws.com": 3}
    assert templates(POOL, look(1, pods=[]))[0].node.attach_limits == {}


def test_the_type_is_taken_from_the_instance_and_else_from_the_label():
    big = replace(SMALL, cpu=7777)
    seen = replace(look(0, pods=[], nodes=[node(0, allocatable=big)]), instances=Missing("EC2 is away"))
    assert templates(POOL, seen)[0].free.cpu == 7777
    seen = replace(seen, instances=(instance(0, type="t2.small"),))
    assert templates(POOL, seen)[0].free.cpu == 2000
    nameless = replace(seen.kubernetes, nodes=(node(0, labels={}, allocatable=big),))
    assert templates(POOL, replace(seen, instances=(), kubernetes=nameless))[0].free.cpu == 2000


def test_a_catalogue_that_does_not_know_how_many_pods_means_the_kubelets_own_number():
    offer = InstanceType(name="t3.small", resources=replace(SMALL, pods=0))
    assert templates(POOL, look(0, pods=[], catalog=(offer,)))[0].free.pods == KUBELET_PODS == 110
    assert templates(POOL, look(0, pods=[]))[0].free.pods == 30


# ── daemons ──────────────────────────────────────────────────────────────────────────────────────────────────────


def free_with(*pods, pool=POOL):
    return templates(pool, look(1, pods=pods))[0].free


def test_each_daemonset_takes_its_share_of_a_new_node_once():
    free = free_with(daemon("logs-1"), daemon("logs-2", on="w001"), daemon("net-1", cpu=50), pod("web-1", "w000"))
    assert free == Resources(cpu=1850, memory=2 * GIB - GIB // 4, pods=28)


def test_of_a_daemonsets_pods_the_largest_counts():
    assert free_with(daemon("logs-1", cpu=10), daemon("logs-2", cpu=300), daemon("logs-3", cpu=20)).cpu == 1700


def daemon_set(name, cpu, **rules):
    """As the DaemonSet's template says, without any pod of it."""
    owner, rules = Owner(kind="DaemonSet", name=name), Rules(**rules)
    return daemon(name, None, cpu, owner=owner, rules=rules, phase=PodPhase.PENDING)


def free_on_new_node(*daemon_sets, pods=(), pool=POOL):
    seen = look(1, pods=pods)
    return templates(pool, replace(seen, kubernetes=replace(seen.kubernetes, daemon_sets=daemon_sets)))[0].free


def test_a_daemonset_that_has_no_pod_yet_takes_its_share_of_a_new_node():
    assert free_on_new_node(daemon_set("logs", 300)).cpu == 1700


def test_a_daemonset_whose_template_does_not_match_a_new_node_takes_nothing():
    assert free_on_new_node(daemon_set("logs", 300, node_selector={"disk": "ssd"})).cpu == 2000
    tainted = replace(POOL, taints=(Taint(key="dedicated"),))
    assert free_on_new_node(daemon_set("logs", 300), pool=tainted).cpu == 2000
    tolerant = daemon_set("logs", 300, tolerations=(Toleration(operator="Exists"),))
    assert free_on_new_node(tolerant, pool=tainted).cpu == 1700


def test_a_daemonset_counts_once_with_the_larger_of_its_template_and_its_pods():
    larger = daemon("logs-1", cpu=500)  # a LimitRange or a webhook may have made it so
    assert free_on_new_node(daemon_set("logs", 300), pods=[larger]).cpu == 1500
    assert free_on_new_node(daemon_set("logs", 300), pods=[daemon("logs-1", cpu=100)]).cpu == 1700


def test_new_nodes_follow_a_daemonsets_template_and_not_its_older_pods():
    moved = daemon_set("logs", 300, node_selector={"disk": "ssd"})
    assert free_on_new_node(moved, pods=[daemon("logs-1", cpu=300)]).cpu == 2000


def test_daemonsets_of_two_namespaces_are_two():
    assert free_with(daemon("logs-1"), daemon("logs-1", namespace="other")).cpu == 1800


def test_pods_that_have_finished_or_whose_daemonset_is_gone_will_not_be_there():
    orphan = daemon("old-1", owner=Owner(kind="DaemonSet", name="old", gone=True))
    assert free_with(orphan, daemon("done-1", phase=PodPhase.FAILED)) == SMALL


def test_the_name_of_the_node_a_daemon_sits_on_is_not_asked_of_a_new_one():
    terms = (
        NodeTerm(
            labels=(Requirement(key="kubernetes.io/arch", values=("amd64",)),),
            fields=(Requirement(key="metadata.name", values=("w000",)),),
        ),
    )
    assert free_with(daemon("intel-1", rules=Rules(node_terms=terms))).cpu == 1900


def test_a_daemonset_that_does_not_want_such_a_node_takes_nothing():
    picky = daemon("gpu-1", rules=Rules(node_selector={"gpu": "yes"}))
    assert free_with(picky) == SMALL
    assert free_with(picky, pool=replace(POOL, labels={"gpu": "yes"})).cpu == 1900
    timid = daemon("timid-1", rules=Rules())
    assert free_with(timid, pool=replace(POOL, taints=(Taint(key="dedicated"),))) == SMALL


def test_the_labels_beside_the_node_name_still_count():
    name = Requirement(key="metadata.name", values=("w000",))
    arm = Requirement(key="kubernetes.io/arch", operator=Operator.IN, values=("arm64",))
    only_arm = daemon("arm-1", rules=Rules(node_terms=(NodeTerm(labels=(arm,), fields=(name,)),)))
    assert free_with(only_arm) == SMALL
    either = daemon("arm-1", rules=Rules(node_terms=(NodeTerm(labels=(arm,)), NodeTerm(fields=(name,)))))
    assert free_with(either).cpu == 1900


def test_a_daemons_host_port_is_taken_on_a_new_node_too():
    port = (HostPort(port=80),)
    found = templates(POOL, look(1, pods=[daemon("lb-1", rules=Rules(host_ports=port))]))
    wanting = pod("web-1", rules=Rules(host_ports=port))
    assert_wording(template_refusal(wanting, found))
    assert not found[0].can_hold(wanting)


# ── who can hold a pod ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"requests": Resources(cpu=2000)}, None),
        ({"requests": Resources(cpu=2001)}, "a new t3.small: it asks for more than is free: CPU 2.001 of 2"),
        ({"rules": Rules(node_selector={"disk": "ssd"})}, "it wants a node with disk=ssd"),
        ({"volumes": (Volume(kind=VolumeKind.CLAIM, name="data", zones=("b",)),)}, None),
        ({"volumes": (Volume(kind=VolumeKind.CLAIM, name="data", zones=("c",)),)}, "its volume data is in c"),
        (
            {
                "volumes": (Volume(kind=VolumeKind.CLAIM, name="data", zones=("b",)),),
                "requests": Resources(memory=3 * GIB),
            },
            "a new t3.small: it asks for more than is free: memory 3072 of 2048 MiB",
        ),
    ],
)
def test_that_no_new_node_holds_a_pod_is_explained_by_the_one_that_comes_nearest(changes, reason):
    found = templates(POOL, look(0, pods=[]))
    wanting = pod("web-1", **changes)
    assert template_refusal(wanting, found) == reason
    assert any(each.can_hold(wanting) for each in found) == (reason is None)


def test_nobody_refuses_where_nobody_is_asked():
    assert template_refusal(pod("web-1"), ()) is None


# ── what stands and what is on its way ───────────────────────────────────────────────────────────────────────────


def launch(**changes):
    base = Launch(
        id="op-1",
        pool="default",
        zone="b",
        market=Market.SPOT,
        types=("unheard.of", "t3.small"),
        count=3,
        template="lt-1",
        template_version="3",
        subnet="subnet-b",
        reason="more",
        started=after(-10),
        deadline=after(100),
    )
    return replace(base, **changes)


def removal():
    return Removal(
        id="op-2",
        pool="default",
        instance="i-077",
        why=RemovalReason.UNHEALTHY,
        reason="not ready",
        started=after(-10),
        deadline=after(100),
    )


def standing(seen, policy=POLICY):
    fleet = derive_workers(seen, policy)
    on_their_way = expected_nodes(seen, policy.pools, fleet, template_source(seen))
    room = simulate_fleet(seen.kubernetes.nodes, seen.kubernetes.pods, fleet, on_their_way)
    return room, on_their_way, zones_in_use(fleet, on_their_way)


def fills(room, cpu=2000, **changes):
    """Where pods of a node's size would go, until there is no more room."""
    found = []
    while (name := room.place(pod(f"big-{len(found)}", requests=Resources(cpu=cpu), **changes))) is not None:
        found.append(name)
    return found


YOUNG = {"launched_at": after(-60)}


def test_nodes_are_filled_by_name_and_those_that_boot_come_last():
    seen = look([1, 0], pods=[], instances=[instance(2, **YOUNG), instance(3, state=InstanceState.PENDING, **YOUNG)])
    room, on_their_way, zones = standing(seen)
    assert fills(room) == ["w000", "w001", "i-002", "i-003"]
    assert [(each.name, each.zone) for each in on_their_way] == [("i-002", "a"), ("i-003", "b")]
    assert zones["default"] == {"a": 2, "b": 2}


def test_a_launch_that_ec2_does_not_show_yet_is_room_already():
    young = instance(5, operation="op-1", **YOUNG)
    seen = look(0, pods=[], instances=[young], operations=(removal(), launch()))
    room, _, zones = standing(seen)
    assert fills(room) == ["i-005", "op-1/0", "op-1/1"]
    assert zones["default"] == {"b": 3}
    assert room.why_not(pod("x", rules=Rules(node_selector={ZONE_LABEL: "b"}), requests=NOTHING), "op-1/0") is None


def test_an_answered_launch_counts_what_ec2_gave():
    answered = launch(answered=True, instances=("i-005",))
    assert fills(standing(look(0, pods=[], operations=(answered,)))[0]) == ["op-1/0"]
    shown = look(0, pods=[], instances=[instance(5, operation="op-1", **YOUNG)], operations=(answered,))
    assert fills(standing(shown)[0]) == ["i-005"]


def test_a_launch_of_types_or_for_a_pool_that_nobody_knows_is_no_room_but_has_its_zone():
    for unknown in (launch(types=("unheard.of",)), launch(pool="other")):
        room, _, zones = standing(look(0, pods=[], operations=(unknown,)))
        assert fills(room) == []
        assert zones[unknown.pool] == {"b": 3}


def test_launches_count_as_unseen_while_ec2_does_not_answer():
    seen = replace(look(1, pods=[], operations=(launch(count=1),)), instances=Missing("EC2 is away"))
    assert fills(standing(seen)[0]) == ["w000", "op-1/0"]


def test_a_node_that_joined_but_is_not_ready_for_the_first_time_boots_and_keeps_its_pods():
    early = [pod("early-1", "w002"), pod("done-1", "w002", phase=PodPhase.SUCCEEDED), daemon("logs-1", on="w002")]
    seen = look(0, pods=early, instances=[instance(2, **YOUNG)], nodes=[node(2, ready=False)])
    room, _, _ = standing(seen)
    assert fills(room, cpu=1401) == []
    assert fills(room, cpu=1400) == ["w002"]


def test_daemons_take_their_share_of_a_node_that_boots():
    seen = look(1, pods=[daemon("logs-1", cpu=400)], instances=[instance(2, **YOUNG)])
    room, _, _ = standing(seen)
    assert fills(room, cpu=1601) == []
    assert fills(room, cpu=1600) == ["w000", "i-002"]


@pytest.mark.parametrize(
    ("changes", "scene", "reason"),
    [
        ({"ready": False, "ready_changed_at": after(-60)}, {}, "the node is unready"),
        ({"ready": False, "ready_changed_at": after(-301)}, {}, "the node is unhealthy"),
        ({"cordoned": True}, {}, "the node is cordoned"),
        (
            {},
            {"notices": (Notice(instance="i-000", kind=NoticeKind.SPOT_INTERRUPTION, at=after(-5)),)},
            "the node is interrupted",
        ),
        ({"ready": False}, {"instances": ()}, "the node is orphaned"),
        ({}, {"instances": ()}, None),  # ready, though EC2 does not list it
        ({"pool": None, "ready": False}, {}, "the node is not ready"),
        ({"pool": None, "cordoned": True}, {}, "the node is cordoned"),
        ({"pool": None}, {}, None),
        ({"control_plane": True}, {}, None),
    ],
)
def test_a_node_takes_new_pods_only_if_it_is_ready_and_stays(changes, scene, reason):
    seen = look(0, pods=[], instances=[instance(0)], nodes=[node(0, **changes)])
    room, _, _ = standing(replace(seen, **scene))
    assert room.why_not(pod("web-1"), "w000") == reason


def test_a_control_plane_takes_pods_that_tolerate_it():
    master = node(0, control_plane=True, pool=None, taints=(Taint(key="node-role.kubernetes.io/control-plane"),))
    room, _, zones = standing(look(0, pods=[], nodes=[master]))
    assert fills(room) == []
    assert fills(room, rules=Rules(tolerations=(Toleration(operator="Exists"),))) == ["w000"]
    assert not zones


def test_without_ec2_the_nodes_word_counts():
    seen = look(0, pods=[], nodes=[node(0), node(1, ready=False), node(2, cordoned=True)])
    assert fills(standing(replace(seen, instances=Missing("EC2 is away")))[0]) == ["w000"]


@pytest.mark.parametrize(("phase", "free"), [(PodPhase.RUNNING, 1500), (PodPhase.SUCCEEDED, 2000)])
def test_only_pods_that_still_run_take_room_on_a_node_that_boots(phase, free):
    early = pod("web-1", "w007", phase=phase)
    young = {"instances": [instance(7, launched_at=after(-30))], "nodes": [node(7, ready=False)]}
    room, _, _ = standing(look(0, pods=[early], **young))
    assert room.place(waiting("fits-1", requests=Resources(cpu=free))) == "w007"
    assert room.place(waiting("more-1", requests=Resources(cpu=1))) is None


def test_every_worker_of_a_zone_counts():
    seen = look([0, 2, 4, 1], pods=[])
    assert zones_in_use(derive_workers(seen, POLICY), ()) == {"default": {"a": 3, "b": 1}}


def test_a_cordoned_or_failed_worker_does_not_count_for_its_zone():
    seen = look([1], pods=[], instances=[instance(0), instance(2)], nodes=[node(0, cordoned=True)])
    _, on_their_way, zones = standing(seen)
    assert on_their_way == ()
    assert zones == {"default": {"b": 1}}


def test_the_catalogue_is_only_asked_for_types_that_never_joined():
    small_one = replace(SMALL, cpu=1500)
    seen = look(0, pods=[], instances=[instance(0)], nodes=[node(0, allocatable=small_one)], catalog=CATALOG)
    pool = Pool(market=MarketMix(types=("t3.small", "t2.small")))
    assert [each.free.cpu for each in templates(pool, seen)] == [1500, 1500, 2000, 2000]
