"""What an onlooker sees meanwhile: where pods are and how they fare, and which instances run."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from e2e.site.site import Site
from e2e.site.waiting import Beside
from nodefleet.adapters.kubernetes.resources import PODS

_LOOK_EVERY = 0.2  # seconds


@dataclass(frozen=True, slots=True)
class Seen:
    """A pod."""

    name: str
    app: str
    uid: str
    node: str
    ready: bool
    gone_by: datetime | None  # it was asked to go, and its grace ends then
    daemon: bool


@dataclass(frozen=True, slots=True)
class Sight:
    at: datetime
    running: frozenset[str]  # instances
    pods: tuple[Seen, ...]

    def on(self, node: str) -> list[Seen]:
        return [pod for pod in self.pods if pod.node == node]

    def ready(self, app: str) -> int:
        return sum(pod.app == app and pod.ready and not pod.gone_by for pod in self.pods)


class Onlooker(Beside):
    def __init__(self, site: Site) -> None:
        super().__init__("onlooker", _LOOK_EVERY, self.look)
        self._site = site
        self.sights: list[Sight] = []

    def look(self) -> None:
        # Instances first: a pod that is seen on a machine that has ended was there when it ended.
        running = frozenset(each["InstanceId"] for each in self._site.hardware.instances())
        pods = tuple(seen(pod) for pod in self._site.admin.items(PODS))
        self.sights.append(Sight(datetime.now(UTC), running, pods))


def seen(pod: dict[str, Any]) -> Seen:
    meta, conditions = pod["metadata"], pod["status"].get("conditions", ())
    gone_by = meta.get("deletionTimestamp")
    return Seen(
        name=meta["name"],
        app=meta.get("labels", {}).get("app", ""),
        uid=meta["uid"],
        node=pod["spec"].get("nodeName", ""),
        ready=any(each["type"] == "Ready" and each["status"] == "True" for each in conditions),
        gone_by=datetime.fromisoformat(gone_by) if gone_by else None,
        daemon=any(each["kind"] == "DaemonSet" for each in meta.get("ownerReferences", ())),
    )
