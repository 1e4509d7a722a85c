import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from nodefleet.adapters.concurrency import Threads
from nodefleet.adapters.prometheus import NEWEST, PrometheusClient, QueryResult, Series
from nodefleet.adapters.sources.aws import CloudWatchMetrics, SqsQueues
from nodefleet.adapters.sources.port import Moment, SourceCall
from nodefleet.adapters.sources.read import Sources
from nodefleet.model.snapshot import Missing, PoolReadings, Reading, Sample
from nodefleet.policy import sources
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool, Queries
from nodefleet.policy.sources import CloudWatch, Sqs
from support.builders import NOON, after
from support.prometheus_stand_in import Http, StandIn, one, prometheus, said, success, vector
from support.wording import assert_wording

SOON = timedelta(seconds=5)
QUERIES = Queries(cpu="cpu", memory="memory", nodes="nodes", idle="idle")
WEB = Pool(name="web", queries=QUERIES)
ANSWERS = {
    NEWEST: one(12.5),
    "cpu": one(71),
    "memory": one(40),
    "nodes": one(3),
    "idle": vector(({"node": "w1"}, "20"), ({"node": "w2"}, "90")),
}
SAMPLED = after(-12.5)


def read(
    answers: Mapping[str, Http],
    *pools: Pool,
    now: datetime = NOON,
    within: timedelta = SOON,
    server: list[StandIn] | None = None,
    newest: str = NEWEST,
    **sources: object,
) -> Mapping[str, PoolReadings]:
    with prometheus(answers) as stand_in:
        if server is not None:
            server.append(stand_in)
        gauges = Sources(prometheus=PrometheusClient(stand_in.address, newest=newest), **with_adapters(sources))
        return gauges.read(Policy(pools=pools or (WEB,)), now, within)


def with_adapters(sources: dict[str, object]) -> dict[str, object]:
    kinds = {"sqs": Sqs, "cloudwatch": CloudWatch}
    return {
        "adapters": {kind: sources[name] for name, kind in kinds.items() if name in sources},
        **{name: value for name, value in sources.items() if name not in kinds},
    }


def cause(sample: Sample) -> str:
    assert isinstance(sample, Missing), sample
    return sample.cause


class FakeQueues(SqsQueues):
    """SQS in place of SQS: what each queue has, and what was asked."""

    def __init__(self, **counts: float) -> None:
        self.counts = counts
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def read(self, queue_url: str, attributes: Sequence[str], now: datetime) -> Mapping[str, Sample]:
        self.asked.append((queue_url, tuple(attributes)))
        return {name: Reading(self.counts[name], now) for name in attributes}


class FakeMetrics(CloudWatchMetrics):
    def __init__(self) -> None:
        self.asked: list[Sequence[CloudWatch]] = []

    def read(self, sources: Sequence[CloudWatch], now: datetime, back: timedelta) -> list[Sample]:
        self.asked.append(sources)
        return [Reading(float(len(source.metric)), now - back) for source in sources]


class FakePrometheus:
    """Answers at once, without a network, but hangs on some queries until the test is over."""

    newest = ""

    def __init__(self, *hangs: str) -> None:
        self.hangs = hangs
        self.over = threading.Event()

    def ask(self, query: str, _: timedelta) -> QueryResult | Missing:
        if query in self.hangs:
            self.over.wait(5)
        return QueryResult(evaluated=NOON, series=(Series(labels={"node": "w1"}, value=3.0),))

    def read(self, pool: Pool, within: timedelta, **sources: object) -> PoolReadings:
        gauges = Sources(prometheus=self, **with_adapters(sources))
        try:
            return gauges.read(Policy(pools=(pool,)), NOON, within)[pool.name]
        finally:
            self.over.set()


# ── Prometheus ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pool_gets_its_readings_dated_by_the_newest_scrape():
    assert read(ANSWERS) == {
        "web": PoolReadings(
            cpu=Reading(71, SAMPLED),
            memory=Reading(40, SAMPLED),
            nodes=Reading(3, SAMPLED),
            idle={"w1": 20, "w2": 90},
        )
    }


@pytest.mark.parametrize("nothing", [vector(), one(float("nan"))], ids=["no series", "0/0"])
def test_a_query_that_finds_nothing_says_when_it_found_nothing(nothing):
    assert read(ANSWERS | {"cpu": nothing})["web"].cpu.empty_at == SAMPLED


