"""A recorded interruption is handled: when EC2 takes the worker its node takes no pods any more.

The events come through a queue, and what is recorded of them is seen by the function that recorded it and by every run.
Demanded of Spot warnings that were in the table for `_TIME` or longer while everything answered; less is EC2's doing.

Its time counts only while a run knows of it that can act: from the next iteration on if an operator uncordoned the
node during the warning, or if every function that recorded it has died since. The queue delivers the event of such a
function again after the warning's two minutes, and a tick may find a lease that the dead still hold.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from nodefleet.model.inventory import Node, Notice, NoticeKind
from nodefleet_tools.sim.liveness.check import Check
from nodefleet_tools.sim.rules import Rule

_TIME = timedelta(seconds=60)  # half of a warning: the design cordons within twenty seconds


class Interruptions(Check):
    rule = Rule.UNHANDLED

    def cases(self) -> Mapping[str, timedelta]:
        return {}

    def begun(self) -> None:
        self._recorded: dict[str, datetime] = {}  # instances whose nodes still take pods, and since when that is known

    def broken(self) -> Iterable[str]:
        world = self.world
        if not world.conditions.all_answer:
            self._recorded.clear()
            return
        now, machines = world.now, world.ec2.machines
        for identity, since in list(self._recorded.items()):
            machine, node = machines[identity], world.kube.node_of(identity)
            lasted = (machine.ended_at or now) - since  # not until this poll: it may have ended right after the last
            if not machine.live and lasted >= _TIME:
                yield f"{identity} was taken, and its node had taken pods for {lasted.total_seconds():.0f} s"
            if not machine.live or node is None or node.cordoned or not node.ready:
                del self._recorded[identity]
        for notice in world.table.all("notice", Notice):
            node = world.kube.node_of(notice.instance)
            live = notice.instance in machines and machines[notice.instance].live
            warned = notice.kind is NoticeKind.SPOT_INTERRUPTION and live
            if warned and node is not None and node.ready and not node.cordoned and self._was_observed(node):
                self._recorded.setdefault(notice.instance, now)

    def _was_observed(self, node: Node) -> bool:
        """An iteration has begun since an operator last uncordoned it; and a function that recorded it has not died,
        or an iteration that has not died began after it."""
        runs = self.world.runs.values()
        uncordoned = self.world.guard.uncordoned_at.get(node.name)
        if uncordoned is not None and not any(run.looked_at and run.looked_at >= uncordoned for run in runs):
            return False
        handlers = [run for run in runs if node.instance in run.recorded]
        if not handlers or not all(run.dead for run in handlers):
            return True
        recorded = max(run.began for run in handlers if run.began)
        return any(run.looked_at and run.looked_at >= recorded for run in runs if not run.dead)
