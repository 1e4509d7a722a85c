"""Celery: tasks on a Redis broker. Its queues are lists, one more for each priority; reserved tasks are one hash.

A task leaves its list when a worker takes it, and the hash when it is acknowledged: with `acks_late` when it is done.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from nodefleet.adapters.http import UnusableError
from nodefleet.adapters.sources.logins import SourceLogins
from nodefleet.adapters.sources.port import Moment, SourceCall, group
from nodefleet.adapters.sources.redis import connect
from nodefleet.adapters.sources.resp import RespError
from nodefleet.errors import NodeFleetError
from nodefleet.model.readings import Missing, Reading, Sample
from nodefleet.policy.demand import Celery

SERVICE = "Celery's broker"
_SEPARATOR = "\x06\x16"  # kombu's, between a queue and a priority
_PRIORITIES = ("", f"{_SEPARATOR}3", f"{_SEPARATOR}6", f"{_SEPARATOR}9")  # kombu's default steps
_RESERVED = "unacked"


class CeleryQueues:
    def __init__(self, logins: SourceLogins) -> None:
        self._logins = logins

    def calls(self, entries: Sequence[Celery], moment: Moment) -> Iterator[SourceCall]:
        for (address, secret), alike in group(entries, lambda entry: (entry.address, entry.secret)).items():
            yield SourceCall(SERVICE, alike, partial(self._read, address, secret, alike, moment))

    def _read(self, address: str, secret: str | None, entries: Sequence[Celery], moment: Moment) -> list[Sample]:
        try:
            with connect(self._logins, address, secret, moment.deadline) as redis:
                replies = [redis.ask(_commands(entry)) for entry in entries]
        except (UnusableError, NodeFleetError) as problem:
            return [Missing(str(problem)) for _ in entries]
        samples: list[Sample] = []
        for entry, counts in zip(entries, replies, strict=True):
            refusal = next((each.text for each in counts if isinstance(each, RespError)), None)
            total = sum(each for each in counts if isinstance(each, int))
            named = ", ".join(entry.queues)
            wrong = Missing(f"Celery's broker does not count {named}: {refusal}")
            samples.append(wrong if refusal is not None else Reading(float(total), moment.now))
        return samples


def _commands(entry: Celery) -> list[list[str]]:
    waiting = [["LLEN", f"{queue}{priority}"] for queue in entry.queues for priority in _PRIORITIES]
    reserved = [["HLEN", _RESERVED]]
    return {"waiting": waiting, "reserved": reserved, "all": waiting + reserved}[entry.counts]
