"""`headroom`: capacity that is kept free, so that new pods start at once instead of waiting for a node to boot."""

from dataclasses import dataclass

from nodefleet.policy.fields import NODES, PERCENT, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Each amount is a requirement of its own; the same free capacity may meet several of them. All 0: none is kept."""

    nodes: int = setting(0, NODES, "so many nodes' worth of room on nodes that carry nothing else", at_least=0)
    pods: int = setting(0, "pods", "room for so many more pods of the size below", at_least=0)
    cpu: float = setting(0, "cores", "room for as many more pods as ask for so much CPU", at_least=0)
    memory: float = setting(0, "GiB", "room for as many more pods as ask for so much memory", at_least=0)
    percent: float = setting(0, PERCENT, "of what the pool's running pods ask for, as room for more of them")
    peak_percent: float = setting(
        0, PERCENT, "of the most nodes that the pool had in `peak_days`, as spare nodes", at_most=50
    )
    peak_days: int = setting(7, "days", "how long the highest count is remembered", at_least=1, at_most=35)
    pod_cpu: float | None = setting(
        None, "cores", "CPU of one pod that headroom is kept for; none takes the mean of the running pods", above=0
    )
    pod_memory: float | None = setting(
        None, "GiB", "memory of one pod that headroom is kept for; none takes the mean of the running pods", above=0
    )
    time_of_day: bool = setting(
        False, "", "true: × how much busier than the mean the coming hour was on the last days (predictive.min_days)"
    )
    least_times: float = setting(0.5, "× headroom", "the quietest hours keep this much of it", at_least=0, at_most=1)
    most_times: float = setting(2, "× headroom", "the busiest hours keep at most this much of it", at_least=1)

    @property
    def is_kept(self) -> bool:
        return any((self.nodes, self.pods, self.cpu, self.memory, self.percent, self.peak_percent))
