"""How the functions get into the cluster: the account and role that infra ships, and a token as the master makes it."""

from collections.abc import Iterable, Mapping

import yaml

from nodefleet.adapters.kubernetes.resources import DAEMON_SETS, NAMESPACES, Resource
from nodefleet_infra import manifests
from support.real_cluster_world import Admin

ACCOUNTS = Resource(plural="serviceaccounts")
KINDS: Mapping[str, Resource] = {
    "Namespace": NAMESPACES,
    "ServiceAccount": ACCOUNTS,
    "ClusterRole": Resource(group="rbac.authorization.k8s.io", plural="clusterroles"),
    "ClusterRoleBinding": Resource(group="rbac.authorization.k8s.io", plural="clusterrolebindings"),
    "DaemonSet": DAEMON_SETS,
}
SHIPPED = ("namespace", "autoscaler", "pending-watcher", "node-exporter")
_VALID_SECONDS = 24 * 3600


def apply(admin: Admin, site: manifests.Site, names: Iterable[str] = SHIPPED) -> None:
    """What K3s would from its manifests folder."""
    files = manifests.rendered(site)
    for name in names:
        for each in yaml.safe_load_all(files[manifests.file_of(name)]):
            admin.do(KINDS[each["kind"]].create(each, each["metadata"].get("namespace", "")))


def login(admin: Admin, account: str = manifests.ACCOUNT) -> dict[str, str]:
    """What the master publishes in its secret, or gives to its own unit."""
    spec = {"spec": {"expirationSeconds": _VALID_SECONDS}}
    made = admin.do(ACCOUNTS.create_under(account, "token", spec, manifests.NAMESPACE))
    return {"server": admin.server, "token": made["status"]["token"], "ca": admin.ca}
