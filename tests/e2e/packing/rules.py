"""Where pods may run: the pieces that workloads are made of, each with how many replicas it surely lets run.

Every piece adds to a pod's spec. What is only preferred is added too: it decides nothing for us, and moves the real
scheduler's choice.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any

from nodefleet.model.workload import HOST_LABEL, TYPE_LABEL, ZONE_LABEL

Spec = dict[str, Any]
DISK_LABEL, GENERATION_LABEL = "example.com/disk", "example.com/generation"
DEDICATED = {"key": "example.com/dedicated", "value": "batch", "effect": "NoSchedule"}
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a rule may refer to."""

    zones: Sequence[str]
    types: Sequence[str]  # of the general pool
    special: bool  # there is a pool of its own label and taint
    app: str
    replicas: int
    others: Sequence[str]  # apps that surely run
    namespaces: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A rule as it was drawn."""

    name: str
    add: Mapping[str, Any]
    runs: int | None  # of the replicas, whatever else there is; none: it depends on where others sit
    zonal: bool = False  # it speaks of zones: with another such rule nobody knows beforehand


Rule = Callable[[Random, Scene], Piece | None]  # none: it makes no sense in this scene


def merged(spec: Spec, more: Mapping[str, Any]) -> Spec:
    """Both together: mappings grow into each other, lists are joined."""
    result = deepcopy(spec)
    for key, value in more.items():
        held = result.get(key)
        if isinstance(held, dict) and isinstance(value, Mapping):
            result[key] = merged(held, value)
        elif isinstance(held, list) and isinstance(value, list):
            result[key] = [*held, *deepcopy(value)]
        else:
            result[key] = deepcopy(value)
    return result


# ── nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def one_zone(draw: Random, scene: Scene) -> Piece:
    return _all("one-zone", scene, {"nodeSelector": {ZONE_LABEL: draw.choice(scene.zones)}}, zonal=True)


def one_type(draw: Random, scene: Scene) -> Piece:
    return _all("one-type", scene, {"nodeSelector": {TYPE_LABEL: draw.choice(scene.types)}})


def special_nodes(draw: Random, scene: Scene) -> Piece | None:
    if not scene.special:
        return None
    wanted = {"nodeSelector": {DISK_LABEL: "ssd"}, "tolerations": [_toleration(draw)]}
    return _all("special-nodes", scene, wanted)


def tolerant(draw: Random, scene: Scene) -> Piece | None:
    """It may go to the tainted pool, and need not."""
    return _all("tolerant", scene, {"tolerations": [_toleration(draw)]}) if scene.special else None


def node_affinity(draw: Random, scene: Scene) -> Piece:
    zone = {"key": ZONE_LABEL, "operator": "In", "values": sorted(draw.sample(scene.zones, len(scene.zones) // 2 + 1))}
    not_there = {"key": ZONE_LABEL, "operator": "NotIn", "values": [draw.choice(scene.zones), "us-west-2a"]}
    newer = {"key": GENERATION_LABEL, "operator": "Gt", "values": ["2"]}
    plain = {"key": DISK_LABEL, "operator": "DoesNotExist"}
    has_type = {"key": TYPE_LABEL, "operator": "Exists"}
    by_name = {"key": "metadata.name", "operator": "NotIn", "values": ["i-0badbadbadbadbad0"]}
    several = [not_there] if len(scene.zones) > 1 else []
    terms = draw.choice(
        [
            [{"matchExpressions": [zone]}],
            [{"matchExpressions": [has_type, *several]}],
            [{"matchExpressions": [newer, plain]}],
            [{"matchExpressions": [{"key": "no-such-label", "operator": "Exists"}]}, {"matchExpressions": [zone]}],
            [{"matchExpressions": [has_type], "matchFields": [by_name]}],
        ]
    )
    wanted = {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}}
    return _all("node-affinity", scene, wanted, zonal=True)


# ── neighbours ───────────────────────────────────────────────────────────────────────────────────────────────────


def alone_on_host(_: Random, scene: Scene) -> Piece:
    return _all("alone-on-host", scene, _required("podAntiAffinity", _term(scene.app, HOST_LABEL)))


def away_from_another(draw: Random, scene: Scene) -> Piece | None:
    if not scene.others:
        return None
    term = _term(draw.choice(scene.others), HOST_LABEL) | {"namespaces": list(scene.namespaces)}
    return _all("away-from-another", scene, _required("podAntiAffinity", term))


def alone_in_zone(_: Random, scene: Scene) -> Piece:
    """What is more than there are zones can never run."""
    add = _required("podAntiAffinity", _term(scene.app, ZONE_LABEL))
    return Piece(name="alone-in-zone", add=add, runs=min(scene.replicas, len(scene.zones)), zonal=True)


def together_in_zone(_: Random, scene: Scene) -> Piece:
    return _all("together-in-zone", scene, _required("podAffinity", _term(scene.app, ZONE_LABEL)), zonal=True)


def near_another(draw: Random, scene: Scene) -> Piece | None:
    if not scene.others:
        return None
    term = _term(draw.choice(scene.others), ZONE_LABEL) | {"namespaceSelector": _any_of(scene.namespaces)}
    return _all("near-another", scene, _required("podAffinity", term), zonal=True)


def on_host_of_another(draw: Random, scene: Scene) -> Piece | None:
    if not scene.others:
        return None
    term = _term(draw.choice(scene.others), HOST_LABEL) | {"namespaces": list(scene.namespaces)}
    return Piece(name="on-host-of-another", add=_required("podAffinity", term), runs=None)


def together_on_host(_: Random, scene: Scene) -> Piece:
    add = _required("podAffinity", _term(scene.app, HOST_LABEL))
    return Piece(name="together-on-host", add=add, runs=None)


# ── spread ───────────────────────────────────────────────────────────────────────────────────────────────────────


def spread_over_zones(draw: Random, scene: Scene) -> Piece:
    spread = _spread(scene.app, ZONE_LABEL, draw.choice([1, 1, 2]))
    if draw.random() < 0.3:
        spread |= {"minDomains": len(scene.zones)}
    if draw.random() < 0.3:
        spread |= {"matchLabelKeys": ["pod-template-hash"]}
    if draw.random() < 0.3:
        spread |= {"nodeTaintsPolicy": draw.choice(["Honor", "Ignore"])}
    return _all("spread-over-zones", scene, {"topologySpreadConstraints": [spread]}, zonal=True)


def spread_over_hosts(draw: Random, scene: Scene) -> Piece:
    spread = _spread(scene.app, HOST_LABEL, draw.choice([1, 2, 3]))
    if draw.random() < 0.5:
        spread |= {"nodeTaintsPolicy": "Honor"}
    return _all("spread-over-hosts", scene, {"topologySpreadConstraints": [spread]})


def spread_over_both(draw: Random, scene: Scene) -> Piece:
    both = [_spread(scene.app, ZONE_LABEL, 1), _spread(scene.app, HOST_LABEL, draw.choice([2, 3]))]
    return _all("spread-over-both", scene, {"topologySpreadConstraints": both}, zonal=True)


# ── ports ────────────────────────────────────────────────────────────────────────────────────────────────────────


def host_port(draw: Random, scene: Scene) -> Piece:
    port = {"containerPort": 80, "hostPort": draw.choice([8080, 8443]), "protocol": draw.choice(["TCP", "UDP"])}
    return _all("host-port", scene, {"ports": [port]})


# ── preferences ──────────────────────────────────────────────────────────────────────────────────────────────────


def preference(draw: Random, scene: Scene) -> Mapping[str, Any]:
    zone = {"key": ZONE_LABEL, "operator": "In", "values": [draw.choice(scene.zones)]}
    by_node = [{"weight": draw.randint(1, 100), "preference": {"matchExpressions": [zone]}}]
    by_pod = [{"weight": draw.randint(1, 100), "podAffinityTerm": _term(scene.app, HOST_LABEL)}]
    anyway = _spread(scene.app, draw.choice([HOST_LABEL, ZONE_LABEL]), 1) | {"whenUnsatisfiable": "ScheduleAnyway"}
    return draw.choice(
        [
            {},
            {},
            {"affinity": {"nodeAffinity": {_PREFERRED: by_node}}},
            {"affinity": {"podAffinity": {_PREFERRED: by_pod}}},
            {"affinity": {"podAntiAffinity": {_PREFERRED: by_pod}}},
            {"topologySpreadConstraints": [anyway]},
        ]
    )


# ── what can never run ───────────────────────────────────────────────────────────────────────────────────────────


def too_large(draw: Random, scene: Scene) -> Piece:
    requests = draw.choice([{"cpu": "33"}, {"memory": "200Gi"}, {"example.com/gpu": "1"}])
    limits = {key: value for key, value in requests.items() if "/" in key}  # extended ones must be limited as well
    return _none("too-large", {"resources": {"requests": requests, **({"limits": limits} if limits else {})}})


def no_such_node(draw: Random, scene: Scene) -> Piece:
    wrong = {"key": GENERATION_LABEL, "operator": "Lt", "values": ["2"]}
    terms = [{"matchExpressions": [wrong]}]
    return _none(
        "no-such-node",
        draw.choice(
            [
                {"nodeSelector": {ZONE_LABEL: "us-west-2a"}},
                {"nodeSelector": {DISK_LABEL: "tape"}},
                {"affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}},
            ]
        ),
    )


def intolerant(_: Random, scene: Scene) -> Piece | None:
    return _none("intolerant", {"nodeSelector": {DISK_LABEL: "ssd"}}) if scene.special else None


def near_nobody(draw: Random, scene: Scene) -> Piece:
    topology = draw.choice([HOST_LABEL, ZONE_LABEL])
    return _none("near-nobody", _required("podAffinity", _term("nobody", topology)))


ON_NODES: Sequence[Rule] = (one_zone, one_type, special_nodes, tolerant, node_affinity)
WITH_NEIGHBOURS: Sequence[Rule] = (
    alone_on_host,
    away_from_another,
    alone_in_zone,
    together_in_zone,
    near_another,
    on_host_of_another,
    together_on_host,
    spread_over_zones,
    spread_over_hosts,
    spread_over_both,
    host_port,
)
NEVER: Sequence[Rule] = (too_large, no_such_node, intolerant, near_nobody)


def _all(name: str, scene: Scene, add: Mapping[str, Any], *, zonal: bool = False) -> Piece:
    return Piece(name=name, add=add, runs=scene.replicas, zonal=zonal)


def _none(name: str, add: Mapping[str, Any]) -> Piece:
    return Piece(name=name, add=add, runs=0)


def _toleration(draw: Random) -> Spec:
    exists = {"key": DEDICATED["key"], "operator": "Exists"}
    return draw.choice([{**DEDICATED, "operator": "Equal"}, exists, {"operator": "Exists"}])


def _selector(app: str) -> Spec:
    return {"matchLabels": {"app": app}}


def _term(app: str, topology: str) -> Spec:
    return {"labelSelector": _selector(app), "topologyKey": topology}


def _any_of(namespaces: Sequence[str]) -> Spec:
    names = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(namespaces)}
    return {"matchExpressions": [names]}


def _required(kind: str, term: Spec) -> Spec:
    return {"affinity": {kind: {_REQUIRED: [term]}}}


def _spread(app: str, topology: str, skew: int) -> Spec:
    what = {"topologyKey": topology, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule"}
    return what | {"labelSelector": _selector(app)}
