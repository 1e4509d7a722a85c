"""A Celery application whose tasks write down when they begin and end, a line each, so that every run is counted."""

import os
import time

from celery import Celery  # type: ignore[import-not-found]

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_default_queue="orders",
    broker_connection_retry_on_startup=True,
)


@app.task(name="work")  # type: ignore[untyped-decorator]
def work(number: int, seconds: float) -> None:
    _note(f"begin {number}")
    time.sleep(seconds)
    _note(f"end {number}")


def _note(line: str) -> None:
    # One write of a short line to a file that is opened for appending is not torn by other processes.
    with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:  # noqa: PTH123  # the worker has no other need
        journal.write(f"{line}\n")
