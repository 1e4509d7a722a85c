"""`nodefleet dashboard`: the local page over the cluster, or over a simulated one with --demo."""

import os
import sys
import webbrowser
from datetime import timedelta
from typing import Annotated

import typer

from nodefleet_tools.cli import connect
from nodefleet_tools.cli.operators import ByOption, someone
from nodefleet_tools.cli.outcome import JsonOption, fail, print_json
from nodefleet_tools.dashboard.demo import DemoSource
from nodefleet_tools.dashboard.live import LiveSource
from nodefleet_tools.dashboard.server import Dashboard
from nodefleet_tools.dashboard.source import DashboardSource
from nodefleet_tools.sim.scenarios.reading import Read, find, read

_BEGINS = {"shop-day": timedelta(hours=8, minutes=40)}  # before the first interesting moment; else from the start
_EVERY = 10.0  # seconds


def dashboard(
    *,
    demo: Annotated[bool, typer.Option("--demo", help="Over a simulated cluster: no AWS, no network.")] = False,
    scenario: Annotated[str, typer.Option(help="The day that --demo plays (see simulate --list).")] = "shop-day",
    port: Annotated[int, typer.Option(help="On 127.0.0.1; 0 takes a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    every: Annotated[float, typer.Option(help="Seconds between two looks at the cluster.", min=2)] = _EVERY,
    as_json: JsonOption = False,
    by: ByOption = "",
    cluster: connect.ClusterOption = "",
    table: connect.TableOption = "",
    bucket: connect.BucketOption = "",
) -> None:
    """Open the page: the fleet now, why, what it costs, and controls.

    It listens on 127.0.0.1 only and reads with your own AWS and Kubernetes credentials. Ctrl-C ends it.

    \b
      nodefleet dashboard --demo
      nodefleet dashboard --cluster shop --table node-fleet
    """
    if demo:
        serve(demo_source(read(find(scenario))), port=port, browser=browser, by=someone(by), as_json=as_json)
        return
    with connect.connected(cluster=cluster, table=table, bucket=bucket) as connection:
        connection.governing()  # a wrong table or cluster ends here, with a message
        serve(LiveSource(connection, every), port=port, browser=browser, by=someone(by), as_json=as_json)


def demo_source(chosen: Read) -> DemoSource:
    return DemoSource(chosen, begins=_BEGINS.get(chosen.scenario.name, timedelta(0)))


def serve(source: DashboardSource, *, port: int = 0, browser: bool, by: str, as_json: bool = False) -> None:
    """Until Ctrl-C."""
    try:
        page = Dashboard(source, by=by, port=port)
    except OSError as error:
        source.close()
        fail(f"port {port}: {error.strerror}. Choose another one with --port")
    if as_json:
        print_json({"link": page.session.link})
    else:
        print(f"The dashboard is at {page.session.link}")
        print("The link works once, on this computer only. Ctrl-C ends it.")
    sys.stdout.flush()
    if browser and has_browser():
        webbrowser.open(page.session.link)
    try:
        page.serve()
    except KeyboardInterrupt:
        if not as_json:
            print("\nClosed.")
    finally:
        page.close()


def has_browser() -> bool:
    """A desktop where a browser can open: not a build, and not a shell without a display."""
    if os.environ.get("CI") or not sys.stdout.isatty():
        return False
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
