"""Which of the nodes that could be bought would hold a pod. Pods of one template are asked about once."""

from collections.abc import Hashable, Mapping, Sequence

from nodefleet.decide.scheduling.classes import zones_asked_for
from nodefleet.decide.scheduling.templates import Template
from nodefleet.domain.workload import Pod, Rules


class Choices:
    def __init__(self, templates: Mapping[str, Sequence[Template]]) -> None:
        self._templates = templates  # by pool
        self._found: dict[Hashable, Mapping[str, int]] = {}
        self._rules: dict[int, Rules] = {}

    def pools(self, pod: Pod) -> tuple[str, ...]:
        """Pools one of whose nodes could hold the pod, in the policy's order."""
        return tuple(self._of(pod))

    def number(self, pod: Pod) -> int:
        """How many kinds of nodes could, by type and zone."""
        return sum(self._of(pod).values())

    def _of(self, pod: Pod) -> Mapping[str, int]:
        shape = self._shape(pod)
        if shape not in self._found:
            by_pool = {pool: sum(each.can_hold(pod) for each in those) for pool, those in self._templates.items()}
            self._found[shape] = {pool: number for pool, number in by_pool.items() if number}
        return self._found[shape]

    def _shape(self, pod: Pod) -> Hashable:
        self._rules[id(pod.rules)] = pod.rules  # kept, so that the id is not given to other rules
        asked = pod.requests
        sizes = (asked.cpu, asked.memory, asked.storage, frozenset(asked.extended.items()))
        return (id(pod.rules), sizes, zones_asked_for(pod), any(volume.node for volume in pod.volumes))
