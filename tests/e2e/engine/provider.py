"""A stand-in for Pulumi's AWS provider: the engine's protocol on one side, moto on the other.

AWS's own provider cannot be had here. This one answers what the engine asks in the course of a deployment: it checks
each resource's inputs against boto3's models, makes it in moto, and says what a change would replace. What moto keeps
is the truth for later calls, because the engine starts a new provider for each command.

Started by the engine as the plugin `aws` (see `engine.py`). In the folder NODEFLEET_PROVIDER_FOLDER it keeps its
register of names, and reads in `refused` which changes a test wants refused: "create" or "delete" and part of a URN.
"""

import os
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from e2e.engine.aws_resources import EngineCloud, known_later, replaces

if TYPE_CHECKING:
    from collections.abc import Iterator

_MEGABYTES = 400 << 20  # functions and layers travel as archives
_PREFIX = "aws:"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # how the protocol writes what a preview cannot know yet


def _plain(struct: Struct) -> dict[str, Any]:
    return dict(MessageToDict(struct))


def _struct(values: dict[str, Any]) -> Struct:
    return ParseDict(values, Struct())


@dataclass
class StandIn(provider_pb2_grpc.ResourceProviderServicer):
    folder: Path
    version: str
    _cloud: EngineCloud | None = None

    @property
    def cloud(self) -> EngineCloud:
        assert self._cloud is not None, "the engine asks before it configures"
        return self._cloud

    # ── the provider itself ──────────────────────────────────────────────────────────────────────────────────────

    def Handshake(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802  # the protocol's names
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=False, accept_resources=False)

    def GetPluginInfo(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return plugin_pb2.PluginInfo(version=self.version)

    def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        changed = request.olds != request.news
        kind = provider_pb2.DiffResponse.DIFF_SOME if changed else provider_pb2.DiffResponse.DIFF_NONE
        return provider_pb2.DiffResponse(changes=kind)

    def Configure(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        region = _plain(request.args)["region"]
        self._cloud = EngineCloud(region=region, register=self.folder / "register.json")
        return provider_pb2.ConfigureResponse(acceptSecrets=False, supportsPreview=True, acceptResources=False)

    def Cancel(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return Empty()

    def Invoke(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        answer = self.cloud.look_up(request.tok, _plain(request.args))
        return provider_pb2.InvokeResponse(**{"return": _struct(answer)})

    # ── resources ────────────────────────────────────────────────────────────────────────────────────────────────

    def Check(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        olds, news = _plain(request.old_inputs), _plain(request.news)
        changed = sorted(key for key in olds.keys() | news.keys() if olds.get(key) != news.get(key))
        kind = _kind(request.urn)
        replacing = [key for key in changed if replaces(kind, key, news)]
        detail = provider_pb2.PropertyDiff
        details = {
            key: detail(kind=detail.UPDATE_REPLACE if key in replacing else detail.UPDATE, inputDiff=True)
            for key in changed
        }
        found = provider_pb2.DiffResponse
        return found(
            changes=found.DIFF_SOME if changed else found.DIFF_NONE,
            replaces=replacing,
            diffs=changed,
            detailedDiff=details,
            hasDetailedDiff=True,
            # What has a name of its own cannot be there twice.
            deleteBeforeReplace=bool(replacing) and any(key in news for key in ("name", "bucket")),
        )

    def Create(self, request: Any, context: Any) -> Any:  # noqa: N802
        inputs = _plain(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=_struct(inputs))
        with self._said("create", request.urn, context):
            identity, known = self.cloud.make(_kind(request.urn), _name(request.urn), inputs)
            return provider_pb2.CreateResponse(id=identity, properties=_struct({**inputs, **known, "id": identity}))

    def Read(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def Update(self, request: Any, context: Any) -> Any:  # noqa: N802
        olds, news = _plain(request.olds), _plain(request.news)
        if request.preview:
            changed = frozenset(key for key in news if news[key] != olds.get(key))
            later = dict.fromkeys(known_later(_kind(request.urn), changed), UNKNOWN)
            return provider_pb2.UpdateResponse(properties=_struct({**olds, **news, **later}))
        with self._said("update", request.urn, context):
            known = self.cloud.change(_kind(request.urn), request.id, olds, news)
            return provider_pb2.UpdateResponse(properties=_struct({**olds, **news, **known}))

    def Delete(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self._said("delete", request.urn, context):
            self.cloud.remove(_kind(request.urn), request.id, _plain(request.properties))
            return Empty()

    @contextmanager
    def _said(self, verb: str, urn: str, context: Any) -> "Iterator[None]":
        """An error's text goes to whoever deploys, as the engine shows it."""
        try:
            self._refuse(verb, urn)
            yield
        except Exception as error:  # noqa: BLE001  # whatever it is, an operator must read it
            traceback.print_exc()
            context.abort(grpc.StatusCode.UNKNOWN, f"{verb} {_type(urn)} {_name(urn)}: {error!r}")

    def _refuse(self, verb: str, urn: str) -> None:
        wanted = self.folder / "refused"
        lines = wanted.read_text().splitlines() if wanted.exists() else []
        if any(verb == line.split(" ")[0] and line.split(" ")[1] in urn for line in lines):
            raise RuntimeError("refused, as the test wants it")


def _type(urn: str) -> str:
    return urn.split("::")[2].rpartition("$")[2]


def _kind(urn: str) -> str:
    return _type(urn).removeprefix(_PREFIX)


def _name(urn: str) -> str:
    return urn.split("::", 3)[3]


def main() -> None:
    options = [("grpc.max_receive_message_length", _MEGABYTES), ("grpc.max_send_message_length", _MEGABYTES)]
    server = grpc.server(ThreadPoolExecutor(max_workers=8), options=options)
    stand_in = StandIn(folder=Path(os.environ["NODEFLEET_PROVIDER_FOLDER"]), version=sys.argv[1])
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(stand_in, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
