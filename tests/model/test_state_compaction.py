"""A journal that grows too large for its record."""

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from nodefleet.model.state import (
    AdaptiveMemory,
    AlertRecord,
    LoopState,
    Memory,
    PoolMemory,
    StoredForecaster,
    compactions,
)
from support.builders import NOON
from support.memory_builders import lived
from support.wording import assert_wording


def journal(**pools: PoolMemory) -> LoopState:
    return LoopState(memory=Memory(pools=pools))


def steps(*pools: PoolMemory, **changes):
    held = journal(**{f"p{number}": each for number, each in enumerate(pools)})
    return [each.journal.memory.pools for each in compactions(LoopState(memory=held.memory, **changes))]


def test_first_only_decimals_go():
    first = next(iter(compactions(journal(a=lived(days=1)))))
    assert first.lost == ""
    hour = first.journal.memory.pools["a"].profile[0]
    assert hour.load == round(hour.load, 3)
    assert (hour.last.minute, hour.last.second) == (58, 0)


def test_then_old_profiles_then_what_was_learned():
    lengths = [len(each["p0"].profile) / 24 for each in steps(lived())]
    assert lengths == [28, 14, 7, 2, 2, 0]
    learned = [bool(each["p0"].grants) for each in steps(lived())]
    assert learned == [True, True, True, True, False, False]


def test_the_newest_days_are_kept_and_a_pool_without_a_profile_stays_as_it_is():
    two_days = steps(lived(), PoolMemory())[3]
    assert {hour.day for hour in two_days["p0"].profile} == {"2026-10-27", "2026-10-28"}
    assert two_days["p1"] == PoolMemory()


def test_who_is_there_and_what_is_under_way_is_never_lost():
    full = PoolMemory(
        last_grow=NOON, last_shrink=NOON, members=("i-1",), suspects={"i-2": NOON}, vanished={"i-3": NOON}
    )
    assert steps(full)[-1] == {"p0": full}


def test_every_step_loses_what_the_one_before_lost():
    sizes = [sum(len(getattr(each["p0"], field.name) or ()) for field in sized()) for each in steps(lived())]
    assert sizes == sorted(sizes, reverse=True)


def sized():
    return [field for field in fields(PoolMemory) if isinstance(getattr(PoolMemory(), field.name), tuple | dict)]


@pytest.mark.parametrize("told", [10, 2000])
def test_what_people_were_told_last_stays(told):
    said = {f"k{n}": AlertRecord(told_at=NOON + timedelta(seconds=n), seen_at=NOON) for n in range(told)}
    *_, last = compactions(LoopState(said=said))
    assert list(last.journal.said) == list(said)[-1000:]


def test_what_the_adaptive_strategy_learned_goes_first():
    learned = AdaptiveMemory(forecaster=StoredForecaster(load="AAAA"), calm=1)
    first, second, *_ = compactions(journal(a=replace(lived(), adaptive=learned)))
    assert first.journal.memory.pool("a").adaptive == learned
    kept = second.journal.memory.pool("a")
    assert kept.adaptive == AdaptiveMemory(calm=1)
    assert len(kept.profile) == 28 * 24
    assert_wording(second.lost)
