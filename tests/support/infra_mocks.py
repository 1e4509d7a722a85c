"""The whole Pulumi program without AWS and without Pulumi's engine: every resource that it declares, with its inputs.

`deployed_stack(file)` runs infra/__main__.py once for each configuration and keeps what came of it, because a run takes
seconds. What AWS would answer (ids, ARNs, addresses) is made up here, in AWS's form: the code takes ARNs apart.
"""

import asyncio
import json
import logging
import runpy
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import pulumi
import yaml
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime import mocks, resource, settings
from pulumi.runtime.proto import source_pb2
from pulumi.runtime.stack import run_in_stack

with warnings.catch_warnings():
    # The provider warns of its own old names while it is imported, whether they are used or not.
    warnings.simplefilter("ignore", DeprecationWarning)
    import nodefleet_infra.program  # noqa: F401

from nodefleet_infra import artefacts
from nodefleet_infra.artefacts import Artefact, Artefacts
from support.aws_answers import ACCOUNT, answered

ROOT = Path(__file__).resolve().parents[2]
DEV, PRODUCTION = "Pulumi.dev.yaml", "infra/examples/Pulumi.production.yaml"
REGION = "ap-southeast-1"
IMAGE = "ami-0123456789abcdef0"
PROJECT = "node-fleet"


@dataclass(frozen=True, kw_only=True)
class Made:
    """A resource: what it was declared with, and what AWS would say of it."""

    type: str  # aws:lambda/function:Function
    name: str  # in the program
    urn: str
    id: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    needs: frozenset[str]  # URNs of what it depends on, its parent among them
    secret: frozenset[str]  # the inputs that Pulumi encrypts in its state and hides in its output
    protected: bool  # Pulumi refuses to delete or replace it
    retained: bool  # deleting it leaves it where it is
    ignored: frozenset[str]  # changes of these inputs count for nothing

    @property
    def tags(self) -> Mapping[str, str]:
        return self.inputs.get("tags") or {}


@dataclass
class Graph:
    made: list[Made] = field(default_factory=list)
    components: dict[str, frozenset[str]] = field(default_factory=dict)  # URN → what it depends on
    exports: dict[str, Any] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)  # warnings and notes to whoever deploys

    def of(self, kind: str) -> list[Made]:
        """All of a type, by the end of its name: "lambda/function:Function"."""
        return [each for each in self.made if each.type.endswith(kind)]

    def one(self, kind: str, name: str) -> Made:
        (found,) = [each for each in self.of(kind) if each.name == name]
        return found

    def by_urn(self, urn: str) -> Made:
        (found,) = [each for each in self.made if each.urn == urn]
        return found

    def before(self, urn: str) -> set[str]:
        """URNs of everything that this cannot be without, directly or not: what outlives it in a destroy."""
        known = {each.urn: each.needs for each in self.made} | self.components
        found: set[str] = set()
        todo = [urn]
        while todo:
            new = known.get(todo.pop(), frozenset()) - found
            found |= new
            todo += new
        return found


