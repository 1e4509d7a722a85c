"""The dashboard in a real browser: the ways that an operator takes, what goes wrong, 1,000 nodes, and hostile names.

Nothing is mocked in the page or the server; behind it stands the simulated world.
"""

import json
import re
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from statistics import median

import pytest

from e2e.parts import browser as browsers
from e2e.parts.needed import say

pytest.importorskip("playwright", reason="MISSING: playwright, see requirements.in")
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright

from nodefleet.model.inventory import Market
from nodefleet.model.snapshot import Drain, Pause, Recycle, Scale
from nodefleet_tools.dashboard.demo import DemoSource
from nodefleet_tools.dashboard.server import Dashboard
from nodefleet_tools.sim.world import World
from support.dashboards import WorldSource, serving
from support.played_days import scenario
from support.worlds import Cluster, empty, shop

PROGRAM = browsers.browser()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason=f"tests of the page SKIPPED. MISSING: {browsers.HOW}")

PAGES = ("now", "history", "money", "steer")
LARGE = 1_000
FIRST_PAINT = 1.0  # seconds
SCRIPTING = 100.0  # milliseconds of an update
SLOW = 20_000  # milliseconds: other tests may be at work
HOSTILE = "<img src=x onerror=document.title='taken'><script>document.title='taken'</script>"


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


class Visit:
    """A page that is open, and everything that the browser complained about."""

    def __init__(self, context: BrowserContext, dashboard: Dashboard) -> None:
        self.page: Page = context.new_page()
        self.dashboard = dashboard
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.goto(dashboard.session.link)

    def open(self, name: str) -> Page:
        self.page.click(f"#nav a[href='#{name}']")
        return self.page


@pytest.fixture
def cluster() -> Cluster:
    made = shop()
    made.calm(3)
    made.world.deploy("big", replicas=3, cpu=1500)
    made.calm(2)
    return made


@pytest.fixture
def source(cluster: Cluster) -> WorldSource:
    found = WorldSource(cluster.world)
    found.refresh()
    return found


@pytest.fixture
def visit(context: BrowserContext, source: WorldSource) -> Iterator[Visit]:
    with serving(source) as dashboard:
        made = Visit(context, dashboard)
        yield made
        made.page.close()
        assert made.complaints == []


# ── the ways that an operator takes ──────────────────────────────────────────────────────────────────────────────────


def test_now_shows_the_fleet_and_a_node_says_why_it_stays(cluster, visit):
    page = visit.page
    workers = cluster.world.workers()
    expect(page.locator(".tile")).to_have_count(len(workers))
    expect(page.locator(".sentence")).to_contain_text(re.compile("Growing|Holding"))
    expect(page.locator(".chart svg")).to_have_count(3)
    page.locator(".tile").first.click()
    drawer = page.locator("#drawer")
    expect(drawer).to_contain_text("Why")
    expect(drawer).to_contain_text("i-")
    page.keyboard.press("Escape")
    expect(drawer).not_to_be_visible()


def test_the_first_line_says_whether_all_is_well_and_if_not_the_worst_of_it(cluster, source, visit):
    line = visit.page.locator(".verdict")
    expect(line).to_contain_text("All is well.")
    cluster.world.deploy("more", replicas=2, cpu=1900)
    cluster.world.advance(30)
    source.refresh()
    expect(line).to_contain_text("2 pods wait for a node.")
    visit.open("steer").locator(".card", has_text="Pause scaling").get_by_role("button", name="Pause").click()
    expect(visit.page.locator(".toast").last).to_contain_text("Paused all pools")
    source.refresh()
    visit.open("now")
    expect(line).to_contain_text("Paused: all pools.")
    cluster.world.advance(3600)  # the world goes on without a run
    source.refresh()
    expect(line).to_contain_text("No run for")


