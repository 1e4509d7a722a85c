"""Drains on a real control plane: real budgets and their Eviction API, controllers that make pods again, finalizers.

One fleet has a different difficulty on each of its nodes (`drains/homes.py`). Max falls to two, so all others are to
leave, and the schedule does what it can.
"""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from e2e.drains.homes import COME_BACK, GO, Home, cleared
from e2e.drains.story import DRAIN, STUCK_AFTER, Story, played
from e2e.drains.watching import Sight
from e2e.site.site import Site
from e2e.site.waiting import until
from nodefleet.model.decision import KeepReason
from nodefleet.model.names import LEAVING_TAINT, REASON_ANNOTATION, REMOVAL_ANNOTATION
from nodefleet.model.workload import SCALE_DOWN_DISABLED

PROTECTED = {
    Home.REFUGE: (KeepReason.OPTED_OUT, f"is annotated {SCALE_DOWN_DISABLED[0]}=true"),
    Home.BARE: (KeepReason.UNMANAGED_POD, "pod shop/bare has no controller: nothing would recreate it"),
    Home.ONLY: (KeepReason.ONLY_STATEFUL_POD, "pod shop/only-0 is the only one of StatefulSet only"),
    Home.DISK: (KeepReason.LOCAL_DATA, "has its data on this node: local volume drains-disk"),
    Home.SYSTEM: (KeepReason.KUBE_SYSTEM, "has no budget that says how many of it are needed"),
    Home.TWICE: (KeepReason.BUDGET, "is covered by 2 budgets (shop/twice, shop/twice-too), so it cannot be evicted"),
}
SEVERAL_BUDGETS = 500


@pytest.fixture(scope="module")
def story(running_site: Site) -> Iterator[Story]:
    running_site.reset()
    try:
        yield played(running_site)
    finally:
        running_site.schedule.stop()
        cleared(running_site)


# ── who stays ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_whoever_is_not_protected_is_chosen(story: Story) -> None:
    expected = {home: reason for home, (reason, _) in PROTECTED.items()}
    expected |= dict.fromkeys((*GO, *COME_BACK), KeepReason.CHOSEN)
    assert story.reasons(story.shrink()) == expected


@pytest.mark.parametrize("home", PROTECTED, ids=lambda home: home.value)
def test_a_protected_node_is_left_alone_and_says_why(story: Story, home: Home) -> None:
    reason, words = PROTECTED[home]
    assert story.reasons(story.decisions[-1])[home] is reason
    (note,) = story.notes(home, "NodeFleetStays")
    assert words in note
    assert story.notes(home, "NodeFleetLeaving") == []
    for pod in story.pods_at(home):
        assert all(pod in sight.pods for sight in story.sights), "it was touched"


def test_a_pod_with_two_budgets_would_be_refused_with_500(story: Story) -> None:
    """It protects its node for good reason: the real API can evict it never."""
    assert story.answer == SEVERAL_BUDGETS


# ── who leaves ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_budget_is_waited_for_and_its_pods_leave_one_after_the_other(story: Story) -> None:
    """A StatefulSet's, with an emptyDir, which does not protect."""
    assert min(sight.ready(Home.SEVERAL.value) for sight in story.sights) == 1
    moved = [pod for pod in story.sights[-1].pods if pod.app == Home.SEVERAL.value]
    assert {pod.node for pod in moved} == {story.homes[Home.REFUGE]}
    assert {pod.name for pod in moved} == {pod.name for pod in story.pods_at(Home.SEVERAL)}
    evictions = story.did(f"evicted from {story.homes[Home.SEVERAL]}: 1 evicted")
    assert len(evictions) == 2
    assert_removed(story, Home.SEVERAL)


def test_a_drain_that_the_eviction_api_refuses_waits_and_goes_on(story: Story) -> None:
    """Two nodes leave at once and each has a pod of one budget: the second eviction is answered with 429."""
    homes = (Home.HELD, Home.STUCK)
    (waited,) = [home for home in homes if story.notes(home, "NodeFleetDrainWaits")]
    (note,) = story.notes(waited, "NodeFleetDrainWaits")
    assert "The disruption budget web needs 1 healthy pods and has" in note
    assert len([each for each in story.did("1 refused") if story.homes[waited] in str(each.did)]) == 1
    web = [[pod for pod in sight.pods if pod.app.startswith("web-") and pod.ready] for sight in story.sights]
    assert min(len([pod for pod in ready if not pod.gone_by]) for ready in web) == 1
    assert {pod.node for pod in web[-1]} == {story.homes[Home.REFUGE]}


