"""The sandbox's instance as a server or as a worker, with settings that a stack would give it."""

from dataclasses import replace

from nodefleet.model.inventory import Effect, Taint
from nodefleet_infra import userdata
from support.userdata_sandbox import SERVER, Ran, Sandbox

PROGRAM = "usr/local/sbin/node-fleet-server"
API, AGENT, TOKEN = (f"node-fleet-dev/dev-shop/{name}" for name in ("kubernetes", "agent-token", "server-token"))
BINARY = userdata.Binary(url="https://downloads.example/k3s", sha256="0" * 64)
REGISTRY = "123456789012.dkr.ecr.ap-southeast-1.amazonaws.com"
SERVER_SETTINGS = userdata.Server(
    region="ap-southeast-1",
    registry=REGISTRY,
    binary=BINARY,
    account="autoscaler",
    api_secret=API,
    agent_token_secret=AGENT,
    server_token_secret=TOKEN,
    bucket="node-fleet-dev-backups",
    snapshots="etcd/dev-shop",
    manifests="manifests/dev-shop",
    s3_endpoint="s3.ap-southeast-1.amazonaws.com",
    snapshot_cron="0 */6 * * *",
    snapshots_kept=28,
    updates="security",
    scheduling="spread",
    programs="server/dev-shop",
    cluster="dev-shop",
    wake_topic="arn:aws:sns:ap-southeast-1:123456789012:node-fleet-dev-wake",
    watcher="pending-watcher",
)
BOOTSTRAP = userdata.Bootstrap(
    region="ap-southeast-1", bucket="node-fleet-dev-backups", programs="server/dev-shop", restore="newest"
)
AGENT_SETTINGS = userdata.Agent(
    region="ap-southeast-1",
    registry=REGISTRY,
    binary=BINARY,
    server=SERVER,
    agent_token_secret=AGENT,
    pool="batch",
    labels={"example.com/tier": "cheap"},
    taints=(Taint(key="example.com/batch", value="yes", effect=Effect.NO_EXECUTE), Taint(key="gpu")),
)


def as_server(machine: Sandbox, *arguments: str, restore: str = "newest", **changes: object) -> Ran:
    """Its user data, which fetches the program; with arguments the program that it has."""
    settings = replace(SERVER_SETTINGS, binary=machine.binary, **changes)  # type: ignore[arg-type]
    machine.deploy(userdata.server(settings, root=str(machine.root)))
    if arguments:
        return machine.ask(PROGRAM, *arguments)
    return machine.run(userdata.bootstrap(replace(BOOTSTRAP, restore=restore), root=str(machine.root)))


def as_worker(machine: Sandbox, **changes: object) -> Ran:
    settings = replace(AGENT_SETTINGS, binary=machine.binary, **changes)  # type: ignore[arg-type]
    return machine.run(userdata.agent(settings, root=str(machine.root)))
