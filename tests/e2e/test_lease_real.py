"""One writer, on Amazon's own DynamoDB: runs in processes of their own meet at the lease, through the shipped handlers.

What the store does call by call is its contract's (`make e2e` runs that here too). This is about whole runs: that of
many one acts, that one that died is followed, that one that was overtaken does nothing more, and that nobody who came
meanwhile is forgotten.
"""

from datetime import UTC, datetime, timedelta

import pytest

from e2e.instances import (
    ACQUIRE,
    COMMIT,
    LAUNCH,
    LOOK,
    RELEASE,
    Gate,
    StartLine,
    wait_until_answered,
)
from e2e.shop_on_dynamodb import Shop, on_dynamodb, ran, shop
from nodefleet.model.operations import Launch
from support.deployed import POLICY, account

__all__ = ["account", "on_dynamodb", "shop"]

MANY, FEW = 50, 5
SHORT = timedelta(seconds=90)  # of a run: a lease that ends while what it began may still be sent
SKEW = timedelta(seconds=60)  # that clocks may differ: much, so that it does not matter how quickly a process starts
MIN = 2


def one_is_lost(shop: Shop) -> None:
    """A run that looks now has something to do: min is not there any more."""
    site = shop.deployed.site
    if not site.ids():
        site.workers(MIN)
        shop.deployed.tick()
    site.ec2.terminate_instances(InstanceIds=[min(site.ids())])
    site.settle()


def much_later() -> datetime:
    """Every lease has ended by then."""
    return datetime.now(UTC) + timedelta(minutes=10)


def test_of_fifty_runs_at_once_one_acts_and_the_others_leave(shop: Shop) -> None:
    start, looking = StartLine(ACQUIRE, MANY), Gate(LOOK)
    instances = [shop.starts(start, looking) for _ in range(MANY)]
    looking.wait_for_somebody()
    # Whoever has the lease keeps it until all others have answered: none of them can come after it.
    wait_until_answered(instances, MANY - 1)
    looking.open()
    answers = [ran(instance.outcome()) for instance in instances]
    (acted,) = [answer for answer in answers if not answer["held"]]
    assert (acted["looks"], len(acted["did"])) == (1, MIN)
    assert [answer["looks"] for answer in answers if answer["held"]] == [0] * (MANY - 1)
    assert len(shop.deployed.site.ids()) == MIN
    assert len(shop.deployed.history().decisions(MANY)) == 1
    assert shop.lease["fence"] == {"N": "1"}
    assert shop.is_free


# ── who died, and who was overtaken ──────────────────────────────────────────────────────────────────────────────


def test_a_run_that_died_is_followed_when_its_lease_has_ended_and_what_it_began_is_done_once(shop: Shop) -> None:
    """It had written down what it wants of EC2, and not asked for it yet. Five come at once to follow it."""
    shop.deployed.declare(shop.deployed.site, POLICY | {"trust": {"clock_skew": f"{SKEW.total_seconds():.0f}s"}})
    asking = Gate(LAUNCH)
    first = shop.starts(asking, limit=SHORT)
    asking.wait_for_somebody()
    first.kill()
    ends = datetime.fromtimestamp(int(shop.lease["expires_ms"]["N"]) / 1000, UTC)
    for early in (ends - timedelta(seconds=10), ends):  # also within the allowance for clocks that differ
        assert shop.run(at=early)["held"]
    assert shop.deployed.site.ids() == set()

    start, looking = StartLine(ACQUIRE, FEW), Gate(LOOK)
    followers = [shop.starts(start, looking, at=ends + SKEW + timedelta(seconds=1)) for _ in range(FEW)]
    wait_until_answered(followers, FEW - 1)
    looking.open()
    answers = [ran(follower.outcome()) for follower in followers]
    (acted,) = [answer for answer in answers if not answer["held"]]
    assert len(acted["did"]) == len(shop.deployed.site.ids()) == MIN
    assert shop.lease["fence"] == {"N": "2"}
    launches = [each for each in shop.deployed.store().state().operations if isinstance(each, Launch)]
    assert sorted(len(launch.instances) for launch in launches) == [1] * MIN
    assert shop.is_free


@pytest.mark.parametrize("before", [LOOK, COMMIT], ids=["look", "commit"])
def test_a_run_that_was_overtaken_does_nothing_more_and_says_so(shop: Shop, before: str) -> None:
    """It was frozen for longer than its lease, and wakes up when another has done its work."""
    one_is_lost(shop)
    frozen = Gate(before)
    overtaken = shop.starts(frozen)
    frozen.wait_for_somebody()
    assert shop.run(at=much_later())["did"]
    assert len(shop.deployed.site.ids()) == MIN
    afterwards = shop.everything()
    frozen.open()
    outcome = overtaken.outcome()
    assert outcome.error.startswith("LostLeaseError"), outcome
    assert shop.everything() == afterwards


def test_a_run_that_was_overtaken_at_its_very_end_does_not_let_go_of_what_is_not_its_own(shop: Shop) -> None:
    ending = Gate(RELEASE)
    overtaken = shop.starts(ending)
    ending.wait_for_somebody()
    looking = Gate(LOOK)
    other = shop.starts(looking, at=much_later())
    looking.wait_for_somebody()
    held = shop.lease
    ending.open()
    ran(overtaken.outcome())
    assert shop.lease == held
    assert shop.run(at=much_later())["held"]
    looking.open()
    assert not ran(other.outcome())["held"]
    assert shop.is_free


# ── who comes meanwhile ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("before", [LOOK, RELEASE], ids=["look", "release"])
def test_a_run_that_somebody_wakes_looks_again_before_it_ends(shop: Shop, before: str) -> None:
    """They come after it has read the table, or when it is about to let go: what they came for is seen all the same."""
    shop.deployed.site.workers(MIN)
    working = Gate(before)
    run = shop.starts(working)
    working.wait_for_somebody()
    one_is_lost(shop)
    woken = [ran(each.outcome()) for each in [shop.starts(urgent=True) for _ in range(FEW)]]
    assert all(answer["held"] for answer in woken)
    working.open()
    answer = ran(run.outcome())
    assert answer["looks"] == 2
    assert shop.lease["wake"] == {"N": str(FEW)}
    assert len(shop.deployed.site.ids()) == MIN
    assert shop.is_free


def test_a_run_without_time_for_a_look_leaves_it_to_the_next_though_it_is_woken(shop: Shop) -> None:
    ending = Gate(RELEASE)
    run = shop.starts(ending, limit=timedelta(seconds=2))
    ending.wait_for_somebody()
    shop.deployed.store().wake()
    ending.open()
    assert ran(run.outcome())["looks"] == 0
    assert shop.is_free
    assert shop.run()["looks"] == 1
