"""The presets' figures, and that each of them is a policy that holds."""

import pytest

from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import Readings
from nodefleet.policy.file_schema import DEFAULT_PRESET, PRESETS
from nodefleet.policy.loading import load


@pytest.mark.parametrize(
    ("name", "low", "high", "up", "urgent", "down", "p95_ms", "queue"),
    [
        ("node-fleet", 2, 10, 1, 2, 1, 500, 100),
        ("low-latency", 4, 24, 3, 3, 1, 500, 10),
        ("high-throughput", 8, 48, 4, 4, 2, 5000, 200),
        ("balanced", 1, 12, 2, 2, 1, 2000, 50),
        ("cost-optimized", 1, 6, 1, 1, 1, 8000, 100),
    ],
)
def test_a_preset_is_a_bundle_of_figures(name, low, high, up, urgent, down, p95_ms, queue):
    pool = load({"preset": name}).policy.pools[0]
    assert (pool.limits.min, pool.limits.max) == (low, high)
    assert (pool.steps.up, pool.steps.urgent, pool.steps.down) == (up, urgent, down)
    assert (pool.targets.p95_ms, pool.targets.queue) == (p95_ms, queue)


def test_low_latency_answers_a_spike_with_the_first_reading_that_shows_it():
    pool = load({"preset": "low-latency"}).policy.pools[0]
    assert (pool.sustain.up, pool.sustain.down) == (Readings(count=1), Readings(count=5))
    assert pool.cooldown.up < Policy().interval


def test_high_throughput_lets_as_many_leave_as_its_step_says():
    pool = load({"preset": "high-throughput"}).policy.pools[0]
    assert pool.budgets.removals == pool.steps.down == 2


def test_pending_pods_are_sized_by_packing_in_all_but_the_default():
    by_packing = {name for name in PRESETS if load({"preset": name}).policy.pools[0].steps.pending == "packing"}
    assert by_packing == PRESETS.keys() - {DEFAULT_PRESET}


def test_the_default_preset_is_all_defaults():
    assert load({"preset": DEFAULT_PRESET}).policy == Policy()


def test_there_are_five_and_each_says_in_a_sentence_what_it_trades():
    assert len(PRESETS) == 5
    assert all(preset.trades.endswith(".") and len(preset.trades) > 40 for preset in PRESETS.values())
