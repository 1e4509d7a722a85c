"""Notices that are over are let go of: all of them, and no other."""

from dataclasses import replace
from datetime import timedelta

import pytest

from nodefleet.domain.machines import NoticeKind
from worlds import Cluster, shop, spot_worker

FALSE_ALARM = timedelta(seconds=120 + 1200)  # the policy's defaults


def calm(**policy: object) -> Cluster:
    cluster = shop(workers=3, replicas=6, cpu=600, **policy)
    cluster.calm(1)
    return cluster


def noticed(cluster: Cluster, age: timedelta, kind: NoticeKind = NoticeKind.REBALANCE) -> None:
    """EC2 said something so long ago, and nobody acts on it."""
    told = cluster.world.interrupt(spot_worker(cluster.world), kind)
    cluster.world.ec2.machines[told.instance].doomed_at = None
    cluster.world.parts("somebody").store.record(replace(told, at=cluster.world.now - age, told_at=None))


def notices(cluster: Cluster) -> list[NoticeKind]:
    return [notice.kind for notice in cluster.world.parts("reader").store.state().notices]


@pytest.mark.parametrize(
    ("age", "kept"), [(FALSE_ALARM - timedelta(minutes=5), [NoticeKind.REBALANCE]), (FALSE_ALARM, [])]
)
def test_a_notice_of_a_machine_that_runs_is_kept_until_it_means_nothing(age, kept):
    cluster = calm()
    noticed(cluster, age)
    cluster.calm(1)
    assert notices(cluster) == kept


def test_all_notices_of_one_machine_go():
    cluster = calm()
    noticed(cluster, FALSE_ALARM)
    noticed(cluster, FALSE_ALARM, NoticeKind.SCHEDULED_CHANGE)
    cluster.calm(1)
    assert notices(cluster) == []


def test_one_goes_also_in_a_pool_that_is_only_watched():
    cluster = calm(dry_run=True)
    noticed(cluster, FALSE_ALARM, NoticeKind.SCHEDULED_CHANGE)
    cluster.calm(1)
    assert notices(cluster) == []


@pytest.mark.parametrize(("age", "kept"), [(timedelta(0), [NoticeKind.REBALANCE]), (FALSE_ALARM, [])])
def test_one_of_a_machine_that_nobody_knows_goes_too(age, kept):
    cluster = calm()
    victim = spot_worker(cluster.world)
    told = replace(cluster.world.interrupt(victim, NoticeKind.REBALANCE), instance="i-unknown")
    cluster.world.ec2.machines[victim].doomed_at = None
    cluster.world.parts("somebody").store.record(replace(told, at=cluster.world.now - age, told_at=None))
    cluster.calm(1)
    assert notices(cluster) == kept
