"""Availability: voluntary removals never have more of a workload down than so many nodes hold.

A voluntary removal, a scheduled change before its last hour and a rebalance recommendation take replicas of a workload
from at most `budgets.removals` nodes of each pool before the workload is whole again, whatever its budget says. What
does not become whole within `removal.settle` is not waited for: something else is wrong with it.
"""

from collections import defaultdict
from typing import TYPE_CHECKING

from nodefleet.model.inventory import Node
from nodefleet.model.operations import Removal, RemovalReason
from nodefleet.model.workload import Pod
from nodefleet.policy.pool import Pool
from nodefleet_tools.sim.hooks import Run
from nodefleet_tools.sim.rules import Rule

if TYPE_CHECKING:
    from datetime import datetime

    from nodefleet_tools.sim.invariants import Guard
    from nodefleet_tools.sim.world import World


class Availability:
    def __init__(self, guard: "Guard", world: "World") -> None:
        self._guard = guard
        self._world = world
        self._away: dict[tuple[str, str, str], dict[str, datetime]] = defaultdict(dict)  # workload → node → since when

    def began(self, node: Node) -> None:
        """A removal begins. A workload that is whole now has lost nothing to earlier ones: what fails on other nodes
        from here on is not their doing."""
        for pod in self._world.kube.pods_on(node.name):
            if pod.owner is not None and self._is_whole_but_for(pod, node):
                self._away[pod.namespace, pod.owner.kind, pod.owner.name].clear()

    def evicted(self, run: Run, pod: Pod, node: Node) -> None:
        """A pod was evicted just now. One that is not ready is down already: it counts as its node's own, whichever of
        the node's pods goes first, and its eviction is no violation."""
        owner = pod.owner
        if owner is None or owner.replicas is None or not self._is_voluntary(node):
            return
        rules = self._world.policy.pool(node.pool or "") or Pool()
        now, away = self._world.now, self._away[pod.namespace, owner.kind, owner.name]
        believed = rules.removal.settle - rules.removal.drain_timeout  # a run counts from when the removal began
        for other, since in tuple(away.items()):
            if now - since > believed:
                del away[other]
        if self._is_whole_but_for(pod, node):
            away.clear()
        away[node.name] = now
        most = sum(pool.budgets.removals for pool in self._world.policy.pools)
        if pod.ready and len(away) > most:
            detail = f"{owner.kind} {owner.name} was not whole, and lost pods on {', '.join(away)}: {most} at a time"
            self._guard.broken(run.name, Rule.AVAILABILITY, detail)

    def _is_voluntary(self, node: Node) -> bool:
        open_on = [
            each
            for each in self._world.table.operations
            if isinstance(each, Removal) and node.instance and each.instance == node.instance
        ]
        return bool(open_on) and all(each.why is RemovalReason.VOLUNTARY for each in open_on)

    def _is_whole_but_for(self, evicted: Pod, node: Node) -> bool:
        """Every replica is ready that is not one of this node's."""
        owner = evicted.owner
        of = [
            pod
            for pod in self._world.kube.pods.values()
            if pod.namespace == evicted.namespace and pod.owner and owner and pod.owner.uid == owner.uid
        ]
        here = sum(pod.node == node.name for pod in of)
        ready = sum(pod.ready and pod.deleted_at is None and pod.node != node.name for pod in of)
        return owner is not None and ready + here >= (owner.replicas or 0)
