"""Runs that wait let others go on: they alternate, and always in the same way."""

from datetime import timedelta

import pytest

from nodefleet_tools.sim.clock import Clock
from nodefleet_tools.sim.cooperative_scheduler import CooperativeScheduler
from nodefleet_tools.sim.hooks import KilledError
from nodefleet_tools.sim.world import NOON


class Scene:
    def __init__(self):
        self.clock = Clock(NOON)
        self.turns = CooperativeScheduler(self.clock)
        self.log = []

    def run(self, name, *waits):
        """A run that waits several times, and says when it was there."""

        def work():
            for seconds in waits:
                self.log.append((name, self.seconds))
                self.clock.wait(seconds)
            self.log.append((name, self.seconds))

        return work

    @property
    def seconds(self):
        return (self.clock.now - NOON).total_seconds()

    def begin(self, after, name, *waits):
        self.clock.after(after, lambda: self.turns.begin(self.run(name, *waits)))

    def play(self, seconds=100):
        self.clock.advance(timedelta(seconds=seconds))
        return self.log


def test_two_runs_alternate_at_every_wait():
    scene = Scene()
    scene.begin(0, "a", 2, 2, 2)
    scene.begin(1, "b", 2, 2)
    assert scene.play() == [("a", 0), ("b", 1), ("a", 2), ("b", 3), ("a", 4), ("b", 5), ("a", 6)]
    assert scene.turns.at_work == 0


def test_a_short_run_is_over_while_a_long_one_waits_and_the_long_one_wakes_in_time():
    scene = Scene()
    scene.begin(0, "long", 50)
    scene.begin(10, "short", 1, 1)
    scene.begin(20, "other", 1)
    log = scene.play()
    assert log == [("long", 0), ("short", 10), ("short", 11), ("short", 12), ("other", 20), ("other", 21), ("long", 50)]


def test_the_first_run_may_end_before_the_others():
    scene = Scene()
    scene.begin(0, "a", 2)
    scene.begin(1, "b", 5)
    scene.begin(3, "c", 1, 4)
    assert scene.play() == [("a", 0), ("b", 1), ("a", 2), ("c", 3), ("c", 4), ("b", 6), ("c", 8)]


def test_who_is_at_work_is_known():
    scene = Scene()
    scene.begin(0, "a", 5)
    scene.begin(1, "b", 20)
    seen = []
    for at in (2, 6, 30):
        scene.clock.after(at, lambda: seen.append(scene.turns.at_work))
    scene.play()
    assert seen == [2, 1, 0]


def test_what_a_run_raises_ends_the_play():
    scene = Scene()

    def breaks():
        scene.clock.wait(1)
        raise ValueError("broken")

    scene.begin(0, "a", 10)
    scene.clock.after(1, lambda: scene.turns.begin(breaks))
    with pytest.raises(ValueError, match="broken"):
        scene.play()


def test_whoever_is_still_at_work_at_the_end_dies_where_it_stands():
    scene = Scene()
    died = []

    def dies():
        try:
            scene.clock.wait(1000)
        except KilledError:
            died.append(scene.seconds)
            raise

    def tolerant():
        try:
            dies()
        except KilledError:
            died.append("over")

    scene.begin(0, "a", 5)
    scene.clock.after(1, lambda: scene.turns.begin(tolerant))
    scene.clock.after(2000, lambda: None)  # something else to come: whoever waits cannot take all time for itself
    scene.play(10)
    assert scene.turns.at_work == 1
    scene.turns.end()
    assert died == [10, "over"]
    assert scene.turns.at_work == 0
