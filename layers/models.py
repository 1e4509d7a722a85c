"""Service descriptions of botocore, cut down to the calls that the functions make.

Making a client reads the description of its whole service: EC2's has 700 calls in megabytes of JSON, and a cold start
spends a tenth of its CPU time there. The functions' archive brings descriptions with only the calls below and the
shapes that they need. botocore takes them because they come first on its search path
(lambda/nodefleet/adapters/aws/session.py). The list of endpoints is cut down to the same services: a megabyte that
botocore reads at every start. Rules of endpoints, paginators and everything else stay botocore's own.

A call that an adapter makes and that is missing here fails tests/test_layers.py.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from botocore.loaders import Loader  # type: ignore[import-untyped]

FOLDER = "aws-models"
CALLS: Mapping[str, Sequence[str]] = {
    "cloudwatch": ("GetMetricData",),
    "dynamodb": ("DeleteItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem"),
    "ec2": (
        "CreateFleet",
        "CreateTags",
        "DescribeInstanceTypes",
        "DescribeInstances",
        "DescribeSpotPriceHistory",
        "StartInstances",
        "StopInstances",
        "TerminateInstances",
    ),
    "s3": ("GetObject", "HeadBucket", "PutObject"),  # botocore asks HeadBucket for the region of a bucket elsewhere
    "secretsmanager": ("GetSecretValue",),
    "sqs": ("GetQueueAttributes", "SendMessage"),
    "ssm": ("GetParameter",),
}
_KIND = "service-2"
_ENDPOINTS = "endpoints"


def write_models(folder: Path) -> None:
    """All of them, as botocore looks for them: SERVICE/VERSION/service-2.json and endpoints.json."""
    loader = Loader()
    prefixes = {loader.load_service_model(service, _KIND)["metadata"]["endpointPrefix"] for service in CALLS}
    folder.mkdir(parents=True, exist_ok=True)
    endpoints = cut_endpoints(loader.load_data(_ENDPOINTS), prefixes)
    (folder / f"{_ENDPOINTS}.json").write_text(json.dumps(endpoints, separators=(",", ":")))
    for service, calls in CALLS.items():
        version = loader.determine_latest_version(service, _KIND)
        model = cut_down(loader.load_service_model(service, _KIND), calls)
        file = folder / service / version / f"{_KIND}.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(model, separators=(",", ":")))


def cut_down(model: Mapping[str, Any], calls: Sequence[str]) -> dict[str, Any]:
    """The description with these calls, and the shapes that they lead to. Raises KeyError for an unknown call."""
    operations = {call: model["operations"][call] for call in calls}
    wanted: dict[str, None] = {}
    ahead = list(_shapes_in(operations))
    while ahead:
        name = ahead.pop()
        if name not in wanted:
            wanted[name] = None
            ahead += _shapes_in(model["shapes"][name])
    shapes = {name: model["shapes"][name] for name in sorted(wanted)}
    return {**model, "operations": _without_texts(operations), "shapes": _without_texts(shapes)}


def cut_endpoints(endpoints: Mapping[str, Any], prefixes: Iterable[str]) -> dict[str, Any]:
    """The list with these services alone, in every partition and region."""
    kept = frozenset(prefixes)
    partitions = [
        {**partition, "services": {name: each for name, each in partition["services"].items() if name in kept}}
        for partition in endpoints["partitions"]
    ]
    return {**endpoints, "partitions": partitions}


def _shapes_in(part: Any) -> Iterator[str]:
    match part:
        case {"shape": str(name), **rest}:
            yield name
            yield from _shapes_in(rest)
        case dict():
            yield from (name for value in part.values() for name in _shapes_in(value))
        case list():
            yield from (name for value in part for name in _shapes_in(value))


def _without_texts(part: Any) -> Any:
    match part:
        case dict():
            return {key: _without_texts(value) for key, value in part.items() if not _is_text(key, value)}
        case list():
            return [_without_texts(value) for value in part]
        case _:
            return part


def _is_text(key: str, value: Any) -> bool:
    """Documentation; a member of that name is no text."""
    return key in ("documentation", "examples") and not isinstance(value, dict)