def test_a_node_is_not_terminated_before_a_finalizer_lets_its_pod_go(story: Story) -> None:
    assert not story.held_too_long
    (pod,) = [pod for pod in story.pods_at(Home.HELD) if pod.app == Home.HELD.value]
    ended = first_without(story, story.homes[Home.HELD])
    assert pod.uid not in {each.uid for each in ended.pods}
    assert_removed(story, Home.HELD)


def test_a_pod_that_is_stuck_is_waited_for_a_little_past_its_grace(story: Story) -> None:
    node = story.homes[Home.STUCK]
    (pod,) = [pod for pod in story.pods_at(Home.STUCK) if pod.app == Home.STUCK.value]
    ended = first_without(story, node)
    (left,) = [each for each in ended.pods if each.uid == pod.uid]
    (terminated,) = story.did(f"terminated {node}")
    assert left.gone_by is not None
    assert terminated.at > left.gone_by + timedelta(seconds=STUCK_AFTER)
    assert_removed(story, Home.STUCK)


def test_a_pod_that_tolerates_every_taint_is_evicted_once_wherever_its_successor_goes(story: Story) -> None:
    """The real scheduler may put it right back on the cordoned node."""
    evictions = story.did(f"evicted from {story.homes[Home.TOLERANT]}: 1 evicted")
    assert len(evictions) == 1
    assert_removed(story, Home.TOLERANT)


@pytest.mark.parametrize("home", GO, ids=lambda home: home.value)
def test_daemons_stay_to_the_end_and_hinder_nobody(story: Story, home: Home) -> None:
    node = story.homes[home]
    (daemon,) = [pod for pod in story.before if pod.node == node and pod.daemon]
    while_it_ran = [sight for sight in story.sights if node in sight.running]
    assert all(daemon in sight.pods for sight in while_it_ran)


def test_everything_that_was_evicted_runs_again_without_a_new_node(story: Story) -> None:
    assert story.did("asked EC2") == []
    in_the_end = [pod for pod in story.sights[-1].pods if not pod.daemon and not pod.gone_by]
    assert len(in_the_end) == len([pod for pod in story.before if not pod.daemon])
    assert [pod.name for pod in in_the_end if not pod.ready] == []
    assert [each.error for each in story.site.functions.made if each.error] == []


# ── who comes back ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_budget_that_never_allows_it_gives_the_node_back_in_time(story: Story) -> None:
    event = story.blocked(Home.NEVER)
    assert event.at - story.shrink().at >= timedelta(seconds=DRAIN)
    assert "budget shop/never allows 0 disruptions" in event.text
    assert f"still there after {DRAIN} s" in event.text
    assert min(sight.ready(Home.NEVER.value) for sight in story.sights) >= 1
    assert story.reasons(story.decisions[-1])[Home.NEVER] is KeepReason.BACKING_OFF


def test_pods_that_get_a_second_budget_give_the_node_back_at_once(story: Story) -> None:
    event = story.blocked(Home.TWICE_LATER)
    assert event.at - story.shrink().at < timedelta(seconds=DRAIN)
    seen_first = "is covered by 2 budgets (shop/twice-later, shop/twice-later-too), so it cannot be evicted"
    told_by_the_api = "This pod has more than one PodDisruptionBudget"  # if the budget came just before the eviction
    assert seen_first in event.text or told_by_the_api in event.text


@pytest.mark.parametrize("home", COME_BACK, ids=lambda home: home.value)
def test_a_node_that_comes_back_is_as_before_and_people_know(story: Story, home: Home) -> None:
    node = story.site.nodes()[story.homes[home]]
    assert not node["spec"].get("unschedulable")
    assert LEAVING_TAINT not in {taint["key"] for taint in node["spec"].get("taints", ())}
    assert not {REASON_ANNOTATION, REMOVAL_ANNOTATION} & set(node["metadata"].get("annotations", {}))
    assert len(story.notes(home, "NodeFleetLeaving")) == 1
    assert story.notes(home, "NodeFleetUncordoned") == ["takes pods again"]
    words = story.blocked(home).text.partition(":")[0]
    assert words.endswith("be drained")
    until(lambda: any(words in said for said in story.site.told()), "Slack hears of it")


def assert_removed(story: Story, home: Home) -> None:
    """Node and instance are gone, and operators were told."""
    node = story.homes[home]
    assert node not in story.site.nodes()
    assert node not in story.sights[-1].running
    assert any(f"{node} was drained and removed" in text for text in story.left())


def first_without(story: Story, machine: str) -> Sight:
    found = [sight for sight in story.sights if machine not in sight.running]
    assert found, "the instance never ended"
    return found[0]
