"""A plan in plain sentences: what would be done, and why each worker stays."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import assert_never

from nodefleet.model.decision import KeepReason, KeptNode
from nodefleet.model.inventory import Market
from nodefleet.model.operations import (
    Assign,
    CancelRemoval,
    Cleanup,
    Close,
    Cordon,
    Create,
    DeleteNode,
    Evict,
    ForceDelete,
    KeepWarm,
    Launch,
    MarkFailed,
    Operation,
    Purpose,
    Removal,
    RemovalReason,
    Save,
    SendAlert,
    SendLaunch,
    Step,
    TakeOver,
    Terminate,
    Uncordon,
)

MARKETS = {Market.SPOT: "Spot", Market.ON_DEMAND: "On-Demand"}
_FEW = 5  # so many names or reasons are listed one by one


def sentence(step: Step) -> str:
    """One step as an operator would say it."""
    match step:
        case Create(operation):
            return _begun(operation)
        case Save(operation):
            return f"go on, as things have changed: {_begun(operation)}"
        case Close():
            return f"close {step.operation} as {step.outcome.value}: {step.detail}"
        case SendLaunch(launch):
            return f"ask EC2: {_launch(launch)}"
        case Cordon():
            return f"cordon {step.node}: {step.reason}"
        case Uncordon(node, _):
            return f"let {node} back in"
        case Evict():
            return f"evict {_count(len(step.pods), 'pod')} from {step.node}"
        case ForceDelete():
            return f"delete {_count(len(step.pods), 'pod')} on {step.node} by force"
        case Terminate(instance, reason):
            return f"terminate {instance}: {reason}"
        case KeepWarm(instance, reason):
            return f"stop {instance} and keep it warm: {reason}"
        case DeleteNode(node):
            return f"delete the Node {node}"
        case MarkFailed(instance):
            return f"mark {instance} as failed to join, and keep it"
        case Assign():
            return f"hand {step.node or step.instance} to pool {step.pool}: {step.reason}"
        case CancelRemoval():
            return f"let a leaving worker back in instead of buying one ({step.operation})"
        case TakeOver():
            return f"keep {step.pool} at {step.nodes} or more for {step.origin}"
        case SendAlert():
            return f"tell operators ({step.alert.value}): {step.text}"
        case _:
            assert_never(step)


def _begun(operation: Operation) -> str:
    match operation:
        case Launch():
            return _launch(operation)
        case Removal():
            return _removal(operation)
        case Cleanup():
            return f"clean up {operation.debris.value} {operation.target}: {operation.reason}"
        case _:
            assert_never(operation)


def _launch(launch: Launch) -> str:
    price = f", at most {launch.max_price_usd:g} USD/h" if launch.max_price_usd is not None else ""
    purpose = "; it makes up for a missing one" if launch.purpose is Purpose.RESTORE else ""
    what = _count(launch.count, f"{MARKETS[launch.market]} worker")
    return f"launch {what} in zone {launch.zone} ({any_of(launch.types)}{price}){purpose}"


def _removal(removal: Removal) -> str:
    name = removal.node or removal.instance
    until = f"{removal.deadline:%H:%M:%S}"
    match removal.why:
        case RemovalReason.VOLUNTARY:
            return f"cordon and drain {name}, then terminate it; uncordon it if it is not empty by {until}"
        case RemovalReason.INTERRUPTED:
            forced = (
                f"; what is left at {removal.force_from:%H:%M:%S} is deleted by force" if removal.force_from else ""
            )
            return f"cordon and drain {name} now, gone by {until}: {removal.reason}{forced}"
        case RemovalReason.UNHEALTHY:
            return f"drain {name} until {until} and terminate it: {removal.reason}"
        case _:
            assert_never(removal.why)


def stay_lines(stays: Sequence[KeptNode]) -> list[tuple[str, str]]:
    """Workers and why they stay (or go), those with the same reason together."""
    ordered = sorted(stays, key=lambda stay: list(KeepReason).index(stay.reason))
    lines = []
    for reason, group in groupby(ordered, key=lambda stay: stay.reason):
        alike = list(group)
        details = list(dict.fromkeys(map(_why, alike)))
        if len(details) <= _FEW:
            lines += [(names(stay.worker for stay in alike if _why(stay) == detail), detail) for detail in details]
        else:
            lines.append((names(stay.worker for stay in alike), f"{reason.value}, for example: {details[0]}"))
    return lines


def _why(stay: KeptNode) -> str:
    match stay.reason:
        case KeepReason.NOT_ASKED:
            return "no signal asks for fewer nodes"
        case KeepReason.NOT_READY:
            return f"is {stay.phase.value}"
        case _:
            return stay.detail or stay.reason.value


def names(workers: Iterable[str]) -> str:
    """All of a few names, the first and the number of many."""
    listed = list(workers)
    if len(listed) <= _FEW:
        return ", ".join(listed)
    return f"{', '.join(listed[:2])}, … ({len(listed)} workers)"


def any_of(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
