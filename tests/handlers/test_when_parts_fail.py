"""Every row of "When parts fail", through the handlers: in the simulated world, where time passes, and on moto and
loopback, where the outages are those of real connections."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError, EndpointConnectionError

from nodefleet import bootstrap
from nodefleet.errors import DeniedError, UnavailableError
from nodefleet.handlers import FUNCTION, interruption, reconcile
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action
from nodefleet.model.inventory import Notice
from nodefleet.model.names import Metric
from nodefleet.model.state import Level
from nodefleet.ports import Runtime
from nodefleet.settings import Settings
from nodefleet_tools.sim.world import World
from support.deployed import Deployed, account, cold, deployed
from support.fake_api_objects import failure
from support.fake_api_server import TOKEN
from support.function_output import Printed
from support.loopback_slack import Answer, loopback_slack
from support.prometheus_stand_in import Http
from support.wording import assert_wording
from support.worlds import TICK, shop, spot_worker

__all__ = ["account", "deployed"]

ONE_LOOK = timedelta(seconds=24)
CHANGES = {"cloud.launch", "cloud.terminate", "cluster.cordon", "cluster.evict", "cluster.delete_node"}


class Functions:
    """The handlers in a simulated world: the schedule starts `reconcile` every two minutes."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.invocations = 0
        self.limit = timedelta(seconds=150)  # of an invocation
        monkeypatch.setattr(FUNCTION, "runtime", self._parts)
        monkeypatch.setitem(FUNCTION.__dict__, "settings", Settings(table="table", clusters=(world.name,)))
        monkeypatch.setattr(FUNCTION, "owners_of", lambda instances, _: {world.name: frozenset(instances)})
        monkeypatch.setattr(bootstrap, "owner", lambda _: self._owner)
        monkeypatch.setattr(bootstrap, "now", lambda: world.now)

    @property
    def _owner(self) -> str:
        return f"invocation-{self.invocations}"

    @contextmanager
    def _parts(self, cluster: str, _: Any) -> Iterator[Runtime]:
        assert cluster == self.world.name
        yield self.world.parts(self._owner, limit=self.limit)

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.world.advance(TICK.total_seconds() - self.world.now.timestamp() % TICK.total_seconds())
            self.invocations += 1
            reconcile.handler({"cluster": self.world.name}, None)

    def warn(self, notice: Notice) -> dict[str, Any]:
        self.invocations += 1
        event = {
            "source": "aws.ec2",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "time": notice.at.isoformat(),
            "detail": {"instance-id": notice.instance},
        }
        return interruption.handler(event, None)

    @property
    def changed(self) -> set[str]:
        """Kinds of changes in EC2 and Kubernetes that the last invocation asked for."""
        return CHANGES & set(self.world.runs[self._owner].log)

    @property
    def level(self) -> float:
        """As the alarm sees it."""
        return [value for metric, value in self.world.metrics if metric is Metric.LEVEL][-1]

    def left_on(self, instance: str) -> list[str]:
        """Pods that nobody has asked to go."""
        node = self.world.kube.node_of(instance)
        pods = self.world.kube.pods_on(node.name) if node else ()
        return [pod.name for pod in pods if pod.movable and not pod.deleted_at]

    def events(self, kind: AlertKind) -> int:
        return [event.kind for event in self.world.table.events].count(kind)

    def shrinks(self) -> datetime:
        """When it next decides to give a node back."""
        for _ in range(30):
            self.tick()
            for record in self.world.table.decisions:
                if any(pool.action is Action.SHRINK for pool in record.decision.pools):
                    return record.at
        raise AssertionError("it never shrinks")


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> Functions:
    """Four workers with nothing to do: were all well, one would go after some ten minutes."""
    functions = Functions(shop(workers=4, replicas=2, cpu=100).world, monkeypatch)
    functions.tick()
    return functions


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Functions:
    """Three workers, all needed."""
    functions = Functions(shop(workers=3, replicas=6, cpu=600).world, monkeypatch)
    functions.tick()
    return functions


def crowd(world: World) -> None:
    """Pods that find no room."""
    world.deploy("sale", replicas=2, cpu=1500)
    world.advance(5)


# ── normal, to compare with ──────────────────────────────────────────────────────────────────────────────────────


