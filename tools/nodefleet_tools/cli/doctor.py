"""`nodefleet doctor`: look at everything that the autoscaler needs, and say what to fix."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodefleet.adapters.credentials import Redactor
from nodefleet.errors import NodeFleetError
from nodefleet.model.serialization import Plain
from nodefleet.model.snapshot import Deployment
from nodefleet.settings import SECRETS, SLACK, Settings
from nodefleet_tools.cli.connect import clear_errors
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.environment import InputError, checked, the_cluster
from nodefleet_tools.cli.outcome import Status
from nodefleet_tools.doctor.context import DoctorContext, Parts
from nodefleet_tools.doctor.examine import examine
from nodefleet_tools.doctor.findings import Check, Checked, Finding, Verdict, fine, wrong

STYLES = {Verdict.FINE: "green", Verdict.WRONG: "bold red", Verdict.HINT: "yellow"}
_NAMES = 18  # columns for a check's name
_NOT_CHECKED = (
    "These are the answers to your credentials; the functions' role may be allowed more or less."
    " Not checked: whether EC2 has capacity, whether a new node joins, whether Slack shows a message."
)


class QuietConnection(Connection):
    """What it would warn of is found by a check, and what can be had without the table is looked at without it."""

    def warn(self, message: str) -> None:
        """Nothing is said in between."""

    @cached_property
    def deployment(self) -> Deployment | None:
        try:
            return self.store.state().deployment if self.settings.table else None
        except NodeFleetError:
            return None


def doctor(*, as_json: bool, cluster: str, table: str, bucket: str) -> None:
    from nodefleet_tools.doctor.checks import checks  # noqa: PLC0415  # loads botocore, which help does without

    redact = Redactor()
    with clear_errors(redact):
        connection = _connection(cluster, table, bucket, redact)
    surroundings = Check(name="Environment", look=partial(_surroundings, connection))
    found = examine((surroundings, *checks(DoctorContext(parts_of(connection)))))
    told = _as_json(found, redact) if as_json else _printed(found, redact)
    if any(each.is_wrong for each in told):
        raise typer.Exit(Status.FAILED)


def _connection(cluster: str, table: str, bucket: str, redact: Redactor) -> Connection:
    """Whatever is missing besides the cluster's name is a finding, and the checks that do not need it go on."""
    name = the_cluster(cluster, os.environ)
    if not name:
        checked(name, table, os.environ, needs_table=True)
    settings = Settings(table=table, clusters=(name,), bucket=bucket, slack_secret=os.environ.get(SLACK, "").strip())
    if prefix := os.environ.get(SECRETS, "").strip():
        settings = replace(settings, secrets=prefix)
    return QuietConnection(settings, os.environ, redact)


def _surroundings(connection: Connection) -> Iterator[Finding]:
    settings = connection.settings
    try:
        checked(connection.cluster_id, settings.table, os.environ, needs_table=True)
    except InputError as error:
        for problem in str(error).splitlines()[1:]:
            what, _, fix = problem.strip(" -").partition(": ")
            yield wrong(f"{what} is missing or wrong", fix)
    else:
        yield fine(f"cluster {connection.cluster_id}, table {settings.table}, bucket {settings.bucket or 'none'}")


def parts_of(connection: Connection) -> Parts:
    """What is examined. Nothing is made before a check asks for it."""

    def slack(secret: str) -> object:
        from nodefleet.adapters.credentials import SlackHook  # noqa: PLC0415  # as the connection does

        return connection.secrets.login(secret, SlackHook)

    return Parts(
        cluster=connection.cluster_id,
        table=connection.settings.table,
        bucket=connection.settings.bucket,
        slack_secret=connection.settings.slack_secret,
        session=connection.session,
        store=lambda: connection.store,
        history=lambda: connection.history,
        cloud=lambda: connection.cloud,
        kubernetes=connection.kubernetes,
        prometheus=lambda: connection.prometheus,
        gauges=lambda: connection.gauges,
        slack=slack,
        policies=connection.policies,
        now=connection.clock,
    )


# ── output ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _as_json(found: Iterator[Checked], redact: Redactor) -> list[Checked]:
    told = list(found)
    plain = {"fine": not any(each.is_wrong for each in told), "checks": [_plain(each, redact) for each in told]}
    print(json.dumps(plain, indent=2, ensure_ascii=False))
    return told


def _plain(each: Checked, redact: Redactor) -> Plain:
    findings = [
        {"verdict": finding.verdict.name.lower(), "found": redact(finding.found), "fix": redact(finding.fix)}
        for finding in each.findings
    ]
    return {"check": each.name, "findings": findings}


def _printed(found: Iterator[Checked], redact: Redactor) -> list[Checked]:
    """Each as soon as it and all before it are known."""
    console = Console(highlight=False)
    told: list[Checked] = []
    with console.status("Looking …") as status:
        for each in found:
            told.append(each)
            for finding in each.findings:
                _print(console, each.name, finding, redact)
            status.update(f"Looking … {len(told)} checks are done")
    verdicts = Counter(finding.verdict for each in told for finding in each.findings)
    counts = f"{verdicts[Verdict.FINE]} fine, {verdicts[Verdict.WRONG]} wrong, {verdicts[Verdict.HINT]} worth a look."
    console.print(Text(f"\n{counts}", "bold"), soft_wrap=True)
    console.print(Text(_NOT_CHECKED, "dim"), soft_wrap=not console.is_terminal)
    return told


def _print(console: Console, name: str, finding: Finding, redact: Redactor) -> None:
    """In columns on a terminal, in one line without."""
    sign = Text(finding.verdict.value, STYLES[finding.verdict])
    said = Text(redact(finding.found))
    if finding.fix:
        said.append(f" → {redact(finding.fix)}", "italic")
    if not console.is_terminal:
        console.print(Text.assemble(sign, " ", name, ": ", said), soft_wrap=True)
        return
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_column(width=1)
    line.add_column(width=_NAMES)
    line.add_column(overflow="fold")
    line.add_row(sign, Text(name, "bold"), said)
    console.print(line)
