"""The command line. Each command lives in a file of its own and is named here in one line."""

import typer

from nodefleet_tools.cli import decide, demo, policy

app = typer.Typer(
    help="node-fleet: a serverless autoscaler for K3s on AWS.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="decide")(decide.decide)
app.command(name="demo")(demo.demo)
app.add_typer(policy.app, name="policy")


def main() -> None:
    app()