def test_pools_have_a_row_each_with_their_readings(context):
    world = World(seed=3, policy={"pools": [{"name": "web"}, {"name": "batch", "limits": {"min": 0, "max": 3}}]})
    source = WorldSource(world)
    source.refresh()
    with serving(source) as dashboard:
        visit = Visit(context, dashboard)
        rows = visit.page.locator(".card", has_text="Pools").locator("tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.nth(1)).to_contain_text("0–3")
        assert visit.complaints == []
        visit.page.close()


def test_tiles_are_walked_with_the_arrow_keys(visit):
    page = visit.page
    first = page.locator(".tiles .tile").first
    first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.id") != first.get_attribute("data-id")
    page.keyboard.press("Enter")
    expect(page.locator("#drawer")).to_be_visible()


def test_every_threshold_has_a_label_and_none_lies_on_another(visit):
    chart = visit.page.get_by_label("CPU and memory utilisation in percent", exact=True)
    labels = chart.locator("svg text", has_text="%")
    expect(labels).to_have_text(["30 %", "50 %", "70 %", "75 %"])
    boxes = [each.bounding_box() for each in labels.all()]
    tops = sorted(box["y"] for box in boxes if box)
    assert len(tops) == 4
    assert all(above + 9 < below for above, below in pairwise(tops))


def test_a_long_reason_does_not_break_the_name_of_its_node(cluster, source, visit):
    worker = cluster.world.workers()[0]
    now, reason = cluster.world.now, "kernel " + 30 * "and more "
    order = Recycle(instance=worker.id, at=now, by="ann", reason=reason, until=now + timedelta(hours=1))
    cluster.world.table.put("command", worker.id, order, type_="recycle")
    source.refresh()
    page = visit.page
    page.get_by_text("All nodes as a table").click()
    expect(page.locator("tbody tr").first.locator("td").last).to_contain_text("ann asked")
    name = page.locator("tbody tr").first.get_by_role("button")
    assert name.evaluate("(each) => each.offsetHeight") < 32  # one line


def test_an_update_reaches_the_page_by_itself(cluster, source, visit):
    expect(visit.page.locator(".tile").first).to_be_visible()
    cluster.world.deploy("more", replicas=2, cpu=1900)
    cluster.world.advance(30)
    source.refresh()
    waiting = len(cluster.world.waiting_pods())
    assert waiting
    expect(visit.page.locator(".figure", has_text="Pending pods").locator("strong")).to_have_text(str(waiting))


def test_a_worker_has_its_nodes_name_once_it_has_joined(cluster, source, visit):
    cluster.calm(4)  # for the cooldown
    cluster.world.deploy("more", replicas=2, cpu=1500)
    cluster.look()
    source.refresh()
    names = visit.page.locator(".tile-name")
    expect(names.filter(has_text="i-")).not_to_have_count(0)
    cluster.calm(3)
    source.refresh()
    expect(names.filter(has_text="i-")).to_have_count(0)
    visit.page.get_by_text("All nodes as a table").click()
    expect(visit.page.locator("tbody th", has_text="i-")).to_have_count(0)


def test_a_decision_is_found_opened_and_replayed_with_another_policy(visit):
    page = visit.open("history")
    expect(page.locator(".decisions li").first).to_contain_text("grow")
    page.get_by_label("Search decisions").fill("no such word")
    expect(page.get_by_text("No recorded decision matches.")).to_be_visible()
    page.get_by_label("Search decisions").fill("unschedulable")
    page.locator(".decisions button").first.click()
    drawer = page.locator("#drawer")
    expect(drawer).to_contain_text("Votes")
    expect(drawer).to_contain_text("sets the target")
    expect(drawer).to_contain_text("What it saw")
    drawer.get_by_label(re.compile("With another policy")).fill("limits: {min: 2, max: 3}")
    drawer.get_by_role("button", name="Replay").click()
    expect(drawer.get_by_text("Another decision.")).to_be_visible()
    drawer.get_by_label(re.compile("With another policy")).fill("limits: {min: 2, max: 7}")
    drawer.get_by_role("button", name="Replay").click()
    expect(drawer.get_by_text("As many nodes, otherwise decided.")).to_be_visible()


def test_money_is_compared_with_fixed_fleets(visit):
    page = visit.open("money")
    expect(page.locator(".headline")).to_contain_text("fixed On-Demand")
    expect(page.locator(".bars li")).to_have_count(4)
    page.get_by_label("30 days").check()
    expect(page.locator(".money")).to_contain_text("Spot share")


def test_over_several_days_a_midnight_has_the_name_of_its_day(visit):
    labels = visit.page.evaluate("""async () => {
        const { plot } = await import("/chart.js");
        const holder = document.body.appendChild(document.createElement("div"));
        const monday = Date.UTC(2026, 10, 16) / 1000;
        return [1, 3].map((days) => {
            plot(holder, { height: 90, range: [monday, monday + days * 86400], start: 0, most: 1, ticks: [0, 1] });
            return [...holder.querySelectorAll("text")].map((each) => each.textContent);
        });
    }""")
    one, three = map(set, labels)
    assert {"00:00", "12:00"} <= one
    assert {"Mon 16", "Tue 17", "Wed 18", "Thu 19", "12:00"} <= three
    assert "00:00" not in three


def test_the_chart_of_money_is_drawn_again_when_the_window_changes(context):
    """A picture that is only scaled down has letters that nobody can read."""
    world = empty().world
    source = WorldSource(world)
    source.refresh()
    hours = [[1_793_577_600 + index * 3600, 0.1, 1.0, 2.0] for index in range(8)]
    period = {"start": 0, "node_hours": 0, "saved_usd": None, "usd": 0}
    with serving(source) as dashboard:
        visit = Visit(context, dashboard)
        answer = json.dumps({"hours": hours, "periods": dict.fromkeys(("today", "week", "month"), period)})
        visit.page.route("**/api/money", lambda route: route.fulfill(body=answer, content_type="application/json"))
        holder = visit.open("money").locator("#chart-money")
        chart = holder.locator("svg")
        expect(chart).to_be_visible()
        visit.page.set_viewport_size({"width": 390, "height": 844})
        width = holder.evaluate("each => each.clientWidth")  # not of its picture, which is drawn again meanwhile
        expect(chart).to_have_attribute("viewBox", f"0 0 {width} 180")


def test_a_pool_is_scaled_paused_and_resumed_from_the_page(cluster, source, visit):
    page = visit.open("steer")
    form = page.locator(".card", has_text="Scale a pool")
    form.get_by_label("Nodes").fill("5")
    form.get_by_label("Reason").fill("sale at noon")
    form.get_by_role("button", name="Scale").click()
    expect(page.locator(".toast").first).to_contain_text("default is kept at 5 nodes")
    page.locator(".card", has_text="Pause scaling").get_by_role("button", name="Pause").click()
    expect(page.locator(".toast").last).to_contain_text("Paused all pools")
    assert {type(each) for each in cluster.world.table.state().commands} == {Pause, Scale}
    expect(form.locator("select[name=minutes]")).to_have_value("120")  # as it was before the form was sent
    source.refresh()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".toast").last).to_contain_text("Resumed all pools")
    source.refresh()
    expect(page.locator(".card", has_text="Who did what")).to_contain_text("ann@laptop")


