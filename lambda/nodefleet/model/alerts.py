"""The alert catalogue: every kind of alert, how severe it is, its headline, and what to do about it.

One row for each kind, and nothing else to keep in step: deduplication, grouping, Slack and the docs read this table. To
add a kind: its name and row here, the rule that sends it, a situation in `tests/support/message_situations.py` that
brings it about, and its section in `docs/messages.md` (`make messages golden runbook` write the examples and the
runbook). Tests name what is missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum

NOTHING_TO_DO = "Nothing."


class AlertKind(Enum):
    """By the word that stored events and scenarios use."""

    SCALE_UP = "scale-up"
    SCALE_DOWN = "scale-down"
    AT_MAX = "at-max"
    JOIN_FAILED = "join-failed"
    JOIN_BACKOFF = "join-backoff"
    DRAIN_BLOCKED = "drain-blocked"
    FORCED = "forced"
    INTERRUPTED = "interrupted"
    NO_CAPACITY = "no-capacity"
    QUOTA = "quota"
    PERMISSION = "permission"
    LAUNCH_INVALID = "launch-invalid"
    MANY_UNHEALTHY = "many-sick"
    UNHEALTHY = "sick"
    CANNOT_HOLD = "cannot-hold"  # pods that no node can hold
    PODS_REFUSED = "pods-refused"  # pods lost their vote: a ready node has room, or a new one does not take them
    NO_BENEFIT = "no-benefit"  # a signal lost its vote
    SCALE_DOWN_BLOCKED = "scale-down-blocked"  # by something that is no load, for long
    NODE_IN_DOUBT = "node-in-doubt"  # not measured, or seen by one part only
    CLEANUP_NEEDS_OPERATOR = "cleanup-needs-person"
    DEGRADED = "degraded"
    RECOVERED = "recovered"
    RESTING_COST = "resting-cost"  # instances that are paid for and are no capacity: many, or for long
    MARKET_RESTORED = "market-restored"  # Spot takes the place of On-Demand that is above its share
    ROTATION_BLOCKED = "rotation-blocked"  # old or drifted workers that could not be replaced for long
    FAILOVER = "failover"  # the demand of a cluster that failed moves to its standby
    STANDBY_BLIND = "standby-blind"  # a standby has not seen its origin healthy for long
    READMITTED = "readmitted"  # a node that was to leave stays after all, and not by our doing
    PAUSED = "paused"
    RESUMED = "resumed"
    SCALED_BY_OPERATOR = "scaled-by-person"
    HANDED_OVER = "handed-over"  # an operator hands unowned workers to a pool, or has them drained
    RECYCLED = "recycled"  # an operator has workers replaced by new ones
    DRAINED = "drained"  # an operator has workers of a pool drained and removed
    PROTECTED = "protected"  # an operator keeps a node from voluntary removal, or ends that
    POLICY_CHANGED = "policy-changed"
    POLICY_REFUSED = "policy-refused"
    POLICY_UNUSABLE = "policy-unusable"  # the one in force cannot be followed, or is gone: the fleet is held
    ALARM = "alarm"  # of CloudWatch
    REPORT = "report"  # weekly
    DAILY = "daily"  # yesterday in a line


class Severity(IntEnum):
    OVER = 0  # something bad has ended
    INFO = 1  # nothing to do
    WARNING = 2  # to be looked at in working hours
    CRITICAL = 3  # act now: it does not end by itself, so reminders come sooner


@dataclass(frozen=True, slots=True)
class AlertSpec:
    kind: AlertKind
    severity: Severity
    headline: str
    todo: str = NOTHING_TO_DO  # what an operator does who was woken by it
    counted: str = ""  # the headline when the number of nodes is known
    stands_out: bool = False  # has a message of its own however much else happens
    on_attempts: bool = False  # seen only when something is tried again: silence does not mean that it is over
    never_held_back: bool = False  # happens to one node once, and EC2 limits how often


# Recovered stands out because degraded does: who was woken by the one must hear the other. Degraded is critical while
# EC2 or Kubernetes is away, which depends on the event's level.
CATALOGUE: Mapping[AlertKind, AlertSpec] = {
    spec.kind: spec
    for spec in (
        AlertSpec(AlertKind.SCALE_UP, Severity.INFO, "Scale-up", counted="Scale-up: {nodes} more"),
        AlertSpec(AlertKind.SCALE_DOWN, Severity.INFO, "Scale-down", counted="Scale-down: {nodes} fewer"),
        AlertSpec(
            AlertKind.AT_MAX,
            Severity.WARNING,
            "At max: more nodes are wanted",
            todo="Pods may wait or run slowly until the load falls or `limits.max` rises. Act if users feel it.",
        ),
        AlertSpec(
            AlertKind.JOIN_FAILED,
            Severity.WARNING,
            "A new node did not join",
            todo="Nothing at once: another one is tried, and you are told if joins keep failing.",
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.JOIN_BACKOFF,
            Severity.CRITICAL,
            "New nodes keep failing to join",
            todo="Act now: the fleet cannot grow or replace a lost node until joins work.",
            stands_out=True,
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.DRAIN_BLOCKED,
            Severity.WARNING,
            "A node could not be drained",
            todo="Nothing at once: the node goes on working, and costing. It is tried again later, less and "
            "less often.",
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.FORCED,
            Severity.WARNING,
            "Pods are deleted by force",
            todo="Look whether these pods run again elsewhere. They had no time for an orderly end.",
            never_held_back=True,
        ),
        AlertSpec(
            AlertKind.INTERRUPTED,
            Severity.INFO,
            "EC2 takes a node away",
            todo="Nothing. The replacement is launched by itself, and you are told if it cannot be had.",
            stands_out=True,
            never_held_back=True,
        ),
        AlertSpec(
            AlertKind.NO_CAPACITY,
            Severity.WARNING,
            "EC2 has no capacity",
            todo="Nothing at once: other types and zones, and On-Demand instead of Spot, are tried. Act if pods wait.",
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.QUOTA,
            Severity.CRITICAL,
            "The AWS quota is reached",
            todo="Act now: no more nodes of this kind can be had. A higher quota is asked for in Service Quotas.",
            stands_out=True,
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.PERMISSION,
            Severity.CRITICAL,
            "The autoscaler lacks a permission",
            todo="Act now: what is named here does not happen until the permission is given.",
            stands_out=True,
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.LAUNCH_INVALID,
            Severity.CRITICAL,
            "EC2 refuses the launch request",
            todo="Act now: this request never works. No node like this is launched until it is fixed.",
            stands_out=True,
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.MANY_UNHEALTHY,
            Severity.CRITICAL,
            "Many nodes are unhealthy at once",
            todo="Act now: the autoscaler replaces nothing until most of them are well again.",
            stands_out=True,
        ),
        AlertSpec(
            AlertKind.UNHEALTHY,
            Severity.WARNING,
            "A node is unhealthy",
            todo="Nothing at once. Look for a cause if it happens again: memory, disk, or the instance itself.",
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.CANNOT_HOLD,
            Severity.WARNING,
            "Pods fit on no node",
            todo="These pods wait until they or the pool change: more nodes do not help.",
        ),
        AlertSpec(
            AlertKind.PODS_REFUSED,
            Severity.WARNING,
            "Pods wait, and nodes do not help",
            todo="Look at the pods' events and at what the scheduler says: a claim, a StorageClass, a limit or"
            " a taint. They are tried again by themselves.",
        ),
        AlertSpec(
            AlertKind.NO_BENEFIT,
            Severity.WARNING,
            "More nodes did not help",
            todo="Look for what really limits it, such as a database, a lock or an image that cannot be "
            "pulled. It buys no more nodes until it clears.",
            on_attempts=True,
        ),
        AlertSpec(
            AlertKind.SCALE_DOWN_BLOCKED,
            Severity.WARNING,
            "Scale-down is blocked",
            todo="Fix what is named, or change `when_missing` of the reading. Until then the fleet may be "
            "larger than it has to be.",
        ),
        AlertSpec(
            AlertKind.NODE_IN_DOUBT,
            Severity.WARNING,
            "A node is in doubt",
            todo="Look at the node and at its exporter. The others go on scaling; this one stays until it is clear.",
        ),
        AlertSpec(
            AlertKind.CLEANUP_NEEDS_OPERATOR,
            Severity.WARNING,
            "An operator has to clean up",
            todo="The autoscaler leaves it alone. It may cost money until an operator removes it.",
        ),
        AlertSpec(
            AlertKind.DEGRADED,
            Severity.WARNING,
            "Degraded: something cannot be read",
            todo="Look at the part that is named. What runs goes on running; you are told when it is over.",
            stands_out=True,
        ),
        AlertSpec(AlertKind.RECOVERED, Severity.OVER, "Recovered", stands_out=True),
        AlertSpec(
            AlertKind.RESTING_COST,
            Severity.WARNING,
            "Instances are paid for and do no work",
            todo="Look at the instances that are named. They cost money until they work again or are terminated.",
        ),
        AlertSpec(AlertKind.MARKET_RESTORED, Severity.INFO, "Spot takes the place of On-Demand"),
        AlertSpec(
            AlertKind.ROTATION_BLOCKED,
            Severity.WARNING,
            "Old workers cannot be replaced",
            todo="Look at what keeps them. They run on, without the updates that a new worker would have.",
        ),
        AlertSpec(
            AlertKind.FAILOVER,
            Severity.CRITICAL,
            "A region has failed, and its standby takes over",
            todo="Act now: see that requests go to this cluster, and look at the other region. Nodes are added by"
            " themselves, and go back only by `nodefleet failover FROM TO --back`.",
            stands_out=True,
        ),
        AlertSpec(
            AlertKind.STANDBY_BLIND,
            Severity.WARNING,
            "A standby does not see its origin healthy",
            todo="Look at the reading that `standby.reading` names. Until it shows the other cluster healthy, a failure"
            " of that cluster moves nothing by itself; `nodefleet failover FROM TO` does.",
        ),
        AlertSpec(AlertKind.READMITTED, Severity.INFO, "A node stays after all", never_held_back=True),
        AlertSpec(
            AlertKind.PAUSED,
            Severity.INFO,
            "Paused by an operator",
            todo="Nothing, but remember it: `nodefleet resume` ends it.",
        ),
        AlertSpec(AlertKind.RESUMED, Severity.INFO, "Resumed"),
        AlertSpec(AlertKind.SCALED_BY_OPERATOR, Severity.INFO, "An operator set the size"),
        AlertSpec(AlertKind.HANDED_OVER, Severity.INFO, "An operator disposed of unowned workers"),
        AlertSpec(AlertKind.RECYCLED, Severity.INFO, "An operator has workers replaced"),
        AlertSpec(AlertKind.DRAINED, Severity.INFO, "An operator has workers drained"),
        AlertSpec(AlertKind.PROTECTED, Severity.INFO, "An operator protects a node, or ends that"),
        AlertSpec(AlertKind.POLICY_CHANGED, Severity.INFO, "A new policy is in force"),
        AlertSpec(
            AlertKind.POLICY_REFUSED,
            Severity.WARNING,
            "A policy was refused",
            todo="Fix the policy in working hours. Until then the last good one holds.",
        ),
        AlertSpec(
            AlertKind.POLICY_UNUSABLE,
            Severity.CRITICAL,
            "The fleet is held: its policy cannot be followed",
            todo="Act now: the fleet keeps its size whatever the load, until a valid policy is applied or the "
            "release that knew it is deployed again.",
            stands_out=True,
        ),
        AlertSpec(
            AlertKind.ALARM,
            Severity.CRITICAL,
            "CloudWatch alarm",
            todo="Look at what it measures: the link below leads there.",
            stands_out=True,
        ),
        AlertSpec(AlertKind.REPORT, Severity.INFO, "The week in figures", todo="", stands_out=True),
        AlertSpec(AlertKind.DAILY, Severity.INFO, "Yesterday in figures", todo=""),
    )
}

CRITICAL = frozenset(kind for kind, spec in CATALOGUE.items() if spec.severity is Severity.CRITICAL)
STANDS_OUT = frozenset(kind for kind, spec in CATALOGUE.items() if spec.stands_out)
SEEN_ON_ATTEMPTS = frozenset(kind for kind, spec in CATALOGUE.items() if spec.on_attempts)
NEVER_HELD_BACK = frozenset(kind for kind, spec in CATALOGUE.items() if spec.never_held_back)
