"""A headline for each kind of event, and what to do about it.

The event's own text says what happened and why, with figures, and often what would mend it. This says what a person
who was woken asks next: do I have to get up?
"""

from collections.abc import Mapping
from dataclasses import dataclass

from nodefleet.domain.events import EventKind
from nodefleet.notifying.weight import Urgency

SIGNS: Mapping[Urgency, str] = {
    Urgency.ACT: "🔴",
    Urgency.LOOK: "🟠",
    Urgency.KNOW: "🔵",
    Urgency.OVER: "🟢",
}
DRY = "Dry run: nothing was done."
DRY_TODO = "Nothing. To let the autoscaler act by itself, take `dry_run` out of the policy."
NOTHING = "Nothing."


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    headline: str
    counted: str = ""  # the headline when the number of nodes is known
    todo: str = NOTHING


WORDS: Mapping[EventKind, Words] = {
    EventKind.SCALE_UP: Words(headline="Scale-up", counted="Scale-up: {nodes} more"),
    EventKind.SCALE_DOWN: Words(headline="Scale-down", counted="Scale-down: {nodes} fewer"),
    EventKind.AT_MAX: Words(
        headline="At max: more nodes are wanted",
        todo="Pods may wait or run slowly until the load falls or `limits.max` rises. Act if users feel it.",
    ),
    EventKind.JOIN_FAILED: Words(
        headline="A new node did not join",
        todo="Nothing at once: another one is tried, and you are told if joins keep failing.",
    ),
    EventKind.JOIN_BACKOFF: Words(
        headline="New nodes keep failing to join",
        todo="Act now: the fleet cannot grow or replace a lost node until joins work.",
    ),
    EventKind.DRAIN_BLOCKED: Words(
        headline="A node could not be drained",
        todo="Nothing at once: the node goes on working, and costing. It is tried again later, less and less often.",
    ),
    EventKind.FORCED: Words(
        headline="Pods are deleted by force",
        todo="Look whether these pods run again elsewhere. They had no time for an orderly end.",
    ),
    EventKind.INTERRUPTED: Words(
        headline="EC2 takes a node away",
        todo="Nothing. The replacement is launched by itself, and you are told if it cannot be had.",
    ),
    EventKind.NO_CAPACITY: Words(
        headline="EC2 has no capacity",
        todo="Nothing at once: other types and zones, and On-Demand instead of Spot, are tried. Act if pods wait.",
    ),
    EventKind.QUOTA: Words(
        headline="The AWS quota is reached",
        todo="Act now: no more nodes of this kind can be had. A higher quota is asked for in Service Quotas.",
    ),
    EventKind.PERMISSION: Words(
        headline="The autoscaler lacks a permission",
        todo="Act now: what is named here does not happen until the permission is given.",
    ),
    EventKind.LAUNCH_INVALID: Words(
        headline="EC2 refuses the launch request",
        todo="Act now: this request never works. No node like this is launched until it is mended.",
    ),
    EventKind.MANY_SICK: Words(
        headline="Many nodes are sick at once",
        todo="Act now: the autoscaler replaces nothing until most of them are well again.",
    ),
    EventKind.SICK: Words(
        headline="A node is sick",
        todo="Nothing at once. Look for a cause if it happens again: memory, disk, or the machine itself.",
    ),
    EventKind.CANNOT_HOLD: Words(
        headline="Pods fit on no node",
        todo="These pods wait until they or the pool change: more nodes do not help.",
    ),
    EventKind.PODS_REFUSED: Words(
        headline="Pods wait, and nodes do not help",
        todo="Look at the pods' events and at what the scheduler says: a claim, a StorageClass, a limit or a taint."
        " They are tried again by themselves.",
    ),
    EventKind.NO_BENEFIT: Words(
        headline="More nodes did not help",
        todo="Look for what really limits it, such as a database, a lock or an image that cannot be pulled."
        " It buys no more nodes until it clears.",
    ),
    EventKind.SCALE_DOWN_BLOCKED: Words(
        headline="Scale-down is blocked",
        todo="Mend what is named, or change `when_missing` of the reading. Until then the fleet may be larger than it"
        " has to be.",
    ),
    EventKind.NODE_IN_DOUBT: Words(
        headline="A node is in doubt",
        todo="Look at the node and at its exporter. The others go on scaling; this one stays until it is clear.",
    ),
    EventKind.CLEANUP_NEEDS_PERSON: Words(
        headline="Somebody has to clean up",
        todo="The autoscaler leaves it alone. It may cost money until somebody removes it.",
    ),
    EventKind.DEGRADED: Words(
        headline="Degraded: something cannot be read",
        todo="Look at the part that is named. What runs goes on running; you are told when it is over.",
    ),
    EventKind.RECOVERED: Words(headline="Recovered"),
    EventKind.RESTING_COST: Words(
        headline="Instances are paid for and do no work",
        todo="Look at the instances that are named. They cost money until they work again or are terminated.",
    ),
    EventKind.MARKET_RESTORED: Words(headline="Spot takes the place of On-Demand"),
    EventKind.READMITTED: Words(headline="A node stays after all"),
    EventKind.PAUSED: Words(
        headline="Paused by a person",
        todo="Nothing, but remember it: `nodefleet resume` ends it.",
    ),
    EventKind.RESUMED: Words(headline="Resumed"),
    EventKind.SCALED_BY_PERSON: Words(headline="A person set the size"),
    EventKind.HANDED_OVER: Words(headline="An operator disposed of unowned workers"),
    EventKind.POLICY_CHANGED: Words(headline="A new policy is in force"),
    EventKind.POLICY_REFUSED: Words(
        headline="A policy was refused",
        todo="Mend the policy in working hours. Until then the last good one holds.",
    ),
    EventKind.POLICY_UNUSABLE: Words(
        headline="The fleet is held: its policy cannot be followed",
        todo="Act now: the fleet keeps its size whatever the load, until a valid policy is applied or the release that"
        " knew it is deployed again.",
    ),
    EventKind.ALARM: Words(headline="CloudWatch alarm", todo="Look at what it measures: the link below leads there."),
    EventKind.REPORT: Words(headline="The week in figures", todo=""),
}


def nodes(count: int) -> str:
    return f"{count} node" if count == 1 else f"{count} nodes"


def headline(kind: EventKind, change: int = 0) -> str:
    words = WORDS[kind]
    return words.counted.format(nodes=nodes(abs(change))) if words.counted and change else words.headline


def size(now: int | None, change: int) -> str:
    """3 → 4, or just 4, or +1; nothing if nothing is known."""
    signed = f"{'+' if change > 0 else '−'}{abs(change)}" if change else ""
    if now is None:
        return signed
    return f"{now - change} → {now}" if change else str(now)


def cost(usd_per_day: float | None) -> str:
    """≈ +$0.96 per day; nothing if it is not known."""
    if usd_per_day is None:
        return ""
    shown = f"{abs(usd_per_day):,.2f}"
    return "no change" if shown == "0.00" else f"≈ {'+' if usd_per_day > 0 else '−'}${shown} per day"
