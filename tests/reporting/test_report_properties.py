"""What must hold for every week, whatever it recorded. Found by hypothesis, not by example."""

from datetime import timedelta
from math import isfinite

from hypothesis import given
from hypothesis import strategies as st

from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event
from nodefleet.model.inventory import InstanceType, Resources
from nodefleet.model.serialization import from_plain, to_plain
from nodefleet.model.state import PoolUsage, Usage
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Limits, MarketMix, Pool, Reactive, Utilisation
from nodefleet.reporting.review import Subject, Thresholds
from nodefleet.reporting.weekly import weekly_report
from nodefleet.reporting.weekly_text import headline, lines, plain, report_event
from support.week_builders import GIB, MONDAY, NINE, WEEK, used

TYPES = ("t3.small", "t3.medium", "m5.large", "c7g.large", "odd", "")
POOLS = ("web", "batch", "old")
ODD = st.sampled_from([0.0, -1.0, 1e-320, 1e-9, 1.0, 3600.0, 1e11, 1e30, float("inf"), float("nan")])
PERCENT = st.sampled_from([None, 0, 4, 4, 20, 29, 45, 66, 95, 100])
ASKED = st.sampled_from([0, 5, 30, 55, 90, 110])
EAGER = Thresholds(enough_hours=1)  # so that most weeks are judged


@st.composite
def plausible(draw):
    return used(
        draw(st.integers(0, 12)),
        draw(st.integers(0, 12)),
        usd=draw(st.floats(0, 2)),
        cpu=draw(PERCENT),
        memory=draw(PERCENT),
        asked=draw(st.none() | st.tuples(ASKED, ASKED)),
        watched=draw(st.sampled_from([0.0, 0.5, 1.0, 1.0, 1.0])),
        type_=draw(st.sampled_from(TYPES[:3] + TYPES)),
        at_max_seconds=draw(st.sampled_from([0.0, 1800.0, 3600.0])),
        unpriced_seconds=draw(st.sampled_from([0.0, 0.0, 900.0])),
        interruptions=draw(st.integers(0, 3)),
        no_capacity=draw(st.integers(0, 3)),
        waiting_pod_seconds=draw(st.sampled_from([0.0, 0.0, 5400.0])),
    )


@st.composite
def odd(draw):
    """Figures that no run would write."""
    return PoolUsage(
        **{
            name: draw(ODD)
            for name in draw(
                st.sets(
                    st.sampled_from(
                        [
                            *("spot_seconds", "on_demand_seconds", "usd", "unpriced_seconds", "watched_seconds"),
                            *("cpu_seconds", "cpu_known", "memory_seconds", "memory_known", "requested_cpu_seconds"),
                            *("requested_memory_seconds", "requested_known", "at_max_seconds", "waiting_pod_seconds"),
                        ]
                    )
                )
            )
        },
        types=draw(st.dictionaries(st.sampled_from(TYPES), ODD, max_size=2)),
        most_nodes=draw(st.integers(-1, 1000)),
        fewest_nodes=draw(st.none() | st.integers(-1, 1000)),
        interruptions=draw(st.integers(-1, 10)),
    )


@st.composite
def weeks(draw, pool_hours):
    """Stretches of the same hour, with holes, some of them outside the week."""
    found, at = [], draw(st.sampled_from([-5, 0, 0, 60]))
    for _ in range(draw(st.integers(0, 4))):
        pools = draw(st.dictionaries(st.sampled_from(POOLS), pool_hours, min_size=1, max_size=2))
        length = draw(st.sampled_from([1, 2, 80, 168]))
        for hour in range(at, at + length):
            start = MONDAY + timedelta(hours=hour)
            found.append(Usage(hour=start, last=start + timedelta(minutes=59), pools=pools))
        at += length + draw(st.sampled_from([-3, 0, 5]))
    return tuple(found)


@st.composite
def policies(draw):
    pools = []
    for name in draw(st.sets(st.sampled_from(POOLS[:2]), min_size=1)):
        least, down = draw(st.integers(0, 8)), draw(st.sampled_from([0, 30, 30, 60]))
        pools.append(
            Pool(
                name=name,
                limits=Limits(min=least, max=max(1, least + draw(st.sampled_from([0, 4, 40])))),
                market=MarketMix(
                    spot_percent=draw(st.sampled_from([0, 30, 70, 100])),
                    on_demand_base=draw(st.integers(0, 1)),
                    max_price_usd=draw(st.sampled_from([0.001, 0.02, 1])),
                    types=TYPES[: draw(st.integers(1, 4))],
                ),
                reactive=Reactive(
                    cpu=Utilisation(up=down + draw(st.sampled_from([1, 40])), down=down),
                    projection_margin=draw(st.sampled_from([0, 10, 10, 100])),
                ),
                dry_run=draw(st.booleans()),
            )
        )
    return Policy(pools=tuple(pools))


