"""The page of all clusters in a real browser: an overview, what is in trouble, and the way to one cluster's page."""

from collections.abc import Iterator

import pytest

from e2e.parts import browser as browsers

pytest.importorskip("playwright", reason="MISSING: playwright, see requirements.in")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from nodefleet_tools.dashboard.overview import HOME, OverviewSource
from nodefleet_tools.fleet import ClusterRow
from support.builders import NOON
from support.dashboards import WorldSource, overview_rows, serving
from support.worlds import shop

PROGRAM = browsers.browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason=f"tests of the page SKIPPED. MISSING: {browsers.HOW}")

SLOW = 20_000  # milliseconds: other tests may be at work
HOSTILE = "<img src=x onerror=document.title='taken'>"
MANY = 1_000


class Deployment:
    """The rows that the registry would give, and a simulated world behind each cluster's own page."""

    def __init__(self) -> None:
        self.rows = overview_rows()
        self.source = OverviewSource(lambda: self.rows, self.connect, lambda: NOON, by="ann", every=60)

    def connect(self, name: str) -> WorldSource:  # noqa: ARG002  # every cluster has the same world here
        source = WorldSource(shop().world)
        source.refresh()
        return source

    def show(self, rows: list[ClusterRow]) -> None:
        self.rows = rows
        self.source.poll_once()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as made:
        browser = made.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    made = chromium.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(SLOW)
    yield made
    made.close()


@pytest.fixture
def deployment() -> Deployment:
    return Deployment()


@pytest.fixture
def page(context: BrowserContext, deployment: Deployment) -> Iterator[Page]:
    complaints: list[str] = []
    with serving(deployment.source, home=HOME) as dashboard:
        made = context.new_page()
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        made.goto(dashboard.session.link)
        yield made
        made.close()
    assert complaints == []


def rows_of(page: Page) -> list[str]:
    return [" | ".join(line.locator("th, td").all_inner_texts()) for line in page.locator("tbody tr").all()]


def test_each_cluster_has_a_row_and_the_first_line_says_how_all_are(page: Page) -> None:
    expect(page.locator("tbody tr")).to_have_count(5)
    expect(page.locator(".sentence")).to_have_text("5 clusters, 9 nodes, 3 pending pods, $3.75 today. 2 in trouble.")
    assert rows_of(page)[0] == "eu-broken | eu-west-1 | unreadable | – | – | – | –"
    assert rows_of(page)[2] == "eu-shop | eu-west-1 | normal | 4 → 6 | 3 | 40 s ago | $1.25"


def test_those_in_trouble_and_those_of_a_region_are_found(page: Page) -> None:
    expect(page.locator("tbody tr")).to_have_count(5)
    page.get_by_label("in trouble only").check()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Search").fill("us-east")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Search").fill("nowhere")
    expect(page.locator(".empty")).to_have_text("No cluster fits.")


def test_a_cluster_opens_on_its_own_page_and_the_way_back_leads_here(page: Page) -> None:
    page.get_by_role("button", name="eu-shop").click()
    expect(page.locator(".tile")).to_have_count(3)
    page.go_back()
    expect(page.locator("tbody tr")).to_have_count(5)
    page.get_by_role("button", name="eu-shop").click()
    expect(page.locator(".tile")).to_have_count(3)


def test_a_cluster_that_recovers_moves_and_names_stay_text(page: Page, deployment: Deployment) -> None:
    expect(page.locator("tbody tr")).to_have_count(5)
    well = {"paused": False, "decided_at": NOON, "level": "normal"}
    deployment.show([ClusterRow(name=HOSTILE, region="eu-west-1", nodes=1, target=1, **well)])
    expect(page.locator(".sentence")).to_contain_text("1 cluster, 1 node")
    expect(page.locator(".sentence")).to_contain_text("All are well.")
    assert page.title() == "All clusters · node-fleet"
    expect(page.locator("tbody img")).to_have_count(0)


def test_a_thousand_clusters_are_listed(page: Page, deployment: Deployment) -> None:
    well = {"paused": False, "decided_at": NOON, "level": "normal", "region": "eu-west-1", "nodes": 3, "target": 3}
    deployment.show([ClusterRow(name=f"shop-{number:04}", usd_today=1.0, **well) for number in range(MANY)])
    expect(page.locator("tbody tr")).to_have_count(MANY)
    expect(page.locator(".sentence")).to_contain_text("1000 clusters, 3000 nodes")


def test_it_can_be_used_without_a_mouse_and_by_a_screen_reader(page: Page) -> None:
    expect(page.locator("tbody tr")).to_have_count(5)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
