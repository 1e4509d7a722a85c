"""Everything that one cluster's run works with. All of it can be replaced, one by one."""

from dataclasses import dataclass

from nodefleet.ports import Archive, Cloud, Cluster, Gauges, History, Policies, Store, Telemetry, Time, Together


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    cluster_id: str
    time: Time
    store: Store
    history: History
    cloud: Cloud
    cluster: Cluster
    gauges: Gauges
    archive: Archive
    policies: Policies
    telemetry: Telemetry
    together: Together
