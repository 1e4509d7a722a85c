"""A run that changes nothing anywhere: no lease, no record, no instance, no node, no archive.

Reads pass through to the real parts. What the run writes is kept here, in memory, so that it sees its own writes and a
loop of dry runs has its cooldowns. Every pool is dry, so the decisions are marked as such and open no operation; what
would be done all the same (for a pool that the policy does not name any more, say) is noted and not done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, NoReturn

from nodefleet.errors import ChangedError
from nodefleet.model.decision import DecisionRecord, Event, PolicyVersion
from nodefleet.model.inventory import Instance, InstanceType, Node
from nodefleet.model.operations import Cordon, Launch, PodRef
from nodefleet.model.snapshot import ActiveWindow, ClusterView
from nodefleet.model.state import Usage
from nodefleet.model.workload import Pod
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Cloud, Cluster, EvictionOutcome, History, LaunchResult, Policies, Runtime
from nodefleet_tools.dry_store import DryStore


@dataclass(slots=True)
class Would:
    """What was left undone. The loop says it, and leaves the rest of that operation for later."""

    said: list[str] = field(default_factory=list)

    def __call__(self, what: str) -> NoReturn:
        self.said.append(what)
        raise ChangedError(f"dry run: would {what}")


def dry(parts: Runtime, store: DryStore, would: Would | None = None) -> Runtime:
    """The same parts, with nothing that could change anything. `store` outlives a run, so that the next one goes on
    from what this one wrote."""
    would = would or Would()
    return replace(
        parts,
        store=store,
        history=DryHistory(parts.history, would),
        cloud=DryCloud(parts.cloud, would),
        cluster=DryCluster(parts.cluster, would),
        archive=DryArchive(),
        policies=DryPolicies(parts.policies),
    )


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DryHistory:
    real: History
    would: Would

    def decisions(self, limit: int, before: datetime | None = None) -> tuple[DecisionRecord, ...]:
        return self.real.decisions(limit, before)

    def events(self, since: datetime, until: datetime) -> tuple[Event, ...]:
        return self.real.events(since, until)

    def usage(self, since: datetime, until: datetime) -> tuple[Usage, ...]:
        return self.real.usage(since, until)

    def policies(self) -> tuple[PolicyVersion, ...]:
        return self.real.policies()

    def apply(self, version: PolicyVersion, event: Event) -> NoReturn:  # noqa: ARG002  # the port's
        self.would(f"put policy version {version.number} in force")


class DryArchive:
    def keep(self, key: str, content: bytes) -> None:
        """Not kept: a dry look is not replayed."""

    def fetch(self, key: str) -> NoReturn:
        raise ChangedError(f"{key} was never kept: this is a dry run")


@dataclass(frozen=True, slots=True)
class DryPolicies:
    """Every policy, with all of its pools dry."""

    real: Policies

    def read(self, data: Any) -> Policy:
        return _all_dry(self.real.read(data))

    def salvage(self, data: Any) -> Policy:
        return _all_dry(self.real.salvage(data))

    def windows(self, policy: Policy, now: datetime) -> tuple[ActiveWindow, ...]:
        return self.real.windows(policy, now)

    def utc_offset(self, policy: Policy, now: datetime) -> timedelta:
        return self.real.utc_offset(policy, now)


def _all_dry(policy: Policy) -> Policy:
    return replace(policy, pools=tuple(replace(pool, dry_run=True) for pool in policy.pools))


# ── instances and nodes ──────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DryCloud:
    real: Cloud
    would: Would

    def instances(self) -> tuple[Instance, ...]:
        return self.real.instances()

    def instance(self, identity: str) -> Instance | None:
        return self.real.instance(identity)

    def catalog(self, types: Sequence[str]) -> tuple[InstanceType, ...]:
        return self.real.catalog(types)

    def launch(self, launch: Launch) -> LaunchResult:
        self.would(f"ask EC2 for {launch.count} {launch.market.value} in {launch.zone}")

    def start_warm(self, launch: Launch) -> LaunchResult:
        self.would(f"start {', '.join(launch.starts)}")

    def keep_warm(self, instance: str) -> bool:
        self.would(f"stop {instance} and keep it warm")

    def terminate(self, instance: str) -> None:
        self.would(f"terminate {instance}")

    def mark_failed(self, instance: str) -> None:
        self.would(f"mark {instance} as failed to join")

    def assign(self, instance: str, pool: str) -> None:
        self.would(f"tag {instance} as a worker of pool {pool}")


@dataclass(frozen=True, slots=True)
class DryCluster:
    real: Cluster
    would: Would

    def view(self) -> ClusterView:
        return self.real.view()

    def nodes(self) -> tuple[Node, ...]:
        return self.real.nodes()

    def node(self, name: str) -> Node | None:
        return self.real.node(name)

    def pods_on(self, node: str, *, brief: bool = False) -> tuple[Pod, ...]:
        return self.real.pods_on(node, brief=brief)

    def cordon(self, cordon: Cordon, instance: str) -> None:  # noqa: ARG002  # the port's
        self.would(f"cordon {cordon.node}")

    def uncordon(self, node: str, removal: str) -> None:  # noqa: ARG002
        self.would(f"let {node} back in")

    def assign(self, node: str, instance: str, pool: str) -> None:  # noqa: ARG002
        self.would(f"label {node} as a node of pool {pool}")

    def evict(self, pod: PodRef) -> EvictionOutcome:
        self.would(f"evict {pod.namespace}/{pod.name}")

    def delete_pod(self, pod: PodRef) -> None:
        self.would(f"delete {pod.namespace}/{pod.name} by force")

    def delete_node(self, node: str, instance: str) -> None:  # noqa: ARG002
        self.would(f"delete the Node {node}")

    def note(self, node: str, reason: str, message: str, *, warning: bool = False) -> None:
        """Not written: it explains what a real run does."""
