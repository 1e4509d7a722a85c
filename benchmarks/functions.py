"""Starts function instances beside a stand-in for the world, and gathers what they took."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import certifi
from cpu_share import WHOLE, Share, group
from world.ec2_answers import TYPES
from world.records import REGION, TABLE
from world.scene import CLUSTER, ZONES, instance_id

from nodefleet import settings
from nodefleet.adapters.dynamodb.codec import PARTITION, POLICY, SORT
from nodefleet.adapters.dynamodb.records import deployment_item, event_item, policy_item
from nodefleet.model.alerts import AlertKind
from nodefleet.model.decision import Event, PolicyVersion
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet.policy.loading import digest_of

_HERE = Path(__file__).parent
_API_SECRET, _SLACK_SECRET = "kubernetes", "slack"  # their names
# A run looks once: a pause of `every` would use up its budget.
_POLICY = {
    "limits": {"min": 2, "max": 10_000},
    "market": {"types": list(TYPES), "max_price_usd": 0.05},
    "burst": {"every": 10, "budget": 10.001},
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the stand-ins are, and what a function finds in its environment and in the table."""

    plain: str
    environment: Mapping[str, str]
    state: Mapping[str, Any]


@contextmanager
def surroundings(*options: str, login: Mapping[str, str] | None = None) -> Iterator[Surroundings]:
    """Stand-ins in a process of their own, with these options of `world/server.py`. `login` leads to a real cluster."""
    leave_in_order()
    command = [sys.executable, "-m", "world.server", *options]
    environment = {**os.environ, "PYTHONPATH": str(_HERE)}
    with (
        tempfile.TemporaryDirectory() as folder,
        group(None) as join,
        subprocess.Popen(  # noqa: S603  # our own
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=join,  # noqa: PLW1509  # no threads run here
        ) as server,
    ):
        try:
            line = server.stdout.readline() if server.stdout else ""
            if not line:
                raise SystemExit("The stand-ins did not start: see above")
            yield _found(json.loads(line), Path(folder), login)
        finally:
            server.terminate()


def leave_in_order() -> None:
    """Nothing outlives this process: children and control groups are cleared on the way out."""

    def leave(*_: object) -> None:
        raise SystemExit("ended from outside")

    signal.signal(signal.SIGTERM, leave)


def _found(where: Mapping[str, str], folder: Path, login: Mapping[str, str] | None) -> Surroundings:
    sys.path.append(str(_HERE.parent))  # layers/ is not installed
    from layers.models import FOLDER, write_models  # noqa: PLC0415

    write_models(folder / FOLDER)
    trusted = folder / "ca.pem"
    trusted.write_text(Path(certifi.where()).read_text() + where["ca"])  # as long a list as in earnest
    environment = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": where["aws"],
        "AWS_CA_BUNDLE": str(trusted),
        "AWS_DATA_PATH": str(folder / FOLDER),  # which the functions' archive brings
        settings.TABLE: TABLE,
        settings.CLUSTERS: CLUSTER,
        settings.BUCKET: "archive",
        settings.SLACK: _SLACK_SECRET,
    }
    login = login or {"server": where["kubernetes"], "token": "made-up", "ca": where["ca"]}
    secrets = {_API_SECRET: json.dumps(login), _SLACK_SECRET: json.dumps({"url": f"{where['plain']}/slack"})}
    return Surroundings(where["plain"], environment, {"items": _items(where["plain"]), "secrets": secrets})


def _items(prometheus: str) -> list[Mapping[str, Any]]:
    """What an iteration needs: where everything is, and the policy in force."""
    target = LaunchTarget(template="lt-1", subnets={zone: f"subnet-{zone}" for zone in ZONES})
    deployment = Deployment(cluster=CLUSTER, api_secret=_API_SECRET, prometheus=prometheus, targets=(target,))
    policy = PolicyVersion(number=1, source="bench", at=datetime.now(UTC), data=_POLICY, digest=digest_of(_POLICY))
    return [deployment_item(CLUSTER, deployment), policy_item(CLUSTER, policy, POLICY)]


def event_for(handler: str) -> Mapping[str, Any]:
    """What Lambda would bring to it."""
    now = datetime.now(UTC)
    match handler:
        case "interruption":
            warning = "EC2 Spot Instance Interruption Warning"
            detail = {"instance-id": instance_id(1), "instance-action": "terminate"}
            return {"source": "aws.ec2", "detail-type": warning, "time": now.isoformat(), "detail": detail}
        case "notify":
            told = Event(id="1", at=now, cluster=CLUSTER, kind=AlertKind.SCALE_UP, text="2 more nodes: 14 pods wait.")
            image = event_item(CLUSTER, told)
            change = {"SequenceNumber": "1", "Keys": {key: image[key] for key in (PARTITION, SORT)}, "NewImage": image}
            return {"Records": [{"eventSource": "aws:dynamodb", "eventName": "INSERT", "dynamodb": change}]}
        case _:
            return {"cluster": CLUSTER}


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """How a function is started."""

    share: Share = WHOLE
    paths: Sequence[Path] = ()  # before those that are installed
    flags: Sequence[str] = ()  # of the interpreter


def function(
    handler: str,
    around: Surroundings,
    *,
    runs: int,
    afresh: bool = False,
    steps: bool = False,
    started: Started = Started(),  # noqa: B008  # frozen
) -> dict[str, Any]:
    """A fresh interpreter that imports the handler and calls it so often. `afresh`: each time with the first state;
    `steps`: with what each step takes and what is read of Kubernetes, at the price of a first call that finds its
    modules loaded."""
    with tempfile.NamedTemporaryFile() as figures:
        orders = {
            "handler": handler,
            "event": event_for(handler),
            "runs": runs,
            "afresh": afresh,
            "steps": steps,
            "plain": around.plain,
            "reset": around.state,
            "figures": figures.name,
        }
        paths = os.pathsep.join(map(str, started.paths))
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": paths, **around.environment}
        spawned = {"spawned": time.monotonic()}
        command = [sys.executable, *started.flags, str(_HERE / "function_process.py"), json.dumps(orders | spawned)]
        ended = started.share.ran(command, environment)
        if ended.returncode:
            raise SystemExit(f"The function failed with {ended.returncode}:\n{ended.stderr}")
        return {**json.loads(Path(figures.name).read_text()), "complaints": ended.stderr}


def cold(figures: Mapping[str, Any], kind: str) -> float:
    """From the interpreter's start to the end of the first call; `kind` is "wall" or "cpu"."""
    return float(figures["started"][kind] + figures["imported"][kind] + figures["runs"][0][kind])
