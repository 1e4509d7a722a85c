"""The whole deployment on real parts, and what a scenario does with it. README.md shows how."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from e2e.parts.running import RunningParts, running
from e2e.site.aws import Aws
from e2e.site.functions import Functions, Settings, lambda_at
from e2e.site.hardware import Hardware
from e2e.site.load import Load
from e2e.site.login import apply, login
from e2e.site.monitoring import Monitoring
from e2e.site.policy import COMPRESSED, INTERVAL
from e2e.site.stack import Stack, deployed
from e2e.site.triggers import Bus, Schedule, Stream, Topics
from e2e.site.waiting import LONGEST, until
from e2e.site.workloads import Workloads
from nodefleet.adapters.dynamodb.codec import PARTITION, SORT
from nodefleet.adapters.dynamodb.records import declared_item
from nodefleet.adapters.dynamodb.store import DynamoHistory
from nodefleet.adapters.kubernetes.resources import EVENTS, NODES
from nodefleet.model.decision import STACK, DecisionRecord, Event, PolicyVersion, PoolDecision
from nodefleet.model.names import POOL_LABEL
from nodefleet.policy.loading import digest_of
from nodefleet_infra import userdata
from support.infra_mocks import REGION
from support.loopback_slack import LoopbackSlack, loopback_slack
from support.real_cluster_world import Admin

FUNCTIONS = ("reconcile", "interruption", "notify")
PARTS = ("dynamodb", "controller-manager", "scheduler", "kwok", "kube-state-metrics")
BOOTS_IN = 2.0  # seconds
NOTICE = 16.0  # seconds from a Spot warning to the end
# A dead node's lease is believed for a shorter time than usual. KWOK renews every 10 s.
FLAGS = {"controller-manager": ["--node-monitor-grace-period=22s", "--node-monitor-period=1s"]}
_A_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Site:
    parts: RunningParts
    aws: Aws
    stack: Stack
    functions: Functions
    schedule: Schedule  # off until it is started: `with site.schedule.going_on():`
    topics: Topics
    stream: Stream
    bus: Bus
    hardware: Hardware
    load: Load
    monitoring: Monitoring
    slack: LoopbackSlack
    workloads: Workloads
    admin: Admin

    # ── starting runs ────────────────────────────────────────────────────────────────────────────────────────────

    def tick(self) -> dict[str, Any]:
        """One scheduled run, waited for; its answer."""
        (ran,) = self.functions.invoke("reconcile", self.stack.tick)["runs"]
        return dict(ran)

    def declare(self, policy: Mapping[str, Any]) -> None:
        """What `pulumi up` does with another policy; the next iteration takes it up."""
        data = dict(policy)
        version = PolicyVersion(number=0, source=STACK, at=datetime.now(UTC), data=data, digest=digest_of(data))
        self._put(declared_item(self.stack.cluster, version))

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────

    def nodes(self) -> dict[str, dict[str, Any]]:
        """The workers' Node objects, by name."""
        found = {node["metadata"]["name"]: node for node in self.admin.items(NODES)}
        return {name: node for name, node in found.items() if POOL_LABEL in node["metadata"]["labels"]}

    def ready(self) -> list[str]:
        """Names of workers that are ready and take pods."""
        return [
            name for name, node in self.nodes().items() if _is_ready(node) and not node["spec"].get("unschedulable")
        ]

    def decisions(self) -> list[DecisionRecord]:
        """Oldest first, from the table."""
        return list(reversed(self._history.decisions(1000)))

    def events(self) -> list[Event]:
        """Oldest first, from the table."""
        now = datetime.now(UTC)
        return list(reversed(self._history.events(now - _A_DAY, now + _A_DAY)))

    def cpu(self) -> float | None:
        """What the policy's query reads."""
        return self.monitoring.value(COMPRESSED["queries"]["cpu"].replace("$pool", "default"))

    def notes(self, node: str) -> list[dict[str, Any]]:
        """Kubernetes' events on a node."""
        return [each for each in self.admin.items(EVENTS) if each["involvedObject"].get("name") == node]

    def decided(
        self,
        true: Callable[[PoolDecision], bool],
        what: str,
        *,
        since: datetime | None = None,
        seconds: float = LONGEST,
    ) -> PoolDecision:
        """The first decision since then, or from now on, of which this is true; waited for."""
        began, seen = since or datetime.now(UTC), list[str]()

        def found() -> PoolDecision | None:
            new = [each.decision.pools[0] for each in self.decisions() if each.at > began]
            seen[:] = [each.reason for each in new[-3:]]
            return next((each for each in new if true(each)), None)

        return until(found, lambda: f"{what}; decided was {seen}", seconds)

    def told(self) -> list[str]:
        """What Slack got, all words of each message."""
        return [json.dumps(message, ensure_ascii=False) for message in self.slack.messages]

    @property
    def _history(self) -> DynamoHistory:
        return DynamoHistory(self.aws.client("dynamodb"), self.stack.table, self.stack.cluster, lambda _: None)

    # ── beginning again ──────────────────────────────────────────────────────────────────────────────────────────

    def reset(self) -> None:
        """As just deployed: no workers, no workloads, nothing remembered. What was cached by warm functions stays."""
        self._mend()
        self.schedule.stop()
        self.topics.stop()
        self.load.calm()
        self.workloads.clear()
        until(lambda: not self.monitoring.alerts(), "no alert is left of the last test")
        until(lambda: not self.functions.busy(), "the functions have ended")
        until(self._deserted, "no worker is left, and nobody buys one")
        self.topics.forget()
        self._wipe()
        self.declare(COMPRESSED)
        self.slack.messages.clear()
        self.functions.made.clear()
        self.topics.start()

    def _deserted(self) -> bool:
        """A run that had just begun may have bought again what was cleared away."""
        self.hardware.clear()
        until(lambda: not self.functions.busy(), "nothing was started meanwhile")
        return not self.hardware.instances()

    def _mend(self) -> None:
        """What a test that failed left broken."""
        monitoring = (self.monitoring.prometheus.part, self.monitoring.alertmanager.part)
        for part in (*(self.parts[name] for name in self.parts.names), *monitoring, self.aws.part):
            if part.running:
                part.resume()
            part.start()
        self.hardware.boots_in, self.hardware.joins = BOOTS_IN, True
        self.slack.answers.clear()

    def begin(self, policy: Mapping[str, Any] = COMPRESSED) -> None:
        """The first tick after `pulumi up`, and its workers ready."""
        self.declare(policy)
        self.tick()
        least = policy["limits"]["min"]
        until(lambda: len(self.ready()) == least, f"the first {least} workers are ready")
        until(lambda: self.monitoring.value('count(up{job="node",role="worker"} == 1)') == least, "they are scraped")

    def _wipe(self) -> None:
        client, table = self.aws.client("dynamodb"), self.stack.table
        for page in client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
            for item in page["Items"]:
                client.delete_item(TableName=table, Key={key: item[key] for key in (PARTITION, SORT)})
        for record in self.stack.records:
            self._put(record)

    def _put(self, item: Mapping[str, Any]) -> None:
        self.aws.client("dynamodb").put_item(TableName=self.stack.table, Item=item)


