"""What a run shows, and a store that a file is laid over: the small parts of `nodefleet run`."""

from datetime import timedelta

import pytest
from rich.console import Console

from nodefleet.adapters.credentials import Redactor
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.names import Metric
from nodefleet.model.snapshot import Pause
from nodefleet_tools.cli.overlay import Overlay
from nodefleet_tools.cli.run_output import RunOutput
from nodefleet_tools.cli.stopping import Stop, StoppableTime, StoppedError
from support.builders import NOON
from support.wording import assert_wording
from support.worlds import shop

EVENT = Event(id="e", at=NOON, cluster="shop", kind=AlertKind.PAUSED, text="x")
NOTICE = Notice(instance="i-1", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)


class Torn(Console):
    def print(self, *_, **__):
        raise BrokenPipeError


def looks(**options) -> RunOutput:
    return RunOutput(as_json=False, calls=lambda: 0, redact=Redactor(), clock=lambda: NOON, **options)


def record():
    cluster = shop()
    cluster.calm(1)
    return cluster.world.table.decisions[0]


# ── looks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_look_that_cannot_be_shown_does_not_fail_the_run(capsys):
    shown = looks(console=Torn())
    shown.heard(record())
    shown.line("[shop] holds", look=1)
    assert_wording(capsys.readouterr().err)


def test_a_look_whose_decision_was_not_written_is_told_in_a_line(capsys):
    looks().line("[shop] holds", look=1)
    assert capsys.readouterr() == ("", "12:00:00 [shop] holds  (look=1)\n")


def test_each_decision_is_shown_once(capsys):
    shown = looks()
    shown.heard(record())
    shown.line("[shop] holds", look=1)
    shown.line("[shop] holds", look=2)
    captured = capsys.readouterr()
    assert captured.out.count("HOLD 3") == 1
    assert "look=2" in captured.err


def test_metrics_are_for_lambda(capsys):
    looks().metric(Metric.CPU, 3)
    assert capsys.readouterr() == ("", "")


# ── the store ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_laid_over_passes_through():
    cluster = shop()
    world = cluster.world
    store = Overlay(store=world.parts("me").store, heard=lambda _: None)
    assert store.state() == world.table.state()
    store.wake()
    store.record(NOTICE)
    store.order(Pause(), EVENT)
    store.tell(EVENT)
    assert world.runs["me"].log == ["store.state", "store.wake", "store.record", "store.order", "store.tell"]
    assert world.table.state().commands == (Pause(),)
    store.withdraw(Pause(), EVENT)
    assert world.table.state().commands == ()


# ── stopping ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pause_lasts_as_long_as_it_should_in_slices_that_notice_a_stop():
    slept: list[float] = []
    stop = Stop(slept.append)
    stop.pause(1.2)
    assert sum(slept) == pytest.approx(1.2)
    assert max(slept) <= 0.5
    stop.asked = "SIGINT"
    with pytest.raises(StoppedError, match="SIGINT"):
        stop.pause(60)
    assert sum(slept) == pytest.approx(1.2)


def test_a_stop_in_the_middle_of_a_pause_ends_it():
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            stop.asked = "SIGTERM"

    stop = Stop(sleep)
    with pytest.raises(StoppedError):
        stop.pause(60)
    assert len(slept) == 3


def test_time_ends_with_a_stop_even_where_there_is_nothing_to_wait_for():
    stop = Stop(lambda _: None)
    time = StoppableTime(timedelta(seconds=120), stop, lambda: NOON)
    assert time.now() == NOON
    assert timedelta(seconds=119) < time.remaining() <= timedelta(seconds=120)
    time.sleep(timedelta(0))
    stop.asked = "SIGINT"
    with pytest.raises(StoppedError):
        time.sleep(timedelta(0))
