"""`nodefleet failover`: a region's demand becomes the standby's floor, and goes back by command."""

from datetime import timedelta

import pytest
from typer.testing import CliRunner

from nodefleet.model.alerts import AlertKind
from nodefleet.model.snapshot import AUTOSCALER, Scale
from nodefleet.model.state import Level
from nodefleet.reconcile.run import run
from nodefleet_tools.cli import connect, main
from nodefleet_tools.cli.outcome import Status
from nodefleet_tools.sim.world import World
from support.sim_connections import SimConnection
from support.wording import assert_wording
from support.worlds import Cluster

ME = ["--by", "ann", "--reason", "eu-west-1 is down"]
POLICY = {"limits": {"min": 2, "max": 12}}


class Regions:
    """Two clusters, of which one may be gone."""

    def __init__(self, monkeypatch, standby=POLICY):
        self.worlds = {"eu": World(policy=POLICY), "us": World(policy=standby)}
        self.asked = []
        self.connections = {}
        for name, world in self.worlds.items():
            world.add_workers(5 if name == "eu" else 3)
            world.deploy("app", replicas=8, cpu=300)
            self.connections[name] = SimConnection(world)
        monkeypatch.setattr(connect, "connection", self._connection)

    def _connection(self, **options):
        self.asked.append(options["cluster"])
        return self.connections[options["cluster"]]

    def __call__(self, *arguments):
        return CliRunner().invoke(main.app, ["failover", *arguments], env={"COLUMNS": "200"})

    def decided(self, *names):
        for name in names:
            run(self.worlds[name].parts(f"{name}-run"), owner=f"{name}-run")

    def resize(self, name, replicas):
        controllers = self.worlds[name].controllers
        controllers.scale(controllers.named("app"), replicas)

    def commands(self, name):
        return self.worlds[name].table.state().commands


@pytest.fixture
def regions(monkeypatch):
    return Regions(monkeypatch)


def test_the_standby_keeps_its_own_size_and_that_of_the_other(regions):
    regions.decided("eu", "us")
    done = regions("eu", "us", *ME)
    assert done.exit_code == 0, done.output
    (order,) = regions.commands("us")
    until = regions.worlds["us"].now + timedelta(hours=24)
    order_of_ann = Scale(nodes=8, at_least=True, origin="eu", moved=5, by="ann", reason=ME[-1], until=until)
    assert order == order_of_ann
    assert regions.commands("eu") == ()
    event = regions.worlds["us"].table.events[-1]
    assert event.kind is AlertKind.SCALED_BY_OPERATOR
    assert_wording([event.text, done.stdout])
    assert regions.worlds["us"].table.wake == 1


def ready(regions, *names):
    for name in names:
        Cluster(regions.worlds[name]).calm(6)


@pytest.mark.parametrize("parts", [["cloud"], ["cluster"], ["cloud", "cluster"]])
@pytest.mark.parametrize("runs", [1, 30])
def test_the_size_is_that_of_the_last_decision_that_saw_the_nodes(regions, parts, runs):
    """A region fails: its EC2 or its cluster cannot be read any more, and its runs go on."""
    regions.decided("eu", "us")
    failing = Cluster(regions.worlds["eu"])
    for part in parts:
        failing.world.away(part)
    failing.calm(runs)
    assert failing.world.table.decisions[-1].decision.level is Level.PARTIAL
    done = regions("eu", "us", *ME)
    assert done.exit_code == 0, done.output
    assert [(order.nodes, order.moved) for order in regions.commands("us")] == [(8, 5)]


def test_a_region_that_never_saw_its_nodes_has_no_size(regions):
    regions.worlds["eu"].away("cloud")
    regions.decided("eu", "us")
    done = regions("eu", "us", *ME)
    assert (done.exit_code, regions.commands("us")) == (Status.NOTHING, ())
    assert "--nodes POOL=N" in done.stderr


def test_the_same_failover_again_counts_the_demand_once(regions):
    regions.decided("eu", "us")
    regions("eu", "us", *ME)
    ready(regions, "us")
    done = regions("eu", "us", "--planned", "--for", "8h", *ME)
    assert done.exit_code == 0, done.output
    (order,) = regions.commands("us")
    assert (order.nodes, order.moved) == (8, 5)
    assert order.until == regions.worlds["us"].now + timedelta(hours=8)


def test_again_after_the_other_gave_its_nodes_back_as_many_stay_moved(regions):
    regions.decided("eu", "us")
    regions("eu", "us", "--planned", *ME)
    regions.resize("eu", 0)
    ready(regions, "eu", "us")
    assert len(regions.worlds["eu"].ready_nodes()) < 5
    regions("eu", "us", *ME)
    assert [order.nodes for order in regions.commands("us")] == [8]


def test_a_size_given_again_takes_the_place_of_the_first(regions):
    regions.decided("eu", "us")
    regions("eu", "us", *ME)
    ready(regions, "us")
    regions("eu", "us", "--nodes", "default=7", *ME)
    assert [(order.nodes, order.moved) for order in regions.commands("us")] == [(10, 7)]


def test_what_the_standby_grew_by_itself_meanwhile_stays_its_own(regions):
    regions.decided("eu", "us")
    regions("eu", "us", "--nodes", "default=4", *ME)
    ready(regions, "us")
    regions.resize("us", 60)
    ready(regions, "us")
    grown = len(regions.worlds["us"].ready_nodes())
    assert grown > 7
    regions("eu", "us", "--nodes", "default=4", *ME)
    assert [(order.nodes, order.moved) for order in regions.commands("us")] == [(grown, 4)]


