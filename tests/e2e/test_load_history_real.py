"""The load of the last days, read from a real Prometheus: what `strategy: adaptive`, `backtest` and `tune` learn from.

Eight days of counters are written into Prometheus's own storage by promtool, as an exporter would have given them.
"""

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from math import pi, sin
from pathlib import Path
from statistics import fmean

import pytest
from typer.testing import CliRunner

from e2e.parts.prometheus import Prometheus
from e2e.parts.recipes import program
from nodefleet.adapters.prometheus import PrometheusClient
from nodefleet.adapters.sources.read import LOAD_HISTORY, Sources
from nodefleet.engine.forecast.forecaster import Forecaster, ForecastWindow
from nodefleet.engine.signals.adaptive import learn, skill
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet_tools.cli.main import app

DAYS = 8
NODES = ("w1", "w2", "w3")
POLICY = Policy(pools=(Pool(name="web", strategy="adaptive"),))
WITHIN = timedelta(seconds=20)


def busy(at: float) -> float:
    """The share of CPU that is in use: a wave over the day with a jump of an hour from noon on."""
    return 0.35 + 0.2 * sin(2 * pi * at / 86400) + (0.25 if 43200 <= at % 86400 < 46800 else 0.0)


def _openmetrics(begin: int, end: int) -> Iterator[str]:
    yield "# TYPE up gauge"
    for node in NODES:
        yield from (f'up{{job="node",role="worker",pool="web",node="{node}"}} 1 {at}' for at in range(begin, end, 60))
    yield "# TYPE node_cpu_seconds counter"
    for node in NODES:
        for mode, sign in (("idle", 0), ("user", 1)):
            used = 0.0
            labels = f'{{role="worker",pool="web",node="{node}",cpu="0",mode="{mode}"}}'
            for at in range(begin, end, 60):
                yield f"node_cpu_seconds_total{labels} {used:.3f} {at}"
                used += 60 * (busy(at) if sign else 1 - busy(at))
    yield "# EOF"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("history")
    now = int(datetime.now(UTC).timestamp()) // 60 * 60
    written, data = folder / "history.txt", folder / "data" / "prometheus"
    written.write_text("\n".join(_openmetrics(now - DAYS * 86400, now + 60)) + "\n")
    promtool = Path(program("prometheus")).with_name("promtool")
    command = [str(promtool), "tsdb", "create-blocks-from", "openmetrics", "-q", str(written), str(data)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # our own command
    configuration = folder / "prometheus.yml"
    configuration.write_text("scrape_configs: []\n")
    prometheus = Prometheus(folder, configuration)
    prometheus.part.start()
    try:
        yield prometheus
    finally:
        prometheus.part.stop()


def test_a_week_and_a_bit_comes_in_one_query_and_is_what_the_nodes_used(server: Prometheus) -> None:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    got = Sources(prometheus=PrometheusClient(server.endpoint)).read(POLICY, now, WITHIN)["web"].load
    assert len(got) >= 0.999 * (LOAD_HISTORY / timedelta(minutes=1))
    errors = [abs(each.value - len(NODES) * busy(each.at.timestamp() - 60)) for each in got]
    assert fmean(errors) < 0.02
    assert all(after.at - before.at == timedelta(minutes=1) for before, after in pairwise(got))


def test_a_forecaster_that_was_lost_is_rebuilt_from_it(server: Prometheus) -> None:
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    got = Sources(prometheus=PrometheusClient(server.endpoint)).read(POLICY, now, WITHIN)["web"].load
    forecaster = Forecaster()
    learn(forecaster, got)
    outlook = forecaster.outlook()
    assert outlook is not None
    assert (skill(forecaster) or 0) > 50  # a load that repeats is forecast far better than by its last value
    assert outlook.votes[ForecastWindow.LEVEL][2] < 0.05  # the last value has hardly a vote


def test_the_backtest_plays_what_prometheus_has(server: Prometheus, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = ["backtest", "--prometheus", server.endpoint, "--days", str(DAYS), "--pool", "web", "--json", str(out)]
    result = CliRunner().invoke(app, [*arguments, "--nodes", "2", "6"])
    assert result.exit_code == 0, result.output
    told = json.loads(out.read_text())
    runs = {each["policy"]: each for each in told["runs"]}
    assert told["minutes"] >= 0.999 * DAYS * 1440
    assert runs["adaptive balanced"]["node_hours"] < runs["best fixed fleet"]["node_hours"]
    assert runs["adaptive balanced"]["violation_pct"] < 1
