"""How AWS is called, for all services alike: who waits how long, who is asked again, and by which address.

A run has two minutes, so a call that hangs is worse than one that fails: connecting is given up early, reading soon
after, and a call is repeated a few times at most, with botocore's own jitter. The clients are made when they are first
needed, because making one takes longer than calling it.
"""

import os
import ssl
from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from threading import Lock, local
from typing import Any
from xml.etree import ElementTree as ET

from nodefleet.adapters.aws.errors import calling
from nodefleet.adapters.concurrency import ONE_AT_A_TIME

# ── DescribeInstances ────────────────────────────────────────────────────────────────────────────────────────────────
# DescribeInstances, decoded for what is needed and nothing else.
#
# EC2 writes 5 KB of XML about an instance, and botocore decodes all of it in Python: a thousand instances would take it
# more CPU time than ten thousand pods take us (docs/benchmarks.md). So the list is decoded here, and botocore gets what
# is left of the answer: request id, token, errors. Readers of instances find them as botocore would give them, but
# without the fields that no caller asks for.


_EVENT = "before-parse.ec2.DescribeInstances"
_TEXTS = {"instanceId": "InstanceId", "instanceType": "InstanceType", "instanceLifecycle": "InstanceLifecycle"}


def quicken(client: Any) -> None:
    """Have this EC2 client's lists of instances decoded here. Once for each client."""
    client.meta.events.register(_EVENT, _decode)


def _decode(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Takes the list out of the answer. What cannot be understood is left to botocore, and to its words for it."""
    if response_dict["status_code"] != HTTPStatus.OK:
        return
    try:
        root, reservations = _read(response_dict["body"])
    except (ET.ParseError, ValueError):
        return
    listed = next((part for part in root if part.tag.endswith("}reservationSet")), None)
    if listed is not None:
        root.remove(listed)
        response_dict["body"] = ET.tostring(root)
        customized_response_dict["Reservations"] = reservations


def _read(body: bytes) -> tuple[ET.Element, list[dict[str, Any]]]:
    """The answer without its instances, and the instances. Each element is let go when it has been read: tens of
    thousands of them at a time would keep the garbage collector busier than the parser."""
    reservations = []
    parts: Any = ET.iterparse(BytesIO(body))  # noqa: S314  # AWS's own; botocore would parse it just so
    for _, part in parts:
        if part.tag.endswith("}instancesSet"):
            space = part.tag.removesuffix("instancesSet")
            reservations.append({"Instances": [_instance(raw, space) for raw in part]})
            part.clear()
    return parts.root, reservations


def _instance(raw: ET.Element, space: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in raw:
        match part.tag.removeprefix(space):
            case name if name in _TEXTS:
                found[_TEXTS[name]] = part.text or ""
            case "launchTime":
                found["LaunchTime"] = datetime.fromisoformat(part.text or "")
            case "instanceState":
                found["State"] = _texts(part, space, name="Name")
            case "placement":
                found["Placement"] = _texts(part, space, availabilityZone="AvailabilityZone")
            case "tagSet":
                found["Tags"] = [_texts(tag, space, key="Key", value="Value") for tag in part]
            case "blockDeviceMapping":
                found["BlockDeviceMappings"] = [_disk(disk, space) for disk in part]
    return found


def _disk(raw: ET.Element, space: str) -> dict[str, Any]:
    """When it was attached is how old an instance is that was stopped and started again."""
    volume = raw.find(f"{space}ebs")
    if volume is None:
        return {}
    attached = volume.findtext(f"{space}attachTime")
    return {"Ebs": {"AttachTime": datetime.fromisoformat(attached)} if attached else {}}


def _texts(part: ET.Element, space: str, **keys: str) -> dict[str, str]:
    """The texts within a part, by botocore's keys for them."""
    texts = {each.tag.removeprefix(space): each.text or "" for each in part}
    return {key: texts[name] for name, key in keys.items() if name in texts}


# ── session ──────────────────────────────────────────────────────────────────────────────────────────────────────────


CONNECT_SECONDS = 2
READ_SECONDS = 10
TABLE_READ_SECONDS = 2  # DynamoDB answers in milliseconds or not at all, and an interrupted node must not wait for it
ATTEMPTS = 3  # the first try included
POOL = 16  # calls at the same time

# ── certificates ─────────────────────────────────────────────────────────────────────────────────────────────────────
# botocore has the list of authorities read for every connection: 17 ms of CPU time each, four times in a first run.


def share_trust(client: Any, trust: ssl.SSLContext | None) -> ssl.SSLContext | None:
    """Have this client verify AWS's certificates with `trust`, that of another client, or with its own one, which then
    reads a list of authorities once. Returns what it verifies with; None if botocore is built differently, which costs
    time alone."""
    settings = getattr(getattr(client._endpoint.http_session, "_manager", None), "connection_pool_kw", {})  # noqa: SLF001  # there is no public way
    own = settings.get("ssl_context")
    if trust is None and isinstance(own, ssl.SSLContext):
        trust = own
        _read_once(trust)
    if trust is not None and own is not None:
        settings["ssl_context"] = trust
    return trust


def _read_once(trust: ssl.SSLContext) -> None:
    read, reading, known = trust.load_verify_locations, Lock(), set[tuple[Any, ...]]()

    def load(cafile: Any = None, capath: Any = None, cadata: Any = None) -> None:
        asked = (cafile, capath, cadata)
        with reading:  # connections are made in threads, and none may go on before the list is read
            if asked not in known:
                read(cafile, capath, cadata)
                known.add(asked)

    trust.load_verify_locations = load  # type: ignore[method-assign]  # urllib3 calls it for every connection


# A service's name in botocore → its name for operators, and for its variable AWS_ENDPOINT_URL_….
PARTS = {
    "ec2": "EC2",
    "dynamodb": "DynamoDB",
    "s3": "S3",
    "sqs": "SQS",
    "cloudwatch": "CloudWatch",
    "secretsmanager": "Secrets Manager",
    "ssm": "Parameter Store",
    "sts": "STS",
    "iam": "IAM",
    "lambda": "Lambda",
}

# The functions' subnets have no NAT gateway: IPv6 is their way out (November 2026).
# DynamoDB is not here: it is reached by IPv4 through its free gateway endpoint.
# SQS is not here: its ordinary address answers by IPv6 too.
DUALSTACK = frozenset({"ec2", "s3", "secretsmanager", "cloudwatch", "sts"})
DUALSTACK_VARIABLE = "NODEFLEET_DUALSTACK"  # instead of the above: "ec2,s3", or "none"

MODELS = Path(__file__).parents[3] / "aws-models"  # in the functions' archive; elsewhere there is none

_RESOLUTION = timedelta(seconds=1)  # of the Date header


class Session:
    """Makes each service's client once, counts the calls, and compares AWS's clock with ours."""

    def __init__(self, clock: Callable[[], datetime], region: str | None = None) -> None:
        self._clock = clock
        self._region = region  # none: as the environment says
        self._boto: Any = None
        self._trust: ssl.SSLContext | None = None  # of all clients
        self._clients: dict[str, Any] = {}
        self._services: list[str] = []  # that clients were asked for
        self._making = Lock()  # making clients is not safe in threads; using them is
        self._counting = Lock()
        self._calls = 0
        self._skew: timedelta | None = None
        self._sent = local()

    def client(self, service: str) -> Any:
        """The service's client, by its name in botocore: "ec2", "dynamodb", "secretsmanager"."""
        with self._making:
            if service not in self._clients:
                with calling(part(service)):
                    self._clients[service] = self._make(service)
            return self._clients[service]

    def calls(self) -> int:
        """How many requests were sent so far, every retry included."""
        return self._calls

    def skew(self) -> timedelta | None:
        """How far AWS's clock is certainly ahead of ours (negative: behind), by the latest answer; none before the
        first one. The header counts in seconds and an answer takes its time: what these explain is no skew."""
        return self._skew

    def _make(self, service: str) -> Any:
        with ONE_AT_A_TIME:  # slow to import, and not every run needs it
            from botocore.config import Config  # type: ignore[import-untyped]  # noqa: PLC0415

            self._boto = self._boto or _botocore(self._region, self._services)
            self._services.append(service)
        profile = self._boto.get_scoped_config()
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=TABLE_READ_SECONDS if service == "dynamodb" else READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=POOL,
            tcp_keepalive=True,
            use_dualstack_endpoint=_dualstack(service, redirected={"endpoint_url", "services"} & {*profile}),
            user_agent_extra="node-fleet",
        )
        client = self._boto.create_client(service, config=config)
        client.meta.events.register_first("before-send", self._count)  # the first answer ends the event
        client.meta.events.register("response-received", self._compare)
        self._trust = share_trust(client, self._trust)
        if service == "ec2":
            quicken(client)
        return client

    def _count(self, **_: Any) -> None:
        self._sent.at = self._clock()
        with self._counting:
            self._calls += 1

    def _compare(self, response_dict: dict[str, Any] | None, **_: Any) -> None:
        said = (response_dict or {}).get("headers", {}).get("date")
        sent = getattr(self._sent, "at", None)
        if said is None or sent is None:
            return
        try:
            at = parsedate_to_datetime(said)
        except (ValueError, OverflowError):
            return  # a proxy's own idea of a date says nothing about AWS
        if at.tzinfo is not None:
            self._skew = _certain_skew(at, sent, self._clock())