@pytest.mark.parametrize(
    "answers",
    [
        {"cpu": said({"status": "error", "error": "parse error"}, 400)},
        {"cpu": one(float("inf"))},
        {"cpu": vector(({"a": "1"}, "1"), ({"a": "2"}, "2"))},
        {"cpu": vector(), NEWEST: vector()},
        {"cpu": vector(), NEWEST: said({"status": "error", "error": "starting"}, 503)},
    ],
    ids=["refused", "infinite", "two series", "nothing is scraped", "nobody knows what is scraped"],
)
def test_what_cannot_be_known_is_not_nothing(answers):
    got = read(ANSWERS | answers)["web"].cpu
    assert isinstance(got, Missing)
    assert got.empty_at is None


def test_the_pools_name_stands_in_its_queries_and_readings():
    pool = replace(
        Pool(name="batch"),
        queries=Queries(cpu='a{p="$pool"}', memory="b", nodes="c", idle="d"),
        readings={"jobs": sources.Prometheus(query='jobs{p="$pool"}')},
    )
    got = read({NEWEST: one(0), 'a{p="batch"}': one(1), 'jobs{p="batch"}': one(8)}, pool)["batch"]
    assert got.cpu == Reading(1, NOON)
    assert got.custom == {"jobs": Reading(8, NOON)}


def test_what_two_pools_ask_alike_is_asked_once():
    jobs = {"jobs": sources.Prometheus(query="jobs")}
    servers: list[StandIn] = []
    pools = [replace(WEB, name=name, readings=jobs) for name in ("a", "b", "c")]
    got = read({**ANSWERS, "jobs": one(5)}, *pools, server=servers)
    assert {pool: readings.custom["jobs"] for pool, readings in got.items()} == dict.fromkeys(
        "abc", Reading(5, SAMPLED)
    )
    assert servers[0].queries() == sorted([NEWEST, "cpu", "memory", "nodes", "idle", "jobs"])


def test_each_pool_asks_for_itself():
    servers: list[StandIn] = []
    read(ANSWERS, Pool(name="a"), Pool(name="b"), server=servers)
    assert len(servers[0].queries()) == 1 + 2 * 4


def test_one_reading_that_is_missing_leaves_the_others():
    got = read({**ANSWERS, "memory": vector()})["web"]
    assert got.cpu == Reading(71, SAMPLED)
    assert_wording(cause(got.memory))


def test_a_pool_whose_name_cannot_stand_in_a_query_is_missing():
    got = read(ANSWERS, Pool(name='x"'))['x"']
    assert_wording(cause(got.cpu))
    assert got.idle == {}


# ── how old it is ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_whose_clock_is_ahead_gives_no_reading_from_the_future():
    ahead = after(120)
    answers = {NEWEST: one(12.5, ahead), "cpu": one(71, ahead)}
    assert read(answers)["web"].cpu == Reading(71, SAMPLED)


def test_a_server_whose_clock_is_behind_does_not_look_stale():
    behind = after(-120)
    answers = {NEWEST: one(12.5, behind), "cpu": one(71, behind)}
    assert read(answers)["web"].cpu == Reading(71, SAMPLED)


@pytest.mark.parametrize("seconds", [301, -301])
def test_clocks_that_are_too_far_apart_date_nothing(seconds):
    got = read({**ANSWERS, "cpu": one(71, after(seconds))})["web"]
    assert_wording(cause(got.cpu))
    assert got.memory == Reading(40, SAMPLED)


def test_a_zero_out_of_nothing_is_missing_when_nothing_is_scraped():
    queue = replace(WEB, readings={"queue": sources.Prometheus(query="sum(queue) or vector(0)")})
    got = read({"sum(queue) or vector(0)": one(0), NEWEST: vector()}, queue)["web"]
    assert_wording(cause(got.custom["queue"]))


def test_a_reading_whose_age_cannot_be_had_is_missing():
    got = read({**ANSWERS, NEWEST: said({"status": "error", "error": "busy"}, 503)})["web"]
    assert_wording(cause(got.cpu))


def test_a_missing_reading_tells_its_own_cause_first():
    got = read({NEWEST: vector(), "cpu": vector()})["web"]
    assert_wording(cause(got.cpu))


def test_a_server_without_scrapes_can_be_read_as_of_now():
    servers: list[StandIn] = []
    got = read({"cpu": one(71)}, newest="", server=servers)["web"]
    assert got.cpu == Reading(71, NOON)
    assert NEWEST not in servers[0].queries()


