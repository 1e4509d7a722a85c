"""Where a pod may run, from its spec."""

from typing import Any

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster
from nodefleet.adapters.kubernetes.objects import ContainerShape, Port, TolerationShape
from nodefleet.adapters.kubernetes.pod_rules import MATCHES_NOTHING, host_ports, tolerations
from nodefleet.model.inventory import Effect
from nodefleet.model.workload import (
    ANYWHERE,
    EVERY_ADDRESS,
    HOST_LABEL,
    ZONE_LABEL,
    HostPort,
    NodeTerm,
    Operator,
    PodTerm,
    Requirement,
    Rules,
    Selector,
    Spread,
    Toleration,
)
from nodefleet.scheduling.predicates import matches
from support.fake_api_server import FakeApiServer
from support.k8s_objects import container, pod, term

WEB = {"matchLabels": {"app": "web"}}


def required(kind: str, *terms: Any) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def rules_of(server: FakeApiServer, cluster: KubernetesCluster, **spec: Any) -> Rules:
    labels = spec.pop("labels", {"app": "web"})
    server.objects.put("pods", pod(labels=labels, **spec))
    (found,) = cluster.view().pods or ()
    return found.rules


def test_a_pod_without_rules_may_run_anywhere(server: FakeApiServer, cluster: KubernetesCluster):
    assert rules_of(server, cluster) == ANYWHERE


def test_a_node_selector_and_a_required_node_affinity(server: FakeApiServer, cluster: KubernetesCluster):
    terms = [
        term(ZONE_LABEL, "a", "b"),
        {
            "matchExpressions": [
                {"key": "cores", "operator": "Gt", "values": ["4"]},
                {"key": "old", "operator": "Exists"},
            ],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w1"]}],
        },
    ]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term("ssd", "true")}],
        }
    }
    found = rules_of(server, cluster, nodeSelector={"disk": "ssd"}, affinity=affinity)
    assert found.node_selector == {"disk": "ssd"}
    assert found.node_terms == (
        NodeTerm(labels=(Requirement(key=ZONE_LABEL, operator=Operator.IN, values=("a", "b")),)),
        NodeTerm(
            labels=(
                Requirement(key="cores", operator=Operator.GREATER, values=("4",)),
                Requirement(key="old", operator=Operator.EXISTS),
            ),
            fields=(Requirement(key="metadata.name", values=("w1",)),),
        ),
    )


def test_a_mere_preference_is_no_rule(server: FakeApiServer, cluster: KubernetesCluster):
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term("a", "b")}]}
    assert rules_of(server, cluster, affinity={"nodeAffinity": preferred}) == ANYWHERE