def _botocore(region: str | None, services: list[str]) -> Any:
    """A session that looks for a service's description in what the archive brings (layers/models.py), then in
    botocore's own data. Without boto3, whose resources and transfers are not used."""
    from botocore.loaders import Loader  # type: ignore[import-untyped]  # noqa: PLC0415
    from botocore.session import Session as BotocoreSession  # type: ignore[import-untyped]  # noqa: PLC0415

    class NamedServices(Loader):  # type: ignore[misc]
        """To know whether a service exists botocore would list its four hundred folders for each kind of file."""

        def list_available_services(self, type_name: str) -> list[str]:  # noqa: ARG002  # botocore's
            return services

    session = BotocoreSession()
    if region:
        session.set_config_variable("region", region)
    paths = session.get_config_variable("data_path") or ""
    loader = NamedServices([str(MODELS), *filter(None, map(os.path.expanduser, paths.split(os.pathsep)))])
    session.register_component("data_loader", loader)
    return session


def part(service: str) -> str:
    """The service's name for operators."""
    return PARTS.get(service, service)


def _certain_skew(said: datetime, sent: datetime, received: datetime) -> timedelta:
    if said > received:
        return said - received
    if said + _RESOLUTION < sent:
        return said + _RESOLUTION - sent
    return timedelta(0)


def _dualstack(service: str, *, redirected: object) -> bool | None:
    """Whether to use the dual-stack address; none leaves it to AWS_USE_DUALSTACK_ENDPOINT."""
    variable = "AWS_ENDPOINT_URL_" + part(service).upper().replace(" ", "_").replace("-", "_")
    if redirected or os.environ.get("AWS_ENDPOINT_URL") or os.environ.get(variable):
        return False  # a configured address is used as it is
    chosen = os.environ.get(DUALSTACK_VARIABLE)
    if chosen is not None:
        return service in {name.strip().lower() for name in chosen.split(",")}
    return None if "AWS_USE_DUALSTACK_ENDPOINT" in os.environ else service in DUALSTACK
