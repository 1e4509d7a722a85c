"""Names for operations: readable, and unique because fencing numbers only grow and a run counts its looks."""

from nodefleet.domain.observation import Observation


def operation_id(seen: Observation, kind: str, target: str) -> str:
    """For example shop-f17.1-20261116T200400-launch-default-eu-west-1a-spot."""
    return f"{seen.cluster}-f{seen.run}-{seen.at:%Y%m%dT%H%M%S}-{kind}-{target}"