class Cloud(Protocol):
    """Where resources are really made, if anywhere."""

    def create(self, kind: str, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Id and what is known besides; none if it does not make such resources."""


# ── running the program ──────────────────────────────────────────────────────────────────────────────────────────


@cache
def deployed_stack(file: str) -> Graph:
    """Of a stack's file in the repository."""
    written = yaml.safe_load((ROOT / file).read_text())["config"]
    return declared(written, Path(file).stem.partition(".")[2])


@cache
def unusual_stack() -> Graph:
    """All that the two examples do not have: two clusters, a young region, one NAT gateway, no Slack, switched off."""
    return declared(
        {
            "aws:region": "eu-central-2",
            "node-fleet:network": {"zones": ["eu-central-2a", "eu-central-2b"], "workers": "private"},
            "node-fleet:clusters": [{"name": "shop"}, {"name": "blog"}],
            "node-fleet:messages": {"slack": False},
            "node-fleet:autoscaler": {"enabled": False, "reserved_concurrency": {"reconcile": 2, "interruption": 4}},
        },
        "odd",
    )


@cache
def stack_in_an_existing_network() -> Graph:
    return declared(
        {
            "aws:region": REGION,
            "node-fleet:network": {
                "existing": {
                    "vpc": "vpc-0a",
                    "workers": {f"{REGION}a": "subnet-0a", f"{REGION}b": "subnet-0b"},
                    "functions": ["subnet-0c", "subnet-0d"],
                    "ipv6": False,
                }
            },
            "node-fleet:clusters": [{"name": "shop"}],
        },
        "old",
    )


@cache
def stack_with_all_options() -> Graph:
    key = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    return declared(
        {
            "aws:region": REGION,
            "node-fleet:network": {"zones": [f"{REGION}a", f"{REGION}b"]},
            "node-fleet:autoscaler": {"lean": True},
            "node-fleet:budget": {"monthly_usd": 150, "emails": ["oncall@example.com"]},
            "node-fleet:clusters": [
                {
                    "name": "shop",
                    "persistent_volumes": True,
                    "ingress": {},
                    "disk_key": key,
                    "master": {"grafana": True},
                }
            ],
        },
        "all",
    )


def declared(
    config: Mapping[str, Any],
    stack: str,
    *,
    built: Artefacts | Exception | None = None,
    secret: Sequence[str] = (),
    cloud: Cloud | None = None,
    kept: Mapping[str, Mapping[str, Any]] | None = None,
    preview: bool = False,
    unknown: Collection[tuple[str, str]] = (),
) -> Graph:
    """What infra/__main__.py declares with this configuration; `config` as it stands in the stack's file.

    `kept` are inputs of earlier, by name: they stay where a resource ignores changes of them. A `preview` does not know
    the ids of `unknown` resources, by type and name: those that it would make."""
    built = built or _built()
    graph = Graph()
    monitor = _Monitor(graph, config["aws:region"], cloud, kept or {}, unknown)
    pulumi.runtime.set_all_config({key: _handed_over(value) for key, value in config.items()}, list(secret))
    _use(monitor, stack, graph, preview=preview)
    infra = str(ROOT / "infra")
    with (
        mock.patch.object(artefacts, "found", side_effect=[built]),
        mock.patch.object(sys, "path", [infra, *sys.path]),
        # Where in the program a resource stands is for operators's eyes, and finding it takes a seventh of the time.
        mock.patch.object(resource, "_get_stack_trace", source_pb2.StackTrace),
        _loops_closed(),
    ):
        asyncio.run(run_in_stack(lambda: runpy.run_path(str(ROOT / "infra/__main__.py"), run_name="__main__") and None))
    return graph


def _use(monitor: mocks.MockMonitor, stack: str, graph: Graph, *, preview: bool) -> None:
    """As pulumi.runtime.set_mocks does, but for the stack, which running the program makes itself."""
    features = set(monitor.GetDeploymentInfo(Empty()).supportedFeatures)
    settings.configure(
        mocks.MockSettings(
            monitor=monitor,
            monitor_features=features,
            engine=mocks.MockEngine(_Listener(graph)),
            project=PROJECT,
            stack=stack,
            dry_run=preview,
            organization=None,
            callbacks=None,
        )
    )
    settings.set_root_resource(None)


@contextmanager
def _loops_closed() -> Iterator[None]:
    """Pulumi makes an event loop for each thread that answers, and leaves it open."""
    new, made = asyncio.new_event_loop, list[asyncio.AbstractEventLoop]()

    def noted() -> asyncio.AbstractEventLoop:
        made.append(new())
        return made[-1]

    with mock.patch.object(asyncio, "new_event_loop", noted):
        yield
    for loop in made:
        loop.close()


def _handed_over(value: Any) -> str:
    """As Pulumi hands a value from the file to the program."""
    return value if isinstance(value, str) else json.dumps(value)


def _built() -> Artefacts:
    """Stands for what `make layers` makes: mocks never read it."""
    nothing = ROOT / "README.md"
    return Artefacts(layer=Artefact(path=nothing, digest="1" * 64), functions=Artefact(path=nothing, digest="2" * 64))


class _Listener(logging.Logger):
    """Hears what the program tells whoever deploys."""

    def __init__(self, graph: Graph) -> None:
        super().__init__("pulumi", logging.INFO)
        self.addHandler(logging.NullHandler())
        self.addFilter(lambda record: graph.said.append(record.getMessage()) is None)


class _Monitor(mocks.MockMonitor):
    """Keeps what depends on what, too."""

    def __init__(
        self,
        graph: Graph,
        region: str,
        cloud: Cloud | None,
        kept: Mapping[str, Mapping[str, Any]],
        unknown: Collection[tuple[str, str]],
    ) -> None:
        super().__init__(_Answers(region, cloud))
        self._graph, self._kept, self._unknown = graph, kept, unknown

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802  # as Pulumi calls it
        urn = self.make_urn(request.parent, request.type, request.name)
        assert urn not in self.resources, f"{urn} is declared twice"
        for name in request.ignoreChanges:
            if name in self._kept.get(request.name, {}):
                request.object[name] = self._kept[request.name][name]
        answer = super().RegisterResource(request)
        if any(request.type.endswith(kind) and request.name == name for kind, name in self._unknown):
            answer.id = ""
        needs = frozenset({*request.dependencies, request.parent} - {""})
        if request.custom:
            registered = self.resources[urn]
            given = mocks.rpc.deserialize_properties(request.object)
            inputs = {name: mocks.rpc.unwrap_rpc_secret(value) for name, value in given.items()}
            self._graph.made.append(
                Made(
                    type=request.type,
                    name=request.name,
                    urn=urn,
                    id=registered.id,
                    inputs=inputs,
                    outputs=registered.state,
                    needs=needs,
                    secret=frozenset(name for name, value in given.items() if mocks.rpc.is_rpc_secret(value)),
                    protected=request.protect,
                    retained=request.retainOnDelete,
                    ignored=frozenset(request.ignoreChanges),
                )
            )
        else:
            self._graph.components[urn] = needs
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: N802  # as Pulumi calls it
        if "pulumi:pulumi:Stack" in request.urn:
            self._graph.exports.update(mocks.rpc.deserialize_properties(request.outputs))
        return super().RegisterResourceOutputs(request)


# ── what AWS would say ───────────────────────────────────────────────────────────────────────────────────────────


class _Answers(mocks.Mocks):
    def __init__(self, region: str, cloud: Cloud | None) -> None:
        self._region, self._cloud = region, cloud

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if not args.custom:
            return "", dict(args.inputs)
        made = self._cloud.create(args.typ.rpartition(":")[2], args.inputs) if self._cloud else None
        if made:
            return made[0], {**args.inputs, **made[1]}
        return answered(args.typ, args.name, args.inputs, self._region)

    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:
        answers: dict[str, dict[str, Any]] = {
            "aws:index/getPartition:getPartition": {"partition": "aws", "dnsSuffix": "amazonaws.com"},
            "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": ACCOUNT},
            "aws:ssm/getParameter:getParameter": {"value": IMAGE, "name": args.args.get("name")},
        }
        return answers[args.token]
