"""Which difficulty is on which node.

Each home has a label of its own, and its pods want that label. The refuge has all of them, but gets them last: so every
pod begins at home and has a place to go to.
"""

from collections.abc import Mapping
from enum import Enum
from itertools import chain, zip_longest
from typing import Any

from e2e.drains import objects
from e2e.drains.objects import SCRATCH, bare_pod, budget, controller, mounted, template
from e2e.site.site import Site
from e2e.site.waiting import until
from e2e.site.workloads import NAMESPACE
from nodefleet.adapters.kubernetes.resources import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    NODES,
    PODS,
    STATEFUL_SETS,
    VOLUMES,
    Resource,
)
from nodefleet.eviction.protection import KUBE_SYSTEM
from nodefleet.model.workload import SCALE_DOWN_DISABLED, ZONE_LABEL

FINALIZER = "node-fleet.test/not-yet"
DISK = "drains-disk"
WEB = {"tier": "web"}  # one pod on each of two nodes that leave at the same time, and one budget
SLOW = 3  # seconds that a pod takes to start where a budget has to wait for it
SHORT_GRACE = 4  # seconds


class Home(Enum):
    """A node, named after what is on it."""

    REFUGE = "refuge"  # opted out: where the others' pods go
    BARE = "bare"  # a pod without a controller
    ONLY = "only"  # a StatefulSet's only pod
    DISK = "disk"  # a local volume
    SYSTEM = "system"  # a kube-system pod without a budget
    TWICE = "twice"  # a pod with two budgets
    SEVERAL = "several"  # two pods of a StatefulSet whose budget lets one go at a time, with an emptyDir
    HELD = "held"  # a finalizer that is taken off in time, and a web pod
    STUCK = "stuck"  # a finalizer that nobody takes off, and a web pod
    TOLERANT = "tolerant"  # a pod that tolerates every taint: nothing keeps its successor off the leaving node
    NEVER = "never"  # a budget that stops allowing anything while the node is drained
    TWICE_LATER = "twice-later"  # pods that get a second budget while the node is drained

    @property
    def label(self) -> str:
        return f"{self.value}.drains.test/home"


STAY = (Home.REFUGE, Home.BARE, Home.ONLY, Home.DISK, Home.SYSTEM, Home.TWICE)
GO = (Home.SEVERAL, Home.HELD, Home.STUCK, Home.TOLERANT)
COME_BACK = (Home.NEVER, Home.TWICE_LATER)


def assigned(site: Site) -> dict[Home, str]:
    """Homes to nodes. Those that stay are in all zones, so that nobody has to stay as the last of his zone."""
    nodes = site.nodes()
    zones: dict[str, list[str]] = {}
    for name in sorted(nodes):
        zones.setdefault(nodes[name]["metadata"]["labels"][ZONE_LABEL], []).append(name)
    in_turn = [name for name in chain.from_iterable(zip_longest(*zones.values())) if name]
    return dict(zip((*STAY, *GO, *COME_BACK), in_turn, strict=True))


def furnish(site: Site, homes: Mapping[Home, str]) -> None:
    """Everybody runs at home, and only then there is another place."""
    for home, node in homes.items():
        _label(site, node, home)
    made = [(kind, body, where) for home in homes for kind, body, where in _contents(home, homes[home])]
    for kind, body, where in made:
        site.admin.do(kind.create(body, where))
    wanted = sum(_pods_of(kind, body) for kind, body, _ in made)
    until(lambda: len(_running(site)) == wanted, f"{wanted} pods run")
    until(lambda: _budgets_counted(site), "the budgets know their pods")
    _label(site, homes[Home.REFUGE], *homes)
    opted_out = {"metadata": {"annotations": {SCALE_DOWN_DISABLED[0]: "true"}}}
    site.admin.do(NODES.patch(homes[Home.REFUGE], opted_out))


def cleared(site: Site) -> None:
    """What the site's own clearing does not know of."""
    for pod in site.admin.items(PODS):
        if FINALIZER in pod["metadata"].get("finalizers", ()):
            let_go(site, pod["metadata"]["name"])
    ask = site.admin.api.ask
    ask(DEPLOYMENTS.delete(Home.SYSTEM.value, {}, KUBE_SYSTEM))
    site.workloads.clear()
    ask(CLAIMS.delete(DISK, {}, NAMESPACE))
    ask(VOLUMES.delete(DISK, {}))
    ask(objects.STORAGE_CLASSES.delete(objects.LOCAL_PATH, {}))


