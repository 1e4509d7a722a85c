"""The policy's default queries on real series: what Prometheus measures of instances, read by the shipped adapter."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from e2e.metrics.node_exporter import Machine, NodeExporter
from e2e.metrics.scraping import node_targets, quick, write_targets
from e2e.parts.prometheus import Prometheus as PrometheusPart
from e2e.site.waiting import eventually
from nodefleet.adapters.prometheus import PrometheusClient, for_pool, one_number
from nodefleet.adapters.sources.read import Sources
from nodefleet.model.snapshot import Missing, PoolReadings, Reading, Sample
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool, Queries
from nodefleet_infra import manifests
from support import k8s_objects
from support.shipped_metrics import SITE

DAY = 86400.0
WITHIN = timedelta(seconds=5)
QUERIES = Queries()
NO_DATA = "the query finds no data: nothing is measured, or no series has these labels"
POOLS = ("busy", "half", "quiet", "uneven", "joining", "dying", "short", "silent")
POLICY = Policy(pools=tuple(Pool(name=name) for name in POOLS))


@dataclass
class Watched:
    """Instances, the Nodes that discovery would find for them, and a Prometheus that scrapes them every second."""

    folder: Path
    living: ExitStack
    exporters: dict[str, NodeExporter] = field(default_factory=dict)
    nodes: list[Mapping[str, object]] = field(default_factory=list)
    part: PrometheusPart | None = None

    def add(self, name: str, machine: Machine, *, pool: str | None, server: bool = False) -> None:
        exporter = self.exporters[name] = self.living.enter_context(NodeExporter(machine))
        node = k8s_objects.node(name, pool=pool, control_plane=server)
        node["status"]["addresses"] = [{"type": "InternalIP", "address": exporter.address}]
        self.nodes.append(node)
        write_targets(self.folder / "nodes.json", node_targets(self.nodes))

    def start(self) -> None:
        shipped = manifests.configuration("prometheus", SITE)
        settings = quick(shipped, {"node": self.folder / "nodes.json"})
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
        self.part = PrometheusPart(self.folder, self.folder / "prometheus.yml")
        self.living.callback(self.part.part.stop)
        self.part.part.start()

    @property
    def prometheus(self) -> PrometheusClient:
        assert self.part is not None
        return PrometheusClient(self.part.endpoint)

    def look(self, pool: str) -> PoolReadings:
        return Sources(prometheus=self.prometheus).read(POLICY, datetime.now(UTC), WITHIN)[pool]

    def asked(self, query: str, pool: str = "") -> float | Missing:
        text = for_pool(query, pool) if pool else query
        got = text if isinstance(text, Missing) else self.prometheus.ask(text, WITHIN)
        return got if isinstance(got, Missing) else one_number(got)

    def measured(self, pool: str, nodes: int) -> bool:
        """So many workers of the pool are scraped, and long enough for a rate of each."""
        seen = self.look(pool)
        return _value(seen.nodes) == len(seen.idle) == nodes


def _value(sample: Sample) -> float | None:
    return sample.value if isinstance(sample, Reading) else None


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with ExitStack() as living:
        found = Watched(tmp_path_factory.mktemp("queries"), living)
        found.add("busy-1", Machine(cpu=1.0, memory=0.9, up_for=DAY), pool="busy")
        found.add("busy-2", Machine(cpu=1.0, memory=0.7, up_for=DAY), pool="busy")
        found.add("half-1", Machine(cpu=[1.0, 0.0], memory=0.5, up_for=DAY), pool="half")
        found.add("half-2", Machine(cpu=0.5, memory=0.5, up_for=DAY), pool="half")
        # Somebody gave the server a pool's label as well.
        found.add("server", Machine(cpus=4, cpu=1.0, memory=0.95, up_for=DAY), pool="half", server=True)
        found.add("quiet-1", Machine(cpu=0.0, memory=0.1, up_for=DAY), pool="quiet")
        found.add("uneven-1", Machine(cpus=4, cpu=1.0, memory=0.8, memory_bytes=8 << 30, up_for=DAY), pool="uneven")
        found.add("uneven-2", Machine(cpus=2, cpu=0.4, memory=0.2, memory_bytes=2 << 30, up_for=DAY), pool="uneven")
        found.add("old", Machine(cpu=0.5, memory=0.5, up_for=DAY), pool="joining")
        found.add("dying", Machine(cpu=0.9, memory=0.9, up_for=DAY), pool="dying")
        found.add("short-1", Machine(cpu=0.2, memory=0.2, up_for=DAY), pool="short")
        found.add("short-2", Machine(cpu=0.8, memory=0.8, up_for=DAY), pool="short")
        found.add("silent", Machine(), pool="silent")
        found.exporters["silent"].stop()
        found.start()
        workers = {"busy": 2, "half": 2, "quiet": 1, "uneven": 2, "joining": 1, "dying": 1, "short": 2}
        assert eventually(lambda: all(found.measured(pool, count) for pool, count in workers.items()))
        yield found


def test_only_discovery_and_haste_are_not_as_shipped() -> None:
    text = manifests.configuration("prometheus", SITE)
    (shipped,) = (job for job in yaml.safe_load(text)["scrape_configs"] if job["job_name"] == "node")
    (ours,) = quick(text, {"node": Path("nodes.json")})["scrape_configs"]
    assert {key for key in {*shipped, *ours} if shipped.get(key) != ours.get(key)} == {
        "kubernetes_sd_configs",
        "file_sd_configs",
    }


# ── how busy ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("pool", "cpu", "memory"),
    [
        ("busy", 100, 80),
        ("half", 50, 50),  # one CPU of two, and half of each: the same; its server is not in it
        ("quiet", 0, 10),  # nought is a reading, too
    ],
)
def test_the_default_queries_read_how_busy_the_workers_are(
    watched: Watched, pool: str, cpu: float, memory: float
) -> None:
    seen = watched.look(pool)
    assert _value(seen.cpu) == pytest.approx(cpu, abs=1)
    assert _value(seen.memory) == pytest.approx(memory, abs=0.1)


def test_every_cpu_counts_alike_and_so_does_every_nodes_memory(watched: Watched) -> None:
    """As soon as the window holds about as much of one as of the other."""
    assert eventually(lambda: _value(watched.look("uneven").cpu) == pytest.approx(80, abs=1.5))
    assert _value(watched.look("uneven").memory) == pytest.approx(50, abs=0.1)


def test_the_idlest_node_is_told_apart(watched: Watched) -> None:
    idle = watched.look("uneven").idle
    assert idle == {"uneven-1": pytest.approx(0, abs=1), "uneven-2": pytest.approx(60, abs=1)}


@pytest.mark.parametrize("query", [QUERIES.cpu, QUERIES.memory], ids=["cpu", "memory"])
def test_without_its_role_in_the_query_the_servers_load_would_be_in_it(watched: Watched, query: str) -> None:
    read = watched.asked(query.replace('role="worker",', ""), "half")
    assert isinstance(read, float)
    assert read > 60


def test_the_query_we_started_from_reads_a_seventh_of_the_truth(watched: Watched) -> None:
    """Of the eight modes seven are not idle, and it averages over them. The window is one that is soon full."""
    started_from = 'avg(rate(node_cpu_seconds_total{mode!="idle",pool="busy"}[10s])) * 100'
    assert eventually(lambda: watched.asked(started_from) == pytest.approx(100 / 7, abs=1))


def test_where_scrapes_are_too_rare_for_the_short_window_the_long_one_counts(watched: Watched) -> None:
    """Half a second never has the two scrapes that a rate needs, as two minutes have not where scrapes are rarer."""
    query = Queries().cpu.replace("$pool", "busy")
    short, _ = query.split(" or ")
    rare = "[500ms]"
    assert isinstance(watched.asked(short.replace("[2m]", rare)), Missing)
    assert watched.asked(query.replace("[2m]", rare)) == pytest.approx(watched.asked(short), abs=1)


# ── who comes and goes ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_has_just_joined_does_not_distort_the_reading(watched: Watched) -> None:
    watched.add("fresh", Machine(cpu=0.5, memory=0.5), pool="joining")
    looks: list[PoolReadings] = []

    def joined() -> bool:
        looks.append(watched.look("joining"))
        return set(looks[-1].idle) == {"old", "fresh"}

    assert eventually(joined)
    assert [_value(each.cpu) for each in looks] == [pytest.approx(50, abs=1)] * len(looks)
    assert [_value(each.memory) for each in looks] == [pytest.approx(50, abs=0.1)] * len(looks)
    against_the_clock = '100 * (1 - avg(rate(node_cpu_seconds_total{mode="idle",pool="joining"}[5m])))'
    read = watched.asked(against_the_clock)
    assert isinstance(read, float)
    assert read > 80  # a window of which most is before the node's time would read as work


def _finds_nothing(seen: PoolReadings) -> bool:
    """Prometheus answers, and has no series: that is known, and when."""
    samples = (seen.cpu, seen.memory, seen.nodes)
    return all(isinstance(each, Missing) and each.cause == NO_DATA and each.empty_at is not None for each in samples)


def test_a_target_that_never_answered_is_missing_not_zero(watched: Watched) -> None:
    assert _finds_nothing(watched.look("silent"))


def test_a_target_that_died_is_missing_at_once_and_comes_back(watched: Watched) -> None:
    """What it did in the last five minutes is still in the rate, but says nothing about now."""
    watched.exporters["dying"].stop()
    assert eventually(lambda: _finds_nothing(watched.look("dying")))
    assert isinstance(watched.asked('sum(rate(node_cpu_seconds_total{pool="dying"}[5m]))'), float)
    watched.exporters["dying"].start()
    assert eventually(lambda: watched.measured("dying", 1))
    assert _value(watched.look("dying").cpu) == pytest.approx(90, abs=1)
    assert _value(watched.look("dying").memory) == pytest.approx(90, abs=0.1)


def test_one_dead_target_of_two_leaves_the_other_ones_load_and_says_who_is_not_measured(watched: Watched) -> None:
    watched.exporters["short-2"].stop()
    assert eventually(lambda: _value(watched.look("short").nodes) == 1)
    seen = watched.look("short")
    assert _value(seen.cpu) == pytest.approx(20, abs=1)
    assert _value(seen.memory) == pytest.approx(20, abs=0.1)
    assert set(seen.idle) == {"short-1"}
    assert _value(seen.nodes) == len(seen.idle), "who is not measured can be told by name"