def test_while_all_is_well_an_idle_fleet_shrinks(idle):
    idle.tick(8)
    assert len(idle.world.ready_nodes()) == 3
    assert idle.level == 0


# ── degraded: Prometheus missing ─────────────────────────────────────────────────────────────────────────────────


def test_without_prometheus_the_fleet_grows_for_pods_that_wait(busy):
    busy.world.away("gauges", "connection refused")
    crowd(busy.world)
    busy.tick()
    assert len(busy.world.workers()) > 3
    assert busy.level == 2


def test_without_prometheus_the_fleet_does_not_shrink_and_people_hear_of_it_once(idle):
    idle.world.away("gauges", "connection refused")
    for _ in range(12):
        idle.tick()
        assert (idle.changed, idle.level) == (set(), 2)
    assert idle.events(AlertKind.DEGRADED) == 1
    assert len(idle.world.workers()) == 4


# ── partial: Kubernetes or EC2 missing ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", ["cluster", "cloud"])
def test_without_kubernetes_or_ec2_nothing_is_launched_drained_or_cleaned_up(busy, part):
    """Though pods wait, min is not there, and an instance has gone."""
    crowd(busy.world)
    for machine in busy.world.workers()[:2]:
        busy.world.operator.terminate(machine.id)
    busy.world.away(part, "timed out")
    for _ in range(4):
        busy.tick()
        assert (busy.changed, busy.level) == (set(), 3)
    assert busy.events(AlertKind.DEGRADED) == 1
    assert len(busy.world.workers()) == 1


@pytest.mark.parametrize("part", ["cluster", "cloud"])
def test_a_drain_that_was_under_way_waits_for_kubernetes_and_ec2(idle, part):
    idle.limit = ONE_LOOK
    idle.shrinks()
    (leaving,) = [node for node in idle.world.kube.nodes.values() if node.cordoned]
    idle.world.away(part, "timed out")
    idle.tick(2)
    assert len(idle.world.workers()) == 4
    idle.world.back(part)
    idle.tick(6)
    assert leaving.name not in {node.name for node in idle.world.kube.nodes.values() if node.cordoned}
    operations = idle.world.parts("reader").store.state().operations
    assert leaving.removal not in {operation.id for operation in operations}
    assert idle.world.violations == []


def test_without_ec2_a_doomed_node_is_drained_all_the_same(busy):
    victim = spot_worker(busy.world)
    notice = busy.world.interrupt(victim)
    busy.world.away("cloud", "timed out")
    busy.warn(notice)
    assert busy.left_on(victim) == []
    assert "cloud.launch" not in busy.changed


@pytest.mark.parametrize("part", ["cluster", "cloud"])
def test_a_doomed_node_s_drain_goes_on_though_the_run_itself_can_do_nothing(busy, part):
    """A budget refuses at first, or the API server is away for half a minute: force comes after 90 s."""
    busy.world.protect("shop", min_available="100%")
    victim = spot_worker(busy.world)
    notice = busy.world.interrupt(victim)
    busy.world.away(part, "timed out", for_seconds=None if part == "cloud" else 30)
    busy.warn(notice)
    assert busy.left_on(victim) == []


# ── major: DynamoDB missing ──────────────────────────────────────────────────────────────────────────────────────


def test_without_the_table_the_function_fails_and_nothing_is_scaled(busy):
    crowd(busy.world)
    busy.world.away("store", "timed out")
    for _ in range(3):
        with pytest.raises(UnavailableError) as caught:
            busy.tick()
        assert_wording(str(caught.value))
        assert (busy.changed, busy.level) == (set(), 4)
    assert len(busy.world.workers()) == 3


def test_without_the_table_a_doomed_node_is_drained_all_the_same(busy):
    victim = spot_worker(busy.world)
    notice = busy.world.interrupt(victim)
    busy.world.away("store", "timed out")
    with pytest.raises(UnavailableError, match="DynamoDB"):
        busy.warn(notice)
    assert busy.left_on(victim) == []
    assert "cloud.launch" not in busy.changed
    assert busy.world.violations == []


# ── recovery ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("part", ["gauges", "cluster", "cloud", "store"])
def test_when_a_part_returns_the_fleet_grows_at_once(busy, part):
    busy.world.away(part)
    _tick_whatever_comes(busy, 2)
    busy.world.back(part)
    crowd(busy.world)
    busy.tick()
    assert len(busy.world.workers()) > 3