def test_the_scale_down_alone_is_paused_and_always_has_an_end(cluster, visit):
    page = visit.open("steer")
    form = page.locator(".card", has_text="Pause scaling")
    form.get_by_label("What").select_option("scale-down only")
    assert form.get_by_label("For").evaluate("each => each.options[0].disabled")
    form.get_by_role("button", name="Pause").click()
    expect(page.locator(".toast").last).to_contain_text("Paused the scale-down of all pools until")
    (order,) = cluster.world.table.state().commands
    assert isinstance(order, Pause)
    assert order.scale_down_only
    assert order.until is not None
    expect(form.get_by_label("For")).to_have_value("")  # as it was before


def test_a_node_is_recycled_from_its_tile(cluster, visit):
    page = visit.page
    page.locator(".tile").last.click()
    page.get_by_label("Reason").fill("kernel update")
    page.get_by_role("button", name="Recycle").click()
    expect(page.locator(".toast").first).to_contain_text("is replaced")
    (order,) = cluster.world.table.state().commands
    assert isinstance(order, Recycle)


def test_a_node_that_no_pool_owns_is_drained_from_its_tile(cluster, source, visit):
    unowned = cluster.world.operator.launch(zone=cluster.world.zones[0], pool="gone", market=Market.ON_DEMAND)
    cluster.calm(1)
    source.refresh()
    page = visit.page
    page.locator(f".tile[data-id='{unowned.id}']").click()
    expect(page.get_by_role("button", name="Recycle")).to_have_count(0)
    page.get_by_role("button", name="Drain and remove").click()
    page.get_by_role("button", name="Drain and remove: sure?").click()
    expect(page.locator(".toast").first).to_contain_text("is drained and removed")
    (order,) = cluster.world.table.state().commands
    assert (order.instance, order.pool) == (unowned.id, "")