def test_a_negative_age_is_none():
    assert read({NEWEST: one(-3), "cpu": one(71)})["web"].cpu == Reading(71, NOON)


# ── idle ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_idle_that_cannot_be_read_is_told_once_until_it_is_well_and_holds_nothing_up():
    told: list[str] = []
    with prometheus({**ANSWERS, "idle": one(5)}) as server:
        gauges = Sources(prometheus=PrometheusClient(server.address), warn=told.append)
        for _ in range(3):
            got = gauges.read(Policy(pools=(WEB,)), NOON, SOON)["web"]
            assert (got.idle, got.cpu) == ({}, Reading(71, SAMPLED))
        server.answer = ANSWERS.get
        assert gauges.read(Policy(pools=(WEB,)), NOON, SOON)["web"].idle == {"w1": 20, "w2": 90}
        assert len(told) == 1
        server.answer = lambda _: one(5)
        gauges.read(Policy(pools=(WEB,)), NOON, SOON)
    warning, again = told
    assert again == warning  # it was well in between, so it is news
    assert_wording(warning)


# ── the deadline ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_not_there_at_the_deadline_is_missing_and_the_rest_is_not():
    began = time.monotonic()
    got = FakePrometheus("cpu", "memory").read(WEB, timedelta(seconds=0.3))
    assert time.monotonic() - began < 3
    assert cause(got.cpu) == cause(got.memory)
    assert_wording(cause(got.cpu))
    assert got.nodes == Reading(3, NOON)


def test_a_server_that_is_late_is_missing():
    got = read({**ANSWERS, "cpu": Http(late=True)}, within=timedelta(seconds=0.3))["web"]
    assert_wording(cause(got.cpu))


def test_a_source_that_hangs_and_knows_no_timeout_does_not_hold_the_look():
    server = FakePrometheus()

    class Hanging(SqsQueues):
        def read(self, *_: object) -> Mapping[str, Sample]:
            server.over.wait(5)
            return {}

    pool = replace(WEB, readings={"orders": Sqs(queue_url="https://q/orders")})
    got = server.read(pool, timedelta(seconds=0.3), sqs=Hanging(pytest.fail))
    assert_wording(cause(got.custom["orders"]))
    assert got.cpu == Reading(3, NOON)


def test_queries_that_never_got_their_turn_are_missing_and_not_sent():
    servers: list[StandIn] = []
    late = dict.fromkeys((NEWEST, "cpu", "memory", "nodes", "idle"), Http(late=True))
    got = read(late, within=timedelta(seconds=0.2), threads=Threads(most=2), server=servers)["web"]
    causes = [cause(each) for each in (got.cpu, got.memory, got.nodes)]
    assert_wording(sorted({each.rpartition(" within ")[0] for each in causes}))
    assert len(servers[0].asked) <= 2


def test_a_fault_in_a_source_is_missing_not_an_exception():
    class Faulty(CloudWatchMetrics):
        def read(self, *_: object) -> list[Sample]:
            raise KeyError("surprise")

    pool = replace(WEB, readings={"p95": CloudWatch(namespace="n", metric="m")})
    got = read(ANSWERS, pool, cloudwatch=Faulty(pytest.fail))["web"]
    assert_wording(cause(got.custom["p95"]))


# ── AWS ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_queue_is_asked_once_for_all_its_attributes():
    queues = FakeQueues(waiting=7, running=2)
    readings = {
        "waiting": Sqs(queue_url="https://q/orders", attribute="waiting"),
        "running": Sqs(queue_url="https://q/orders", attribute="running"),
    }
    pools = [replace(WEB, name=name, readings=readings) for name in ("a", "b")]
    got = read(ANSWERS, *pools, sqs=queues)
    assert got["a"].custom == got["b"].custom == {"waiting": Reading(7, NOON), "running": Reading(2, NOON)}
    assert queues.asked == [("https://q/orders", ("waiting", "running"))]


def test_all_metrics_are_asked_in_one_call_and_equal_ones_once():
    metrics = FakeMetrics()
    p95 = CloudWatch(namespace="n", metric="p95", dimensions={"lb": "x"})
    rate = CloudWatch(namespace="n", metric="rate")
    pools = [replace(WEB, name=name, readings={"p95": p95, "rate": rate}) for name in ("a", "b")]
    got = read(ANSWERS, *pools, cloudwatch=metrics)
    assert got["b"].custom == {"p95": Reading(3, after(-300)), "rate": Reading(4, after(-300))}
    assert metrics.asked == [[p95, rate]]


