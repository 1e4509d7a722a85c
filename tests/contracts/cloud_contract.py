"""How every cloud behaves behind ports.Cloud: EC2 through the adapter, and the simulated one.

A subclass named Test… gives the `world` fixture; its tests then are these. What a stand-in for EC2 cannot show is
listed in `Lacks`, with the reason; the world says what it lacks and those tests are skipped there. For the adapter they
are shown with stubbed answers instead.
"""

from dataclasses import replace
from enum import Enum
from typing import Protocol

import pytest

from nodefleet.errors import ChangedError, DeniedError
from nodefleet.model.inventory import Instance, InstanceState, Market, Resources
from nodefleet.model.names import ROLE_SERVER, ROLE_WORKER
from nodefleet.model.operations import Launch, RefusalKind
from nodefleet.ports import Cloud

KNOWN, OTHER, NOT_OFFERED = "t3.small", "t2.small", "t9.enormous"
UNKNOWN_ID = "i-0123456789abcdef0"
UP = (InstanceState.PENDING, InstanceState.RUNNING)
GONE = (InstanceState.SHUTTING_DOWN, InstanceState.TERMINATED)


class Lacks(Enum):
    """What moto 5.2.5 cannot show."""

    TOKENS = "ClientToken has no effect: the same request launches again"
    CAPACITY = "CreateFleet takes the first override only and never answers with Errors"


class CloudWorld(Protocol):
    """A cloud with what a launch needs, and a hand in it."""

    cloud: Cloud
    cluster: str
    lacks: frozenset[Lacks]

    def launch(self, **changes: object) -> Launch:
        """A launch of two t3.small that would work, On-Demand, with these changes."""
        ...

    def machine(self, cluster: str, role: str | None) -> str:
        """An instance that another writer started and tagged so. No role: without that tag."""
        ...

    def is_up(self, identity: str) -> bool:
        """As its owner sees it, whoever that is."""
        ...

    def exhaust(self, type_: str, market: Market) -> None:
        """From now on there is no capacity for the type in the launch's zone."""
        ...

    def settle(self) -> None:
        """Until what was asked for shows."""
        ...


