"""The command line: every command with its group and its line of help. Its module is imported when it is used.

A new command is one row; tests/cli/test_main_cli.py compares the row's help with the command's own docstring.
"""

import os
import sys
from contextlib import suppress
from enum import StrEnum
from typing import Annotated

import typer

from nodefleet import __version__
from nodefleet_tools.cli.lazy import SETTINGS, Command, group_of
from nodefleet_tools.cli.outcome import Status


class Panel(StrEnum):
    """The groups of `nodefleet --help`, in the order of a new user's days."""

    TRY = "Try it: no account, no cluster"
    SET_UP = "Set it up"
    WATCH = "Watch"
    STEER = "Steer"
    RUN = "Run"


POLICY = (
    Command("check", "commands_try:check", "Say what a policy does, or everything that is wrong with it."),
    Command("show", "commands_try:show", "Show every value of a policy: where it comes from and what it is for."),
    Command("schema", "commands_try:schema", "Print the JSON Schema of a policy file, for editors."),
    Command("get", "commands_set_up:get", "Print the policy in force, or a version, as a file to edit and apply."),
    Command("apply", "commands_set_up:apply", "Check a policy, show what it changes, and put it in force."),
    Command(
        "versions", "commands_set_up:versions", "List the policy versions: number, time, author, and what changed."
    ),
    Command("rollback", "commands_set_up:rollback", "Put an earlier version in force again, under a new number."),
)
DEPLOYMENT = (
    Command("show", "commands_set_up:show", "Print the stored record as YAML."),
    Command("put", "commands_set_up:put", "Check a deployment, show what it changes, and store it."),
)
CLUSTERS = (
    Command(
        "list",
        "commands_clusters:list_clusters",
        "List the clusters of a deployment: last decision, nodes, pending pods.",
    ),
    Command("add", "commands_clusters:add", "Have the deployment serve a cluster whose record is in the table."),
    Command("remove", "commands_clusters:remove", "End serving a cluster. Its nodes and its records stay as they are."),
    Command(
        "pause", "commands_clusters:pause", "Run nothing for a cluster until `clusters resume`: not even min is kept."
    ),
    Command("resume", "commands_clusters:resume", "End a pause of `clusters pause`."),
)
COMMANDS = (
    Command("demo", "commands_try:demo", "See a shop's day in about a minute, in a simulated world.", Panel.TRY),
    Command("simulate", "commands_try:simulate", "Play any day of a cluster in a simulated world.", Panel.TRY),
    Command("decide", "commands_try:decide", "Say what would be done on this observation, and why.", Panel.TRY),
    Command("backtest", "commands_try:backtest", "Play policies on recorded load, and compare them.", Panel.TRY),
    Command(
        "tune", "commands_try:tune", "Find the settings of the adaptive strategy that fit your own load.", Panel.TRY
    ),
    Command("chaos", "commands_try:chaos", "Play hours full of faults and check what must always hold.", Panel.TRY),
    Command(
        "init", "commands_set_up:init", "Adopt a cluster that exists: write its files, create its parts.", Panel.SET_UP
    ),
    Command("doctor", "commands_set_up:doctor", "Check everything that is needed, and say what to fix.", Panel.SET_UP),
    Command("policy", POLICY, "Check, show, store and roll back the scaling policy.", Panel.SET_UP),
    Command("deployment", DEPLOYMENT, "Show or store where a cluster's parts are.", Panel.SET_UP),
    Command("clusters", CLUSTERS, "Add, list, pause and remove the clusters of one deployment.", Panel.SET_UP),
    Command(
        "prices",
        "commands_set_up:prices",
        "Show what the policy's instance types cost, and who says so.",
        Panel.SET_UP,
    ),
    Command(
        "status", "commands_watch:status", "Show the fleet now: pools, pending pods, operations, alarms.", Panel.WATCH
    ),
    Command(
        "nodes",
        "commands_watch:nodes",
        "List the workers: phase, type, market, load, price, reason.",
        Panel.WATCH,
    ),
    Command(
        "decisions", "commands_watch:decisions", "List the decisions, newest first: action, size, reason.", Panel.WATCH
    ),
    Command(
        "events", "commands_watch:events", "List what happened: launches, removals, alerts, commands.", Panel.WATCH
    ),
    Command(
        "cost", "commands_watch:cost", "Show the cost of today, week and month against a fixed fleet.", Panel.WATCH
    ),
    Command(
        "dashboard",
        "commands_watch:dashboard",
        "Open the page: the fleet now, why, what it costs, and controls.",
        Panel.WATCH,
    ),
    Command(
        "explain", "commands_watch:explain", "Say why it decided so, why a node stays, why a pod waits.", Panel.WATCH
    ),
    Command("replay", "commands_watch:replay", "Decide again what was decided, and compare.", Panel.WATCH),
    Command("report", "commands_watch:report", "Show a week in figures, with recommendations.", Panel.WATCH),
    Command("pause", "commands_steer:pause", "Stop scaling for a while, or until `nodefleet resume`.", Panel.STEER),
    Command("resume", "commands_steer:resume", "End a pause.", Panel.STEER),
    Command("scale", "commands_steer:scale", "Keep a pool at a size for a while, within min and max.", Panel.STEER),
    Command(
        "failover", "commands_steer:failover", "Move a region's demand to a standby cluster, and back.", Panel.STEER
    ),
    Command("recycle", "commands_steer:recycle", "Replace workers by new ones, which come first.", Panel.STEER),
    Command("drain", "commands_steer:drain", "Drain and remove workers, of a pool or of none.", Panel.STEER),
    Command("protect", "commands_steer:protect", "Keep a node from being removed, or end that.", Panel.STEER),
    Command("adopt", "commands_steer:adopt", "Hand workers that no pool owns to a pool.", Panel.STEER),
    Command(
        "commands", "commands_steer:commands", "Show the operator commands in force, with their ends.", Panel.STEER
    ),
    Command("health", "commands_watch:health", "Say whether runs happen: for probes and monitors.", Panel.RUN),
    Command("run", "commands_steer:run", "Run the autoscaler here, as the Lambda function does.", Panel.RUN),
)


app = typer.Typer(
    cls=group_of(COMMANDS),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nodefleet {__version__}")
        raise typer.Exit


@app.callback()
def nodefleet(
    *,
    version: Annotated[  # its callback answers
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """node-fleet: a serverless autoscaler for K3s on AWS."""


def main() -> None:
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except OSError as error:  # a full disk, a file that may not be read: on standard error, as the output may be it
        with suppress(OSError):  # what is still in the buffer would be tried again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # `| head` has what it wanted
            part = f"{error.filename}: " if error.filename else "The output cannot be written: "
            print(f"{part}{error.strerror or error}", file=sys.stderr)
        sys.exit(Status.FAILED)
