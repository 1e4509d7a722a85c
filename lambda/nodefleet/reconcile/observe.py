"""The observation of one iteration, from concurrent queries. A failed source is Missing with its cause, never empty."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from nodefleet.errors import NodeFleetError
from nodefleet.model.inventory import Instance, InstanceType, Node, Notice
from nodefleet.model.readings import Missing
from nodefleet.model.request_budget import RequestKind
from nodefleet.model.snapshot import ClusterView, Observation, notice_in
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Runtime, State
from nodefleet.reconcile.preconditions import note_throttling, reserve_request

T = TypeVar("T")


def observe(runtime: Runtime, state: State, policy: Policy, run: str, within: timedelta) -> Observation:
    """Query all sources and build the observation. `within` is the time limit of the metric queries."""
    now = runtime.time.now()
    types = tuple(dict.fromkeys(name for pool in policy.pools for name in pool.market.types))
    instances, offers, view, readings = runtime.together(
        lambda: _list_instances(runtime, policy),
        lambda: runtime.cloud.catalog(types),
        runtime.cluster.view,
        lambda: runtime.gauges.read(policy, now, within, _load_known(state, policy)),
    )
    note_throttling(runtime, RequestKind.DESCRIBE, instances if isinstance(instances, Exception) else None)
    catalog: tuple[InstanceType, ...] | Missing = _or_missing(offers)
    kubernetes: ClusterView | Missing = _or_missing(view)
    instances = _reject_empty_list(_or_missing(instances), kubernetes)
    if isinstance(readings, Exception):
        raise readings  # metric sources return Missing instead of raising, so this is a bug
    return Observation(
        at=now,
        cluster=runtime.cluster_id,
        run=run,
        instances=instances,
        kubernetes=kubernetes,
        readings=readings,
        operations=state.operations,
        notices=_notices(state.notices, kubernetes),
        commands=state.commands,
        windows=runtime.policies.windows(policy, now),
        targets=state.deployment.targets if state.deployment else (),
        catalog=_catalog(runtime, catalog),
        utc_offset=runtime.policies.utc_offset(policy, now),
    )


def _list_instances(runtime: Runtime, policy: Policy) -> tuple[Instance, ...]:
    reserve_request(runtime, RequestKind.DESCRIBE, policy.requests)
    return runtime.cloud.instances()


def _load_known(state: State, policy: Policy) -> dict[str, datetime]:
    """For each pool with a trained forecaster, the time of the last load sample that it learned from."""
    pools = {pool.name: state.journal.memory.pool(pool.name).adaptive for pool in policy.pools}
    stored = {name: kept.forecaster for name, kept in pools.items() if kept and kept.forecaster}
    return {name: each.last for name, each in stored.items()}


def _or_missing(got: T | Exception) -> T | Missing:
    match got:
        case NodeFleetError():
            return Missing(str(got))
        case Exception():
            raise got
        case _:
            return got


def _reject_empty_list(
    instances: tuple[Instance, ...] | Missing, kubernetes: ClusterView | Missing
) -> tuple[Instance, ...] | Missing:
    """An empty instance list counts as Missing while a ready worker names its instance: a wrong region, role or tag
    also gives an empty list."""
    if instances or isinstance(instances, Missing) or isinstance(kubernetes, Missing):
        return instances
    ready = sum(node.ready and bool(node.instance) and node.pool is not None for node in kubernetes.nodes)
    if not ready:
        return instances
    said = "a ready worker runs on one" if ready == 1 else f"{ready} ready workers run on some"
    return Missing(f"it lists no instance of this cluster, but {said}. Look at the region, the cluster's tag, the role")


def _catalog(runtime: Runtime, found: tuple[InstanceType, ...] | Missing) -> tuple[InstanceType, ...]:
    """The catalog, or none with a warning: joined nodes still show the capacity of their types, and min is restored."""
    if isinstance(found, Missing):
        runtime.telemetry.warn(f"What instance types offer is not known: {found.cause}")
        return ()
    return found


def _notices(recorded: Iterable[Notice], kubernetes: ClusterView | Missing) -> tuple[Notice, ...]:
    """EC2's notices. A node that was drained while the table was unavailable carries its notice itself. A record of the
    same notice takes precedence, because it also holds the event id and whether the notice was withdrawn."""
    nodes: tuple[Node, ...] = () if isinstance(kubernetes, Missing) else kubernetes.nodes
    on_nodes = [notice for node in nodes if (notice := notice_in(node.removal))]
    notices = tuple(recorded)
    recorded_keys = {(notice.instance, notice.kind, notice.at) for notice in notices}
    unrecorded = [notice for notice in on_nodes if (notice.instance, notice.kind, notice.at) not in recorded_keys]
    return tuple(sorted(dict.fromkeys((*unrecorded, *notices)), key=_order))


def _order(notice: Notice) -> tuple[str, datetime, str, datetime, str, bool]:
    """A total order of notices: the first of two similar notices takes effect, so their order must not vary."""
    told_at = notice.told_at or notice.at
    return notice.instance, notice.at, notice.kind.value, told_at, notice.event, notice.withdrawn
