"""One observation of the cluster, for the page and for commands that show it: nothing is decided from it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from nodefleet.model.decision import DecisionRecord, Event
from nodefleet.model.fleet import Worker
from nodefleet.model.snapshot import Observation
from nodefleet.phases import derive_workers
from nodefleet.policy.cluster import Policy
from nodefleet.ports import Runtime, State
from nodefleet.reconcile.observe import ActivePolicy, observe, resolve_policy

_RUN = "dashboard"  # no operation carries it
_WITHIN = timedelta(seconds=8)
_ALARMS_SINCE = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One observation with everything that the page derives from it."""

    state: State
    active: ActivePolicy
    observation: Observation
    workers: tuple[Worker, ...]
    last: DecisionRecord | None
    events: tuple[Event, ...]

    @property
    def at(self) -> datetime:
        return self.observation.at

    @property
    def policy(self) -> Policy:
        return self.active.policy


def observe_cluster(parts: Runtime) -> Seen:
    """Read everything once. Raises what the table raises; EC2 and Kubernetes may be Missing."""
    now = parts.time.now()
    state = parts.store.state()
    active = resolve_policy(state, parts.policies, now)
    observation = observe(parts, state, active.policy, _RUN, _WITHIN)
    return Seen(
        state=state,
        active=active,
        observation=observation,
        workers=derive_workers(observation, active.policy),
        last=next(iter(parts.history.decisions(1)), None),
        events=parts.history.events(now - _ALARMS_SINCE, now + timedelta(seconds=1)),
    )
