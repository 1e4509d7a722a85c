"""Where a cluster's parts are: what the deployment tells the functions, and nothing that is secret."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from nodefleet.domain.observation import LaunchTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    cluster: str
    api_server: str = ""  # https://10.0.1.10:6443; empty: as the secret says
    api_secret: str = ""  # Secrets Manager: {"server": …, "token": …, "ca": …}; empty: <prefix>/<cluster>/kubernetes
    prometheus: str = ""  # http://10.0.1.10:9090
    # Secrets Manager: {"username": …, "password": …} or {"token": …}; empty: what api_secret says
    prometheus_secret: str = ""
    targets: tuple[LaunchTarget, ...] = ()  # one for each pool
    prices: Mapping[str, float] = field(default_factory=dict)  # USD/h On-Demand by type, in this region
    # What the autoscaler itself costs, USD a month by part: alarms, metrics, … Empty: not known for this region.
    own_usd: Mapping[str, float] = field(default_factory=dict)
    reconcile_function: str = ""  # its name or ARN, so that a person's order can start a run at once
    dashboard: str = ""  # links for people
    logs: str = ""