def test_sources_that_nobody_gave_are_missing_only_where_the_policy_reads_them():
    pool = replace(
        WEB,
        readings={"orders": Sqs(queue_url="https://q/orders"), "p95": CloudWatch(namespace="n", metric="m")},
    )
    got = Sources().read(Policy(pools=(pool,)), NOON, SOON)["web"]
    assert_wording(cause(got.cpu))
    assert_wording(sorted({cause(each) for each in got.custom.values()}))


ADAPTIVE = replace(WEB, strategy="adaptive", queries=replace(QUERIES, load="load"))


def series(*values, begin=NOON, step=60):
    points = [[(begin + timedelta(seconds=step * index)).timestamp(), value] for index, value in enumerate(values)]
    return success([{"metric": {}, "values": points}], "matrix")


def test_the_adaptive_strategy_gets_the_load_minute_by_minute_in_one_query():
    server: list[StandIn] = []
    got = read({**ANSWERS, "load": series("1.5", "2", "NaN", "3")}, ADAPTIVE, server=server)["web"]
    assert [(each.at, each.value) for each in got.load] == [(NOON, 1.5), (after(60), 2.0), (after(180), 3.0)]
    assert [each.path for each in server[0].asked if each.query == "load"] == ["/api/v1/query_range"]


def test_only_the_newest_known_minute_and_those_after_it_are_asked_for():
    asked = []

    class Recording(PrometheusClient):
        def ask_range(self, query, begin, end, within):  # noqa: ARG002
            asked.append((begin, end))
            return ()

    with prometheus(ANSWERS) as stand_in:
        gauges = Sources(prometheus=Recording(stand_in.address))
        policy = Policy(pools=(ADAPTIVE,))
        for known in (None, {"web": after(-240)}, {"web": after(-90 * 86400)}, {"web": NOON}):
            gauges.read(policy, after(20), SOON, known)
    history = timedelta(days=7, hours=8)
    assert [begin for begin, _ in asked] == [after(20) - history, after(-220), after(20) - history, after(20)]
    assert {end for _, end in asked} == {after(20)}  # the last value is as fresh as can be
    assert history / timedelta(minutes=1) < 11_000  # Prometheus refuses more points


@pytest.mark.parametrize("answer", [said({"status": "error", "error": "boom"}, 422), one(3), series("1"), vector()])
def test_a_history_that_cannot_be_had_is_none_and_the_readings_stay(answer):
    several = success([{"metric": {"n": str(n)}, "values": [[NOON.timestamp(), "1"]]} for n in range(2)], "matrix")
    for each in (answer, several):
        got = read({**ANSWERS, "load": each}, ADAPTIVE)["web"]
        assert got.cpu == Reading(71, SAMPLED)
        assert len(got.load) <= 1


def test_the_classic_strategy_asks_for_no_history():
    server: list[StandIn] = []
    assert read(ANSWERS, WEB, server=server)["web"].load == ()
    assert {each.path for each in server[0].asked} == {"/api/v1/query"}


class Deadlines:
    """A source that keeps how long it may take, and what it may do."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []

    def calls(self, entries: Sequence[Sqs], moment: Moment) -> list[SourceCall]:
        self.moments.append(moment)
        return [SourceCall("SQS", tuple(entries), lambda: [Reading(1.0, moment.now) for _ in entries])]


@pytest.mark.parametrize(("dry", "may_change"), [((False, False), True), ((False, True), False), ((True, True), False)])
def test_a_source_knows_until_when_it_is_read_and_whether_it_may_change_anything(monkeypatch, dry, may_change):
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    source = Sqs(queue_url="q", attribute="a")
    pools = [
        replace(WEB, name=f"p{number}", dry_run=each, readings={"jobs": source}) for number, each in enumerate(dry)
    ]
    policy = Policy(pools=tuple(pools))
    adapter = Deadlines()
    Sources(adapters={Sqs: adapter}).read(policy, NOON, SOON)
    (moment,) = adapter.moments
    assert moment == Moment(now=NOON, deadline=105.0, stale_after=policy.trust.stale_after, may_change=may_change)
