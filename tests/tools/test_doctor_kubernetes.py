"""The checks of Kubernetes: the server, our role, the nodes against EC2's instances, and pods that pin a worker."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.adapters.kubernetes.resources import NEEDED
from nodefleet.errors import UnavailableError
from nodefleet.model.inventory import InstanceState, Node
from nodefleet.model.snapshot import ClusterView
from nodefleet.model.workload import SAFE_TO_EVICT, ZONE_LABEL, Budget, Owner, Selector
from nodefleet_tools.doctor import api_server
from nodefleet_tools.doctor.findings import UnknownError
from nodefleet_tools.doctor.nodes import nodes
from nodefleet_tools.doctor.system_pods import system_pods
from support.builders import NOON, instance, node, pod
from support.doctor_patients import AWAY, MASTER, SERVER, Shop, signs
from support.wording import assert_wording

GONE = UnavailableError("Kubernetes", "connection refused")


@pytest.mark.parametrize(
    ("version", "begins"),
    [
        ("v1.34.4+k3s1", "✓ it answers, and is v1.34.4+k3s1"),
        ("v1.25.0", "! it is v1.25.0, which is supported"),
        ("v1.21.14+k3s1", "✗ it is v1.21.14+k3s1 → Upgrade it to 1.22 or newer"),
        ("unknown", "! it answers, and calls its version 'unknown'"),
    ],
)
def test_old_servers_are_told_from_usable_ones(version, begins):
    (line,) = Shop(version=version).found(api_server.version)
    assert line.startswith(begins)


def test_a_server_that_does_not_answer_is_told_once():
    with pytest.raises(UnavailableError) as caught:
        Shop(version=GONE).found(api_server.version)
    assert_wording(str(caught.value))
    for check in (api_server.role, system_pods):
        with pytest.raises(UnknownError):
            Shop(version=GONE).found(check)


def test_each_permission_that_is_lacking_is_named_with_what_it_is_for():
    eviction = next(each for each in NEEDED if each.resource == "pods/eviction")
    budgets = next(each for each in NEEDED if each.resource == "poddisruptionbudgets")
    lines = Shop(lacking=((eviction, "create"), (budgets, "list"))).found(api_server.role)
    assert_wording(lines)
    assert signs(Shop().found(api_server.role)) == "✓"


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def shop(*, workers=(), machines=(), master=MASTER, server=SERVER, numbers=range(3), **more) -> Shop:
    """Three good workers, and these besides."""
    seen = (*map(node, numbers), *workers, *([master] if master else []))
    there = (*map(instance, numbers), *machines, *([server] if server else []))
    return Shop(view=ClusterView(nodes=seen, pods=()), instances=there, **more)


def test_nodes_that_are_their_machines_are_fine():
    assert_wording(shop().found(nodes))


@pytest.mark.parametrize(
    ("scene", "sign", "words"),
    [
        ({"master": None}, "!", "no node is labelled node-role.kubernetes.io/control-plane"),
        (
            {"master": replace(MASTER, control_plane=False)},
            "✗!",  # it is in no pool either
            "EC2 calls them no workers, and they are not labelled as control plane: server",
        ),
        ({"master": replace(MASTER, pool="default")}, "!", "labelled as control plane and with a pool: server"),
        ({"workers": [node(7, instance="")]}, "✗", "no provider id of EC2: w007"),
        ({"workers": [node(7)]}, "✗", "EC2 shows no instance of this cluster for w007 (i-007)"),
        ({"workers": [node(7, ready=False)]}, "!", "their instances are gone: w007"),
        (
            {"workers": [node(7)], "machines": [instance(7, state=InstanceState.TERMINATED)]},
            "✗",
            "EC2 shows no instance of this cluster for w007 (i-007)",
        ),
        (
            {"workers": [node(7)], "machines": [instance(7, pool="gpu")]},
            "✗",
            "label node-fleet.io/pool and tag node-fleet:pool differ: w007 (default, gpu)",
        ),
        (
            {"workers": [node(7, labels={ZONE_LABEL: "c"})], "machines": [instance(7)]},
            "!",
            "the label topology.kubernetes.io/zone is missing or not the instance's zone: w007",
        ),
        (
            {"workers": [node(7, pool="gpu")], "machines": [instance(7, pool="gpu")]},
            "!",
            "in a pool that the policy does not have: w007 (gpu)",
        ),
        ({"workers": [Node(name="mac", pool=None)]}, "!", "without the label node-fleet.io/pool: mac"),
        (
            {"machines": [instance(7, launched_at=NOON - timedelta(seconds=301))]},
            "✗",
            "they run, and have not joined in time: i-007",
        ),
    ],
)
def test_what_does_not_fit_together_is_told(scene, sign, words):
    lines = shop(**scene).found(nodes)
    assert signs(lines) == sign
    assert words in lines[0]


def test_a_machine_that_still_has_time_to_join_is_no_finding():
    booting = instance(7, launched_at=NOON - timedelta(seconds=299))
    assert signs(shop(machines=[booting]).found(nodes)) == "✓"


def test_a_thousand_bad_nodes_make_no_thousand_names():
    (line,) = shop(workers=[node(number, instance="") for number in range(100, 1100)]).found(nodes)
    assert "w104 and 995 more" in line


def test_without_ec2_or_the_table_nodes_are_not_compared():
    with pytest.raises(UnknownError, match="EC2"):
        replace(shop(), instances=UnavailableError("EC2", "timed out")).found(nodes)
    with pytest.raises(UnknownError, match="policy"):
        shop(state=AWAY).found(nodes)


# ── pods that pin ────────────────────────────────────────────────────────────────────────────────────────────────


def system(name, on="w000", **changes):
    return pod(name, on, namespace="kube-system", **changes)


def pinned(*pods, budgets=(), **policy):
    view = ClusterView(nodes=(node(0), MASTER), pods=pods, budgets=budgets)
    return Shop(view=view).with_policy(**policy).found(system_pods)


def test_a_system_pod_without_a_budget_pins_its_worker():
    assert_wording(pinned(system("coredns-1"), system("metrics-1")))


@pytest.mark.parametrize(
    "harmless",
    [
        system("coredns-1", on="server"),
        system("coredns-1", on=None),
        system("coredns-1", annotations={SAFE_TO_EVICT[0]: "true"}),
        system("proxy-1", owner=Owner(kind="DaemonSet", name="proxy")),
        pod("web-1", "w000"),
    ],
)
def test_other_pods_pin_nothing(harmless):
    assert signs(pinned(harmless)) == "✓"


def test_a_budget_or_the_policy_unpins():
    budget = Budget(name="dns", namespace="kube-system", selector=Selector(labels={"app": "coredns"}))
    assert signs(pinned(system("coredns-1"), budgets=(budget,))) == "✓"
    assert signs(pinned(system("coredns-1"), removal={"kube_system": False})) == "✓"
