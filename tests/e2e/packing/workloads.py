"""What is generated from a seed: a cluster with some nodes and pods on it, and a surge of pods that need more nodes.

The same seed gives the same workload. It can be written down as YAML and be looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import yaml

from nodefleet.model.inventory import Market

from . import rules
from .rules import DEDICATED, DISK_LABEL, GENERATION_LABEL, Piece, Rule, Scene, Spec, merged

WORLD_LABEL = "node-fleet.test/world"  # on the nodes of one world, and in its pods' node selector
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
GENERAL, SPECIAL = "general", "special"
MOST_NODES = 12
# (types, cores, MiB that pods may have): the smallest of each list
_KINDS = (
    (("t3.small", "t3a.small"), 2000, 1850),
    (("t3.medium",), 2000, 3700),
    (("t3.medium", "t3a.medium"), 2000, 3700),
    (("c5.xlarge",), 4000, 7400),
)

_FILLED = (0.35, 0.9)  # how much of a cluster its pods ask for before anybody leaves

# Readings count as lasting within seconds, however long an iteration takes.
_IN_SECONDS = {"interval": 1, "burst": {"every": 0.5, "budget": 0.9}, "trust": {"gap": 100}}


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A Deployment, or a DaemonSet where there are no replicas."""

    name: str
    namespace: str
    replicas: int = 0
    spec: Mapping[str, Any]  # of its pods
    runs: int | None = None  # how many surely run, however the others are placed; none: nobody knows beforehand
    rules: tuple[str, ...] = ()  # what was drawn, for operators

    @property
    def daemon(self) -> bool:
        return not self.replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A worker that is there from the start."""

    pool: str
    zone: str
    type: str
    market: Market = Market.SPOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    name: str
    seed: int
    zones: tuple[str, ...]
    policy: Mapping[str, Any]
    standing: tuple[Standing, ...] = ()
    settled: tuple[App, ...] = ()  # daemons, and what runs before the surge
    surge: tuple[App, ...] = ()
    budgets: tuple[Mapping[str, Any], ...] = ()

    @property
    def namespaces(self) -> tuple[str, str]:
        return namespaces_of(self.name)

    def manifest(self, app: App) -> dict[str, Any]:
        labels = {"app": app.name}
        spec = merged(dict(app.spec), {"nodeSelector": {WORLD_LABEL: self.name}})
        pods = {"metadata": {"labels": labels}, "spec": spec}
        how: dict[str, Any] = {"selector": {"matchLabels": labels}, "template": pods}
        if not app.daemon:
            how |= {"replicas": app.replicas}
        return {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet" if app.daemon else "Deployment",
            "metadata": {"name": app.name, "namespace": app.namespace},
            "spec": how,
        }

    def as_yaml(self) -> str:
        whole = {
            "seed": self.seed,
            "zones": list(self.zones),
            "policy": self.policy,
            "standing": [f"{each.type} in {each.zone}, pool {each.pool}" for each in self.standing],
            "surge": {app.name: {"rules": list(app.rules), "surely runs": app.runs} for app in self.surge},
        }
        objects = [self.manifest(app) for app in (*self.settled, *self.surge)]
        plain = _without_aliases()
        return yaml.dump_all([whole, *objects, *self.budgets], Dumper=plain, sort_keys=False, width=120)


def namespaces_of(world: str) -> tuple[str, str]:
    return world, f"{world}-too"


def surge_of(seed: int) -> Workload:
    """A small cluster, often empty, and pods that ask for some nodes more."""
    name = f"surge-{seed:04}"
    draw = Random(name)  # noqa: S311  # repeatable on purpose
    zones = ZONES[: draw.choice([1, 2, 3, 3])]
    types, cores, memory = draw.choice(_KINDS)
    special = draw.random() < 0.4
    making = _Making(draw, name, zones, types, cores, memory, special=special)
    standing = tuple(
        Standing(pool=GENERAL, zone=zones[number % len(zones)], type=draw.choice(types))
        for number in range(draw.choice([0, 0, 1, 2, 3]))
    )
    settled = (*making.daemons(), *making.plain(0.6 * len(standing)))
    surge = tuple(making.surge(draw.uniform(2.5, 6.0)))
    return Workload(
        name=name, seed=seed, zones=zones, policy=making.policy(), standing=standing, settled=settled, surge=surge
    )


def filled_of(seed: int) -> Workload:
    """A cluster with more nodes than its pods need, and budgets for some of them."""
    name = f"filled-{seed:04}"
    draw = Random(name)  # noqa: S311  # repeatable on purpose
    zones = ZONES[: draw.choice([1, 2, 3])]
    types, cores, memory = draw.choice(_KINDS)
    making = _Making(draw, name, zones, types, cores, memory, special=False)
    nodes = draw.randint(4, 8)
    standing = tuple(
        Standing(
            pool=GENERAL,
            zone=zones[number % len(zones)],
            type=draw.choice(types),
            market=Market.SPOT if number else Market.ON_DEMAND,
        )
        for number in range(nodes)
    )
    sure = tuple(making.sure(nodes * draw.uniform(*_FILLED)))
    budgets = tuple(_budget(draw, app) for app in sure if draw.random() < 0.4)
    settled = (*making.daemons(), *sure)
    return Workload(
        name=name,
        seed=seed,
        zones=zones,
        policy={**making.policy(), **_IN_SECONDS},
        standing=standing,
        settled=settled,
        budgets=budgets,
    )


def mixed_of(seed: int, pods: int = 60) -> Workload:
    """Pods of many sizes and no rules that all need new nodes of one type, under-used nodes of which may leave."""
    name = f"mixed-{seed:04}"
    draw = Random(name)  # noqa: S311  # repeatable on purpose
    types, cores, memory = _KINDS[0][0][:1], *_KINDS[0][1:]
    making = _Making(draw, name, ZONES[:1], types, cores, memory, special=False)
    (general,) = making.policy()["pools"]
    consolidation = {"mode": "underutilised", "after": 0, "min_age": 0}
    policy = {"pools": [{**general, "limits": {"min": 0, "max": pods}, "consolidation": consolidation}], **_IN_SECONDS}
    settled = tuple(making.mixed(pods))
    return Workload(name=name, seed=seed, zones=ZONES[:1], policy=policy, settled=settled)


class _Making:
    """Draws apps until there are enough of them."""

    def __init__(
        self,
        draw: Random,
        world: str,
        zones: Sequence[str],
        types: Sequence[str],
        cores: int,
        memory: int,
        *,
        special: bool,
    ) -> None:
        self._draw = draw
        self._namespaces = namespaces_of(world)
        self._world = world
        self._zones = zones
        self._types = types
        self._cores, self._memory = cores, memory
        self._special = special
        self._number = 0
        self._sure: list[str] = []

    def policy(self) -> dict[str, Any]:
        """All that is needed is bought at once, and nothing waits for a cooldown."""
        haste = {
            "limits": {"min": 0, "max": 20},
            "sustain": {"down": {"kind": "readings", "count": 2}},
            "steps": {"up": 20, "urgent": 20},
            "cooldown": {"up": 0, "down": 0},
        }
        own = {WORLD_LABEL: self._world}
        general = {"name": GENERAL, "labels": {**own, GENERATION_LABEL: "3"}, "market": {"types": list(self._types)}}
        special = {
            "name": SPECIAL,
            "labels": {**own, GENERATION_LABEL: "3", DISK_LABEL: "ssd"},
            "taints": [DEDICATED],
            "market": {"types": ["c5.xlarge"]},
        }
        return {"pools": [{**haste, **pool} for pool in ([general, special] if self._special else [general])]}

    def daemons(self) -> Iterator[App]:
        for _ in range(self._draw.choice([0, 1, 1, 2])):
            everywhere = {"tolerations": [{"operator": "Exists"}]} if self._draw.random() < 0.7 else {}
            share = self._draw.uniform(0.02, 0.05)
            spec = self._spec(share, share) | {"priorityClassName": "system-node-critical"} | everywhere
            yield App(name=self._name("daemon"), namespace=self._namespaces[0], spec=spec)

    def plain(self, nodes: float) -> Iterator[App]:
        """Apps without rules that fill so many nodes."""
        load = 0.0
        while load < nodes:
            share, replicas = self._draw.choice([0.1, 0.2, 0.3]), self._draw.randint(1, 3)
            load += share * replicas
            name = self._name("base")
            yield App(
                name=name,
                namespace=self._namespaces[0],
                replicas=replicas,
                spec=self._spec(share, share),
                runs=replicas,
            )

    def mixed(self, pods: int) -> Iterator[App]:
        """Apps without rules that have so many pods, of which most ask for more of one resource than of the other."""
        while pods > 0:
            replicas = min(pods, self._draw.randint(2, 8))
            share, other = (
                self._draw.choice([0.05, 0.12, 0.2, 0.35, 0.55]),
                self._draw.choice([0.05, 0.1, 0.2, 0.4, 0.6]),
            )
            name = self._name("app")
            spec = self._spec(share, other)
            yield App(name=name, namespace=self._namespaces[0], replicas=replicas, spec=spec, runs=replicas)
            pods -= replicas

    def surge(self, nodes: float) -> Iterator[App]:
        load = 0.0
        while load < nodes:
            app, share = self._app()
            load += share * app.replicas if app.runs else 0
            if app.runs == app.replicas:
                self._sure.append(app.name)
            yield app

    def sure(self, nodes: float) -> Iterator[App]:
        """Apps that surely run, all of their pods, and fill so many nodes."""
        load = 0.0
        while load < nodes:
            app, share = self._app()
            if app.runs == app.replicas:
                self._sure.append(app.name)
                load += share * app.replicas
                yield app

    def _app(self) -> tuple[App, float]:
        draw = self._draw
        name, replicas = self._name("app"), draw.choice([1, 1, 2, 3, 4, 5, 6])
        cpu, memory = draw.choice([0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.85]), draw.choice([0.02, 0.1, 0.2, 0.4, 0.6, 0.85])
        scene = Scene(
            zones=self._zones,
            types=self._types,
            special=self._special,
            app=name,
            replicas=replicas,
            others=tuple(self._sure),
            namespaces=self._namespaces,
        )
        pieces = self._pieces(scene)
        if any(piece.name in ("together-on-host", "on-host-of-another") for piece in pieces):
            cpu, memory = min(cpu, 0.1), min(memory, 0.1)
        spec = self._spec(cpu, memory, draw.choice(["plain", "plain", "init", "sidecar", "two"]))
        spec = merged(spec, rules.preference(draw, scene))
        for piece in pieces:
            spec = _with(spec, piece)
        app = App(
            name=name,
            namespace=draw.choice([*self._namespaces[:1] * 4, self._namespaces[1]]),
            replicas=replicas,
            spec=spec,
            runs=_surely(pieces, replicas),
            rules=tuple(piece.name for piece in pieces),
        )
        return app, max(cpu, memory)

    def _pieces(self, scene: Scene) -> list[Piece]:
        draw = self._draw
        if draw.random() < 0.1:
            return self._drawn(rules.NEVER, scene)
        kinds: Sequence[Sequence[Rule]] = draw.choice(
            [
                (),
                (rules.ON_NODES,),
                (rules.WITH_NEIGHBOURS,),
                (rules.WITH_NEIGHBOURS,),
                (rules.ON_NODES, rules.WITH_NEIGHBOURS),
            ]
        )
        return [piece for kind in kinds for piece in self._drawn(kind, scene)]

    def _drawn(self, kind: Sequence[Rule], scene: Scene) -> list[Piece]:
        piece = self._draw.choice(kind)(self._draw, scene)
        return [piece] if piece else []

    def _spec(self, cpu: float, memory: float, form: str = "plain") -> Spec:
        """A pod that asks for these shares of a node, all told."""
        cores, mib = max(10, int(self._cores * cpu)), max(16, int(self._memory * memory))
        whole, half = _container("main", cores, mib), _container("main", cores // 2, mib // 2)
        spec: Spec = {"terminationGracePeriodSeconds": 1}
        match form:
            case "init":
                return spec | {"containers": [half], "initContainers": [_container("init", cores, mib)]}
            case "sidecar":
                sidecar = _container("side", cores - cores // 2, mib - mib // 2) | {"restartPolicy": "Always"}
                return spec | {"containers": [half], "initContainers": [sidecar]}
            case "two":
                return spec | {"containers": [half, _container("too", cores - cores // 2, mib - mib // 2)]}
            case _:
                return spec | {"containers": [whole]}

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._number:02}"


def _surely(pieces: Sequence[Piece], replicas: int) -> int | None:
    """What all rules together surely let run; none if one of them does not know, or two of them speak of zones."""
    known = [piece.runs for piece in pieces]
    if 0 in known:
        return 0
    if sum(piece.zonal for piece in pieces) > 1:
        return None
    sure = [runs for runs in known if runs is not None]
    return min([replicas, *sure]) if len(sure) == len(known) else None


def _budget(draw: Random, app: App) -> Mapping[str, Any]:
    """One that lets a pod go now and then; a single replica's would let nobody go."""
    limit = draw.choice([{"maxUnavailable": 1}, {"maxUnavailable": "50%"}, {"minAvailable": app.replicas // 2}])
    spec = {**limit, "selector": {"matchLabels": {"app": app.name}}}
    metadata = {"name": app.name, "namespace": app.namespace}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


def _with(spec: Spec, piece: Piece) -> Spec:
    """Ports and resources are the first container's."""
    inside = {key: value for key, value in piece.add.items() if key in ("ports", "resources")}
    outside = {key: value for key, value in piece.add.items() if key not in inside}
    result = merged(spec, outside)
    first, *others = result["containers"]
    result["containers"] = [merged(first, inside), *others]
    return result


def _container(name: str, cpu: int, mib: int) -> Spec:
    return {"name": name, "image": "none", "resources": {"requests": {"cpu": f"{cpu}m", "memory": f"{mib}Mi"}}}


def _without_aliases() -> type[yaml.SafeDumper]:
    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the base class has it
            return True

    return Plain