def test_a_relation_that_is_new_to_us_holds_nowhere(server: FakeApiServer, cluster: KubernetesCluster):
    selector = {"nodeSelectorTerms": [term("cores", "4", operator="About")]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    found = rules_of(server, cluster, affinity=affinity)
    assert found.node_terms == (NodeTerm(labels=(Requirement(key="cores", operator=Operator.IN, values=()),)),)


def test_tolerations(server: FakeApiServer, cluster: KubernetesCluster):
    tolerations = [
        {"operator": "Exists"},
        {"key": "gpu", "value": "a", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "x", "operator": ""},
        {"key": "new", "operator": "Exists", "effect": "NoNothing"},
    ]
    assert rules_of(server, cluster, tolerations=tolerations).tolerations == (
        Toleration(operator="Exists"),
        Toleration(key="gpu", value="a", effect=Effect.NO_SCHEDULE),
        Toleration(key="node.kubernetes.io/not-ready", operator="Exists", effect=Effect.NO_EXECUTE),
        Toleration(key="x"),
    )


def test_ports_of_the_node_are_those_of_containers_that_keep_running(server: FakeApiServer, cluster: KubernetesCluster):
    found = rules_of(
        server,
        cluster,
        containers=[
            container(ports=[{"containerPort": 80}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]),
            container(ports=[{"containerPort": 443, "hostPort": 443, "hostIP": "10.0.0.1"}]),
        ],
        initContainers=[
            container(ports=[{"containerPort": 1, "hostPort": 1}]),
            container(ports=[{"containerPort": 2, "hostPort": 2}], restartPolicy="Always"),
        ],
    )
    assert found.host_ports == (
        HostPort(port=53, protocol="UDP"),
        HostPort(port=443, address="10.0.0.1"),
        HostPort(port=2),
    )


def test_affinity_to_pods_here_there_and_everywhere(server: FakeApiServer, cluster: KubernetesCluster):
    affinity = {
        **required(
            "podAffinity",
            {"topologyKey": ZONE_LABEL, "labelSelector": WEB},
            {"topologyKey": ZONE_LABEL, "labelSelector": WEB, "namespaces": ["shop", "bank"]},
        ),
        **required("podAntiAffinity", {"topologyKey": HOST_LABEL, "labelSelector": WEB, "namespaceSelector": {}}),
    }
    web = Selector(labels={"app": "web"})
    found = rules_of(server, cluster, affinity=affinity)
    assert found.affinity == (
        PodTerm(topology=ZONE_LABEL, selector=web),
        PodTerm(topology=ZONE_LABEL, selector=web, namespaces=("shop", "bank")),
    )
    assert found.anti_affinity == (PodTerm(topology=HOST_LABEL, selector=web, everywhere=True),)
    assert "namespaces" not in {asked.resource for asked in server.asked}


def test_namespaces_chosen_by_label_are_looked_up_once(server: FakeApiServer, cluster: KubernetesCluster):
    for name, team in (("shop", "a"), ("bank", "a"), ("zoo", "b")):
        server.objects.put("namespaces", {"metadata": {"name": name, "labels": {"team": team}}})
    one = {"topologyKey": HOST_LABEL, "labelSelector": WEB, "namespaceSelector": {"matchLabels": {"team": "a"}}}
    affinity = required("podAntiAffinity", one, {**one, "namespaces": ["own"]})
    found = rules_of(server, cluster, affinity=affinity)
    assert [each.namespaces for each in found.anti_affinity] == [("bank", "shop"), ("bank", "own", "shop")]
    assert [asked.resource for asked in server.asked].count("namespaces") == 1


def test_namespaces_that_nobody_has_chosen_hold_no_pod(server: FakeApiServer, cluster: KubernetesCluster):
    nobody = {"topologyKey": HOST_LABEL, "labelSelector": WEB, "namespaceSelector": {"matchLabels": {"team": "x"}}}
    found = rules_of(server, cluster, affinity=required("podAntiAffinity", nobody))
    assert found.anti_affinity == (PodTerm(topology=HOST_LABEL, selector=MATCHES_NOTHING),)


def test_a_selector_that_is_not_there_matches_nothing(server: FakeApiServer, cluster: KubernetesCluster):
    found = rules_of(server, cluster, affinity=required("podAntiAffinity", {"topologyKey": HOST_LABEL}))
    (only,) = found.anti_affinity
    assert not matches(only.selector, {"app": "web"})
    assert not matches(only.selector, {})


def test_spread_counts_only_if_it_must_be_kept(server: FakeApiServer, cluster: KubernetesCluster):
    must = {"topologyKey": ZONE_LABEL, "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}
    may = {**must, "whenUnsatisfiable": "ScheduleAnyway"}
    found = rules_of(server, cluster, topologySpreadConstraints=[must, may, {**must, "minDomains": 3}])
    web = Selector(labels={"app": "web"})
    assert found.spread == (
        Spread(topology=ZONE_LABEL, selector=web, max_skew=2),
        Spread(topology=ZONE_LABEL, selector=web, max_skew=2, min_domains=3),
    )


def test_spread_counts_the_nodes_that_its_policies_let_count(server: FakeApiServer, cluster: KubernetesCluster):
    must = {"topologyKey": ZONE_LABEL, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    other = {**must, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor"}
    same = {**must, "nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"}
    found = rules_of(server, cluster, topologySpreadConstraints=[must, other, same])
    assert [(each.honors_affinity, each.honors_taints) for each in found.spread] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def test_spread_among_pods_of_the_same_template(server: FakeApiServer, cluster: KubernetesCluster):
    must = {
        "topologyKey": ZONE_LABEL,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        "matchLabelKeys": ["pod-template-hash", "not-there"],
    }
    for name, hashed in (("a", "1"), ("b", "2"), ("c", "1")):
        labels = {"app": "web", "pod-template-hash": hashed}
        server.objects.put("pods", pod(name, labels=labels, topologySpreadConstraints=[must]))
    a, b, c = cluster.view().pods or ()
    own = Requirement(key="pod-template-hash", operator=Operator.IN, values=("1",))
    assert a.rules.spread[0].selector == Selector(labels={"app": "web"}, expressions=(own,))
    assert b.rules.spread[0].selector != a.rules.spread[0].selector
    assert c.rules is a.rules


@pytest.mark.parametrize("selector", [None, {}])
def test_spread_without_a_selector_and_with_an_empty_one(
    server: FakeApiServer, cluster: KubernetesCluster, selector: Any
):
    must = {"topologyKey": ZONE_LABEL, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    found = rules_of(server, cluster, topologySpreadConstraints=[must])
    assert matches(found.spread[0].selector, {"app": "web"}) is (selector is not None)


def test_pods_of_one_template_share_what_they_have_in_common(server: FakeApiServer, cluster: KubernetesCluster):
    spec = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"operator": "Exists"}]}
    for name in ("a", "b"):
        token = {"name": f"kube-api-access-{name}", "projected": {}}
        server.objects.put("pods", pod(name, labels={"app": "web"}, volumes=[token], **spec))
    a, b = cluster.view().pods or ()
    assert a.rules is b.rules
    assert a.labels is b.labels
    assert a.requests is b.requests


def test_what_an_object_leaves_empty_is_what_kubernetes_takes_it_for():
    ports = [
        Port(host_port=80, protocol="", host_ip=""),
        Port(host_port=53, protocol="UDP", host_ip="10.0.0.1"),
        Port(),
    ]
    assert host_ports([ContainerShape(ports=ports), ContainerShape()]) == (
        HostPort(port=80, protocol="TCP", address=EVERY_ADDRESS),
        HostPort(port=53, protocol="UDP", address="10.0.0.1"),
    )
    (tolerated,) = tolerations([TolerationShape(key="a", operator="", value="b", effect="")])
    assert tolerated == Toleration(key="a", operator="Equal", value="b", effect=None)
