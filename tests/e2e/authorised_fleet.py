"""A small fleet in moto and in a real API server, with a pod of every kind, and what can happen to it.

The functions run in this process, as everywhere in `deployed`; only their API server is real, and they are its
autoscaler's account. Nobody else is there: no controller makes pods, no kubelet ends them.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

from e2e.authorised import AuthorisedCluster
from nodefleet.adapters.kubernetes.resources import (
    BUDGETS,
    CLAIMS,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    VOLUMES,
    Request,
    Resource,
)
from nodefleet.handlers import FUNCTION
from nodefleet.model.workload import HOST_LABEL
from nodefleet_tools.doctor.readings import LABELLED
from support import k8s_objects
from support.deployed import Deployed, cold
from support.deployed_site import name_of, written
from support.prometheus_stand_in import vector

ONE_LOOK = timedelta(seconds=24)  # what a run gets: time for an iteration, and for no pause
_SPOT_ROLE = "AWSServiceRoleForEC2Spot"
_CONTROLLERS = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, REPLICATION_CONTROLLERS)
_HASH = {"pod-template-hash": "abc"}
_NONE = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
_SIZE = {"storage": "1Gi"}


class Fleet:
    def __init__(self, deployed: Deployed, cluster: AuthorisedCluster) -> None:
        self.deployed, self.cluster, self.site = deployed, cluster, deployed.site
        self.namespace = f"shop-{uuid4().hex[:8]}"
        self._do = cluster.admin.do
        self._do(NAMESPACES.create({"metadata": {"name": self.namespace}}))
        self.log_in(cluster.token())
        self.workers = sorted(self.site.workers(3))
        self.doomed = self.workers[0]
        for instance in self.workers:
            self._make_node(self.site.node(instance))
        self._warned_at = ""

    def log_in(self, token: str) -> None:
        """The functions have just started, and find this login."""
        self.site.server.url = self.cluster.admin.server
        self.deployed.deploy(self.site)
        self.publish(token)
        cold()

    def publish(self, token: str) -> None:
        """As the server does every month."""
        admin = self.cluster.admin
        login = {"server": admin.server, "token": token, "ca": admin.ca}
        self.deployed.put_secret(f"node-fleet/{self.site.name}/kubernetes", login)

    def please_doctor(self) -> None:
        """All that an operator has to give a deployment is there: what `doctor` finds wrong then is the test's
        doing."""
        iam = self.deployed.client("iam")
        if _SPOT_ROLE not in {role["RoleName"] for role in iam.list_roles()["Roles"]}:
            iam.create_role(RoleName=_SPOT_ROLE, AssumeRolePolicyDocument="{}")
        self.deployed.put_secret(FUNCTION.settings.slack_secret, {"url": "https://hooks.slack.com/services/T0/B0/x"})
        scraped = [{"role": "worker", "pool": "default", "node": name_of(instance)} for instance in self.workers]
        usual = self.site.prometheus.answer
        self.site.prometheus.answer = lambda query: (
            vector(*((labels, "2") for labels in scraped)) if query == LABELLED else usual(query)
        )

    def close(self) -> None:
        """Nothing stays behind that the next test could see."""
        admin = self.cluster.admin
        for each in (*_CONTROLLERS, BUDGETS, CLAIMS, EVENTS):
            listed = each.create({}, "default" if each is EVENTS else self.namespace)
            admin.api.do(Request(verb="delete", path=listed.path))
        for resource in (PODS, NODES, VOLUMES):
            for found in admin.items(resource):
                meta = found["metadata"]
                admin.api.ask(resource.delete(meta["name"], {"gracePeriodSeconds": 0}, meta.get("namespace", "")))

    # ── what is in it ────────────────────────────────────────────────────────────────────────────────────────────

    def _make_node(self, node: Mapping[str, Any]) -> None:
        """As the stand-in has it, from which Prometheus's answers come."""
        meta = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
        self._do(NODES.create({"metadata": meta, "spec": node["spec"]}))
        self.cluster.admin.set_status(f"/api/v1/nodes/{node['metadata']['name']}", node["status"])

    def _make(self, resource: Resource, name: str, spec: Mapping[str, Any], **meta: Any) -> str:
        body = {"metadata": {"name": name, **meta}, "spec": spec}
        return str(self._do(resource.create(body, self.namespace))["metadata"]["uid"])

    def pod(self, name: str, kind: str = "", uid: str = "", api: str = "apps/v1", **how: Any) -> None:
        """On the interrupted worker, of a controller that has its name."""
        owner = k8s_objects.reference(kind, name, uid, api) if kind else None
        made = k8s_objects.pod(
            name, node=name_of(self.doomed), namespace=self.namespace, owner=owner, **{"labels": {"app": name}, **how}
        )
        self._do(PODS.create(made, self.namespace))
        self.cluster.admin.set_status(f"/api/v1/namespaces/{self.namespace}/pods/{name}", made["status"])

    def pods_of_every_kind(self) -> None:
        """So that an iteration has to ask for everything that it may ask for."""
        web = self._make(DEPLOYMENTS, "web", _workload("web"))
        above = k8s_objects.reference("Deployment", "web", web)
        labels = {"app": "web", **_HASH}
        hashed = self._make(REPLICA_SETS, "web", _workload("web", **_HASH), labels=labels, ownerReferences=[above])
        self.pod("web", "ReplicaSet", hashed, labels=labels)
        self.pod("bare", "ReplicaSet", self._make(REPLICA_SETS, "bare", _workload("bare")))
        self.pod("db", "StatefulSet", self._make(STATEFUL_SETS, "db", {**_workload("db"), "serviceName": "db"}))
        self._make(BUDGETS, "db", {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}})  # only force helps
        self.pod("logs", "DaemonSet", self._make(DAEMON_SETS, "logs", {**_workload("logs"), "replicas": None}))
        old = self._make(REPLICATION_CONTROLLERS, "old", {**_workload("old"), "selector": {"app": "old"}})
        self.pod("old", "ReplicationController", old, "v1")
        self.pod("batch", "Job", "of-a-job-that-is-gone", "batch/v1")
        self._claim()
        team = {"topologyKey": HOST_LABEL, "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "a"}}}
        avoids = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [team]}}
        self.pod("shy", affinity=avoids)

    def _claim(self) -> None:
        name = f"volume-{self.namespace}"
        source = k8s_objects.volume(name, k8s_objects.term(HOST_LABEL, "elsewhere"), local={"path": "/data"})
        self._do(VOLUMES.create({**source, "spec": {**source["spec"], **_NONE, "capacity": _SIZE}}))
        self._make(CLAIMS, "data", {**_NONE, "volumeName": name, "resources": {"requests": _SIZE}})
        self.pod("keeper", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
        self._make(CLAIMS, "later", {**_NONE, "resources": {"requests": _SIZE}})
        later = [{"name": "data", "persistentVolumeClaim": {"claimName": "later"}}]
        waits = k8s_objects.pod("waits", node=None, namespace=self.namespace, volumes=later)
        self._do(PODS.create(waits, self.namespace))

    def cordoned(self) -> bool:
        """The interrupted worker is."""
        return bool(self._do(NODES.get(name_of(self.doomed)))["spec"].get("unschedulable"))

    # ── what happens ─────────────────────────────────────────────────────────────────────────────────────────────

    def told(self) -> dict[str, list[str]]:
        """What operators heard so far, by its kind."""
        a_day, now = timedelta(days=1), self.deployed.clock()
        found: dict[str, list[str]] = {}
        for event in self.deployed.history().events(now - a_day, now + a_day):
            found.setdefault(event.kind.value, []).append(event.text)
        return found

    def look(self) -> None:
        self.deployed.reconcile({"cluster": self.site.name}, ONE_LOOK)

    def warn(self) -> None:
        """EC2 takes the interrupted worker, or says so again."""
        self._warned_at = self._warned_at or written(self.deployed.clock())
        event = {
            "source": "aws.ec2",
            "detail-type": "EC2 Spot Instance Interruption Warning",
            "time": self._warned_at,
            "detail": {"instance-id": self.doomed, "instance-action": "terminate"},
        }
        self.deployed.interruption(event, ONE_LOOK)

    def somebody_uncordons(self) -> None:
        self._do(NODES.patch(name_of(self.doomed), {"spec": {"unschedulable": None, "taints": None}}))

    def force(self) -> None:
        """The warning is so old that pods that are still there are deleted by force."""
        self.deployed.clock.passes(seconds=95)
        self.warn()

    def machine_ends(self) -> None:
        """EC2 has taken it: its node is not heard of any more."""
        self.site.ec2.terminate_instances(InstanceIds=[self.doomed])
        since = written(self.deployed.clock())
        silent = {"conditions": [k8s_objects.condition("Ready", is_so=False, since=since)]}
        self.cluster.admin.set_status(f"/api/v1/nodes/{name_of(self.doomed)}", silent)
        self.deployed.clock.passes(minutes=3)
        self.look()


def _workload(name: str, **more: str) -> dict[str, Any]:
    labels = {"app": name, **more}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    return {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
