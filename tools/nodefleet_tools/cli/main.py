"""The command line. Each command lives in a file of its own and is named here in one line."""

import typer

from nodefleet_tools.cli import (
    backtest,
    chaos,
    decide,
    demo,
    deployment,
    doctor,
    explain,
    orders,
    policy,
    policy_store,
    replay,
    report,
    run,
    simulate,
)

app = typer.Typer(
    help="node-fleet: a serverless autoscaler for K3s on AWS.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="decide")(decide.decide)
app.command(name="demo")(demo.demo)
app.command(name="simulate")(simulate.simulate)
app.command(name="chaos")(chaos.chaos)
app.command(name="backtest")(backtest.backtest)
app.command(name="tune")(backtest.tune_)
app.command(name="run")(run.run)
app.command(name="pause")(orders.pause)
app.command(name="resume")(orders.resume)
app.command(name="scale")(orders.scale)
app.command(name="adopt")(orders.adopt)
app.command(name="drain")(orders.drain)
app.command(name="recycle")(orders.recycle)
app.command(name="commands")(orders.commands)
app.command(name="explain")(explain.explain)
app.command(name="replay")(replay.replay)
app.command(name="doctor")(doctor.doctor)
app.command(name="report")(report.report)
app.add_typer(policy.app, name="policy")
policy.app.command(name="apply")(policy_store.apply)
policy.app.command(name="versions")(policy_store.versions)
policy.app.command(name="rollback")(policy_store.rollback)
app.add_typer(deployment.app, name="deployment")


def main() -> None:
    app()
