"""DescribeInstances, decoded for what is needed and nothing else.

EC2 writes 5 KB of XML about an instance, and botocore decodes all of it in Python: a thousand instances would take it
more CPU time than ten thousand pods take us (docs/benchmarks.md). So the list is decoded here, and botocore gets what
is left of the answer: request id, token, errors. Whoever reads instances finds them as botocore would give them, but
without the fields that nobody asks for.
"""

from datetime import datetime
from http import HTTPStatus
from io import BytesIO
from typing import Any
from xml.etree import ElementTree as ET

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
    return found


def _texts(part: ET.Element, space: str, **keys: str) -> dict[str, str]:
    """The texts within a part, by botocore's keys for them."""
    texts = {each.tag.removeprefix(space): each.text or "" for each in part}
    return {key: texts[name] for name, key in keys.items() if name in texts}