def let_go(site: Site, pod: str) -> None:
    """Nobody holds the pod any more."""
    site.admin.api.ask(PODS.patch(pod, {"metadata": {"finalizers": None}}, NAMESPACE))


Made = tuple[Resource, Mapping[str, Any], str]  # what it is, its content, its namespace


def _contents(home: Home, node: str) -> list[Made]:
    name, label = home.value, home.label
    match home:
        case Home.REFUGE:
            return []
        case Home.BARE:
            return [(PODS, bare_pod(name, template(name, label)), NAMESPACE)]
        case Home.ONLY:
            return [(STATEFUL_SETS, controller(1, template(name, label), serviceName=name), NAMESPACE)]
        case Home.DISK:
            pods = template(name, label, volumes=[mounted(DISK)])
            return [
                (objects.STORAGE_CLASSES, objects.storage_class(), ""),
                (VOLUMES, objects.volume(DISK, node), ""),
                (CLAIMS, objects.claim(DISK), NAMESPACE),
                (DEPLOYMENTS, controller(1, pods), NAMESPACE),
            ]
        case Home.SYSTEM:
            return [(DEPLOYMENTS, controller(1, template(name, label)), KUBE_SYSTEM)]
        case Home.TWICE:
            return [_deployment(home, 1), _budget(name, home), _budget(f"{name}-too", home)]
        case Home.SEVERAL:
            pods = template(name, label, starts_in=SLOW, volumes=[SCRATCH])
            at_once = {"serviceName": name, "podManagementPolicy": "Parallel"}
            return [(STATEFUL_SETS, controller(2, pods, **at_once), NAMESPACE), _budget(name, home)]
        case Home.HELD:
            return [_deployment(home, 1, finalizer=FINALIZER), _web(home), (BUDGETS, budget("web", WEB), NAMESPACE)]
        case Home.STUCK:
            return [_deployment(home, 1, finalizer=FINALIZER, grace=SHORT_GRACE), _web(home)]
        case Home.TOLERANT:
            return [_deployment(home, 1, tolerations=[{"operator": "Exists"}])]
        case Home.NEVER | Home.TWICE_LATER:
            return [_deployment(home, 2, starts_in=SLOW), _budget(name, home)]


def _deployment(home: Home, replicas: int, **how: Any) -> Made:
    return DEPLOYMENTS, controller(replicas, template(home.value, home.label, **how)), NAMESPACE


def _web(home: Home) -> Made:
    return DEPLOYMENTS, controller(1, template(f"web-{home.value}", home.label, labels=WEB, starts_in=SLOW)), NAMESPACE


def _budget(name: str, home: Home) -> Made:
    return BUDGETS, budget(name, {"app": home.value}), NAMESPACE


def _pods_of(kind: Resource, body: Mapping[str, Any]) -> int:
    return 1 if kind is PODS else int(body.get("spec", {}).get("replicas", 0))


def _running(site: Site) -> list[dict[str, Any]]:
    apps = {home.value for home in Home} | {f"web-{home.value}" for home in Home}
    ours = [pod for pod in site.admin.items(PODS) if pod["metadata"].get("labels", {}).get("app") in apps]
    return [pod for pod in ours if pod["status"]["phase"] == "Running"]


def _budgets_counted(site: Site) -> bool:
    """But for two of the same pod: when it changes the cluster's controller counts only one of them again."""
    ours = [each for each in site.admin.items(BUDGETS) if each["metadata"]["namespace"] == NAMESPACE]
    alone = [each for each in ours if each["spec"]["selector"]["matchLabels"] != {"app": Home.TWICE.value}]
    return all(each.get("status", {}).get("disruptionsAllowed") for each in alone)


def _label(site: Site, node: str, *homes: Home) -> None:
    site.admin.do(NODES.patch(node, {"metadata": {"labels": {home.label: "true" for home in homes}}}))
