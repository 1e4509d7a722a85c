"""`nodefleet explain`: why it did what it did, and why a given node stays."""

from datetime import timedelta
from itertools import islice
from typing import NoReturn

from rich.console import Console

from nodefleet.adapters.credentials import Redactor
from nodefleet.model.decision import DecisionRecord
from nodefleet.model.names import some
from nodefleet.model.serialization import to_plain
from nodefleet.policy.cluster import Policy
from nodefleet_tools.audit import decisions
from nodefleet_tools.cli.connect import clear_errors, connected
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.node_story import as_plain, known_nodes, show_story, story_of
from nodefleet_tools.cli.operators import span
from nodefleet_tools.cli.outcome import Status, fail, print_json
from nodefleet_tools.cli.show_record import page_console, show_record, show_table

LOOKS_BACK = timedelta(hours=2)  # for a node, unless --since says otherwise
_NAMES = 20  # of known nodes


def explain(*, node: str, last: int | None, since: str, as_json: bool, cluster: str, table: str) -> None:
    if node and last:
        fail("either a node or --last: one answer at a time")
    with clear_errors(Redactor()):
        back = span(since, "--since") if since else None
    with connected(cluster=cluster, table=table) as connection:
        if node:
            _explain_node(connection, node, back or LOOKS_BACK, as_json=as_json)
        elif last or back:
            _explain_many(connection, last, back, as_json=as_json)
        else:
            _explain_last(connection, as_json=as_json)


# ── decisions ────────────────────────────────────────────────────────────────────────────────────────────────────


def _explain_last(connection: Connection, *, as_json: bool) -> None:
    record = next(iter(connection.history.decisions(1)), None)
    if record is None:
        _nothing(connection)
    if as_json:
        print_json(to_plain(record))
    else:
        show_record(record, _policy(connection), page_console(), connection.clock())


def _explain_many(connection: Connection, last: int | None, back: timedelta | None, *, as_json: bool) -> None:
    oldest = connection.clock() - back if back else None
    found = list(islice(decisions(connection.history, oldest=oldest), last))
    if not found and back:
        fail(f"No decision was recorded since {oldest:%Y-%m-%d %H:%M:%S} UTC.", Status.NOTHING)
    if not found:
        _nothing(connection)
    if as_json:
        print_json([to_plain(record) for record in found])
    else:
        show_table(found, page_console())


def _nothing(connection: Connection) -> NoReturn:
    fail(
        f"No decision of {connection.cluster_id} is recorded. See that its schedule is on (nodefleet doctor),"
        " or try: nodefleet run --once --dry-run",
        Status.NOTHING,
    )


def _policy(connection: Connection) -> Policy:
    """Only for the time of the next run: the decision itself is in the record."""
    rules = connection.governing()
    if rules.hold:
        connection.warn(rules.news[-1].text)
    return rules.policy


# ── a node ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _explain_node(connection: Connection, node: str, back: timedelta, *, as_json: bool) -> None:
    now = connection.clock()
    records = list(decisions(connection.history, oldest=now - back)) or list(connection.history.decisions(1))
    story = story_of(node, records, connection.store.state(), connection.history.events(now - back, now))
    if story.is_empty:
        from nodefleet_tools.cli.pod_story import explain_pod  # noqa: PLC0415  # loads the engine

        if explain_pod(connection, node, as_json=as_json):
            return
        _unknown(node, records)
    if as_json:
        print_json(as_plain(story))
    else:
        show_story(story, Console(highlight=False), now, back)


def _unknown(node: str, records: list[DecisionRecord]) -> NoReturn:
    known = known_nodes(records)
    names = f"known are {some(known, most=_NAMES)}" if known else "none is known"
    more = "; a record of so many nodes names only those that something keeps" if any(r.cut for r in records) else ""
    fail(
        f"no recent decision, operation or event names a node {node}, and no pod is called so: {names}{more}",
        Status.NOTHING,
    )
