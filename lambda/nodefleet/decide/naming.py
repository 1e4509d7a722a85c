"""Names: of operations, readable and unique because fencing numbers only grow and a run counts its looks; and of
workloads, from the names of their pods."""

import re

from nodefleet.domain.observation import Observation


def operation_id(seen: Observation, kind: str, target: str) -> str:
    """For example shop-f17.1-20261116T200400-launch-default-eu-west-1a-spot."""
    return f"{seen.cluster}-f{seen.run}-{seen.at:%Y%m%dT%H%M%S}-{kind}-{target}"


# As Kubernetes makes them: an ordinal or a time, five random letters, the hash of a template.
_GENERATED = re.compile(r"-(\d+|[bcdfghjklmnpqrstvwxz2456789]{5}|[bcdfghjklmnpqrstvwxz2456789]{8,10})$")


def workload(pod: str) -> str:
    """What a pod (namespace/name) belongs to, by its name without the generated endings: alerts about a workload must
    not look new with each of its pods."""
    while (shorter := _GENERATED.sub("", pod)) != pod:
        pod = shorter
    return pod