def _is_ready(node: dict[str, Any]) -> bool:
    """The condition comes first; the scheduler uses the node when its taint is gone too, some moments later."""
    tainted = any(each["key"] == "node.kubernetes.io/not-ready" for each in node["spec"].get("taints", ()))
    conditions = node["status"].get("conditions", ())
    return not tainted and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@contextmanager
def running_site(folder: Path, *, packs: bool = False) -> Iterator[Site]:
    """Everything started once; its logs stay in `folder`. `packs`: the scheduler has the configuration that the server
    of a stack with `scheduling: pack` gives it."""
    with ExitStack() as stack:
        enter = stack.enter_context
        parts = enter(running(*PARTS, folder=folder, extra={**FLAGS, **(_packing_scheduler(folder) if packs else {})}))
        admin = Admin(str(parts.kubeconfig))
        aws, monitoring = Aws(folder, REGION, parts.dynamodb_endpoint), Monitoring(folder, admin)
        stack.callback(aws.part.stop)
        aws.part.start()
        made = deployed(aws, api_server=admin.server, prometheus=monitoring.prometheus.endpoint)
        slack = enter(loopback_slack())
        apply(admin, made.manifests_site)
        _publish(made, admin, slack)
        settings = {
            name: Settings({**made.environment(name), **aws.environment()}, made.timeout(name)) for name in FUNCTIONS
        }
        functions = enter(lambda_at(folder / "functions", settings))
        bus, load = Bus(made, functions), Load()
        hardware = Hardware(made, admin, bus, load, boots_in=BOOTS_IN, notice=NOTICE)
        stack.callback(load.close)
        enter(monitoring.running(made.manifests_site, state_metrics=parts.state_metrics_address, sns=aws.endpoint))
        topics, stream = Topics(made, functions), Stream(made, functions)
        schedule = Schedule(made, functions, INTERVAL)
        stack.callback(schedule.stop)
        for each in (topics, stream, hardware):
            enter(each.going_on())
        yield Site(
            parts=parts,
            aws=aws,
            stack=made,
            functions=functions,
            schedule=schedule,
            topics=topics,
            stream=stream,
            bus=bus,
            hardware=hardware,
            load=load,
            monitoring=monitoring,
            slack=slack,
            workloads=Workloads(admin),
            admin=admin,
        )


def _publish(stack: Stack, admin: Admin, slack: LoopbackSlack) -> None:
    """What the master and an operator put into the secrets."""
    secrets = stack.cloud.client("secretsmanager")
    api = next(each for each in stack.graph.of("secretsmanager/secret:Secret") if each.name.endswith("-api"))
    told = {api.inputs["name"]: login(admin), str(stack.graph.exports["slackSecret"]): {"url": slack.hook.url}}
    for name, content in told.items():
        secrets.put_secret_value(SecretId=name, SecretString=json.dumps(content))


def _packing_scheduler(folder: Path) -> dict[str, list[str]]:
    """Flags for it, and its configuration as server.sh writes it, with the kubeconfig that it has here."""
    script = files(userdata).joinpath("server.sh").read_text()
    (text,) = re.findall(r'keep "\$CONFIG/scheduler\.yaml" 0600 <<YAML\n(.*?)\nYAML\n', script, re.DOTALL)
    config = yaml.safe_load(text)
    config["clientConnection"]["kubeconfig"] = str(folder / "system-kube-scheduler.kubeconfig")
    file = folder / "scheduler.yaml"
    file.write_text(yaml.safe_dump(config))
    return {"scheduler": [f"--config={file}"]}
