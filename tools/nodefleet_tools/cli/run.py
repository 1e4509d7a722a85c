"""`nodefleet run`: the loop that Lambda runs, from a laptop or in a container."""

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import typer

from nodefleet.errors import NodeFleetError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import BUILT_IN, PolicyVersion
from nodefleet.model.snapshot import Deployment
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import digest_of
from nodefleet.ports import Runtime, Time
from nodefleet_tools.cli import connect
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.deployment_file import deployment_or_exit, warn_of_homeless
from nodefleet_tools.cli.environment import KUBECONFIG, PROMETHEUS_URL, InputError, the_cluster
from nodefleet_tools.cli.operators import known_state, span, worded_span
from nodefleet_tools.cli.outcome import Status, fail, note_change
from nodefleet_tools.cli.overlay import Overlay
from nodefleet_tools.cli.policy_content import PolicyContent, content_or_exit
from nodefleet_tools.cli.run_output import RunOutput
from nodefleet_tools.cli.runs import Runs, require_right_clock
from nodefleet_tools.cli.stopping import StoppedError, stopping
from nodefleet_tools.dry import dry
from nodefleet_tools.dry_store import DryStore, NoTable


def run(
    *,
    once: bool,
    loop: bool,
    interval: str,
    policy: Path | None,
    deployment: Path | None,
    heartbeat: Path | None,
    dry_run: bool,
    as_json: bool,
    cluster: str,
    table: str,
    bucket: str,
) -> None:
    if once == loop:
        fail("give --once for one run, or --loop for one every two minutes")
    if interval and once:
        fail("--interval goes with --loop")
    if heartbeat and (heartbeat.is_dir() or not heartbeat.parent.is_dir()):
        fail(f"--heartbeat: {heartbeat} cannot be written: name a file in a folder that exists")
    rules = content_or_exit(policy) if policy else None
    parts = deployment_or_exit(deployment, the_cluster(cluster, os.environ)) if deployment else None
    with connect.connected(
        cluster=cluster, table=table, bucket=bucket, deployment=parts, needs_table=not dry_run
    ) as connection:
        _run(
            connection,
            rules,
            parts,
            interval=interval,
            loop=loop,
            heartbeat=heartbeat,
            dry_run=dry_run,
            as_json=as_json,
        )


