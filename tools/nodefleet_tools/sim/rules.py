"""What must never happen, whatever fails, what must happen in time, and how it is told.

more workers than max         run + pending workers of a pool, without those an operator launched or EC2 takes
more workers than fleet max   the same of all pools together, and of workers that none of them owns
too many kept warm            more stopped instances are kept than warm.size, or one longer than warm.max_age
forbidden target              the control plane, a foreign instance or a foreign node was to be touched
pods abandoned                a worker was terminated with pods on it that had to move; interrupted, dead and
                              unjoined ones excepted
budget broken                 an eviction left fewer healthy pods than the budget wants
evicted in circles            a pod was evicted that came back to the leaving node, and would again
by force                      a pod was deleted without grace from a node that EC2 does not take
an operator overruled         our uncordon took off, or our cordon covered, a cordon that an operator had set
without the lease             a run acted or wrote that does not hold the lease, or let go of another's; draining what
                              EC2 takes is excepted
token reused                  a launch was sent again with other parameters
bought twice                  a launch made more instances than it asked for
without a record              something was done that no recorded decision, and no operation that one opened, asked for
destroyed at first sight      a cleanup took something that cannot have been seen as orphaned twice, far enough apart
mass cleanup                  cleanups took more on doubtful evidence than an operator wants to be asked about
shrank on missing data        a node was to leave though the readings were missing or stale
counted what is not there     a decision counted capacity that EC2 is known to take, or that does not exist
wake lost                     a run released the lease though it was woken since its last iteration, and it had time
below min for too long        launches work again, and min is still not restored
did not come to rest          long after everything is well: orphans, cordons, operations or a lease are left
consolidated in circles       consolidation removed a node, and the fleet is not cheaper than after the last one
unexpected error              a run raised what no port raises
table                         a write that the real table would refuse for its size, or records that only pile up

What must happen (`liveness`), each within a bound that the policy gives:

operation never ends          an operation stays open beyond its deadlines
pod left waiting              growth stopped while a pod waits that a new node could hold
not healed                    an unhealthy worker is neither replaced nor removed
did not shrink                an idle fleet with nothing that protects its nodes is still above min
not rotated                   a worker that is too old or has drifted stays, though nothing protects it
mute never ends               pods without a vote are neither heard again nor told of again
interruption not handled      EC2 took a worker that was recorded as interrupted, and its node still took pods
resting cost                  instances that are paid for and are no capacity stay, and no operator is alerted
standby never ends            a floor for another cluster outlasts `standby.lasting`, or is ordered again without need
too many replicas down        a voluntary removal has more replicas of a workload down than `budgets.removals` allows
alert flood                   one continuing condition is alerted again and again
"""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class Rule(Enum):
    OVER_MAX = "more workers than max"
    OVER_FLEET_MAX = "more workers than fleet max"
    OVER_FLEET_CAP = "more CPU, memory, GPUs or cost than a cap of the fleet"
    WARM = "too many kept warm"
    FORBIDDEN = "forbidden target"
    ABANDONED = "pods abandoned"
    BUDGET = "budget broken"
    RETURNED = "evicted in circles"
    FORCED = "by force"
    OPERATOR = "an operator overruled"
    LEASE = "without the lease"
    TOKEN = "token reused"  # noqa: S105  # the name of a rule
    TWICE = "bought twice"
    UNRECORDED = "without a record"
    HASTY = "destroyed at first sight"
    MASS = "mass cleanup"
    BLIND = "shrank on missing data"
    COUNTED = "counted what is not there"
    WAKE = "wake lost"
    MIN = "below min for too long"
    RESTLESS = "did not come to rest"
    CHURN = "consolidated in circles"
    CRASHED = "unexpected error"
    TABLE = "table"
    UNFINISHED = "operation never ends"
    PODS = "pod left waiting"
    HEALING = "not healed"
    SHRINKING = "did not shrink"
    ROTATION = "not rotated"
    MUTE = "mute never ends"
    UNHANDLED = "interruption not handled"
    RESTING_COST = "resting cost"
    STANDBY = "standby never ends"
    AVAILABILITY = "too many replicas down"
    QUIET = "alert flood"


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    at: datetime
    run: str
    rule: Rule
    detail: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.run}: {self.rule.value}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Happened:
    """One action or event, for the trace of what led to a violation."""

    at: datetime
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:%H:%M:%S} {self.who}: {self.what}"