class CloudContract:
    @pytest.fixture
    def world(self) -> CloudWorld:
        raise NotImplementedError

    # ── launching ──

    def test_a_new_cluster_has_no_machines(self, world: CloudWorld):
        assert world.cloud.instances() == ()

    @pytest.mark.parametrize("market", Market)
    def test_a_launch_gives_machines_that_say_whose_they_are(self, world: CloudWorld, market: Market):
        wanted = world.launch(id="launch-7", pool="batch", market=market, count=2)
        answer = world.cloud.launch(wanted)
        world.settle()
        assert (len(answer.instances), answer.refusals) == (2, ())
        found = listed(world)
        assert set(found) == set(answer.instances)
        for machine in found.values():
            assert machine.operation == "launch-7"
            assert (machine.pool, machine.zone, machine.type) == ("batch", wanted.zone, KNOWN)
            assert (machine.market, machine.worker, machine.failed) == (market, True, False)
            assert machine.state in UP
            assert machine.launched_at.tzinfo is not None

    def test_one_machine_looked_up_is_the_one_that_is_listed(self, world: CloudWorld):
        (identity,) = launched(world, count=1)
        assert world.cloud.instance(identity) == listed(world)[identity]

    def test_the_same_launch_sent_again_gives_the_same_machines(self, world: CloudWorld):
        able(world, Lacks.TOKENS)
        wanted = world.launch()
        first = world.cloud.launch(wanted)
        again = world.cloud.launch(replace(wanted, attempts=3))
        world.settle()
        assert set(again.instances) == set(first.instances) == set(listed(world))

    def test_another_launch_gives_other_machines(self, world: CloudWorld):
        first = launched(world, id="one", count=1)
        second = launched(world, id="two", count=1)
        assert set(listed(world)) == {*first, *second}
        assert first != second

    def test_a_type_without_capacity_is_refused_and_another_takes_its_place(self, world: CloudWorld):
        able(world, Lacks.CAPACITY)
        world.exhaust(KNOWN, Market.SPOT)
        answer = world.cloud.launch(world.launch(market=Market.SPOT, types=(KNOWN, OTHER), count=2))
        world.settle()
        assert {listed(world)[identity].type for identity in answer.instances} == {OTHER}
        assert {refusal.type for refusal in answer.refusals} <= {KNOWN}

    def test_no_capacity_at_all_is_an_answer_without_machines(self, world: CloudWorld):
        able(world, Lacks.CAPACITY)
        world.exhaust(KNOWN, Market.SPOT)
        answer = world.cloud.launch(world.launch(market=Market.SPOT, types=(KNOWN,), count=2))
        world.settle()
        assert (answer.instances, world.cloud.instances()) == ((), ())
        assert [(refusal.type, refusal.kind) for refusal in answer.refusals] == [(KNOWN, RefusalKind.CAPACITY)]

    def test_a_template_that_does_not_exist_is_refused_for_good(self, world: CloudWorld):
        answer = world.cloud.launch(world.launch(template="lt-0123456789abcdef0"))
        assert (answer.instances, world.cloud.instances()) == ((), ())
        assert [(refusal.type, refusal.kind) for refusal in answer.refusals] == [(KNOWN, RefusalKind.INVALID)]
        assert all(refusal.code and refusal.remedy for refusal in answer.refusals)

    # ── whose instances ─

    def test_the_control_plane_is_listed_and_is_no_worker(self, world: CloudWorld):
        server = world.machine(world.cluster, ROLE_SERVER)
        world.settle()
        assert [(machine.id, machine.worker) for machine in world.cloud.instances()] == [(server, False)]

    def test_what_is_not_clearly_a_worker_is_none(self, world: CloudWorld):
        nobody = world.machine(world.cluster, None)
        world.settle()
        assert not listed(world)[nobody].worker

    def test_another_clusters_machines_are_not_seen(self, world: CloudWorld):
        foreign = world.machine("another", ROLE_WORKER)
        world.settle()
        assert world.cloud.instances() == ()
        assert world.cloud.instance(foreign) is None

    @pytest.mark.parametrize("identity", [UNKNOWN_ID, "none"])
    def test_a_machine_that_nobody_knows_is_none(self, world: CloudWorld, identity: str):
        assert world.cloud.instance(identity) is None

    # ── terminating ──

    def test_a_terminated_machine_is_gone_and_the_others_stay(self, world: CloudWorld):
        goes, stays = launched(world, count=2)
        world.cloud.terminate(goes)
        world.settle()
        assert listed(world)[goes].state in GONE
        assert listed(world)[stays].state in UP

    def test_terminating_twice_or_what_nobody_knows_changes_nothing(self, world: CloudWorld):
        (identity,) = launched(world, count=1)
        for _ in range(2):
            world.cloud.terminate(identity)
            world.settle()
        world.cloud.terminate(UNKNOWN_ID)
        assert listed(world)[identity].state in GONE

    @pytest.mark.parametrize("role", [ROLE_SERVER, None])
    def test_what_is_not_a_worker_is_never_terminated(self, world: CloudWorld, role: str | None):
        server = world.machine(world.cluster, role)
        world.settle()
        with pytest.raises(DeniedError, match=server):
            world.cloud.terminate(server)
        assert world.is_up(server)

    def test_another_clusters_machine_is_never_terminated(self, world: CloudWorld):
        foreign = world.machine("another", ROLE_WORKER)
        world.settle()
        with pytest.raises(ChangedError, match=foreign):
            world.cloud.terminate(foreign)
        assert world.is_up(foreign)

    # ── marking ──

    def test_a_machine_marked_as_failed_stays_so_and_keeps_what_it_was(self, world: CloudWorld):
        marked, other = launched(world, count=2)
        before = listed(world)[marked]
        for _ in range(2):
            world.cloud.mark_failed(marked)
            world.settle()
        assert listed(world)[marked] == replace(before, failed=True)
        assert not listed(world)[other].failed

    def test_only_the_clusters_own_workers_are_marked(self, world: CloudWorld):
        server, foreign = world.machine(world.cluster, ROLE_SERVER), world.machine("another", ROLE_WORKER)
        world.settle()
        with pytest.raises(DeniedError, match=server):
            world.cloud.mark_failed(server)
        with pytest.raises(ChangedError, match=foreign):
            world.cloud.mark_failed(foreign)
        assert not listed(world)[server].failed

    # ── keeping warm ──

    def test_a_machine_that_is_kept_warm_stops_and_runs_again_when_it_is_started(self, world: CloudWorld):
        launch = world.launch(count=2, market=Market.ON_DEMAND)
        kept, other = world.cloud.launch(launch).instances
        world.settle()
        for _ in range(2):
            assert world.cloud.keep_warm(kept)
            world.settle()
        assert (listed(world)[kept].state, listed(world)[kept].warm) == (InstanceState.STOPPED, True)
        assert listed(world)[other].state in UP
        for _ in range(2):
            assert world.cloud.start_warm(replace(launch, id="again", count=1, starts=(kept,))).instances == (kept,)
            world.settle()
        assert listed(world)[kept].state in UP
        assert not listed(world)[kept].warm

    def test_only_the_clusters_own_workers_are_stopped_and_started(self, world: CloudWorld):
        server, foreign = world.machine(world.cluster, ROLE_SERVER), world.machine("another", ROLE_WORKER)
        world.settle()
        for identity, error in ((server, DeniedError), (foreign, ChangedError)):
            with pytest.raises(error, match=identity):
                world.cloud.keep_warm(identity)
            with pytest.raises(error, match=identity):
                world.cloud.start_warm(world.launch(count=1, starts=(identity,)))
            assert world.is_up(identity)

    # ── handing over ──

    def test_a_machine_that_is_handed_to_a_pool_stays_there_and_keeps_what_it_was(self, world: CloudWorld):
        handed, other = launched(world, count=2)
        before = listed(world)
        for _ in range(2):
            world.cloud.assign(handed, "web")
            world.settle()
        assert listed(world)[handed] == replace(before[handed], pool="web")
        assert listed(world)[other] == before[other]

    def test_only_the_clusters_own_workers_are_handed_over(self, world: CloudWorld):
        server, foreign = world.machine(world.cluster, ROLE_SERVER), world.machine("another", ROLE_WORKER)
        world.settle()
        with pytest.raises(DeniedError, match=server):
            world.cloud.assign(server, "web")
        with pytest.raises(ChangedError, match=foreign):
            world.cloud.assign(foreign, "web")

    # ── the catalogue ──

    def test_the_catalogue_says_what_types_offer_and_leaves_out_what_there_is_not(self, world: CloudWorld):
        found = {one.name: one for one in world.cloud.catalog((KNOWN, NOT_OFFERED))}
        assert set(found) == {KNOWN}
        offered = found[KNOWN].resources
        assert (offered.cpu, offered.memory) == (2000, 2 << 30)
        assert offered.extended == Resources().extended

    def test_the_catalogue_says_the_same_again(self, world: CloudWorld):
        assert world.cloud.catalog((KNOWN, OTHER)) == world.cloud.catalog((OTHER, KNOWN))
        assert world.cloud.catalog(()) == ()


def listed(world: CloudWorld) -> dict[str, Instance]:
    return {machine.id: machine for machine in world.cloud.instances()}


def launched(world: CloudWorld, **changes: object) -> tuple[str, ...]:
    answer = world.cloud.launch(world.launch(**changes))
    world.settle()
    return answer.instances


def able(world: CloudWorld, lack: Lacks) -> None:
    if lack in world.lacks:
        pytest.skip(lack.value)
