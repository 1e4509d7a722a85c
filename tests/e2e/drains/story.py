"""How it is played: the schedule runs, max falls, and whoever may leave is drained at the same time as the others.

Things happen meanwhile, as they do: one budget is tightened, another is added, one finalizer is taken off late.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from e2e.drains.homes import COME_BACK, GO, STAY, Home, assigned, furnish, let_go
from e2e.drains.objects import budget, eviction
from e2e.drains.watching import Onlooker, Seen, Sight
from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import LONGEST, until
from e2e.site.workloads import NAMESPACE
from nodefleet.adapters.kubernetes.resources import BUDGETS, PODS
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Action, DecisionRecord, Event, KeepReason

DRAIN = 30  # seconds until a drain is given up: a busy instance needs a dozen for the others
STUCK_AFTER = 2  # seconds past its grace
_MARKET = {"spot_percent": 0}  # nobody stays for being On-Demand
FULL = compressed(limits={"min": len(Home), "max": len(Home)}, market=_MARKET)
# Failed drains are not tried again while we look, and nobody waits because nobody looked while all was prepared.
FEWER = compressed(
    limits={"min": 2, "max": 2},
    market=_MARKET,
    budgets={"removals": len(Home)},
    trust={"recovery_hold": 0},
    removal={"drain_timeout": DRAIN, "stuck_after": STUCK_AFTER, "retry_first": 600, "retry_longest": 600},
)
_LOOKS = 2  # more, while only a finalizer holds a node
_DULL = (KeepReason.NOT_ASKED, KeepReason.NOT_READY, KeepReason.OUTRANKED, KeepReason.ONE_AT_A_TIME)


@dataclass
class Story:
    """What came of it."""

    site: Site
    homes: dict[Home, str]
    before: list[Seen]  # pods
    sights: list[Sight]
    began: datetime
    decisions: list[DecisionRecord] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    answer: int = 0  # of the Eviction API about a pod with two budgets
    held_too_long: bool = False  # the instance had ended before the finalizer was taken off

    def pods_at(self, home: Home) -> list[Seen]:
        """Those that began there and are nobody's daemons."""
        return [pod for pod in self.before if pod.node == self.homes[home] and not pod.daemon]

    def shrink(self) -> DecisionRecord:
        """The decision that all removals are of."""
        return next(each for each in self.decisions if each.decision.pools[0].action is Action.SHRINK)

    def reasons(self, record: DecisionRecord) -> dict[Home, KeepReason]:
        by_node = {stay.worker: stay.reason for stay in record.decision.pools[0].stays}
        return {home: by_node[node] for home, node in self.homes.items() if node in by_node}

    def did(self, words: str) -> list[DecisionRecord]:
        return [each for each in self.decisions if any(words in did for did in each.did)]

    def notes(self, home: Home, reason: str) -> list[str]:
        """Events of this reason on the node, which outlive it."""
        said = self.site.notes(self.homes[home])
        return [each["message"] for each in said if each["reason"] == reason]

    def blocked(self, home: Home) -> Event:
        """What operators are told of a drain that failed."""
        (event,) = [each for each in self._of(AlertKind.DRAIN_BLOCKED) if self.homes[home] in each.text]
        return event

    def left(self) -> list[str]:
        """What operators are told of nodes that left."""
        return [each.text for each in self._of(AlertKind.SCALE_DOWN)]

    def _of(self, kind: AlertKind) -> list[Event]:
        return [each for each in self.events if each.kind is kind]


def played(site: Site) -> Story:
    """What does not come is not waited for for ever: the tests say what is missing."""
    site.begin(FULL)
    homes = assigned(site)
    furnish(site, homes)
    onlooker = Onlooker(site)
    onlooker.look()
    before = list(onlooker.sights[0].pods)
    story = Story(site=site, homes=homes, before=before, sights=onlooker.sights, began=datetime.now(UTC))
    site.declare(FEWER)
    with onlooker.going_on(), site.schedule.going_on():
        leaving = [homes[home] for home in (*GO, *COME_BACK)]
        _wait(lambda: all(_cordoned(site, node) for node in leaving))
        _meanwhile(site, story)
        _wait(lambda: not {homes[home] for home in GO} & set(site.nodes()))
        _wait(lambda: all(homes[home] in site.ready() for home in COME_BACK))
        _allow(site, Home.NEVER, 1)  # again, so that only its failure keeps the node
        _wait(lambda: _all_explained(site, story))
        _wait(lambda: _all_run(site, story))
    story.decisions = [each for each in site.decisions() if each.at > story.began]
    story.events = [each for each in site.events() if each.at > story.began]
    return story


def _meanwhile(site: Site, story: Story) -> None:
    later = Home.TWICE_LATER.value
    _allow(site, Home.NEVER, 0)
    site.admin.do(BUDGETS.create(budget(f"{later}-too", {"app": later}), NAMESPACE))
    (twice,) = story.pods_at(Home.TWICE)
    story.answer = site.admin.api.ask(PODS.create_under(twice.name, "eviction", eviction(twice.name), NAMESPACE)).status
    (held,) = [pod for pod in story.pods_at(Home.HELD) if pod.app == Home.HELD.value]
    node = story.homes[Home.HELD]
    _wait(lambda: _alone(story, held, node), DRAIN / 2)
    since = datetime.now(UTC)
    _wait(lambda: sum(each.at > since for each in site.decisions()) >= _LOOKS, DRAIN / 2)
    story.held_too_long = node not in {each["InstanceId"] for each in site.hardware.instances()}
    let_go(site, held.name)


def _wait(true: Callable[[], bool], seconds: float = LONGEST) -> None:
    with suppress(AssertionError):
        until(true, "the tests say what", seconds, every=0.1)


def _alone(story: Story, held: Seen, node: str) -> bool:
    """It was asked to go, and all others but daemons have gone."""
    there = [pod for pod in story.sights[-1].on(node) if not pod.daemon]
    return [pod.uid for pod in there if pod.gone_by] == [held.uid] and len(there) == 1


def _allow(site: Site, home: Home, disruptions: int) -> None:
    site.admin.do(BUDGETS.patch(home.value, {"spec": {"maxUnavailable": disruptions}}, NAMESPACE))


def _cordoned(site: Site, node: str) -> bool:
    return bool(site.nodes().get(node, {}).get("spec", {}).get("unschedulable"))


def _all_run(site: Site, story: Story) -> bool:
    """A pod that came back to a node that left is made again only when Kubernetes has forgotten that node's pods."""
    nodes = site.nodes()
    pods = [pod for pod in story.sights[-1].pods if not pod.daemon and not pod.gone_by]
    return all(pod.ready and pod.node in nodes for pod in pods)


def _all_explained(site: Site, story: Story) -> bool:
    """Nobody is on the way out any more, and everybody else was examined."""
    reasons = story.reasons(site.decisions()[-1])
    examined = all(reasons.get(home, KeepReason.NOT_READY) not in _DULL for home in STAY)
    return examined and reasons.get(Home.NEVER) is KeepReason.BACKING_OFF
