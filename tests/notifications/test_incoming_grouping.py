"""A flood becomes a few notifications; what matters is never lost in it."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from nodefleet.model.alerts import STANDS_OUT, AlertKind
from nodefleet.notifications.incoming import DeliveryLimits, NotificationForm, group_news
from support.message_examples import AT, alarm, event, news

LIMITS = DeliveryLimits()


def some(count, kind=AlertKind.DRAIN_BLOCKED, **changes):
    return [event(kind, id=f"{kind.value}-{changes.get('cluster', '')}-{i}", **changes) for i in range(count)]


def notifications(*told, now=AT, limits=LIMITS):
    return group_news(news(*told), now, limits)


def forms(found):
    return [(notification.form, len(notification.news)) for notification in found]


def test_three_of_a_kind_are_told_one_by_one():
    assert forms(notifications(*some(3))) == [(NotificationForm.SINGLE, 1)] * 3


def test_the_fourth_of_a_kind_makes_one_letter_of_them():
    assert forms(notifications(*some(4))) == [(NotificationForm.MANY, 4)]


def test_another_cluster_is_another_flood():
    assert forms(notifications(*some(3), *some(3, cluster="blog"))) == [(NotificationForm.SINGLE, 1)] * 6


def test_another_kind_is_another_flood():
    assert forms(notifications(*some(3), *some(3, AlertKind.AT_MAX))) == [(NotificationForm.SINGLE, 1)] * 6


def test_what_a_dry_run_would_have_done_is_not_mixed_with_what_was_done():
    dry = [event(AlertKind.SCALE_UP, id=f"dry-{i}", dry=True) for i in range(4)]
    found = notifications(*some(4, AlertKind.SCALE_UP), *dry)
    assert [{told.dry for told in notification.told} for notification in found] == [{False}, {True}]


def test_letters_come_in_the_order_of_what_they_tell_first():
    a, b, c, d = some(4)
    first, between, last = (event(AlertKind.AT_MAX, id=name) for name in ("first", "between", "last"))
    found = notifications(first, a, between, b, c, d, last)
    assert [notification.first.id for notification in found] == ["first", a.id, "between", "last"]


def test_the_same_event_twice_in_a_batch_is_one():
    (only,) = notifications(event(id="same"), event(id="same"))
    assert len(only.news) == 1


def test_what_happened_many_hours_ago_is_only_counted():
    old = [event(id=f"old-{i}", at=AT - timedelta(hours=7)) for i in range(2)]
    found = notifications(*old, event(id="new"))
    assert forms(found) == [(NotificationForm.OLD, 2), (NotificationForm.SINGLE, 1)]


def test_exactly_at_the_limit_an_event_is_still_news():
    assert forms(notifications(event(at=AT - LIMITS.old_after))) == [(NotificationForm.SINGLE, 1)]


def test_each_cluster_has_its_own_letter_of_old_events():
    at = AT - timedelta(hours=7)
    found = notifications(event(id="a", at=at), event(id="b", at=at, cluster="blog"))
    assert forms(found) == [(NotificationForm.OLD, 1), (NotificationForm.OLD, 1)]


def test_beyond_ten_letters_the_rest_shares_one():
    kinds = [kind for kind in AlertKind if kind not in STANDS_OUT]
    told = [event(kind, id=kind.value) for kind in kinds]
    found = notifications(*told)
    assert len(kinds) > 10
    assert forms(found) == [(NotificationForm.SINGLE, 1)] * 9 + [(NotificationForm.MIXED, len(kinds) - 9)]
    assert [told.kind for notification in found for told in notification.told] == kinds


def test_what_stands_out_has_its_own_letter_however_much_else_happens():
    crowd = [event(kind, id=kind.value) for kind in AlertKind if kind not in STANDS_OUT]
    outstanding = [event(kind, id=kind.value) for kind in STANDS_OUT if kind is not AlertKind.ALARM]
    found = notifications(*crowd, *outstanding, alarm())
    alone = {notification.first.kind for notification in found if notification.form is NotificationForm.SINGLE}
    assert alone >= STANDS_OUT
    (mixed,) = [notification for notification in found if notification.form is NotificationForm.MIXED]
    assert not any(told.kind in STANDS_OUT for told in mixed.told)


def test_a_crowd_of_one_is_told_by_itself():
    kinds = [kind for kind in AlertKind if kind not in STANDS_OUT][:11]
    outstanding = [kind for kind in AlertKind if kind in STANDS_OUT][: LIMITS.notifications]
    few = [event(kind, id=kind.value) for kind in (*outstanding, kinds[0])]
    assert len(few) == LIMITS.notifications + 1
    assert forms(notifications(*few)) == [(NotificationForm.SINGLE, 1)] * (LIMITS.notifications + 1)


def test_the_important_kinds_of_the_specification_stand_out():
    wanted = {
        AlertKind.INTERRUPTED,
        AlertKind.MANY_UNHEALTHY,
        AlertKind.PERMISSION,
        AlertKind.QUOTA,
        AlertKind.DEGRADED,
    }
    assert wanted <= STANDS_OUT


def test_a_letter_that_shrinks_to_one_is_a_single_one():
    (notification,) = notifications(*some(4))
    assert notification.only(notification.news[1:2]).form is NotificationForm.SINGLE
    assert notification.only(notification.news[1:3]).form is NotificationForm.MANY


def test_an_old_event_stays_old_however_few_there_are():
    (notification,) = notifications(event(at=AT - timedelta(days=1)))
    assert notification.only(notification.news).form is NotificationForm.OLD


TOLD = st.builds(
    event,
    st.sampled_from(AlertKind),
    id=st.integers(0, 60).map(str),
    cluster=st.sampled_from(["shop", "blog"]),
    at=st.sampled_from([AT, AT - timedelta(hours=7)]),
    dry=st.booleans(),
)


@given(st.lists(TOLD, max_size=60))
def test_every_event_is_in_exactly_one_letter_of_its_own_cluster(told):
    found = notifications(*told)
    ids = [each.id for notification in found for each in notification.told]
    assert sorted(ids) == sorted({each.id for each in told})
    assert all(len({each.cluster for each in notification.told}) == 1 for notification in found)


@given(st.lists(TOLD, max_size=60))
def test_no_cluster_gets_more_letters_than_the_limit_but_for_what_stands_out(told):
    for cluster in ("shop", "blog"):
        own = [notification for notification in notifications(*told) if notification.first.cluster == cluster]
        plain = [
            notification
            for notification in own
            if not notification.stands_out and notification.form is not NotificationForm.OLD
        ]
        assert len(own) <= LIMITS.notifications or len(plain) <= 1
