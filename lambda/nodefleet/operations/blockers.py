"""Why a voluntary drain does not go on: what stands in the way, and what a person can do about it.

    seen                                                         blocker
    EC2 was asked to terminate it and has not                    the instance
    a pod that nobody would make again                           the pod
    several budgets cover a pod: it can never be evicted         the budgets
    the node or a pod became protected since                     what protects it
    the deadline, and a budget says no                           the budget
    the deadline, and pods are still there                       the first of them
    the deadline, and our cordon never showed                    the cordon
A budget that says no is waited for until the deadline: it may say yes when a replacement is up.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nodefleet.decide.disruption import Refusal, Refused
from nodefleet.decide.protection import protection
from nodefleet.domain.decision import StayReason
from nodefleet.domain.fleet import Worker
from nodefleet.domain.workload import SAFE_TO_EVICT
from nodefleet.operations.leaving import Leaving
from nodefleet.operations.progress import pods_are, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    name: str  # the same for the same trouble, whatever its figures: backing off goes by it
    sentence: str
    remedy: str


def blocker(leaving: Leaving, fleet: Sequence[Worker]) -> Blocker | None:
    """What keeps the node from being drained, if something does for good or the time is up."""
    asked = leaving.removal.terminating and not leaving.ends
    return (
        (not_terminated(leaving) if asked else None)
        or _for_good(leaving)
        or _protected(leaving, fleet)
        or _too_late(leaving)
    )


def not_terminated(leaving: Leaving) -> Blocker:
    return Blocker(
        name=f"instance {leaving.removal.instance}",
        sentence=f"EC2 was asked to terminate {leaving.removal.instance} and has not done so",
        remedy="Look for termination protection, and for the role's right to terminate it",
    )


def _for_good(leaving: Leaving) -> Blocker | None:
    for plan in leaving.plan.blocked:
        return Blocker(
            name=f"pod {plan.pod.namespace}/{plan.pod.name}",
            sentence=plan.sentence,
            remedy=f'Give it a controller, or annotate it {SAFE_TO_EVICT[0]}: "true"',
        )
    for refused in _refusals(leaving):
        if refused.why is Refusal.SEVERAL_BUDGETS:
            return Blocker(
                name=f"budgets {', '.join(refused.budgets)}",
                sentence=refused.sentence,
                remedy="Let only one budget select it",
            )
    return None


def _protected(leaving: Leaving, fleet: Sequence[Worker]) -> Blocker | None:
    worker = next((worker for worker in fleet if worker.id == leaving.removal.instance), None)
    staying = [pod for pod in leaving.pods if pod.deleted_at is None]
    found = protection(worker, staying, leaving.ledger, leaving.rules, (), leaving.now) if worker else None
    if found is None or found.reason in (StayReason.BUDGET, StayReason.CORDONED_BY_PERSON):
        return None
    remedy = "It was not so when the removal began; take it back if the node may go after all"
    return Blocker(name=f"{found.reason.value} on {leaving.name}", sentence=found.sentence, remedy=remedy)


def _too_late(leaving: Leaving) -> Blocker | None:
    if leaving.now < leaving.deadline or (leaving.plan.done and leaving.cordoned):
        return None
    after = f"after {seconds(leaving.removal.deadline - leaving.removal.started)}"
    for refused in _refusals(leaving):
        return Blocker(
            name=f"budget {refused.budgets[0]}",
            sentence=f"{refused.sentence}, so pod {refused.pod.key} is still there {after}",
            remedy="Give the workload one more replica, or let the budget allow a disruption",
        )
    for plan in (*leaving.plan.wait, *leaving.plan.evict):
        return Blocker(
            name=f"pod {plan.pod.namespace}/{plan.pod.name}",
            sentence=f"{pods_are(len(leaving.left))} still there {after}; {plan.sentence}",
            remedy="Look at why it does not end: a finalizer, a long grace, or a refused eviction",
        )
    return Blocker(
        name="cordon",
        sentence=f"the node did not show our cordon {after}",
        remedy="Look at the right to patch nodes, and at who takes the cordon off",
    )


def _refusals(leaving: Leaving) -> list[Refused]:
    return [verdict for verdict in leaving.verdicts if isinstance(verdict, Refused)]
