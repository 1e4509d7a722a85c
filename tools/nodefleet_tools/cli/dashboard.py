"""`nodefleet dashboard`: the local page over the cluster, or over a simulated one with --demo."""

import os
import sys
import webbrowser
from datetime import timedelta
from pathlib import Path

from nodefleet_tools.cli import connect
from nodefleet_tools.cli.input_file import read_or_exit
from nodefleet_tools.cli.lazy import find_function
from nodefleet_tools.cli.operators import someone
from nodefleet_tools.cli.outcome import fail, print_json
from nodefleet_tools.dashboard.demo import DemoSource
from nodefleet_tools.dashboard.live import LiveSource
from nodefleet_tools.dashboard.server import Dashboard
from nodefleet_tools.dashboard.source import PageSource
from nodefleet_tools.sim.scenarios.reading import Read, find, read

_BEGINS = {"shop-day": timedelta(hours=8, minutes=40)}  # before the first interesting moment; else from the start


def dashboard(
    *,
    demo: bool,
    every_cluster: bool,
    scenario: str,
    port: int,
    browser: bool,
    every: float,
    as_json: bool,
    by: str,
    cluster: str,
    table: str,
    bucket: str,
) -> None:
    if demo:
        chosen = read_or_exit(Path(scenario), lambda _: read(find(scenario)))
        serve(demo_source(chosen), port=port, browser=browser, by=someone(by), as_json=as_json)
        return
    if every_cluster:
        serve_all = find_function("dashboard_all:serve_all")  # needs AWS's libraries, which the demo does without
        serve_all(someone(by), port=port, browser=browser, every=every, as_json=as_json, table=table, bucket=bucket)
        return
    with connect.connected(cluster=cluster, table=table, bucket=bucket) as connection:
        connection.governing()  # a wrong table or cluster ends here, with a message
        serve(LiveSource(connection, every), port=port, browser=browser, by=someone(by), as_json=as_json)


def demo_source(chosen: Read) -> DemoSource:
    return DemoSource(chosen, begins=_BEGINS.get(chosen.scenario.name, timedelta(0)))


def serve(
    source: PageSource, *, port: int = 0, browser: bool, by: str, as_json: bool = False, home: str = "index.html"
) -> None:
    """Until Ctrl-C."""
    try:
        page = Dashboard(source, by=by, port=port, home=home)
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
