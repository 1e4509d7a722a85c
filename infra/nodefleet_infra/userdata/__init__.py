"""What instances do when they start: shell scripts, and the values that they are told.

A worker's user data is its whole script: another one makes another version of its template, for workers to come. The
server's is `bootstrap.sh` alone, because other user data would replace the server: it fetches the server's program from
S3, by its checksum, and the program follows what the stack deploys.

A script is common.sh, registry.sh, upkeep.sh for the server, and its own file behind a head of assignments; one of the
server's holds pending.py, the program of a unit. Nothing is
put into the middle of a script, so what shellcheck reads is what runs. Nothing in it is secret either: everyone who may
describe an instance can read its user data.
"""

import json
import shlex
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from nodefleet.model.inventory import Taint
from nodefleet.model.names import CAPACITY_LABEL, POOL_LABEL
from nodefleet.model.workload import TYPE_LABEL, ZONE_LABEL

REGION_LABEL = "topology.kubernetes.io/region"
LONGEST = 16_384  # bytes of user data that EC2 takes, before they are encoded


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    url: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    region: str
    registry: str  # the account's own, for images: 123456789012.dkr.ecr.ap-southeast-1.amazonaws.com
    binary: Binary
    account: str  # the ServiceAccount whose login is published
    api_secret: str  # names of secrets
    agent_token_secret: str
    server_token_secret: str
    bucket: str
    snapshots: str  # folders in the bucket
    manifests: str
    programs: str
    s3_endpoint: str
    snapshot_cron: str
    snapshots_kept: int
    updates: str  # off, security or security-and-reboot
    scheduling: str  # spread or pack
    cluster: str  # its id
    wake_topic: str  # ARN
    watcher: str  # the ServiceAccount that watches for unschedulable pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """All that a server's user data is told. Whatever changes here replaces the server."""

    region: str
    bucket: str
    programs: str  # the folder with the program and its checksum
    restore: str  # newest, nothing, or a snapshot's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    region: str
    registry: str
    binary: Binary
    server: str  # https://10.20.0.10:6443
    agent_token_secret: str
    pool: str
    labels: Mapping[str, str]
    taints: Sequence[Taint]


def bootstrap(settings: Bootstrap, *, root: str = "") -> str:
    """The master's user data. `root` goes before every path, for trying it out."""
    values = {
        "ROOT": root,
        "REGION": settings.region,
        "BUCKET": settings.bucket,
        "PROGRAMS": settings.programs,
        "RESTORE": settings.restore,
    }
    return _fitting("server", _text(values, "bootstrap"))


def server(settings: Server, *, root: str = "") -> str:
    """The master's program."""
    values = {
        "ACCOUNT": settings.account,
        "API_SECRET": settings.api_secret,
        "AGENT_TOKEN_SECRET": settings.agent_token_secret,
        "SERVER_TOKEN_SECRET": settings.server_token_secret,
        "BUCKET": settings.bucket,
        "SNAPSHOTS": settings.snapshots,
        "MANIFESTS": settings.manifests,
        "PROGRAMS": settings.programs,
        "S3_ENDPOINT": settings.s3_endpoint,
        "SNAPSHOT_CRON": settings.snapshot_cron,
        "SNAPSHOTS_KEPT": str(settings.snapshots_kept),
        "UPDATES": settings.updates,
        "SCHEDULING": settings.scheduling,
        "CLUSTER": settings.cluster,
        "WAKE_TOPIC": settings.wake_topic,
        "WATCHER": settings.watcher,
        "WATCHER_PROGRAM": b64encode(files(__package__).joinpath("pending.py").read_bytes()).decode(),
    }
    return _script("server", root, settings, values)


def agent(settings: Agent, *, root: str = "") -> str:
    """A worker's user data: the same for all of a pool, whatever their zone, type and market."""
    values = {
        "SERVER": settings.server,
        "AGENT_TOKEN_SECRET": settings.agent_token_secret,
        "CAPACITY_LABEL": CAPACITY_LABEL,
        "POOL_YAML": _pool(settings),
    }
    return _fitting("agent", _script("agent", root, settings, values))


def _pool(settings: Agent) -> str:
    """The rest of the list of labels, and the taints. Our own labels win."""
    labels = {**settings.labels, POOL_LABEL: settings.pool}
    lines = [f"  - {json.dumps(f'{key}={value}')}" for key, value in sorted(labels.items())]
    if settings.taints:
        taints = [f"{taint.key}={taint.value}:{taint.effect.value}" for taint in settings.taints]
        lines += ["node-taint:", *(f"  - {json.dumps(taint)}" for taint in taints)]
    return "\n".join(lines)


def _script(name: str, root: str, settings: Server | Agent, own: Mapping[str, str]) -> str:
    values = {
        "ROOT": root,
        "REGION": settings.region,
        "REGISTRY": settings.registry,
        "BINARY_URL": settings.binary.url,
        "BINARY_SHA256": settings.binary.sha256,
        "ZONE_LABEL": ZONE_LABEL,
        "REGION_LABEL": REGION_LABEL,
        "TYPE_LABEL": TYPE_LABEL,
        **own,
    }
    return _text(values, "common", "registry", *(("upkeep",) if name == "server" else ()), name)


def _text(values: Mapping[str, str], *names: str) -> str:
    head = "\n".join(f"readonly {key}={shlex.quote(value)}" for key, value in values.items())
    folder = files(__package__)
    parts = ["#!/bin/bash", head, *(_bare(folder.joinpath(f"{name}.sh").read_text("utf-8")) for name in names)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _fitting(name: str, text: str) -> str:
    if (size := len(text.encode())) > LONGEST:
        raise ValueError(f"the {name}'s user data has {size:,} bytes and EC2 takes {LONGEST:,}: use shorter labels")
    return text


def _bare(text: str) -> str:
    """Without the comments that stand by themselves: they are for readers of the file, and EC2 counts bytes."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("# "))