PRICES = st.none() | st.sampled_from([0.0, 0.005, 0.02, 0.3])
CATALOGS = st.lists(
    st.builds(
        InstanceType,
        name=st.sampled_from(TYPES),
        resources=st.builds(
            Resources, cpu=st.sampled_from([0, 1000, 2000, 16000]), memory=st.sampled_from([0, GIB, 2 * GIB, 64 * GIB])
        ),
        hourly_usd=PRICES,
        spot_usd=PRICES,
    ),
    max_size=5,
)
EVENTS = st.lists(
    st.builds(
        Event,
        id=st.text("abc", min_size=1, max_size=3),
        at=st.integers(-10, 200).map(lambda hour: MONDAY + timedelta(hours=hour)),
        cluster=st.just("shop"),
        kind=st.sampled_from(AlertKind),
        pool=st.sampled_from(["", *POOLS]),
        text=st.just("…"),
        dry=st.booleans(),
    ),
    max_size=8,
)


def told(it):
    """Everything that operators would read of it."""
    return "\n".join((headline(it), *map(str, lines(it)), plain(it)))


@given(weeks(plausible()), EVENTS, policies(), CATALOGS)
def test_the_figures_of_a_report_agree_with_each_other(usage, events, policy, catalog):
    it = weekly_report("shop", WEEK, usage, events, policy, catalog)
    assert 0 <= it.record.watched <= it.period.hours
    assert it.usd == round(sum(pool.usd for pool in it.pools), 2)
    assert it.saved_usd == round(it.fixed_usd - sum(each.usd for each in it.comparisons), 2)
    for pool in it.pools:
        week = pool.week
        assert week.node_hours == week.spot_hours + week.on_demand_hours
        assert week.spot_percent is None or 0 <= week.spot_percent <= 100
        assert pool.wanted_spot_percent is None or 0 <= pool.wanted_spot_percent <= 100.0001
        assert week.watched <= it.record.watched + 1e-9
        assert 0 <= week.unpriced_percent <= 100
        assert all(0 <= week.known_percent(field) <= 100 for field in ("cpu_known", "requested_known"))
    for each in it.comparisons:
        assert each.saved_usd == round(each.fixed_usd - each.usd, 2)
        assert each.saved_percent <= 100


@given(weeks(plausible()), EVENTS, policies(), CATALOGS)
def test_advice_is_little_agrees_with_itself_and_stays_within_the_policy(usage, events, policy, catalog):
    it = weekly_report("shop", WEEK, usage, events, policy, catalog, EAGER)
    found = it.advice.recommendations
    assert len(found) <= 5
    worth = [each.usd_per_month or 0.0 for each in found]
    assert worth == sorted(worth, reverse=True)
    for each in found:
        pool = policy.pool(each.pool)
        assert pool is not None
        assert it.record.pool(each.pool).watched >= it.thresholds.enough_hours
        own = {other.subject for other in found if other.pool == each.pool}
        assert not {Subject.RAISE_MAX, Subject.LOWER_MAX} <= own
        assert not {Subject.REQUESTS, Subject.RAISE_MAX} <= own
        assert not {Subject.REQUESTS, Subject.TYPE} <= own
        if each.subject is Subject.LOWER_MIN:
            assert 2 <= int(each.do.split()[-1]) < pool.limits.min
        if each.subject is Subject.RAISE_MAX:
            assert pool.limits.max < int(each.do.split()[-1]) <= max(pool.limits.max + 1, 1.5 * pool.limits.max + 1)
        if pool.dry_run:
            assert each.subject in {Subject.REQUESTS, Subject.TYPE}


@given(weeks(odd() | plausible()), EVENTS, policies(), CATALOGS)
def test_no_week_is_too_odd_to_be_told(usage, events, policy, catalog):
    it = weekly_report("shop", WEEK, usage, events, policy, catalog, EAGER)
    words = told(it)
    assert "nan" not in words.replace("nano", "")
    assert "inf" not in words
    assert "None" not in words
    assert isfinite(it.usd)
    event = report_event(it, NINE)
    assert from_plain(Event, to_plain(event)) == event


@given(weeks(plausible()), EVENTS, policies(), CATALOGS)
def test_a_report_does_not_depend_on_the_order_of_what_was_recorded(usage, events, policy, catalog):
    distinct = tuple({each.hour: each for each in usage}.values())
    once = list({each.id: each for each in events}.values())
    one = weekly_report("shop", WEEK, distinct, once, policy, catalog, EAGER)
    other = weekly_report("shop", WEEK, distinct[::-1], once[::-1], policy, catalog, EAGER)
    assert told(one) == told(other)
