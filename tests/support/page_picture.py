"""Take the README's picture of the page: the simulated shop's flash sale, as `nodefleet dashboard --demo` shows it.

`make picture` writes docs/images/dashboard.png. It needs the browser of the page's tests.
"""

import sys
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import sync_playwright

from e2e.parts import browser
from nodefleet_tools.dashboard.demo import DemoSource
from nodefleet_tools.sim.scenarios.reading import find, read
from support.dashboards import serving

PICTURE = Path(__file__).parents[2] / "docs/images/dashboard.png"
MOMENT = timedelta(hours=20, minutes=8, seconds=40)  # pods wait, and the nodes for them boot
SIZE = {"width": 1360, "height": 1180}
PATIENCE = 300_000  # milliseconds: the day up to the moment is played first


def main() -> None:
    program = browser.browser()
    if program is None:
        sys.exit(f"MISSING: {browser.HOW}")
    source = DemoSource(read(find("shop-day")), speed=0, begins=MOMENT)
    with serving(source) as page, sync_playwright() as made:
        chromium = made.chromium.launch(executable_path=program, args=["--no-sandbox"])
        shown = chromium.new_page(viewport=SIZE)
        shown.goto(page.session.link)
        shown.wait_for_selector(".tile", timeout=PATIENCE)
        shown.wait_for_selector("#chart-3 svg", timeout=PATIENCE)
        shown.screenshot(path=PICTURE)
        chromium.close()


if __name__ == "__main__":
    main()
