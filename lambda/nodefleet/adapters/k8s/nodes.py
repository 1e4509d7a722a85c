"""Nodes as the domain knows them.

Our own taint stays among the taints: the scheduler sees it too, also when a person lifted the cordon and left it there.
"""

import re
from collections.abc import Mapping

from nodefleet.adapters.k8s.refusals import PART
from nodefleet.adapters.k8s.selecting import effect_named
from nodefleet.adapters.k8s.shapes import NodeShape, TaintShape, condition, labels_of
from nodefleet.domain.machines import Node
from nodefleet.domain.names import (
    CONTROL_PLANE_LABELS,
    LEAVING_TAINT,
    POOL_LABEL,
    REASON_ANNOTATION,
    REMOVAL_ANNOTATION,
)
from nodefleet.domain.requests import resources_from
from nodefleet.domain.resources import Resources
from nodefleet.domain.workload import SCALE_DOWN_DISABLED, Effect, Taint
from nodefleet.errors import UnavailableError

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
_PROVIDER_ID = re.compile(r"aws:///[^/]*/(i-[^/]+)")
_TELLING = frozenset({*SCALE_DOWN_DISABLED, REMOVAL_ANNOTATION, REASON_ANNOTATION})  # the rest is of no use to us


def node_from(shape: NodeShape) -> Node:
    meta, spec = shape.metadata, shape.spec
    labels = labels_of(meta)
    annotations = meta.annotations or {}
    taints = tuple(taint_from(taint) for taint in spec.taints or ())
    ready = condition(shape.status.conditions, "Ready")
    pressing = [each for each in shape.status.conditions or () if each.type in PRESSURES and each.status == "True"]
    machine = _PROVIDER_ID.fullmatch(spec.provider_id)
    return Node(
        name=meta.name,
        pool=labels.get(POOL_LABEL) or None,
        instance=machine[1] if machine else "",
        control_plane=any(label in labels for label in CONTROL_PLANE_LABELS),
        ready=ready is not None and ready.status == "True",
        ready_changed_at=(ready and ready.last_transition_time) or meta.creation_timestamp,
        created_at=meta.creation_timestamp,
        cordoned=spec.unschedulable,
        removal=annotations.get(REMOVAL_ANNOTATION, "") if _is_leaving(taints) else "",
        labels=labels,
        annotations={key: text for key, text in annotations.items() if key in _TELLING},
        taints=taints,
        pressures=tuple(each.type for each in pressing),
        pressed_since=min((each.last_transition_time for each in pressing if each.last_transition_time), default=None),
        allocatable=_amounts(meta.name, shape.status.allocatable or {}),
    )


def taint_from(shape: TaintShape) -> Taint:
    """An effect that is new to us keeps pods off like the strictest that we know to do so."""
    return Taint(key=shape.key, value=shape.value, effect=effect_named(shape.effect) or Effect.NO_SCHEDULE)


def _is_leaving(taints: tuple[Taint, ...]) -> bool:
    return any(taint.key == LEAVING_TAINT for taint in taints)


def _amounts(name: str, quantities: Mapping[str, str]) -> Resources:
    try:
        return resources_from(quantities)
    except ValueError as error:
        raise UnavailableError(PART, f"node {name}: {error}") from error
