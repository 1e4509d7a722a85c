"""The figures of a scenario that was played, from what was recorded of it."""

from datetime import timedelta
from math import inf
from statistics import median

from nodefleet.model.decision import Action
from nodefleet.model.inventory import Market
from nodefleet.model.snapshot import add_up
from nodefleet_tools.sim.instances import SETUP
from nodefleet_tools.sim.recording import Recorder, hours, usd
from nodefleet_tools.sim.scenario_result import Figures

_P99 = 0.99
_DAY = timedelta(days=1)


def figures(recorded: Recorder) -> Figures:
    world = recorded.stage.world
    machines = [machine for machine in world.ec2.machines.values() if machine.ours and machine.worker]
    node_hours = add_up(hours(machine, world.start, world.now) for machine in machines)
    spot = add_up(hours(machine, world.start, world.now) for machine in machines if machine.market is Market.SPOT)
    took = _to_ready(recorded)
    actions = [each.action for each in recorded.heard.decided if not each.restoring]
    return Figures(
        violation_minutes=recorded.violated.total_seconds() / 60,
        success_percent=100 * recorded.in_time / recorded.asked if recorded.asked else None,
        p99_wait_seconds=_quantile(recorded, _P99),
        longest_pod_wait_seconds=recorded.longest_wait.total_seconds(),
        decision_to_ready_seconds=max(took, default=None),
        typical_to_ready_seconds=median(took) if took else None,
        healed_seconds=_healed(recorded),
        longest_drain_seconds=max((drain.total_seconds() for drain in recorded.heard.drains), default=None),
        node_hours=node_hours,
        usd=add_up(usd(machine, world.start, world.now) for machine in machines),
        spot_percent=100 * spot / node_hours if node_hours else 0.0,
        grows=actions.count(Action.GROW),
        shrinks=actions.count(Action.SHRINK),
        launched=sum(machine.by != SETUP for machine in machines),
        removed=sum(machine.ended_at is not None and machine.interrupted_at is None for machine in machines),
        fewest_nodes=recorded.fewest_ready or 0,
        most_nodes=recorded.most_machines,
        final_nodes=recorded.frames[-1].ready if recorded.frames else 0,
        oldest_worker_days=max(((machine.ended_at or world.now) - machine.launched_at) / _DAY for machine in machines)
        if machines
        else 0.0,
        warm_hours=sum(machine.kept_between(world.start, world.now).total_seconds() for machine in machines) / 3600,
    )


def _quantile(recorded: Recorder, share: float) -> float | None:
    """How long the given share of all requests waited at most."""
    if not recorded.asked:
        return None
    seen = 0.0
    for wait in sorted(recorded.waits):
        seen += recorded.waits[wait]
        if seen >= share * recorded.asked:
            return wait
    return inf


def _to_ready(recorded: Recorder) -> list[float]:
    """From the decision to launch an instance to its node being ready, for each."""
    machines = recorded.stage.world.ec2.machines
    return [
        (ready - recorded.heard.launched[machines[identity].operation]).total_seconds()
        for identity, ready in recorded.ready_at.items()
        if machines[identity].operation in recorded.heard.launched
    ]


def _healed(recorded: Recorder) -> float | None:
    """From EC2's warning to as many ready workers as before, at the slowest."""
    took = [(healing.healed - healing.at).total_seconds() if healing.healed else inf for healing in recorded.healings]
    return max(took, default=None)
