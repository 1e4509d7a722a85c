"""What makes a policy impossible. Each row is a policy that nearly holds, and what is said of it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.model.serialization import IssueCode
from nodefleet.policy.cluster import Burst, FleetLimits, Policy, Trust
from nodefleet.policy.constraints import check, out_of_limits
from nodefleet.policy.demand import (
    ClearTime,
    JobDemand,
    PerWorkerQueue,
    QueueAndLatency,
    Readings,
    Score,
    Sustain,
    Threshold,
)
from nodefleet.policy.fields import FieldInfo
from nodefleet.policy.pool import (
    Benefit,
    Consolidation,
    Cooldown,
    Health,
    Limits,
    MarketMix,
    Pool,
    Predictive,
    Reactive,
    RemovalRules,
    Rotation,
    Steps,
    Utilisation,
    Window,
)
from nodefleet.policy.sources import CloudWatch, Prometheus
from support.wording import assert_wording

HOUR = timedelta(hours=1)
UP = Prometheus(query="up")


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def of(**sections) -> Policy:
    return Policy(pools=(Pool(**sections),))


def said_of(policy: Policy) -> list[str]:
    return [str(problem) for problem in check(policy)]


def test_the_defaults_hold():
    assert said_of(Policy()) == []


# ── a single value ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (of(limits=Limits(min=-1)), "pools[0].limits.min: -1 is less than 0; write at least 0 (nodes)"),
        (
            of(steps=Steps(down=0)),
            (
                "pools[0].steps.down: 0 is less than 1; write at least 1 (nodes);"
                " to stop scaling for a while, use `nodefleet pause`"
            ),
        ),
        (
            of(market=MarketMix(max_price_usd=0)),
            (
                "pools[0].market.max_price_usd: 0 is not more than 0; write more than 0 (USD/h);"
                " for On-Demand only set spot_percent: 0"
            ),
        ),
        (
            of(reactive=Reactive(cpu=Utilisation(up=101))),
            "pools[0].reactive.cpu.up: 101 is more than 100; write at least 0 and at most 100 (%)",
        ),
        (of(cooldown=Cooldown(up=seconds(-1))), "pools[0].cooldown.up: -1 is less than 0; write at least 0 (s)"),
        (
            Policy(trust=Trust(spacing=1.5)),
            "trust.spacing: 1.5 is more than 1; write more than 0 and at most 1 (× interval)",
        ),
        (Policy(interval=seconds(0)), "interval: 0 is not more than 0; write more than 0 (s)"),
        (
            Policy(time_zone=" "),
            "time_zone: ' ' is empty; write it: for the hour-of-day profile and for windows that name none",
        ),
        (
            of(sustain=Sustain(up=Readings(count=0))),
            "pools[0].sustain.up.count: 0 is less than 1; write at least 1 (readings)",
        ),
    ],
)
def test_a_value_beyond_its_limits_is_named_with_the_limits(policy, problem):
    assert said_of(policy) == [problem]


@pytest.mark.parametrize(
    "policy",
    [
        of(limits=Limits(min=0, max=1)),
        of(limits=Limits(min=10)),
        of(market=MarketMix(max_price_usd=0.001)),
        of(reactive=Reactive(cpu=Utilisation(up=100, down=0))),
        of(cooldown=Cooldown(up=seconds(0), down=seconds(0))),
        Policy(trust=Trust(spacing=1)),
        of(labels={"gpu": ""}),
    ],
)
def test_the_limits_themselves_are_fine(policy):
    assert said_of(policy) == []


def test_all_values_are_looked_at_and_none_hides_another():
    policy = Policy(lease=seconds(0), pools=(Pool(limits=Limits(max=0), steps=Steps(up=0)),))
    assert [problem.path for problem in check(policy)] == ["lease", "pools[0].limits.max", "pools[0].steps.up"]


def test_a_value_that_has_no_limits_or_is_not_there_is_fine():
    assert out_of_limits(None, FieldInfo(unit="", why="", at_least=1)) is None
    assert out_of_limits((), FieldInfo(unit="", why="", at_least=1)) is None
    assert out_of_limits("x", FieldInfo(unit="", why="", at_least=1)) is None
    assert out_of_limits(-5, FieldInfo(unit="", why="")) is None


def test_a_limit_without_a_unit_is_told_without_one():
    code, *words = out_of_limits(0, FieldInfo(unit="", why="", at_least=1))
    assert code is IssueCode.OUT_OF_RANGE
    assert_wording(words)


# ── values that do not go together ───────────────────────────────────────────────────────────────────────────────


def window(**fields) -> Pool:
    defaults = {"name": "w", "cron": "0 8 * * *", "lasting": HOUR, "min": 3}
    return Pool(windows=(Window(**{**defaults, **fields}),))


def rule(*rules, **readings) -> Pool:
    return Pool(custom=rules, readings=readings)


def watch(period: float) -> Pool:
    return Pool(readings={"r": CloudWatch(namespace="n", metric="m", period=seconds(period))})


WINDOW_MIN = "limits always hold: a window's min lies between them"
WINDOW_MAX = "limits always hold: a window's max lies between them"
PERIODS = "write a multiple of 60 s, or 1, 5, 10, 20 or 30 s for high-resolution metrics"

POOLS_THAT_CLASH = [
    (
        Pool(limits=Limits(min=11)),
        "limits.min: 11 is more than pools[0].limits.max (10); min must not be more than max",
    ),
    (
        Pool(reactive=Reactive(cpu=Utilisation(up=30, down=30))),
        "reactive.cpu.down: 30 is not less than pools[0].reactive.cpu.up (30); down must be below up",
    ),
    (
        Pool(reactive=Reactive(memory=Utilisation(up=40, down=50))),
        "reactive.memory.down: 50 is not less than pools[0].reactive.memory.up (40); down must be below up",
    ),
    (
        Pool(steps=Steps(up=3)),
        "steps.up: 3 is more than pools[0].steps.urgent (2); urgent growth must not be slower than normal growth",
    ),
    (
        Pool(predictive=Predictive(min_days=8)),
        (
            "predictive.min_days: 8 is more than pools[0].predictive.history_days (7);"
            " no more days can be asked for than are kept"
        ),
    ),
    (
        Pool(market=MarketMix(on_demand_base=11)),
        "market.on_demand_base: 11 is more than pools[0].limits.max (10); the base must fit into max",
    ),
    (
        Pool(health=Health(probe_first=seconds(601))),
        (
            "health.probe_first: 601 is more than pools[0].health.probe_longest (600);"
            " the pause grows from first to longest"
        ),
    ),
    (
        Pool(removal=RemovalRules(retry_first=seconds(7201))),
        (
            "removal.retry_first: 7201 is more than pools[0].removal.retry_longest (7200);"
            " the pause grows from first to longest"
        ),
    ),
    (
        Pool(benefit=Benefit(retry_first=seconds(14401))),
        (
            "benefit.retry_first: 14401 is more than pools[0].benefit.retry_longest (14400);"
            " the pause grows from first to longest"
        ),
    ),
    (
        Pool(removal=RemovalRules(force_after=seconds(120))),
        (
            "removal.force_after: 120 is not less than pools[0].removal.notice (120);"
            " pods must be forced out before EC2 takes the node"
        ),
    ),
    (
        Pool(rotation=Rotation(retry_longest=seconds(599))),
        (
            "removal.retry_first: 600 is more than pools[0].rotation.retry_longest (599);"
            " the pause grows from retry_first to this"
        ),
    ),
    (
        Pool(consolidation=Consolidation(window="night")),
        "consolidation.window: 'night' is not among the pool's windows; declare it under windows, by this name",
    ),
    (
        Pool(rotation=Rotation(window="night")),
        "rotation.window: 'night' is not among the pool's windows; declare it under windows, by this name",
    ),
    (
        Pool(rotation=Rotation(max_age=seconds(1499))),
        (
            "rotation.max_age: 1499 makes workers due after 1199.2 s, and replacing one may take 1200 s;"
            " write days: workers would be replaced all the time"
        ),
    ),
    (
        Pool(market=MarketMix(types=())),
        "market.types: [] names no instance type; name one at least; several, so that one may be out of capacity",
    ),
    (
        Pool(labels={"node-role.kubernetes.io/worker": "true"}),
        (
            "labels.node-role.kubernetes.io/worker: 'true' is a label that a node may not give itself:"
            " the K3s agent would not start; use a label of your own, such as example.com/role"
        ),
    ),
    # sustain
    (
        Pool(sustain=Sustain(down=Score(half_life=seconds(30), window=seconds(3600)))),
        (
            "sustain.down.threshold: 2.0 is never reached: readings 120 s apart score 1.07 at most;"
            " write less than 1.07, or a longer half_life or window"
        ),
    ),
    (
        Pool(sustain=Sustain(up=Score(threshold=1, window=seconds(119)))),
        "sustain.up.window: 119 is less than interval (120); the window must hold two readings at least",
    ),
    (
        rule(Threshold(name="t", reading="q", sustain=Sustain(up=Score(threshold=9))), q=UP),
        (
            "custom[0].sustain.up.threshold: 9 is never reached: readings 120 s apart score 2.99 at most;"
            " write less than 2.99, or a longer half_life or window"
        ),
    ),
    # windows
    (
        window(min=None),
        "windows[0]: 'w' changes nothing; write min, max or both",
    ),
    (
        window(lasting=seconds(119)),
        (
            "windows[0].lasting: 119 is less than interval (120);"
            " a window between two observations is never seen; make it longer than the interval"
        ),
    ),
    (
        window(min=5, max=4),
        "windows[0].min: 5 is more than pools[0].windows[0].max (4); min must not be more than max",
    ),
    (window(min=1), f"windows[0].min: 1 is less than pools[0].limits.min (2); {WINDOW_MIN}"),
    (window(min=11), f"windows[0].min: 11 is more than pools[0].limits.max (10); {WINDOW_MIN}"),
    (window(min=None, max=1), f"windows[0].max: 1 is less than pools[0].limits.min (2); {WINDOW_MAX}"),
    (window(min=None, max=11), f"windows[0].max: 11 is more than pools[0].limits.max (10); {WINDOW_MAX}"),
    # readings and rules
    (watch(90), f"readings.r.period: 90 is not a period that CloudWatch has; {PERIODS}"),
    (watch(2), f"readings.r.period: 2 is not a period that CloudWatch has; {PERIODS}"),
    (
        watch(300),
        (
            "readings.r.period: 300 puts readings further apart than 240 s (trust.gap × interval): none ever lasts;"
            " write 240 s or less, or a longer interval"
        ),
    ),
    (
        rule(Threshold(name="t", reading="queue")),
        "custom[0].reading: 'queue' is not among the pool's readings; declare it under readings, by this name",
    ),
    (
        rule(PerWorkerQueue(name="t", queue="queu"), queue=UP, other=UP),
        "custom[0].queue: 'queu' is not among the pool's readings; did you mean queue?",
    ),
    (
        rule(QueueAndLatency(name="t", queue="q", p95_ms="q", busy="xyz"), q=UP),
        "custom[0].busy: 'xyz' is not among the pool's readings; known are q",
    ),
    (
        rule(ClearTime(name="t", queue="q", running="q", job_seconds="q", peak="top"), q=UP),
        "custom[0].peak: 'top' is not among the pool's readings; known are q",
    ),
    (
        rule(JobDemand(name="t", jobs="q", shrink_below=1.5), q=UP),
        (
            "custom[0].shrink_below: 1.5 is not less than pools[0].custom[0].grow_above (1.5);"
            " there must be a dead zone between shrinking and growing"
        ),
    ),
    (
        rule(
            Threshold(name="a", reading="q"), Threshold(name="b", reading="q"), Threshold(name="a", reading="q"), q=UP
        ),
        "custom[2].name: 'a' is the same as pools[0].custom[0].name ('a'); each needs a name of its own",
    ),
]


@pytest.mark.parametrize(("pool", "problem"), POOLS_THAT_CLASH)
def test_what_does_not_go_together_in_a_pool(pool, problem):
    assert said_of(Policy(pools=(pool,))) == [f"pools[0].{problem}"]


@pytest.mark.parametrize(
    "pool",
    [
        Pool(limits=Limits(min=10)),
        Pool(reactive=Reactive(cpu=Utilisation(up=31, down=30), memory=Utilisation(up=51, down=50))),
        Pool(steps=Steps(up=2)),
        Pool(predictive=Predictive(min_days=7)),
        Pool(market=MarketMix(on_demand_base=10, types=("t3.small",))),
        Pool(health=Health(probe_first=seconds(600)), removal=RemovalRules(retry_first=seconds(7200))),
        Pool(removal=RemovalRules(force_after=seconds(119))),
        Pool(labels={"example.com/node-role.kubernetes.io/": "x"}),
        Pool(sustain=Sustain(up=Score(threshold=1.5, half_life=seconds(120), window=seconds(120)))),
        Pool(rotation=Rotation(max_age=seconds(1500))),
        Pool(
            windows=(Window(name="night", cron="0 2 * * *", lasting=HOUR),),
            consolidation=Consolidation(window="night"),
        ),
        Pool(
            windows=(Window(name="night", cron="0 2 * * *", lasting=HOUR),),
            rotation=Rotation(max_age=24 * HOUR, window="night"),
        ),
        window(lasting=seconds(120)),
        window(min=2, max=10),
        window(min=4, max=4),
        watch(60),
        watch(240),
        *map(watch, (1, 5, 10, 20, 30)),
        rule(JobDemand(name="t", jobs="q", shrink_below=1.49), q=UP),
        rule(Threshold(name="a", reading="q"), Threshold(name="b", reading="q"), q=UP),
        rule(Threshold(name="a", reading="q", sustain=Sustain()), q=UP),
    ],
)
def test_what_just_goes_together(pool):
    assert said_of(Policy(pools=(pool,))) == []


def test_equal_windows_of_one_pool_are_told_apart_by_name():
    one = Window(name="w", cron="0 8 * * *", lasting=HOUR, min=3)
    twice = "pools[0].windows[1].name: 'w' is the same as pools[0].windows[0].name ('w'); each needs a name of its own"
    assert said_of(of(windows=(one, one))) == [twice]
    assert said_of(of(windows=(one, replace(one, name="v")))) == []


@pytest.mark.parametrize("name", ["Web", "a b", "-a", "a-", "a_b", "ä", "a" * 64])
def test_a_pool_name_must_be_fit_for_a_node_label(name):
    [problem] = check(of(name=name))
    assert (problem.path, problem.value) == ("pools[0].name", name)
    assert_wording(problem.wrong)
    assert_wording(problem.right)


@pytest.mark.parametrize("name", ["a", "web-1", "1", "a" * 63])
def test_common_pool_names_are_fine(name):
    assert said_of(of(name=name)) == []


def test_two_pools_need_two_names():
    policy = Policy(pools=(Pool(name="a"), Pool(name="b"), Pool(name="a")))
    assert_wording(said_of(policy))


def test_a_policy_needs_a_pool():
    assert_wording(said_of(Policy(pools=())))


def test_fleet_max_must_leave_every_pool_its_min():
    pools = (Pool(name="a", limits=Limits(min=2)), Pool(name="b", limits=Limits(min=3)))
    assert said_of(Policy(fleet=FleetLimits(max=5), pools=pools)) == []
    assert_wording(said_of(Policy(fleet=FleetLimits(max=4), pools=pools)))


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (
            Policy(burst=Burst(budget=seconds(121))),
            "burst.budget: 121 is more than interval (120); a run must end before the next one starts",
        ),
        (
            Policy(lease=seconds(110)),
            "burst.budget: 110 is not less than lease (110); a run must end while it still holds the cluster",
        ),
        (
            Policy(burst=Burst(every=seconds(110))),
            "burst.every: 110 is not less than burst.budget (110); otherwise no run ever looks twice",
        ),
    ],
)
def test_what_does_not_go_together_in_the_cluster(policy, problem):
    assert said_of(policy) == [problem]


@pytest.mark.parametrize(
    "policy",
    [
        Policy(burst=Burst(budget=seconds(120))),
        Policy(lease=seconds(111)),
        Policy(burst=Burst(every=seconds(109))),
    ],
)
def test_what_just_goes_together_in_the_cluster(policy):
    assert said_of(policy) == []


def test_every_pool_is_looked_at():
    policy = Policy(pools=(Pool(name="a"), Pool(name="b", limits=Limits(min=11))))
    assert [problem.path for problem in check(policy)] == ["pools[1].limits.min"]


# ── codes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("policy", "path", "code"),
    [
        (of(limits=Limits(min=-1)), "pools[0].limits.min", IssueCode.OUT_OF_RANGE),
        (Policy(time_zone=" "), "time_zone", IssueCode.EMPTY),
        (of(limits=Limits(min=9, max=4)), "pools[0].limits.min", IssueCode.OUT_OF_ORDER),
        (Policy(pools=()), "pools", IssueCode.EMPTY),
        (Policy(pools=(Pool(name="a"), Pool(name="a"))), "pools[1].name", IssueCode.DUPLICATE),
        (of(market=MarketMix(types=())), "pools[0].market.types", IssueCode.EMPTY),
        (of(custom=(Threshold(name="t", reading="q"),)), "pools[0].custom[0].reading", IssueCode.UNKNOWN_NAME),
        (
            of(sustain=Sustain(up=Score(half_life=seconds(30)))),
            "pools[0].sustain.up.threshold",
            IssueCode.WITHOUT_EFFECT,
        ),
        (Policy(fleet=FleetLimits(max=1)), "fleet.max", IssueCode.OUT_OF_ORDER),
    ],
)
def test_every_problem_has_a_code_that_no_wording_changes(policy, path, code):
    assert (path, code) in [(problem.path, problem.code) for problem in check(policy)]
