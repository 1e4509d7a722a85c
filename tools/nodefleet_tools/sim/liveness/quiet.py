"""Alerts stay few: the number for one continuing condition is bounded, however pod names and figures change.

In any `messages.remind_after`, of one kind and pool:

    alerts of conditions        at most `most` new ones in each of the two periods that it touches, and of each of
                                those as many reminders as fit into it
    what happens to one node    two for each instance there ever was (an interruption that is forced, or called off)
    scale-ups in vain           as many as alerts of conditions: no instance of the pool was launched or started until
                                the next scale-up was announced

It counts what is in the table, from the beginning of the world on. It holds under every fault: an alert and the note
that it was sent are one transaction. Events of scaling that was really done, of operators and of reports are no alerts.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from nodefleet.model.alerts import CRITICAL, NEVER_HELD_BACK, AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.inventory import InstanceState
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule

if TYPE_CHECKING:
    from nodefleet_tools.sim.world import World

_NO_ALERTS = frozenset(
    {
        AlertKind.SCALE_UP,
        AlertKind.SCALE_DOWN,
        AlertKind.SCALED_BY_OPERATOR,
        AlertKind.HANDED_OVER,
        AlertKind.RECYCLED,
        AlertKind.DRAINED,
        AlertKind.PROTECTED,
        AlertKind.PAUSED,
        AlertKind.RESUMED,
        AlertKind.POLICY_CHANGED,
        AlertKind.REPORT,
    }
)
_PER_INSTANCE = 2


class Quiet(Check):
    rule = Rule.QUIET

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._stored = 0  # events at the last poll

    def cases(self) -> Mapping[str, timedelta]:
        return {}  # it is judged at once

    def broken(self) -> Iterable[str]:
        stored = len(self.world.table.items.get("event", ()))
        if stored == self._stored:
            return  # nothing new: reading them all again would be expensive
        self._stored = stored
        window = self.world.policy.messages.remind_after
        for (kind, pool), times in self._by_kind().items():
            most, bound = _most_within(times, window), self._bound(kind)
            subject = f"{kind.value} of pool {pool or 'none'}"
            if most > bound and subject not in self._reported:
                self._reported.add(subject)
                yield f"{subject}: {most} alerts within {window.total_seconds():.0f} s, {bound} are allowed"

    def _by_kind(self) -> Mapping[tuple[AlertKind, str], list[datetime]]:
        times: defaultdict[tuple[AlertKind, str], list[datetime]] = defaultdict(list)
        for event in self.world.table.events:
            if _is_alert(event):
                times[event.kind, event.pool].append(event.at)
        times |= self._grown_in_vain()
        return times

    def _grown_in_vain(self) -> Mapping[tuple[AlertKind, str], list[datetime]]:
        """Announced scale-ups of each pool from which no node came until the next one was announced."""
        announced: defaultdict[str, list[datetime]] = defaultdict(list)
        for event in self.world.table.events:
            if event.kind is AlertKind.SCALE_UP and not event.dry:
                announced[event.pool].append(event.at)
        return {
            (AlertKind.SCALE_UP, pool): [
                at
                for at, following in pairwise([*sorted(times), self.world.now])
                if not self._got_node(pool, at, following)
            ]
            for pool, times in announced.items()
        }

    def _got_node(self, pool: str, since: datetime, until: datetime) -> bool:
        slack = self.world.policy.interval  # clocks of functions are wrong by less
        return any(
            state is InstanceState.PENDING and since - slack <= at <= until + slack
            for machine in self.world.ec2.machines.values()
            if machine.pool == pool
            for at, state in machine.states
        )

    def _bound(self, kind: AlertKind) -> int:
        rules = self.world.policy.messages
        if kind in NEVER_HELD_BACK:
            return _PER_INSTANCE * len(self.world.ec2.machines)
        critical = kind in CRITICAL or kind is AlertKind.DEGRADED
        reminders = rules.remind_after // (rules.remind_critical if critical else rules.remind_after)
        return 2 * rules.most + reminders * rules.most


def _is_alert(event: Event) -> bool:
    return event.dry or event.kind not in _NO_ALERTS


def _most_within(times: list[datetime], window: timedelta) -> int:
    """The most of them in any such stretch of time."""
    times = sorted(times)
    most = first = 0
    for last, at in enumerate(times):
        while at - times[first] >= window:
            first += 1
        most = max(most, last - first + 1)
    return most
