"""One cluster of a deployment on moto and loopback, and a hand in it: its instances, nodes, pods and readings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from nodefleet.adapters.prometheus import NEWEST
from nodefleet.model.names import LEAVING_TAINT, POOL_LABEL, ROLE_WORKER, TAG_CLUSTER, TAG_POOL, TAG_ROLE
from nodefleet.model.workload import PodPhase
from support import k8s_objects
from support.fake_api_server import FakeApiServer
from support.prometheus_stand_in import Http, StandIn, one, vector

IMAGE = "ami-12345678"  # moto takes any
TYPE = "t3.small"
AN_HOUR = timedelta(hours=1)


class MovedClock:
    """The instance's own, ahead of itself by as long as was slept."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)
        self.pauses: list[float] = []
        self.meanwhile: Callable[[], object] = lambda: None  # what happens while a run waits

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def passes(self, **duration: float) -> None:
        self.ahead += timedelta(**duration)

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.passes(seconds=seconds)
        self.meanwhile()


@dataclass
class Context:
    """Lambda's, as far as it is used."""

    clock: MovedClock
    ends: datetime
    aws_request_id: str = field(default_factory=lambda: str(uuid4()))

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.ends - self.clock()).total_seconds() * 1000))


@dataclass
class Site:
    name: str
    clock: MovedClock
    ec2: Any
    server: FakeApiServer
    prometheus: StandIn
    template: str
    subnets: Mapping[str, str]
    cpu: float = 50.0
    memory: float = 60.0

    # ── EC2 ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def machines(self, role: str = ROLE_WORKER) -> list[dict[str, Any]]:
        """Those that run."""
        ours = {f"tag:{TAG_CLUSTER}": self.name, f"tag:{TAG_ROLE}": role, "instance-state-name": "running"}
        filters = [{"Name": name, "Values": [value]} for name, value in ours.items()]
        found = self.ec2.describe_instances(Filters=filters)["Reservations"]
        return [machine for each in found for machine in each["Instances"]]

    def ids(self) -> set[str]:
        return {machine["InstanceId"] for machine in self.machines()}

    def machine(self, role: str = ROLE_WORKER) -> str:
        """One that was there before the autoscaler."""
        tags = {TAG_CLUSTER: self.name, TAG_ROLE: role, TAG_POOL: "default"}
        specified = {"ResourceType": "instance", "Tags": [{"Key": key, "Value": tags[key]} for key in tags]}
        made = self.ec2.run_instances(
            ImageId=IMAGE,
            InstanceType=TYPE,
            MinCount=1,
            MaxCount=1,
            SubnetId=next(iter(self.subnets.values())),
            TagSpecifications=[specified],
        )
        return str(made["Instances"][0]["InstanceId"])

    def workers(self, number: int) -> list[str]:
        """So many instances that run and have been ready for long."""
        made = [self.machine() for _ in range(number)]
        self.join(AN_HOUR)
        return made

    # ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────

    def join(self, ago: timedelta = timedelta(0)) -> None:
        """Every worker that runs and has not joined does so now, or did some time ago."""
        for instance in sorted(self.ids()):
            if self.server.objects.find("nodes", name_of(instance)) is None:
                self.put_node(instance, ago)

    def put_node(self, instance: str, ago: timedelta = timedelta(0), **labels: str) -> None:
        since = written(self.clock() - ago)
        made = k8s_objects.node(name_of(instance), instance=instance, labels=labels)
        made["metadata"]["creationTimestamp"] = since
        made["status"]["conditions"] = [k8s_objects.condition("Ready", is_so=True, since=since)]
        self.server.objects.put("nodes", made)

    def node(self, instance: str) -> dict[str, Any]:
        found = self.server.objects.find("nodes", name_of(instance))
        assert found is not None, f"{instance} has not joined"
        return found

    def cordoned(self) -> set[str]:
        """The instances whose nodes were cordoned and tainted so far, whatever became of them."""
        patches = [each for each in self.server.asked if (each.verb, each.resource) == ("patch", "nodes")]
        return {each.name.removeprefix(name_of("")) for each in patches if _cordons(each.body.get("spec", {}))}

    def pod(self, name: str, on: str | None = None, cpu: str = "500m") -> None:
        """Of a deployment, on an instance's node. Without one it waits: no node has room for it."""
        objects, waits = self.server.objects, on is None
        objects.put("replicasets", k8s_objects.controller("web", "rs-web", replicas=3))
        unschedulable = k8s_objects.condition(
            "PodScheduled", is_so=False, reason="Unschedulable", since=written(self.clock())
        )
        made = k8s_objects.pod(
            name,
            node=None if on is None else name_of(on),
            owner=k8s_objects.reference("ReplicaSet", "web", "rs-web"),
            phase=PodPhase.PENDING if waits else PodPhase.RUNNING,
            ready=not waits,
            conditions=(unschedulable,) if waits else (),
            labels={"app": "web"},
            containers=[k8s_objects.container(cpu=cpu)],
        )
        objects.put("pods", made)

    def pods(self) -> set[str]:
        """Those that are not on their way out."""
        stored = self.server.objects.stored.get("pods", {}).values()
        return {pod["metadata"]["name"] for pod in stored if "deletionTimestamp" not in pod["metadata"]}

    def end_pods(self) -> None:
        """Pods that were asked to go are gone."""
        for pod in [*self.server.objects.stored.get("pods", {}).values()]:
            if "deletionTimestamp" in pod["metadata"]:
                self.server.objects.remove("pods", pod["metadata"]["name"], pod["metadata"]["namespace"])

    def settle(self) -> None:
        """What some seconds bring: pods end, and nodes whose instance is gone are not ready."""
        self.end_pods()
        running, now = {name_of(instance) for instance in self.ids()}, written(self.clock())
        for node in self.server.objects.stored.get("nodes", {}).values():
            if node["metadata"]["name"] not in running:
                node["status"]["conditions"] = [k8s_objects.condition("Ready", is_so=False, since=now)]

    def writes(self) -> list[str]:
        """What the API server was asked to change, events aside."""
        asked = [each for each in self.server.asked if each.method != "GET" and each.resource != "events"]
        return [f"{each.verb} {each.resource} {each.name}" for each in asked]

    # ── Prometheus ───────────────────────────────────────────────────────────────────────────────────────────────

    def answer(self, query: str) -> Http:
        """As Prometheus would, from what it scrapes: the workers' nodes."""
        stored = self.server.objects.stored.get("nodes", {}).values()
        nodes = [node["metadata"]["name"] for node in stored if POOL_LABEL in node["metadata"]["labels"]]
        now = self.clock()
        if query == NEWEST:
            return one(3, at=now)
        if not nodes:
            return vector(at=now)
        if query.startswith("count("):
            return one(len(nodes), at=now)
        if "by (node)" in query:
            return vector(*(({"node": name}, str(100 - self.cpu)) for name in nodes), at=now)
        return one(self.memory if "MemAvailable" in query else self.cpu, at=now)


def _cordons(spec: Mapping[str, Any]) -> bool:
    return spec.get("unschedulable") is True and any(taint["key"] == LEAVING_TAINT for taint in spec["taints"])


def name_of(instance: str) -> str:
    """Of its node."""
    return f"worker-{instance}"


def written(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
