"""All rules together: no two contradict each other, the most valuable come first."""

from collections import Counter
from dataclasses import replace

import pytest

from nodefleet.model.alerts import AlertKind
from nodefleet.policy.pool import Limits, MarketMix, Pool
from nodefleet.reporting.review import Recommendation, Subject
from nodefleet.reporting.weekly import _agreeing, advise
from support.week_builders import SMALL, case, offer, used


def found(*cases, most=5):
    return advise(cases, most).recommendations


def subjects(*cases):
    return [each.subject for each in found(*cases)]


def saying(subject, usd=None, *, service=False, pool="default"):
    return Recommendation(pool=pool, subject=subject, do="…", because="…", usd_per_month=usd, for_service=service)


def test_a_week_in_which_all_is_well_needs_nothing():
    assert found(case((168, used(4, 2)))) == ()


def test_lower_requests_come_before_a_higher_max():
    full = used(7, 3, cpu=20, memory=30, asked=(95, 40), at_max_seconds=3600)
    told = Counter({AlertKind.AT_MAX: 4})
    (only,) = found(case((168, full), told=told))
    assert only.subject is Subject.REQUESTS
    assert only.for_service  # it now stands for the higher max


def test_lower_requests_come_before_another_type():
    hungry = used(6, 3, cpu=5, memory=20, asked=(8, 90))
    pool = Pool(market=MarketMix(max_price_usd=1))
    catalog = {each.name: each for each in (SMALL, offer("t3.medium", 2, 4, 0.03))}
    assert subjects(case((168, hungry), pool=pool, catalog=catalog)) == [Subject.REQUESTS]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Subject.REQUESTS, Subject.RAISE_MAX),
        (Subject.REQUESTS, Subject.TYPE),
        (Subject.REQUESTS, Subject.LOWER_MAX),
        (Subject.RAISE_MAX, Subject.LOWER_MAX),
        (Subject.RAISE_MAX, Subject.TYPE),
        (Subject.LOWER_MIN, Subject.TYPE),
        (Subject.TYPE, Subject.LOWER_MAX),
    ],
)
def test_of_two_that_contradict_each_other_one_is_told_whatever_it_is_worth(one, other):
    for sums in ((1.0, 99.0), (99.0, 1.0)):
        both = [saying(one, sums[0]), saying(other, sums[1])]
        assert [each.subject for each in _agreeing(both)] == [one]
        assert [each.subject for each in _agreeing(both[::-1])] == [one]


def test_what_gave_way_makes_nothing_else_give_way():
    three = [saying(Subject.REQUESTS), saying(Subject.TYPE), saying(Subject.LOWER_MIN)]
    assert [each.subject for each in _agreeing(three)] == [Subject.REQUESTS, Subject.LOWER_MIN]


def test_spot_goes_with_everything():
    for subject in Subject:
        both = [saying(subject), saying(Subject.SPOT)]
        assert saying(Subject.SPOT) in _agreeing(both)


def many(count):
    """Pools whose min is too high: worth more from one to the next."""
    return [
        case(
            (168, used(size - 1, 1, cpu=5, memory=5, asked=(5, 5))),
            pool=Pool(name=f"p{size}", limits=Limits(min=size, max=size)),
        )
        for size in range(4, 4 + count)
    ]


def test_the_most_valuable_come_first_and_the_least_valuable_are_left_out():
    advice = advise(many(7), 5)
    assert [each.pool for each in advice.recommendations] == ["p10", "p9", "p8", "p7", "p6"]
    assert advice.left_out == 2
    worth = [each.usd_per_month for each in advice.recommendations]
    assert worth == sorted(worth, reverse=True)


def test_what_serves_the_work_is_not_left_out_for_money():
    full = used(7, 3, cpu=90, memory=60, at_max_seconds=3600)
    advice = advise([*many(7), case((168, full), pool=Pool(name="web", limits=Limits(min=10, max=10)))], 5)
    assert advice.recommendations[-1].subject is Subject.RAISE_MAX  # it costs
    assert [each.pool for each in advice.recommendations] == ["p10", "p9", "p8", "p7", "web"]
    assert advice.left_out == 3


def test_a_dry_run_is_judged_by_its_work_only():
    too_many = used(7, 3, cpu=5, memory=5, asked=(5, 5), interruptions=1)
    pool = Pool(limits=Limits(min=10, max=12))
    assert subjects(case((168, too_many), pool=pool)) == [Subject.LOWER_MIN, Subject.SPOT]
    assert found(case((168, too_many), pool=replace(pool, dry_run=True))) == ()
    asking = used(6, 3, cpu=20, memory=30, asked=(90, 40))
    assert subjects(case((168, asking), pool=Pool(dry_run=True))) == [Subject.REQUESTS]