def test_a_pools_node_is_drained_after_a_second_click_and_the_command_is_withdrawn(cluster, source, visit):
    page = visit.page
    tile = page.locator(".tile").last
    worker = tile.get_attribute("data-id")
    tile.click()
    page.get_by_role("button", name="Drain and remove").click()
    assert cluster.world.table.state().commands == ()
    page.get_by_role("button", name="Drain and remove: sure?").click()
    expect(page.locator(".toast").first).to_contain_text("a new worker comes first")
    (order,) = cluster.world.table.state().commands
    assert isinstance(order, Drain)
    assert (order.instance, order.pool) == (worker, "default")
    source.refresh()
    visit.open("steer").get_by_role("button", name="Withdraw").click()
    expect(page.locator(".toast").last).to_contain_text("is withdrawn")
    assert cluster.world.table.state().commands == ()


def test_one_node_is_recycled_or_drained_by_its_name(cluster, visit):
    worker = cluster.world.workers()[-1]
    name = cluster.world.node_of(worker).name
    page = visit.open("steer")
    form = page.locator("form", has=page.get_by_label("Node", exact=True))
    assert name in form.page.locator("#node-names option").evaluate_all("all => all.map((each) => each.value)")
    for what, kind, said in (("Recycle", Recycle, "is replaced"), ("Drain and remove", Drain, "is drained")):
        form.get_by_label("Node", exact=True).fill(name)
        form.get_by_label("What").select_option(label=what)
        form.get_by_role("button", name=what, exact=True).click()
        if kind is Drain:
            assert Drain not in [type(each) for each in cluster.world.table.state().commands]
            form.get_by_role("button", name=f"Drain and remove {name}: sure?").click()
        expect(page.locator(".toast").last).to_contain_text(f"{worker.id} {said}")
        assert kind in [type(each) for each in cluster.world.table.state().commands]
    form.get_by_label("Node", exact=True).fill("no-such-node")
    form.get_by_role("button", name="Recycle", exact=True).click()
    expect(page.locator(".toast").last).to_contain_text("no-such-node is no worker of this cluster")
    assert len(visit.complaints) == 1  # the answer's status, 400
    visit.complaints.clear()


def test_a_policy_is_checked_asked_about_saved_and_rolled_back(cluster, visit):
    page = visit.open("steer")
    area = page.locator("#policy")
    expect(area).to_have_value(re.compile("max: 6"))
    area.fill("limits: {min: 2, mx: 6}\n")
    expect(page.locator(".issues.wrong")).to_contain_text("mx")
    expect(page.get_by_role("button", name="Save as a new version")).to_be_disabled()
    area.fill("limits: {min: 2, max: 4}\n")
    expect(page.locator(".card", has_text="The policy in force")).to_contain_text("limits.max")
    page.get_by_role("button", name="What if").click()
    expect(page.get_by_text("archived decision")).to_be_visible()
    expect(page.locator(".card", has_text="The policy in force")).to_contain_text("limits.max")  # it is still there
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.locator(".toast").first).to_contain_text("Policy version 2 is in force")
    page.get_by_text("Versions", exact=True).click()
    page.get_by_role("button", name="Roll back to it").first.click()
    page.get_by_role("button", name=re.compile("^Roll back to version .*: sure")).click()
    expect(page.locator(".toast").last).to_contain_text("Policy version 3 is in force")
    assert [version.number for version in cluster.world.table.policies] == [1, 2, 3]


