"""What pods have in common, worked out once: labels, requests and rules.

Ten thousand pods come from some hundred templates. Equal raw bytes stand for equal content, so each is decoded once and
its result is shared. Sharing also tells those who pack pods that two of them are alike.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from nodefleet.adapters.k8s.pod_shapes import (
    Affinity,
    ContainerShape,
    ContainerState,
    PodSpec,
    PodStatus,
    SpreadShape,
    TolerationShape,
)
from nodefleet.adapters.k8s.rules import (
    Namespaces,
    host_ports,
    pod_terms,
    required_node_terms,
    spread_constraints,
    tolerations,
)
from nodefleet.adapters.k8s.shapes import STRINGS, condition
from nodefleet.domain.requests import Container, effective_requests, resources_from
from nodefleet.domain.resources import NOTHING, Resources
from nodefleet.domain.workload import Rules

_NONE = b"null"
_AFFINITY = msgspec.json.Decoder(Affinity | None)
_TOLERATIONS = msgspec.json.Decoder(list[TolerationShape] | None)
_SPREADS = msgspec.json.Decoder(list[SpreadShape] | None)


class Templates:
    """For the pods of one look."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._strings: dict[bytes, Mapping[str, str]] = {}
        self._amounts: dict[bytes, Resources] = {}
        self._requests: dict[Any, Resources] = {}
        self._spreads: dict[bytes, tuple[SpreadShape, ...]] = {}
        self._rules: dict[Any, Rules] = {}

    def strings(self, raw: Raw) -> Mapping[str, str]:
        """Labels, or a node selector."""
        key = bytes(raw)
        found = self._strings.get(key)
        if found is None:
            found = self._strings[key] = STRINGS.decode(key) or {}
        return found

    def requests(self, spec: PodSpec, status: PodStatus) -> Resources:
        """What the scheduler reserves for such a pod. While it is resized in place: the most of what each container
        should have, has, and was promised."""
        infeasible = _resize_is_infeasible(status)
        now = _sizes(status.container_statuses)
        starting = _sizes(status.init_container_statuses)
        key = (
            tuple([self._sizes_of(each, now, infeasible=infeasible) for each in spec.containers or ()]),
            tuple(
                [
                    (
                        self._sizes_of(each, starting if _keeps_running(each) else {}, infeasible=infeasible),
                        _keeps_running(each),
                    )
                    for each in spec.init_containers or ()
                ]
            ),
            bytes(spec.overhead),
            bytes(spec.resources.requests),
        )
        found = self._requests.get(key)
        if found is None:
            containers, init_containers, _, _ = key
            found = self._requests[key] = effective_requests(
                [Container(requests=self._most(sizes)) for sizes in containers],
                [Container(requests=self._most(sizes), sidecar=sidecar) for sizes, sidecar in init_containers],
                overhead=self._amount(spec.overhead),
                pod_level=self._amount(spec.resources.requests),
            )
        return found

    def _sizes_of(
        self, container: ContainerShape, states: Mapping[str, tuple[bytes, bytes]], *, infeasible: bool
    ) -> tuple[bytes, ...]:
        """All that counts for one container. Unless it is being resized that is one and the same."""
        wanted, state = bytes(container.resources.requests), states.get(container.name)
        if state is None:
            return (wanted,)
        has, promised = state
        if infeasible:
            return (has, promised)
        return (wanted,) if has == wanted and promised in (wanted, _NONE) else (wanted, has, promised)

    def _most(self, sizes: tuple[bytes, ...]) -> Resources:
        most = NOTHING
        for size in sizes:
            most = most.at_least(self._amount(size))
        return most

    def rules(self, spec: PodSpec, labels: Mapping[str, str]) -> Rules:
        spreads = self._spread(spec.topology_spread_constraints)
        ports = host_ports((*(spec.containers or ()), *filter(_keeps_running, spec.init_containers or ())))
        key = (
            bytes(spec.node_selector),
            bytes(spec.affinity),
            bytes(spec.tolerations),
            bytes(spec.topology_spread_constraints),
            ports,
            tuple([labels.get(key) for spread in spreads for key in spread.match_label_keys or ()]),
        )
        found = self._rules.get(key)
        if found is None:
            affinity = _AFFINITY.decode(spec.affinity)
            found = self._rules[key] = Rules(
                node_selector=self.strings(spec.node_selector),
                node_terms=required_node_terms(affinity),
                tolerations=tolerations(_TOLERATIONS.decode(spec.tolerations) or ()),
                host_ports=ports,
                affinity=pod_terms(affinity.pod_affinity if affinity else None, self._namespaces),
                anti_affinity=pod_terms(affinity.pod_anti_affinity if affinity else None, self._namespaces),
                spread=spread_constraints(spreads, labels),
            )
        return found

    def _amount(self, raw: Raw | bytes) -> Resources:
        key = bytes(raw)
        found = self._amounts.get(key)
        if found is None:
            found = self._amounts[key] = resources_from(STRINGS.decode(key) or {})
        return found

    def _spread(self, raw: Raw) -> tuple[SpreadShape, ...]:
        key = bytes(raw)
        found = self._spreads.get(key)
        if found is None:
            found = self._spreads[key] = tuple(_SPREADS.decode(key) or ())
        return found


def _sizes(states: list[ContainerState] | None) -> Mapping[str, tuple[bytes, bytes]]:
    """By container: what it has, and what its kubelet promised. A kubelet that cannot resize says neither."""
    return {
        each.name: (bytes(each.resources.requests), bytes(each.allocated_resources))
        for each in states or ()
        if each.resources is not None
    }


def _resize_is_infeasible(status: PodStatus) -> bool:
    """The node can never give it what it should have, so that does not count."""
    pending = condition(status.conditions, "PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _keeps_running(container: ContainerShape) -> bool:
    """An init container that is a sidecar."""
    return container.restart_policy == "Always"
