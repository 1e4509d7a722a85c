"""One cluster's instances in EC2, found by its tag."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from nodefleet.adapters.aws import create_fleet
from nodefleet.adapters.aws.errors import calling, code_of, said_in
from nodefleet.adapters.aws.instance_types import Answers, Catalog
from nodefleet.adapters.aws.session import Session
from nodefleet.errors import ChangedError, DeniedError, UnavailableError
from nodefleet.model.inventory import Instance, InstanceState, InstanceType, Market
from nodefleet.model.names import (
    ROLE_WORKER,
    STATUS_JOIN_FAILED,
    STATUS_STARTED,
    STATUS_WARM,
    TAG_CAPACITY,
    TAG_CLUSTER,
    TAG_OPERATION,
    TAG_POOL,
    TAG_ROLE,
    TAG_STATUS,
    TAG_TEMPLATE,
    TAG_TEMPLATE_VERSION,
)
from nodefleet.model.operations import Launch
from nodefleet.model.snapshot import KnownPrices
from nodefleet.ports import LaunchResult

# ── instances ────────────────────────────────────────────────────────────────────────────────────────────────────────
# One cluster's instances in EC2, found by its tag.
#
# Everything that acts on an instance names it by id and looks at it once more right before: it must carry the cluster's
# tag and be a worker. IAM says the same; a mistake in one of the two does no harm.


PAGE = 500  # EC2 gives up to 1,000; smaller pages answer within the read timeout

_CAN_RUN = (InstanceState.STOPPED, InstanceState.PENDING, InstanceState.RUNNING)
_GOING = (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)
# A Spot instance of a one-time request, one with instance-store root, one with stop protection.
_CANNOT_STOP = ("UnsupportedOperation", "OperationNotPermitted", "UnsupportedHibernationConfiguration")
_LOG = logging.getLogger(__name__)


class Ec2:
    """ports.Cloud for one cluster. Made once and kept, so that the catalogue is kept."""

    def __init__(
        self,
        session: Session,
        cluster: str,
        prices: Mapping[str, float],
        clock: Callable[[], datetime],
        warn: Callable[[str], None] = _LOG.warning,
        known: KnownPrices | None = None,
        *,
        answers: Answers | None = None,
    ) -> None:
        """`prices` are the deployment's own; `known` are those that AWS said, from the table; `answers` are what EC2
        said of types, for all clusters of the region."""
        self._session = session
        self._cluster = cluster
        self._catalog = Catalog(self._client, prices, clock, warn, known, answers=answers)

    def instances(self) -> tuple[Instance, ...]:
        ours = [{"Name": f"tag:{TAG_CLUSTER}", "Values": [self._cluster]}]
        with calling("EC2"):
            pages = self._client().get_paginator("describe_instances")
            found = [
                _decode_instance(raw)
                for page in pages.paginate(Filters=ours, PaginationConfig={"PageSize": PAGE})
                for raw in _instances_in(page)
                if self._is_ours(raw)  # a filter's value may hold wildcards
            ]
        return tuple({each.id: each for each in found}.values())

    def instance(self, identity: str) -> Instance | None:
        raw = self._describe(identity)
        return _decode_instance(raw) if raw and self._is_ours(raw) else None

    def catalog(self, types: Sequence[str]) -> tuple[InstanceType, ...]:
        return self._catalog.of(types)

    def launch(self, launch: Launch) -> LaunchResult:
        with calling("EC2"):
            try:
                response = self._client().create_fleet(**create_fleet.fleet_request(launch, self._cluster))
            except ClientError as problem:
                refused = create_fleet.refused_launch(launch, code_of(problem), said_in(problem))
                if refused is None:
                    raise
                return refused
        return create_fleet.launch_result(launch, response)

    def start_warm(self, launch: Launch) -> LaunchResult:
        """Started first and tagged then: what was refused is still warm, and what crashes in between is sent again."""
        found = [self._own_worker(identity, "started") for identity in launch.starts]
        there = [each for each in found if each is not None and each.state in _CAN_RUN]
        stopped = [each.id for each in there if each.state is InstanceState.STOPPED]
        with calling("EC2"):
            try:
                if stopped:
                    self._client().start_instances(InstanceIds=stopped)
            except ClientError as problem:
                refused = create_fleet.refused_launch(launch, code_of(problem), said_in(problem))
                if refused is None:
                    raise
                running = tuple(each.id for each in there if each.id not in stopped)
                return replace(refused, instances=running)
        for each in there:
            if each.warm:
                self._tag(each.id, TAG_STATUS, STATUS_STARTED)
        return LaunchResult(instances=tuple(each.id for each in there))

    def keep_warm(self, instance: str) -> bool:
        """Tagged first: one that is stopped without the tag would be cleaned up as stopped by someone else."""
        current = self._own_worker(instance, "stopped")
        if current is None or current.state in _GOING:
            return True
        if not current.warm:
            self._tag(instance, TAG_STATUS, STATUS_WARM)
        with calling("EC2"):
            try:
                self._client().stop_instances(InstanceIds=[instance])
            except ClientError as problem:
                if code_of(problem) in _CANNOT_STOP:
                    return False
                if not _is_unknown(problem):
                    raise
        return True

    def terminate(self, instance: str) -> None:
        current = self._own_worker(instance, "terminated")
        if current is None or current.state in _GOING:
            return
        with calling("EC2"):
            try:
                self._client().terminate_instances(InstanceIds=[instance])
            except ClientError as problem:
                if code_of(problem) == "OperationNotPermitted":
                    remedy = "Take off its termination protection, or terminate it by hand"
                    raise DeniedError("EC2", f"{instance} may not be terminated", remedy) from problem
                if not _is_unknown(problem):
                    raise

    def mark_failed(self, instance: str) -> None:
        current = self._own_worker(instance, "tagged")
        if current is None or current.failed:
            return
        self._tag(instance, TAG_STATUS, STATUS_JOIN_FAILED)

    def assign(self, instance: str, pool: str) -> None:
        current = self._own_worker(instance, "tagged")
        if current is not None and current.pool != pool:
            self._tag(instance, TAG_POOL, pool)

    def _tag(self, instance: str, key: str, value: str) -> None:
        with calling("EC2"):
            try:
                self._client().create_tags(Resources=[instance], Tags=[{"Key": key, "Value": value}])
            except ClientError as problem:
                if not _is_unknown(problem):
                    raise

    def _client(self) -> Any:
        return self._session.client("ec2")

    def _own_worker(self, identity: str, to_be: str) -> Instance | None:
        """The worker as it is now; none if EC2 does not know it. An error for every other instance."""
        raw = self._describe(identity)
        if raw is None:
            return None
        if not self._is_ours(raw):
            raise ChangedError(f"{identity} was to be {to_be}, but does not carry {TAG_CLUSTER}={self._cluster}")
        current = _decode_instance(raw)
        if not current.worker:
            remedy = f"If it is one, tag it {TAG_ROLE}={ROLE_WORKER}; the control plane is never touched"
            raise DeniedError("EC2", f"{identity} was to be {to_be}, but is not a worker", remedy)
        return current

    def _describe(self, identity: str) -> Mapping[str, Any] | None:
        with calling("EC2"):
            try:
                page = self._client().describe_instances(InstanceIds=[identity])
            except ClientError as problem:
                if _is_unknown(problem):
                    return None
                raise
        return next((raw for raw in _instances_in(page) if raw.get("InstanceId") == identity), None)

    def _is_ours(self, raw: Mapping[str, Any]) -> bool:
        return _tags(raw).get(TAG_CLUSTER) == self._cluster


def _is_unknown(problem: ClientError) -> bool:
    """EC2 does not know the id, or it is none."""
    return code_of(problem).lower() in ("invalidinstanceid.notfound", "invalidinstanceid.malformed")


def _instances_in(page: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [raw for reservation in page.get("Reservations") or [] for raw in reservation.get("Instances") or []]


def _tags(raw: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in raw.get("Tags") or []}


def _decode_instance(raw: Mapping[str, Any]) -> Instance:
    tags = _tags(raw)
    try:
        return Instance(
            id=str(raw["InstanceId"]),
            pool=tags.get(TAG_POOL, ""),
            state=InstanceState(raw["State"]["Name"]),
            zone=str(raw["Placement"]["AvailabilityZone"]),
            type=str(raw["InstanceType"]),
            market=_market(raw, tags),
            launched_at=raw["LaunchTime"],
            operation=tags.get(TAG_OPERATION, ""),
            worker=tags.get(TAG_ROLE) == ROLE_WORKER,
            failed=tags.get(TAG_STATUS) == STATUS_JOIN_FAILED,
            template=tags.get(TAG_TEMPLATE, ""),
            template_version=tags.get(TAG_TEMPLATE_VERSION, ""),
            warm=tags.get(TAG_STATUS) == STATUS_WARM,
            created_at=_created_at(raw),
        )
    except (KeyError, TypeError, ValueError) as problem:
        # An instance left out would look like a lost one.
        cause = f"DescribeInstances: {raw.get('InstanceId', 'an instance')} cannot be read: {problem!r}"
        raise UnavailableError("EC2", cause) from problem


def _created_at(raw: Mapping[str, Any]) -> datetime | None:
    """LaunchTime is that of the last start. The disks are attached once, when the instance is made."""
    disks = [each.get("Ebs") or {} for each in raw.get("BlockDeviceMappings") or []]
    return min((disk["AttachTime"] for disk in disks if disk.get("AttachTime")), default=None)


def _market(raw: Mapping[str, Any], tags: Mapping[str, str]) -> Market:
    """EC2 names no lifecycle for On-Demand; the tag we launched it with then tells the same."""
    lifecycle = raw.get("InstanceLifecycle") or tags.get(TAG_CAPACITY)
    return Market.SPOT if lifecycle == Market.SPOT.value else Market.ON_DEMAND


# ── cluster lookup ───────────────────────────────────────────────────────────────────────────────────────────────────
# Whose an instance is: the clusters that these instances are tagged for.


_VALUES = 200  # that a filter may have


def clusters_of(session: Session, instances: Sequence[str]) -> Mapping[str, str]:
    """The cluster of each instance that has one.

    By filter, not by id: an id that EC2 does not know would make it refuse the whole call."""
    owners: dict[str, str] = {}
    with calling("EC2"):
        for start in range(0, len(instances), _VALUES):
            some = list(instances[start : start + _VALUES])
            pages = session.client("ec2").get_paginator("describe_instances")
            for page in pages.paginate(Filters=[{"Name": "instance-id", "Values": some}]):
                found = (instance for reservation in page["Reservations"] for instance in reservation["Instances"])
                owners.update(
                    (instance["InstanceId"], tag["Value"])
                    for instance in found
                    for tag in instance.get("Tags", [])
                    if tag["Key"] == TAG_CLUSTER
                )
    return owners
