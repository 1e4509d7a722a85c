"""What pods have in common is worked out once and shared, and what differs in anything is not."""

import msgspec
import pytest

from nodefleet.adapters.kubernetes.objects import PodSpec, PodStatus
from nodefleet.adapters.kubernetes.pod_rules import Templates
from nodefleet.model.inventory import Effect, Resources

SPEC = {
    "containers": [{"name": "app", "resources": {"requests": {"cpu": "500m"}}, "ports": [{"hostPort": 80}]}],
    "initContainers": [{"name": "init", "resources": {"requests": {"cpu": "200m"}}}],
    "overhead": {"cpu": "10m"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "near"}}}
            ]
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "far"}}}
            ]
        },
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "arch", "operator": "In", "values": ["arm64"]}]}]
            }
        },
    },
    "topologySpreadConstraints": [
        {
            "topologyKey": "zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": ["revision"],
        }
    ],
}
LABELS = {"app": "web", "revision": "7"}


def spec(**changes):
    return msgspec.json.decode(msgspec.json.encode(SPEC | changes), type=PodSpec)


def status(**changes):
    return msgspec.json.decode(msgspec.json.encode(changes), type=PodStatus)


@pytest.fixture
def templates():
    return Templates(dict)


def container(cpu, **changes):
    return {"name": "app", "resources": {"requests": {"cpu": cpu}}, **changes}


# ── shared ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_equal_is_one_object(templates):
    """Those who pack pods tell by that which are alike."""
    assert templates.rules(spec(), LABELS) is templates.rules(spec(), dict(LABELS))
    assert templates.requests(spec(), status()) is templates.requests(spec(), status())
    assert templates.strings(spec().node_selector) is templates.strings(spec().node_selector)
    assert templates._amount(spec().overhead) is templates._amount(spec().overhead)
    assert templates._spread(spec().topology_spread_constraints) is templates._spread(
        spec().topology_spread_constraints
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"nodeSelector": {"disk": "hdd"}},
        {"affinity": None},
        {"tolerations": []},
        {"topologySpreadConstraints": []},
        {"containers": [container("500m", ports=[{"hostPort": 81}])]},
        {"initContainers": [container("200m", ports=[{"hostPort": 81}], restartPolicy="Always")]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_rules_that_differ_in_anything_are_others(templates, changes):
    usual = templates.rules(spec(), LABELS)
    assert templates.rules(spec(**changes), LABELS) != usual
    assert templates.rules(spec(), LABELS) is usual


@pytest.mark.parametrize(
    ("changes", "cpu"),
    [
        ({}, 510),
        ({"containers": [container("600m")]}, 610),
        ({"initContainers": [container("900m")]}, 910),
        ({"initContainers": [container("200m", restartPolicy="Always")]}, 710),
        ({"initContainers": [container("200m", restartPolicy="Never")]}, 510),
        ({"overhead": {"cpu": "20m"}}, 520),
        ({"resources": {"requests": {"cpu": "2"}}}, 2010),
        ({"containers": None, "initContainers": None, "overhead": None}, 0),
    ],
    ids=["as it is", "containers", "init containers", "a sidecar", "no sidecar", "overhead", "the pod's own", "none"],
)
def test_requests_that_differ_in_anything_are_others(templates, changes, cpu):
    usual = templates.requests(spec(), status())
    found = templates.requests(spec(**changes), status())
    assert (usual.cpu, found.cpu) == (510, cpu)
    assert (found is usual) is (cpu == usual.cpu)


def test_only_labels_that_a_constraint_asks_for_make_a_difference(templates):
    rules = templates.rules(spec(), LABELS)
    assert templates.rules(spec(), LABELS | {"team": "a"}) is rules
    assert templates.rules(spec(), LABELS | {"revision": "8"}) != rules


# ── what is in them ──────────────────────────────────────────────────────────────────────────────────────────────


def test_every_rule_of_a_pod_is_there(templates):
    rules = templates.rules(spec(), LABELS)
    assert rules.node_selector == {"disk": "ssd"}
    assert [each.key for term in rules.node_terms for each in term.labels] == ["arch"]
    assert [(each.key, each.operator, each.effect) for each in rules.tolerations] == [
        ("dedicated", "Exists", Effect.NO_SCHEDULE)
    ]
    assert [port.port for port in rules.host_ports] == [80]
    assert [(term.topology, term.selector.labels) for term in rules.affinity] == [("zone", {"app": "near"})]
    assert [(term.topology, term.selector.labels) for term in rules.anti_affinity] == [("host", {"app": "far"})]
    ((spread),) = rules.spread
    assert [(each.key, each.values) for each in spread.selector.expressions] == [("revision", ("7",))]


def test_a_pod_without_rules_has_none(templates):
    empty = msgspec.json.decode(b"{}", type=PodSpec)
    rules = templates.rules(empty, {})
    assert (rules.node_selector, rules.node_terms, rules.tolerations, rules.host_ports) == ({}, None, (), ())
    assert (rules.affinity, rules.anti_affinity, rules.spread) == ((), (), ())
    assert templates.requests(empty, status()) == Resources()


def test_ports_of_a_sidecar_are_taken_and_those_of_an_init_container_are_not(templates):
    ports = [{"hostPort": 81}]
    for policy, taken in (("Always", [80, 81]), (None, [80])):
        changed = spec(initContainers=[container("1m", ports=ports, restartPolicy=policy)])
        assert [port.port for port in templates.rules(changed, LABELS).host_ports] == taken


# ── resized in place ─────────────────────────────────────────────────────────────────────────────────────────────


def resized(has, promised, name="app", **changes):
    return {"name": name, "resources": {"requests": {"cpu": has}}, "allocatedResources": promised, **changes}


@pytest.mark.parametrize(
    ("state", "conditions", "cpu"),
    [
        (resized("500m", {"cpu": "500m"}), [], 500),
        (resized("500m", None), [], 500),
        (resized("800m", {"cpu": "500m"}), [], 800),
        (resized("500m", {"cpu": "700m"}), [], 700),
        (resized("300m", {"cpu": "400m"}), [], 500),
        (resized("300m", {"cpu": "400m"}), [{"type": "PodResizePending", "reason": "Deferred"}], 500),
        (resized("300m", {"cpu": "400m"}), [{"type": "PodResizePending", "reason": "Infeasible"}], 400),
        (resized("300m", {"cpu": "400m"}), [{"type": "Other", "reason": "Infeasible"}], 500),
        (resized("800m", None, name="another"), [], 500),
        ({"name": "app"}, [], 500),
    ],
    ids=[
        "as it should be",
        "nothing promised",
        "has more",
        "promised more",
        "wants more",
        "deferred",
        "infeasible",
        "another condition",
        "another container",
        "a kubelet that does not resize",
    ],
)
def test_while_a_container_is_resized_the_most_of_all_counts(templates, state, conditions, cpu):
    pod = spec(initContainers=None, overhead=None)
    assert templates.requests(pod, status(containerStatuses=[state], conditions=conditions)).cpu == cpu


@pytest.mark.parametrize(("policy", "cpu"), [("Always", 500 + 900), (None, 500)])
def test_of_init_containers_only_sidecars_are_resized(templates, policy, cpu):
    pod = spec(initContainers=[container("200m", name="side", restartPolicy=policy)], overhead=None)
    states = [resized("900m", None, name="side")]
    assert templates.requests(pod, status(initContainerStatuses=states)).cpu == cpu
