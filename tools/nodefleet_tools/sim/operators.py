"""Changes that an operator makes by hand, past the autoscaler: with kubectl and in the EC2 console."""

from dataclasses import replace

from nodefleet.model.inventory import Market
from nodefleet_tools.sim.ec2 import Ec2
from nodefleet_tools.sim.instances import OPERATOR, SimulatedInstance
from nodefleet_tools.sim.invariants import Guard
from nodefleet_tools.sim.kube import Kube
from nodefleet_tools.sim.kubelets import Kubelets
from nodefleet_tools.sim.nodes import Nodes


class Operator:
    def __init__(self, ec2: Ec2, kube: Kube, kubelets: Kubelets, nodes: Nodes, guard: Guard) -> None:
        self._ec2 = ec2
        self._kube = kube
        self._kubelets = kubelets
        self._nodes = nodes
        self._guard = guard

    def cordon(self, node: str) -> None:
        """kubectl cordon. On a node that is cordoned already it does nothing."""
        there = self._kube.nodes[node]
        self._guard.did(OPERATOR, f"cordon {node}")
        if not there.cordoned:
            self._kube.put_node(replace(there, cordoned=True))
            if not there.removal:  # with our taint still on it the cordon may be ours
                self._guard.by_people.add(node)

    def uncordon(self, node: str) -> None:
        """kubectl uncordon. It leaves taints and annotations behind."""
        self._guard.did(OPERATOR, f"uncordon {node}")
        self._guard.by_people.discard(node)
        self._guard.uncordoned_at[node] = self._kube.clock.now
        self._kube.put_node(replace(self._kube.nodes[node], cordoned=False))

    def delete_node(self, node: str) -> None:
        self._guard.did(OPERATOR, f"delete node {node}")
        self._guard.by_people.discard(node)
        self._nodes.delete(node)

    def delete_pod(self, key: str) -> None:
        self._guard.did(OPERATOR, f"delete pod {key}")
        self._kubelets.delete(self._kube.pods[key])

    def launch(
        self, *, zone: str, pool: str = "default", type_: str = "t3.small", market: Market = Market.ON_DEMAND
    ) -> SimulatedInstance:
        """From the launch template, with the pool's tags."""
        machine = self._ec2.start(pool=pool, zone=zone, type_=type_, market=market, by=OPERATOR)
        self._guard.did(OPERATOR, f"launch {machine.id}")
        return machine

    def terminate(self, instance: str) -> None:
        self._guard.did(OPERATOR, f"terminate {instance}")
        self._ec2.end(self._ec2.machines[instance])

    def stop(self, instance: str) -> None:
        self._guard.did(OPERATOR, f"stop {instance}")
        self._ec2.stop(self._ec2.machines[instance])
