"""What was executed: a record for each step that had an effect, with the sentence that operators read of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from nodefleet.model.names import pluralize


class ActionKind(Enum):
    LAUNCH = "launch"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    EVICT = "evict"
    FORCE_DELETE = "force-delete"
    TERMINATE = "terminate"
    DELETE_NODE = "delete-node"
    MARK_FAILED = "mark-failed"  # an instance that did not join is kept for an operator
    ASSIGN = "assign"  # a worker is handed to a pool


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedAction:
    kind: ActionKind
    node: str = ""
    instance: str = ""
    instances: tuple[str, ...] = ()  # launch: what EC2 gave
    asked: int = 0  # launch: how many were asked for
    market: str = ""
    zone: str = ""
    pool: str = ""
    results: Mapping[str, int] = field(default_factory=dict)  # evict, force-delete: pods by what came of it
    reason: str = ""

    @property
    def targets(self) -> frozenset[str]:
        """Nodes and instances that it was done to."""
        return frozenset(filter(None, (self.node, self.instance, *self.instances)))

    def __str__(self) -> str:
        match self.kind:
            case ActionKind.LAUNCH:
                got = ", ".join(self.instances) or "none"
                return f"asked EC2 for {self.asked} {self.market} in {self.zone}: got {got}"
            case ActionKind.CORDON:
                return f"cordoned {self.node}"
            case ActionKind.UNCORDON:
                return f"let {self.node} back in"
            case ActionKind.EVICT:
                results = ", ".join(f"{count} {result}" for result, count in sorted(self.results.items()) if count)
                return f"evicted from {self.node}: {results}"
            case ActionKind.FORCE_DELETE:
                return f"deleted {pluralize(sum(self.results.values()), 'pod', 'pods')} on {self.node} by force"
            case ActionKind.TERMINATE:
                return f"terminated {self.instance}: {self.reason}"
            case ActionKind.DELETE_NODE:
                return f"deleted node {self.node}"
            case ActionKind.MARK_FAILED:
                return f"marked {self.instance} as failed to join"
            case ActionKind.ASSIGN:
                return f"handed {self.node or self.instance} to pool {self.pool}"
            case _:
                assert_never(self.kind)
