"""`nodefleet run` as an operator starts it on a laptop: a process of its own, KUBECONFIG, and the real parts behind
it."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.instances import LOOK, Gate
from e2e.parts.running import RunningParts
from e2e.shop_on_dynamodb import Shop, on_dynamodb, ran, shop
from support.deployed import account

__all__ = ["account", "on_dynamodb", "shop"]


@dataclass
class Laptop:
    shop: Shop
    kubeconfig: Path

    def types(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What comes back of `nodefleet …`."""
        environment = {
            **self.shop.environment(),
            "KUBECONFIG": str(self.kubeconfig),
            "PROMETHEUS_URL": self.shop.deployed.site.prometheus.address,
        }
        command = [str(Path(sys.executable).parent / "nodefleet"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.fixture
def laptop(shop: Shop, real_parts: RunningParts) -> Laptop:
    return Laptop(shop, real_parts.kubeconfig)


def said(text: str) -> list[str]:
    """Its lines, without the time at which they were said."""
    return [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in text.splitlines()]


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(laptop: Laptop) -> None:
    deployed, before = laptop.shop.deployed, laptop.shop.everything()
    done = laptop.types("run", "--once", "--dry-run")
    assert done.returncode == 0, done.stderr
    site = deployed.site
    parts = f"table {deployed.table}; Kubernetes as KUBECONFIG says; Prometheus {site.prometheus.address}"
    assert said(done.stderr) == [
        "Policy version 1, declared by the stack, is in force.",
        f"{site.name}: one run; {parts}; dry run: nothing is written or changed anywhere.",
    ]
    types = "t3.small, t3a.small or t2.small"
    assert said(done.stdout) == [
        f"{site.name} · iteration 1 · level normal · default 0+0 nodes",
        "default: GROW 0 → 2  (dry run)",
        "  Growing 0 → 2: min is 2, 0 are there",
        f"  would launch 1 On-Demand worker in zone us-east-1a ({types}); it makes up for a missing one",
        f"  would launch 1 Spot worker in zone us-east-1b ({types}, at most 0.02 USD/h); it makes up for a missing one",
    ]
    assert laptop.shop.everything() == before


def test_a_run_does_it_and_the_next_one_has_nothing_left_to_do(laptop: Laptop) -> None:
    site = laptop.shop.deployed.site
    done = laptop.types("run", "--once")
    assert done.returncode == 0, done.stderr
    machines = site.ids()
    assert len(machines) == 2
    lines = said(done.stdout)
    assert lines[1:3] == ["default: GROW 0 → 2", "  Growing 0 → 2: min is 2, 0 are there"]
    got = {line.rpartition(" ")[2] for line in lines[3:] if line.startswith("  done: asked EC2 for 1 ")}
    assert got == machines
    assert laptop.shop.is_free

    done = laptop.types("run", "--once", "--json")
    assert done.returncode == 0, done.stderr
    look = json.loads(done.stdout)
    assert (look["kind"], look["did"], look["figures"]["default.booting"]) == ("look", [], 2)
    assert site.ids() == machines


def test_while_the_function_is_at_work_a_run_on_a_laptop_leaves_it_alone(laptop: Laptop) -> None:
    shop, looking = laptop.shop, Gate(LOOK)
    function = shop.starts(looking)
    looking.wait_for_somebody()
    done = laptop.types("run", "--once")
    assert (done.returncode, done.stdout) == (0, "")
    assert any(line.startswith("Another run is at work") for line in said(done.stderr))
    looking.open()
    assert len(ran(function.outcome())["did"]) == 2