def test_the_demo_goes_on_and_its_speed_is_chosen_on_the_page(context, tmp_path):
    with serving(DemoSource(scenario(tmp_path), speed=60)) as dashboard:
        visit = Visit(context, dashboard)
        page = visit.page
        expect(page.locator(".tile").first).to_be_visible()
        page.locator("#demo").get_by_label("300×").check()
        expect(page.locator("#demo").get_by_label("300×")).to_be_checked()
        before = page.locator("#clock").inner_text()
        expect(page.locator("#clock")).not_to_have_text(before)
        assert visit.complaints == []
        page.close()


def test_a_what_if_that_answers_before_the_check_of_its_text_stays(visit):
    page = visit.open("steer")
    area = page.locator("#policy")
    expect(area).to_have_value(re.compile("max: 6"))

    def answer_late(route: Route) -> None:
        time.sleep(1)
        route.continue_()

    page.route("**/api/policy/check", answer_late)
    area.fill("limits: {min: 2, max: 4}\n")
    page.get_by_role("button", name="What if").click()
    card = page.locator(".card", has_text="The policy in force")
    expect(card).to_contain_text("limits.max")  # checked
    expect(card).to_contain_text("archived decision")
    area.press_sequentially("#")
    expect(card).not_to_contain_text("archived decision")  # it was asked about another text


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_table_that_does_not_answer_is_said_and_what_was_known_stays(source, visit):
    page = visit.page
    expect(page.locator(".tile").first).to_be_visible()
    source.fail("DynamoDB: timed out")
    expect(page.locator("#banner")).to_contain_text("DynamoDB: timed out")
    expect(page.locator(".tile").first).to_be_visible()
    source.refresh()
    expect(page.locator("#banner")).not_to_be_visible()


def test_a_server_that_is_gone_is_said(context, source):
    with serving(source) as dashboard:
        visit = Visit(context, dashboard)
        expect(visit.page.locator(".tile").first).to_be_visible()
    expect(visit.page.locator("#banner")).to_contain_text("Is `nodefleet dashboard` still running?")
    visit.page.close()


@pytest.mark.parametrize(
    ("part", "said"), [("cluster", "Kubernetes cannot be read from here."), ("cloud", "EC2 cannot be read from here.")]
)
def test_what_cannot_be_read_is_not_shown_as_none(context, part, said):
    cluster = shop()
    cluster.calm(3)
    source = WorldSource(cluster.world)
    source.refresh()
    cluster.world.away(part)
    cluster.world.advance(30)
    source.refresh()
    with serving(source) as dashboard:
        visit = Visit(context, dashboard)
        page = visit.page
        expect(page.locator(".verdict")).to_contain_text(said)
        expect(page.locator(".figure", has_text="Nodes").locator("strong")).to_have_text("–")
        expect(page.locator("#view")).not_to_contain_text("every pod has a node" if part == "cluster" else "no worker")
        expect(page.locator(".tile[data-phase='booting']")).to_have_count(0)
        if part == "cloud":
            expect(page.locator("#view")).to_contain_text("the workers are not known")
        for name in PAGES:
            visit.open(name)
        assert visit.complaints == []
        page.close()


def test_a_page_that_is_opened_while_the_table_is_away_shows_what_was_read_last(context, cluster, source):
    source.fail("DynamoDB: timed out")
    with serving(source) as dashboard:
        visit = Visit(context, dashboard)
        page = visit.page
        expect(page.locator(".tile")).to_have_count(len(cluster.world.workers()))
        expect(page.locator(".verdict")).to_contain_text("The state table cannot be read from here.")
        expect(page.locator("#banner")).to_contain_text("What is shown is of")
        source.refresh()
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator(".verdict")).not_to_contain_text("cannot be read")
        assert visit.complaints == []
        page.close()


def test_an_empty_cluster_is_a_page_too(context):
    source = WorldSource(empty().world)
    source.refresh()
    with serving(source) as dashboard:
        visit = Visit(context, dashboard)
        expect(visit.page.get_by_text("No decision is recorded yet.")).to_be_visible()
        expect(visit.page.locator(".verdict")).to_contain_text("No run is recorded yet.")
        expect(visit.page.get_by_text("There is no worker yet.")).to_be_visible()
        for name in PAGES:
            visit.open(name)
        assert visit.complaints == []
        visit.page.close()