def _run(
    connection: Connection,
    rules: PolicyContent | None,
    deployment: Deployment | None,
    *,
    interval: str,
    loop: bool,
    heartbeat: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    if not (dry_run or rules or deployment):
        known_state(connection)  # a mistyped name would get records of its own
    output = RunOutput(as_json=as_json, calls=connection.calls, redact=connection.redact, clock=connection.clock)
    in_force = _policy(connection, rules, output)
    every = _interval(interval, in_force)
    require_right_clock(connection, in_force)
    _introduce(connection, in_force, rules, every if loop else None, dry_run=dry_run)
    make = _maker(connection, output, _version(rules, connection), deployment, dry_run=dry_run)
    if not dry_run:
        note_change("Steps that the run had begun are in the table: the next run resumes them.")
    with stopping(connection.sleep) as stop:
        runs = Runs(connection=connection, policy=in_force, parts=make, output=output, stop=stop, heartbeat=heartbeat)
        if not loop:
            try:
                runs.one()
            except NodeFleetError as error:
                output.failed(error)
                if as_json:  # the object is the error: a stream ends with a line, not with a document
                    raise typer.Exit(Status.FAILED) from error
                raise
            except StoppedError:
                _say(f"Ended by {stop.asked} after an iteration; the lease is let go.")
            return
        runs.many(every)
    _say(runs.summary())
    if runs.last_failed:
        raise typer.Exit(Status.FAILED)


# ── before it starts ─────────────────────────────────────────────────────────────────────────────────────────────


def _policy(connection: Connection, rules: PolicyContent | None, output: RunOutput) -> Policy:
    """What is in force. Asking the table also tells how our clock stands to AWS's."""
    if not connection.settings.table:
        return rules.loaded.policy if rules else Policy()
    governing = connection.governing()
    for news in governing.news:
        bad = news.kind in (AlertKind.POLICY_REFUSED, AlertKind.POLICY_UNUSABLE)
        (output.warn if bad else output.line)(news.text)
    return rules.loaded.policy if rules else governing.policy


def _interval(given: str, policy: Policy) -> timedelta:
    """Readings further apart than a gap start every streak again: nothing would ever be sustained."""
    every = span(given, "--interval") if given else policy.interval
    longest, shortest = policy.trust.gap * policy.interval, policy.burst.every
    if not shortest <= every <= longest:
        raise InputError(
            f"--interval: {worded_span(every)} is not between {worded_span(shortest)} (burst.every) and"
            f" {worded_span(longest)} (trust.gap × interval), after which a reading that lasts starts again;"
            " change `interval` in the policy too"
        )
    return every


def _introduce(
    connection: Connection, policy: Policy, rules: PolicyContent | None, every: timedelta | None, *, dry_run: bool
) -> None:
    """What is about to run on what, before it does."""
    deployment = connection.deployment
    by_secret = "by its ServiceAccount" if connection.in_cluster else f"by secret {connection.api_secret}"
    kubernetes = "as KUBECONFIG says" if connection.variable(KUBECONFIG) else by_secret
    metrics = connection.variable(PROMETHEUS_URL) or (deployment.prometheus if deployment else "")
    parts = [
        f"a run every {worded_span(every)}" if every else "one run",
        f"table {connection.settings.table}" if connection.settings.table else "no table: it starts from nothing",
        f"Kubernetes {kubernetes}",
        f"Prometheus {metrics or 'unknown'}",
        *([f"policy {rules.name}, for this process only"] if rules else []),
        *(["dry run: nothing is written or changed anywhere"] if dry_run else []),
    ]
    _say(connection.redact(f"{connection.cluster_id}: {'; '.join(parts)}."))
    if not metrics:
        connection.warn(f"no Prometheus is known, so nothing shrinks: set {PROMETHEUS_URL}")
    warn_of_homeless(connection, policy, deployment)


# ── what it runs with ────────────────────────────────────────────────────────────────────────────────────────────


def _version(rules: PolicyContent | None, connection: Connection) -> PolicyVersion | None:
    """The file's policy as a version. It has no number, because it is not the table's."""
    if rules is None and connection.settings.table:
        return None
    if rules is None:  # a dry run without a table has no version to go by, and holding would show nothing
        return PolicyVersion(number=0, source=BUILT_IN, at=connection.clock(), data={}, digest=digest_of({}))
    digest = digest_of(rules.data)
    return PolicyVersion(number=0, source=rules.name, at=connection.clock(), data=rules.data, digest=digest)


def _maker(
    connection: Connection,
    output: RunOutput,
    policy: PolicyVersion | None,
    deployment: Deployment | None,
    *,
    dry_run: bool,
) -> Callable[[Time], Runtime]:
    """Makes each run's parts. Dry runs share one store, in memory."""
    without = NoTable()
    has_table = bool(connection.settings.table)
    dry_store = DryStore(connection.store.state if has_table else without.state) if dry_run else None

    def parts(time: Time) -> Runtime:
        made = Runtime(
            cluster_id=connection.cluster_id,
            time=time,
            store=dry_store or connection.store,
            history=connection.history if has_table else without,
            cloud=connection.cloud,
            cluster=connection.cluster,
            gauges=connection.gauges,
            archive=connection.archive,
            policies=connection.policies,
            telemetry=output,
            together=connection.together,
        )
        if dry_store:
            made = dry(made, dry_store)
        overlay = Overlay(store=made.store, policy=policy, deployment=deployment, heard=output.heard)
        return replace(made, store=overlay)

    return parts


def _say(message: str) -> None:
    print(message, file=sys.stderr)
