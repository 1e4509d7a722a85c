"""Teardown of a cluster: its workers are no resources of the stack, because the autoscaler launched them.

`pulumi destroy` deletes in the reverse order of what depends on what, so the order is written as dependencies:

    1  schedules, event rules, the wake-up's subscription     no run starts any more
    2  `Sweep` of each cluster (below)                        ceiling 0: it takes the lease and keeps it, so that no run
                                                              that is still going can launch; then it terminates the
                                                              workers by their tag and waits until they are gone
    3  functions, master, templates, roles, groups, network, table

The same happens to a single cluster that is taken out of the configuration. Everything can be done again: a destroy
that was interrupted is started once more. In another account than the stack's nothing is swept, and the destroy stops
there: finding no workers in the wrong place must not pass for having none. A production stack's sweeps are protected,
so that a destroy is refused before it begins.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
from pulumi.dynamic import ConfigureRequest, CreateResult, DiffResult, Resource, ResourceProvider, UpdateResult

from nodefleet.adapters.dynamodb.store import acquire
from nodefleet.adapters.dynamodb.table import Table
from nodefleet.errors import MisconfiguredError, UnavailableError
from nodefleet.model.names import ROLE_WORKER, TAG_CLUSTER, TAG_ROLE, pluralize
from nodefleet.ports import LeaseHeld
from nodefleet_infra.credentials import Access, access_from, check_account

OWNER = "teardown"
KEEP_LEASE = timedelta(minutes=15)  # by then whatever could start a run is gone
SKEW = timedelta(seconds=5)
LONGEST_RUN = timedelta(minutes=6)  # a lease lasts 300 s at most
LONGEST_GOODBYE = timedelta(minutes=10)  # for EC2 to terminate them
LOOK_EVERY = 5.0  # seconds
BATCH = 100  # instances in one call
_ALIVE = ("pending", "running", "stopping", "stopped", "shutting-down")


class TeardownError(Exception):
    """Says what to do; `pulumi destroy` can then be started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What sweeping needs, replaceable in tests."""

    sts: Any
    ec2: Any
    dynamodb: Any
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    say: Callable[[str], None]


def sweep(cluster: str, table: str, account: object, by: Surroundings) -> None:
    """Afterwards the cluster has no workers, and no run can launch any. `account` is the stack's, as its state says."""
    check_account(by.sts, account)
    hold(cluster, table, by)
    terminate(cluster, by)


def hold(cluster: str, table: str, by: Surroundings) -> None:
    """Takes the lease, when the run that has it is over."""
    give_up = by.now() + LONGEST_RUN
    while True:
        now = by.now()
        try:
            answer = acquire(Table(by.dynamodb, table, cluster), OWNER, now, now + KEEP_LEASE, SKEW)
        except MisconfiguredError as error:
            # Without its table no run launches anything, so there is nothing to hold back.
            by.say(f"{cluster}: there is no table, so no lease to take: {error}")
            return
        except UnavailableError as error:
            if now > give_up:
                raise
            by.say(f"{cluster}: the lease cannot be taken yet: {error}")
            by.sleep(LOOK_EVERY)
            continue
        if not isinstance(answer, LeaseHeld):
            return
        if now > give_up:
            raise TeardownError(
                f"{cluster}: the run {answer.owner} has held the lease for longer than a run can last. See that no"
                " function of this stack is running, and start `pulumi destroy` again"
            )
        by.say(f"{cluster}: waiting for the run {answer.owner}, until {answer.expires:%H:%M:%S} UTC at most")
        by.sleep(LOOK_EVERY)


def terminate(cluster: str, by: Surroundings) -> None:
    """By the cluster's tag and the workers' role, whatever pool: never the master, never another cluster's."""
    give_up = by.now() + LONGEST_GOODBYE
    while workers := _workers(cluster, by.ec2):
        asked = [identity for identity, state in workers.items() if state != "shutting-down"]
        for start in range(0, len(asked), BATCH):
            by.ec2.terminate_instances(InstanceIds=asked[start : start + BATCH])
        if by.now() > give_up:
            raise TeardownError(
                f"{cluster}: workers that do not terminate: {', '.join(sorted(workers)[:5])}. Look at EC2 (termination"
                " protection?), and start `pulumi destroy` again"
            )
        by.say(f"{cluster}: {pluralize(len(workers), 'worker is', 'workers are')} terminating")
        by.sleep(LOOK_EVERY)


def _workers(cluster: str, ec2: Any) -> dict[str, str]:
    """Those that are not gone, with their state."""
    wanted = {f"tag:{TAG_CLUSTER}": [cluster], f"tag:{TAG_ROLE}": [ROLE_WORKER], "instance-state-name": list(_ALIVE)}
    filters = [{"Name": name, "Values": values} for name, values in wanted.items()]
    return {
        instance["InstanceId"]: instance["State"]["Name"]
        for page in ec2.get_paginator("describe_instances").paginate(Filters=filters)
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
        if {"Key": TAG_CLUSTER, "Value": cluster} in instance["Tags"]  # a filter's value may hold wildcards
    }


# ── as a resource ────────────────────────────────────────────────────────────────────────────────────────────────


class SweepProvider(ResourceProvider):
    """Makes nothing; its part comes when it is deleted."""

    serialize_as_secret_always = False  # there is none in it
    access = Access()

    def configure(self, req: ConfigureRequest) -> None:
        self.access = access_from(req)

    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_=str(props["cluster"]), outs=_own(props))

    def diff(self, _id: str, olds: dict[str, Any], news: dict[str, Any]) -> DiffResult:
        replaced = ["cluster"] if olds.get("cluster") != news.get("cluster") else []
        return DiffResult(changes=_own(olds) != _own(news), replaces=replaced)

    def update(self, _id: str, _olds: dict[str, Any], news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=_own(news))

    def delete(self, _id: str, props: dict[str, Any]) -> None:
        session = self.access.session(props["region"])
        by = Surroundings(
            sts=self.access.client(session, "sts"),
            ec2=self.access.client(session, "ec2"),
            dynamodb=self.access.client(session, "dynamodb"),
            now=lambda: datetime.now(UTC),
            sleep=time.sleep,
            say=_say,
        )
        sweep(props["cluster"], props["table"], props.get("account"), by)


class Sweep(Resource, module="teardown", name="Sweep"):
    """One cluster's workers, as far as Pulumi knows them. Depends on everything that must outlive them."""

    cluster: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        cluster: str,
        region: str,
        account: str,
        table: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        props = {"cluster": cluster, "region": region, "account": account, "table": table}
        super().__init__(SweepProvider(), name, props, opts)


def _own(props: Mapping[str, Any]) -> dict[str, Any]:
    return {name: props.get(name) for name in ("cluster", "region", "account", "table")}


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201  # Pulumi shows what a provider prints
