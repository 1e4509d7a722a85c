"""What a pod asks for as a whole, counted as the Kubernetes scheduler counts it.

Containers run side by side, so their requests add up. Ordinary init containers run one after another before them, so
only the largest matters. Sidecars (init containers that keep running) add up with everything that starts after them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from nodefleet.domain.resources import NOTHING, Resources, quantity

_HUGE_PAGES = "hugepages-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    requests: Resources = NOTHING
    sidecar: bool = False  # an init container with restartPolicy Always


def resources_from(quantities: Mapping[str, str]) -> Resources:
    """Kubernetes quantities by resource name, in our units; parts of a unit count as a whole one."""
    amounts = {name: quantity(text) for name, text in quantities.items()}
    return Resources(
        cpu=_whole(amounts.pop("cpu", Decimal(0)) * 1000),
        memory=_whole(amounts.pop("memory", Decimal(0))),
        storage=_whole(amounts.pop("ephemeral-storage", Decimal(0))),
        pods=_whole(amounts.pop("pods", Decimal(0))),
        extended={name: _whole(amount) for name, amount in sorted(amounts.items())},
    )


def effective_requests(
    containers: Iterable[Container],
    init_containers: Iterable[Container] = (),
    overhead: Resources = NOTHING,
    pod_level: Resources = NOTHING,
) -> Resources:
    """What the scheduler reserves for a pod."""
    running = NOTHING
    for container in containers:
        running += container.requests
    sidecars, starting = NOTHING, NOTHING
    for container in init_containers:
        if container.sidecar:
            sidecars += container.requests
            starting = starting.at_least(sidecars)
        else:
            starting = starting.at_least(sidecars + container.requests)
    needed = (running + sidecars).at_least(starting)
    return _overridden(needed, pod_level) + overhead


def _overridden(needed: Resources, pod_level: Resources) -> Resources:
    """Pod-level CPU, memory and huge pages stand instead of the containers'; other resources have no pod level."""
    pages = {name: amount for name, amount in pod_level.extended.items() if name.startswith(_HUGE_PAGES)}
    return Resources(
        cpu=pod_level.cpu or needed.cpu,
        memory=pod_level.memory or needed.memory,
        storage=needed.storage,
        pods=needed.pods,
        extended={**needed.extended, **pages},
    )


def _whole(amount: Decimal) -> int:
    return int(amount.to_integral_value(rounding=ROUND_CEILING))
