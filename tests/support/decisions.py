"""What tests ask of whole decisions: small policies, quiet iterations, and what the plan holds."""

from nodefleet.model.inventory import Notice, NoticeKind, Resources
from nodefleet.model.operations import Create, Launch, SendAlert
from nodefleet.model.state import Memory
from nodefleet.policy.cluster import Policy
from nodefleet.policy.demand import JobDemand
from nodefleet.policy.pool import Limits, Pool, Predictive
from nodefleet.policy.sources import Prometheus
from support.builders import NOON, calm_for, look, only, pod

POLICY = Policy()
KNOWN = Memory()
QUIET = {"cpu": 20.0, "memory": 30.0, "pods": ()}


def with_pool(**changes):
    return Policy(pools=(Pool(**changes),))


def opened(decision, kind):
    return [
        step.operation for step in only(decision).plan if isinstance(step, Create) and isinstance(step.operation, kind)
    ]


def alerts(decision):
    return [step.alert for step in only(decision).plan if isinstance(step, SendAlert)]


def bought(decision):
    return sum(each.count for each in opened(decision, Launch))


def doom(number, at=NOON):
    return Notice(instance=f"i-{number:03}", kind=NoticeKind.SPOT_INTERRUPTION, at=at)


def calm_look(number=5, looks=4, policy=POLICY, **changes):
    """The fifth quiet iteration, and the memory of the four before it."""
    memory, at = calm_for(looks, policy, workers=number, **{**QUIET, **changes})
    return look(number, at=at, **{**QUIET, **changes}), memory


def filled(number):
    return [pod(f"full-{n}", f"w{n:03}", requests=Resources(cpu=1900)) for n in range(number)]


def pool_memory(decision):
    return decision.memory.pool("default")


JOBS = Pool(
    name="jobs",
    limits=Limits(min=0, max=5),
    custom=(JobDemand(name="runners", jobs="jobs"),),
    readings={"jobs": Prometheus(query="x")},
    predictive=Predictive(enabled=False),
)
