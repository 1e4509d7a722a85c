"""`nodefleet events` and `decisions`: what happened, newest last, and what was decided, newest first."""

import json
import sys
from collections.abc import Iterable
from datetime import timedelta
from itertools import islice

from nodefleet.model.alerts import CATALOGUE, AlertKind
from nodefleet.model.decision import Action, DecisionRecord, Event
from nodefleet.model.serialization import nearest, to_plain
from nodefleet_tools.audit import decisions as recorded
from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError
from nodefleet_tools.cli.operators import span
from nodefleet_tools.cli.outcome import Status, fail, print_json
from nodefleet_tools.cli.show_record import page_console, show_table

_EVERY = 5.0  # seconds between two reads of the table
_OVERLAP = timedelta(minutes=5)  # an event bears the time of its run: it may be written minutes later


def events(*, since: str, follow: bool, kind: str, as_json: bool, cluster: str, table: str) -> None:
    with connected(cluster=cluster, table=table) as connection:
        kinds = [each.value for each in AlertKind]
        if kind and kind not in kinds:
            raise InputError(f"--kind: there is no {kind}: {nearest(kind, kinds)}")
        found = _read(connection, span(since, "--since"), kind)
        if follow:
            _follow(connection, found, kind, as_json=as_json)
        elif not found:
            what = f"{kind} event" if kind else "event"
            fail(f"No {what} of {connection.cluster_id} is recorded in the last {since}.", Status.NOTHING)
        elif as_json:
            print_json([to_plain(each) for each in found])
        else:
            for each in found:
                print(line(each))


def decisions(*, last: int, since: str, pool: str, action: str | None, as_json: bool, cluster: str, table: str) -> None:
    with connected(cluster=cluster, table=table) as connection:
        asked = Action(action) if action else None
        oldest = connection.clock() - span(since, "--since") if since else None
        chosen = (each for each in recorded(connection.history, oldest=oldest) if _matches(each, pool, asked))
        found = list(chosen if since else islice(chosen, last))
        if not found:
            fail(f"No such decision of {connection.cluster_id} is recorded.", Status.NOTHING)
        if as_json:
            print_json([to_plain(each) for each in found])
        else:
            show_table(found, page_console())


def _matches(record: DecisionRecord, pool: str, action: Action | None) -> bool:
    return any(pool in ("", each.pool) and (action is None or each.action is action) for each in record.decision.pools)


def _read(connection: Connection, back: timedelta, kind: str) -> list[Event]:
    """Oldest first."""
    now = connection.clock()
    found = connection.history.events(now - back, now + timedelta(seconds=1))
    return [each for each in reversed(found) if kind in ("", each.kind.value)]


def _follow(connection: Connection, found: Iterable[Event], kind: str, *, as_json: bool) -> None:
    """Each event once: it has the same id however often it is read."""
    shown: set[str] = set()
    try:
        while True:
            for each in found:
                if each.id not in shown:
                    shown.add(each.id)
                    print(json.dumps(to_plain(each), ensure_ascii=False) if as_json else line(each))
            sys.stdout.flush()
            connection.sleep(_EVERY)
            found = _read(connection, _OVERLAP, kind)
    except KeyboardInterrupt:  # the only way to end it, so no error
        return


def line(event: Event) -> str:
    severity = CATALOGUE[event.kind].severity.name.lower()
    pool = f" {event.pool}:" if event.pool else ""
    dry = " (dry run)" if event.dry else ""
    return f"{event.at:%Y-%m-%d %H:%M:%S} {severity:<8} {event.kind.value}{dry}:{pool} {event.text}"