def test_a_second_region_comes_on_top_of_the_first_though_no_node_has_come_yet(regions):
    regions.decided("eu", "us")
    regions("eu", "us", *ME)
    done = regions("ap", "us", "--nodes", "default=3", *ME)
    assert done.exit_code == 0, done.output
    assert [(order.origin, order.nodes, order.moved) for order in regions.commands("us")] == [("ap", 11, 3)]


def test_with_its_size_given_nothing_of_the_failed_region_is_asked(regions):
    regions.decided("us")
    regions.worlds["eu"].away("store")
    done = regions("eu", "us", "--nodes", "default=4", *ME)
    assert done.exit_code == 0, done.output
    assert "eu" not in regions.asked
    assert [order.nodes for order in regions.commands("us")] == [7]


def test_a_region_that_does_not_answer_says_what_to_do(regions):
    regions.decided("us")
    regions.worlds["eu"].away("store")
    done = regions("eu", "us", *ME)
    assert done.exit_code != 0
    assert "Say --nodes POOL=N" in done.output
    assert regions.commands("us") == ()


def test_planned_the_other_is_held_at_its_min(regions):
    regions.decided("eu", "us")
    done = regions("eu", "us", "--planned", "--for", "8h", *ME)
    assert done.exit_code == 0, done.output
    (held,) = regions.commands("eu")
    assert (held.nodes, held.at_least, held.origin) == (2, False, "eu")
    assert held.until == regions.worlds["eu"].now + timedelta(hours=8)


def test_back_ends_both(regions):
    regions.decided("eu", "us")
    regions("eu", "us", "--planned", *ME)
    done = regions("eu", "us", "--back", "--by", "ann")
    assert done.exit_code == 0, done.output
    assert regions.commands("eu") == regions.commands("us") == ()
    assert_wording(done.stdout)


def test_back_with_a_wrong_name_says_which_failovers_there_are(regions):
    regions.decided("eu", "us")
    regions("eu", "us", *ME)
    regions.connections["ue"] = regions.connections["eu"]
    done = regions("ue", "us", "--back", *ME)
    assert "no failover of ue, but of eu" in done.stdout
    assert len(regions.commands("us")) == 1


def test_back_ends_the_standbys_floor_also_while_the_other_is_gone(regions):
    regions.decided("eu", "us")
    regions("eu", "us", *ME)
    regions.worlds["eu"].away("store")
    done = regions("eu", "us", "--back")
    assert done.exit_code == 0, done.output
    assert regions.commands("us") == ()
    assert_wording(done.stdout)


def test_an_operators_own_size_is_not_ended_by_it(regions):
    regions.decided("eu", "us")
    sized = ["scale", "default", "4", "--for", "1h", "--reason", "sale", "--cluster", "us"]
    assert CliRunner().invoke(main.app, sized).exit_code == 0
    done = regions("eu", "us", "--back")
    assert [order.nodes for order in regions.commands("us")] == [4]
    assert_wording(done.stdout)


def test_max_still_holds_and_is_said(regions):
    regions.decided("eu", "us")
    done = regions("eu", "us", "--nodes", "default=40", *ME)
    assert [order.nodes for order in regions.commands("us")] == [12]
    assert_wording(done.output)


def test_a_pool_that_the_standby_lacks_does_not_move(regions):
    regions.decided("eu", "us")
    done = regions("eu", "us", "--nodes", "gpu=4", *ME)
    assert done.exit_code != 0
    assert_wording(done.output)


@pytest.mark.parametrize("arguments", [("eu", "eu"), ("eu", "us", "--nodes", "four"), ("eu", "us", "--nodes", "=4")])
def test_what_makes_no_sense_is_refused(regions, arguments):
    assert regions(*arguments, *ME).exit_code != 0
    assert regions.commands("us") == ()


def test_the_standby_grows_at_once_to_its_floor_and_may_grow_beyond(regions):
    regions.decided("eu", "us")
    regions("eu", "us", *ME)
    world = regions.worlds["us"]
    run(world.parts("after"), owner="after")
    assert len(world.ec2.live_workers()) == 8


def test_a_failover_that_the_standby_ordered_itself_ends_by_the_same_command(monkeypatch):
    """On the loop: the other region's health fails, the floor is ordered and kept, and only --back ends it."""
    reading = {"kind": "prometheus", "query": "sum(eu_nodes)"}
    standby = {"origin": "eu", "reading": "eu", "nodes": 4}
    regions = Regions(monkeypatch, {**POLICY, "readings": {"eu": reading}, "standby": standby})
    world = regions.worlds["us"]
    fails_from, health = world.now + timedelta(minutes=10), {True: 5.0, False: 0.0}
    world.prometheus.custom["default", "eu"] = lambda: health[world.now < fails_from]
    us = Cluster(world)
    us.until(lambda: regions.commands("us"), ticks=10)
    assert world.now - fails_from <= timedelta(minutes=4)
    (order,) = regions.commands("us")
    assert (order.nodes, order.moved, order.at_least, order.origin, order.by) == (7, 4, True, "eu", AUTOSCALER)
    us.until(lambda: len(world.ready_nodes()) == 7, ticks=5)
    fails_from = world.now + timedelta(days=1)
    us.calm(20)
    assert (len(world.ready_nodes()), regions.commands("us")) == (7, (order,))
    assert [event.kind for event in world.table.events].count(AlertKind.FAILOVER) == 1
    done = regions("eu", "us", "--back", *ME)
    assert done.exit_code == 0, done.output
    assert regions.commands("us") == ()
    us.until(lambda: len(world.ready_nodes()) < 7, ticks=30)