@pytest.mark.parametrize("part", ["gauges", "cluster", "cloud"])
def test_when_a_part_returns_nothing_shrinks_for_ten_minutes(idle, part):
    """However calm it was before: ten minutes are more than the calm that shrinking needs."""
    idle.tick(3)
    assert len(idle.world.workers()) == 4
    idle.world.away(part)
    idle.tick()
    idle.world.back(part)
    idle.tick()
    recovered = idle.world.now
    assert idle.level == 1
    assert idle.shrinks() - recovered >= timedelta(seconds=590)
    assert idle.events(AlertKind.RECOVERED) == 1
    assert idle.world.parts("reader").store.state().journal.memory.level is Level.NORMAL


def test_when_the_table_returns_nothing_shrinks_for_ten_minutes_either(idle):
    """Nobody could write down that it was away: the silence tells. One tick that is missed is none yet."""
    idle.tick(3)
    idle.world.away("store")
    _tick_whatever_comes(idle, 2)
    idle.world.back("store")
    idle.tick()
    recovered = idle.world.now
    assert idle.level == 1
    assert idle.shrinks() - recovered >= timedelta(seconds=590)


def _tick_whatever_comes(functions: Functions, times: int) -> None:
    for _ in range(times):
        try:
            functions.tick()
        except UnavailableError:
            assert functions.level == 4


# ── what holds up nothing ────────────────────────────────────────────────────────────────────────────────────────


def test_without_the_archive_everything_else_goes_on(busy):
    busy.world.away("archive", "timed out")
    crowd(busy.world)
    busy.tick()
    assert len(busy.world.workers()) > 3
    assert busy.level == 0
    assert busy.world.archive.kept == {}
    assert_wording(sorted({line.message for line in busy.world.lines if line.warning}))


# ── the same with real connections ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def failing(*operations: str, error: Exception | None = None) -> Iterator[None]:
    """These calls to AWS find nobody, or are answered with this error."""
    real = BaseClient._make_api_call

    def call(client: Any, operation: str, arguments: Any) -> Any:
        if operation in operations:
            raise error or EndpointConnectionError(endpoint_url="https://nowhere.invalid")
        return real(client, operation, arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseClient, "_make_api_call", call)
        yield


def full(deployed: Deployed) -> set[str]:
    """Two workers without room, a pod that waits, and a run that has seen better times."""
    site = deployed.site
    first = site.workers(2)
    for instance in first:
        site.pod(f"web-{instance}", on=instance, cpu="1500m")
    deployed.tick()
    site.pod("waiting", cpu="1")
    return set(first)


def quick_tick(deployed: Deployed) -> dict[str, Any]:
    """A run with time for one iteration."""
    (ran,) = deployed.reconcile({"cluster": deployed.site.name}, ONE_LOOK)["runs"]
    return dict(ran)


def test_a_prometheus_that_fails_does_not_keep_the_fleet_from_growing(deployed, capsys):
    before = full(deployed)
    deployed.site.prometheus.answer = lambda _: Http(503, b"starting")
    quick_tick(deployed)
    assert len(deployed.site.ids() - before) == 1
    assert Printed.since(capsys).metrics["DegradationLevel"][-1] == 2
    quick_tick(deployed)
    assert deployed.events().count("degraded") == 1


def test_without_an_api_server_nothing_is_launched(deployed, capsys):
    before = full(deployed)
    deployed.site.server.trouble("list", "nodes", cut="before", times=1000)
    assert quick_tick(deployed)["did"] == []
    assert quick_tick(deployed)["did"] == []
    assert deployed.site.ids() == before
    assert deployed.site.writes() == []
    assert Printed.since(capsys).metrics["DegradationLevel"][-1] == 3
    assert deployed.events().count("degraded") == 1
    deployed.site.server.troubles.clear()
    quick_tick(deployed)
    assert len(deployed.site.ids() - before) == 1


def test_without_ec2_s_list_nothing_is_launched(deployed, capsys):
    before = full(deployed)
    with failing("DescribeInstances"):
        assert quick_tick(deployed)["did"] == []
    assert deployed.site.ids() == before
    assert Printed.since(capsys).metrics["DegradationLevel"][-1] == 3


