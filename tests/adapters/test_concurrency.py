import threading
import time
from datetime import timedelta

import pytest

from nodefleet.adapters.concurrency import Threads
from support.wording import assert_wording

SHORTLY = timedelta(seconds=0.1)


def giving(value):
    return lambda: value


def raising(error):
    def call():
        raise error

    return call


def test_results_come_in_the_order_of_the_calls():
    late = threading.Event()

    def first():
        late.wait(2)
        return "first"

    def second():
        late.set()
        return "second"

    assert Threads()(first, second) == ["first", "second"]


def test_calls_really_run_at_the_same_time():
    meeting = threading.Barrier(3, timeout=2)
    assert sorted(Threads()(meeting.wait, meeting.wait, meeting.wait)) == [0, 1, 2]


def test_an_exception_is_a_result_like_any_other():
    problem = KeyError("no")
    assert Threads()(giving(1), raising(problem), giving(3)) == [1, problem, 3]
    assert Threads()(raising(problem)) == [problem]


def test_no_calls_give_no_results():
    assert Threads()() == []
    assert Threads().within(SHORTLY, []) == []


def test_no_more_run_at_once_than_allowed():
    running, most, lock = 0, 0, threading.Lock()
    pair = threading.Barrier(2, timeout=5)

    def call():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait()
        with lock:
            running -= 1
        return 1

    assert Threads(most=2)(*[call] * 8) == [1] * 8
    assert most == 2


class Killed(BaseException):
    """Ends a whole run."""


@pytest.mark.parametrize("calls", [1, 3])
def test_what_ends_the_run_is_not_swallowed(calls):
    with pytest.raises(Killed):
        Threads()(*[raising(Killed())] * calls)


def test_what_is_late_is_a_timeout_and_does_not_hold_the_others():
    over = threading.Event()
    began = time.monotonic()
    late, done = Threads().within(SHORTLY, [over.wait, giving("done")])
    assert time.monotonic() - began < 1
    over.set()
    assert isinstance(late, TimeoutError)
    assert_wording(str(late))
    assert done == "done"


def test_nothing_new_begins_after_the_deadline():
    over, begun = threading.Event(), []

    def call():
        begun.append(1)
        over.wait(2)

    results = Threads(most=1).within(SHORTLY, [call, call])
    over.set()
    time.sleep(0.02)
    assert [type(each) for each in results] == [TimeoutError, TimeoutError]
    assert len(begun) == 1


def test_a_thread_that_hangs_does_not_keep_the_process():
    over = threading.Event()
    Threads().within(timedelta(0), [over.wait])
    hanging = [thread for thread in threading.enumerate() if thread.name == "together"]
    assert hanging
    assert all(thread.daemon for thread in hanging)
    over.set()