def test_hostile_names_are_only_text(context):
    cluster = shop()
    cluster.world.deploy(HOSTILE, replicas=2, cpu=60_000)
    cluster.calm(2)
    source = WorldSource(cluster.world)
    source.connection.store.order(
        Pause(by=HOSTILE, reason=HOSTILE), source.connection.history.events(cluster.world.start, cluster.world.now)[0]
    )
    source.refresh()
    with serving(source) as dashboard:
        visit = Visit(context, dashboard)
        page = visit.page
        expect(page.get_by_text(HOSTILE).first).to_be_visible()
        for name in PAGES:
            visit.open(name)
            page.wait_for_timeout(200)
            assert page.title() != "taken"
            assert page.locator("img[src='x']").count() == 0
        assert visit.complaints == []
        page.close()


def test_no_script_of_a_stranger_runs(context, source):
    """Were a name ever parsed as HTML, the content security policy would still refuse to run it."""
    with serving(source) as dashboard:
        visit = Visit(context, dashboard)
        page = visit.page
        page.evaluate("(html) => document.body.insertAdjacentHTML('beforeend', html)", HOSTILE)
        page.wait_for_timeout(300)
        assert page.title() != "taken"
        page.close()


# ── many nodes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def large() -> WorldSource:
    world = World(
        seed=1, policy={"limits": {"min": 2, "max": LARGE + 100}}, zones=("us-east-1a", "us-east-1b", "us-east-1c")
    )
    world.add_workers(LARGE, market=Market.SPOT)
    world.deploy("shop", replicas=2 * LARGE, cpu=500)
    world.settle()
    found = WorldSource(world)
    found.refresh()
    return found


def test_a_thousand_nodes_are_painted_within_a_second_and_updated_within_a_tenth(context, large):
    with serving(large) as dashboard:
        visit = Visit(context, dashboard)
        page = visit.page
        expect(page.locator(".tile")).to_have_count(LARGE)
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        content = json.loads(large.updates(0, 0)[1])
        for number in range(5):
            content["snapshot"]["at"] += 10
            content["point"][0] += 10
            for node in content["snapshot"]["nodes"][number::7]:
                node["cpu"] = (node["cpu"] or 0) + 5
            large.publisher.publish(content)
            time.sleep(0.4)
        measured = page.evaluate("performance.getEntriesByName('update').map((each) => each.duration)")
        assert paint < 1000 * FIRST_PAINT, f"{paint:.0f} ms"
        assert median(measured[1:]) < SCRIPTING, f"{measured} ms"
        say(f"1,000 nodes: first paint {paint:.0f} ms, scripting of an update {median(measured[1:]):.0f} ms")
        assert visit.complaints == []
        page.close()


def test_the_table_of_a_thousand_nodes_shows_a_part_and_finds_any(context, large):
    with serving(large) as dashboard:
        page = Visit(context, dashboard).page
        page.get_by_text("All nodes as a table").click()
        expect(page.locator("tbody tr")).to_have_count(50)
        expect(page.get_by_role("button", name="Show more")).to_be_visible()
        name = large.connection.world.node_of(large.connection.world.workers()[-1]).name
        page.get_by_label("Find a node").fill(name)
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("button", name="Show more")).to_be_hidden()
        page.close()


# ── for everyone ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit, scheme):
    page = visit.page
    page.emulate_media(color_scheme=scheme)
    expect(page.locator(".tile").first).to_be_visible()
    for name in PAGES:
        visit.open(name)
        page.wait_for_timeout(300)
        found = Axe().run(page).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [(each["id"], [node["html"] for node in each["nodes"][:3]]) for each in serious] == []
    visit.open("now")
    page.locator(".tile").first.click()
    found = Axe().run(page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


def test_a_phone_needs_no_sideways_scrolling(chromium, source):
    with serving(source) as dashboard:
        context = chromium.new_context(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
        visit = Visit(context, dashboard)
        expect(visit.page.locator(".tile").first).to_be_visible()
        for name in PAGES:
            visit.open(name)
            visit.page.wait_for_timeout(200)
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390, name
        context.close()
