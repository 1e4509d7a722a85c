"""The load that a test sets: each node has a stand-in for its exporter, and all tell what is set for them."""

from collections.abc import Iterable

from e2e.metrics.node_exporter import Machine, NodeExporter

_CALM_CPU, _CALM_MEMORY = 50.0, 60.0  # percent: neither reason to grow nor to shrink


class Load:
    """Percent of all CPUs and of the memory. What is not set for a node is as for all, also for those that come."""

    def __init__(self) -> None:
        self._exporters: dict[str, NodeExporter] = {}
        self._cpu = self._memory = 0.0
        self.calm()

    def calm(self) -> None:
        self.cpu(_CALM_CPU)
        self.memory(_CALM_MEMORY)

    def cpu(self, percent: float, nodes: Iterable[str] | None = None) -> None:
        if nodes is None:
            self._cpu = percent
        for each in self._of(nodes):
            each.machine.use(cpu=percent / 100)

    def memory(self, percent: float, nodes: Iterable[str] | None = None) -> None:
        if nodes is None:
            self._memory = percent
        for each in self._of(nodes):
            each.machine.use(memory=percent / 100)

    def boots(self, node: str, *, cpus: int, memory_mib: int) -> str:
        """Its exporter runs from now on, at the address that comes back."""
        if node not in self._exporters:
            shares = {"cpu": self._cpu / 100, "memory": self._memory / 100}
            self._exporters[node] = NodeExporter(Machine(cpus=cpus, memory_bytes=memory_mib << 20, **shares))
        self._exporters[node].start()
        return self._exporters[node].address

    def dies(self, node: str) -> None:
        """Nobody listens there any more."""
        if exporter := self._exporters.pop(node, None):
            exporter.stop()

    def close(self) -> None:
        for node in list(self._exporters):
            self.dies(node)

    def _of(self, nodes: Iterable[str] | None) -> list[NodeExporter]:
        return list(self._exporters.values()) if nodes is None else [self._exporters[name] for name in nodes]