@pytest.mark.parametrize("operation", ["Query", "UpdateItem"])
def test_without_the_table_the_run_raises_with_the_highest_level(deployed, capsys, operation):
    before = full(deployed)
    with failing(operation), pytest.raises(UnavailableError, match="DynamoDB"):
        deployed.tick()
    assert deployed.site.ids() == before
    printed = Printed.since(capsys)
    assert printed.metrics["DegradationLevel"][-1] == 4
    assert printed.metrics["AutoscalerInvocations"][-1] == 1


def test_a_table_that_may_not_be_read_is_as_good_as_none_even_for_a_cold_function(deployed, capsys):
    denied = ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Query")
    with failing("Query", error=denied), pytest.raises(DeniedError, match="dynamodb:Query"):
        deployed.tick()
    assert Printed.since(capsys).metrics["DegradationLevel"] == [4]
    assert deployed.site.ids() == set()


def test_a_plan_that_cannot_be_written_is_not_carried_out(deployed):
    before = full(deployed)
    with failing("TransactWriteItems"), pytest.raises(UnavailableError, match="DynamoDB"):
        deployed.tick()
    assert deployed.site.ids() == before
    assert deployed.items("state#lease")[0]["scaling_in_progress"] == {"BOOL": False}  # let go all the same


def test_a_bucket_that_is_away_holds_up_nothing(deployed, capsys):
    before = full(deployed)
    with failing("PutObject"):
        quick_tick(deployed)
    assert len(deployed.site.ids() - before) == 1
    assert deployed.history().decisions(1)[0].archived == ""
    assert Printed.since(capsys).says("cannot be replayed")


def test_a_warm_function_does_not_need_secrets_manager(deployed):
    before = full(deployed)
    deployed.clock.passes(minutes=10)
    with failing("GetSecretValue"):
        quick_tick(deployed)
    assert len(deployed.site.ids() - before) == 1


def test_a_cold_function_without_secrets_manager_finds_kubernetes_missing(deployed, capsys):
    before = full(deployed)
    cold()
    with failing("GetSecretValue"):
        assert quick_tick(deployed)["did"] == []
    assert deployed.site.ids() == before
    assert Printed.since(capsys).metrics["DegradationLevel"][-1] == 3


def test_a_rotated_token_is_fetched_anew_but_not_for_every_call_that_is_refused(deployed, monkeypatch):
    before = full(deployed)
    monkeypatch.setattr("support.fake_api_server.TOKEN", "another-token")
    deployed.put_api_secret(deployed.site, token="another-token")  # noqa: S106
    assert quick_tick(deployed)["did"] == []  # the one that is refused was fetched just now
    assert deployed.store().state().journal.memory.level is Level.PARTIAL
    monkeypatch.setattr("nodefleet.adapters.aws.secrets.ASK_AGAIN_AFTER", timedelta(0))
    quick_tick(deployed)
    assert len(deployed.site.ids() - before) == 1


def test_a_denied_list_is_said_with_its_remedy_and_counts_as_missing(deployed, capsys):
    full(deployed)
    deployed.site.server.trouble(
        "list", "poddisruptionbudgets", reply=failure(403, "Forbidden", "budgets is forbidden"), times=9
    )
    assert quick_tick(deployed)["did"] == []
    printed = Printed.since(capsys)
    assert printed.metrics["DegradationLevel"][-1] == 3
    assert TOKEN not in printed.text


# ── operators's messages ─────────────────────────────────────────────────────────────────────────────────────────


def test_without_slack_messages_come_again_and_the_loop_does_not_notice(deployed):
    with loopback_slack(Answer(status=500, body="oops"), Answer(status=500), Answer(status=500)) as slack:
        deployed.put_secret(FUNCTION.settings.slack_secret, {"url": slack.hook.url})
        deployed.tick()
        told = deployed.notify(deployed.stream())
        assert told["batchItemFailures"]
        assert slack.messages == []
        assert deployed.tick()["looks"] == 1
        slack.answers.clear()
        assert deployed.notify(deployed.stream()) == {"batchItemFailures": []}
        assert len(slack.messages) == len(deployed.events())
