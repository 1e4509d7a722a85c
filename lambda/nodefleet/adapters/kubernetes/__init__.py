"""The Cluster port on a real API server. Lists are read raw, and only the needed fields are decoded."""

from nodefleet.adapters.kubernetes.client import CallLimits
from nodefleet.adapters.kubernetes.cluster import KubernetesCluster
from nodefleet.adapters.kubernetes.resources import NEEDED, NEEDED_PATHS, Permission

__all__ = ["NEEDED", "NEEDED_PATHS", "CallLimits", "KubernetesCluster", "Permission"]
