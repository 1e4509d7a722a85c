"""The API server as the stand-in answers it: lists in pages, each object rendered beforehand."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from world.objects import objects
from world.scene import Object, Scene

Answer: TypeAlias = Callable[[], tuple[int, bytes]]

_IN = re.compile(r"(\S+) in \((.*)\)")
_WRITTEN = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


class KubernetesAnswers:
    def __init__(self, scene: Scene) -> None:
        self._objects = objects(scene)
        self._rendered = {plural: list(map(_json, listed)) for plural, listed in self._objects.items()}

    def prepared(self, method: str, path: str, query: Mapping[str, str], body: bytes) -> tuple[str, Answer]:
        """What is asked for, and how to answer it."""
        names = path.strip("/").split("/")
        names = names[3 if names[0] == "apis" else 2 :]  # without the group and version
        if names[0] == "namespaces" and len(names) > 2:  # noqa: PLR2004  # something within a namespace
            names = names[2:]
        plural, name, *below = [*names, ""]
        if method in _WRITTEN:
            what = "/".join([plural, *filter(None, below)])
            return f"{_WRITTEN[method]} {what}", lambda: self._written(method, plural, name, body)
        if name:
            return f"get {plural}", lambda: self._one(plural, name)
        return f"list {plural}", lambda: (200, self._page(plural, query))

    def _page(self, plural: str, query: Mapping[str, str]) -> bytes:
        found = self._chosen(plural, query)
        start, size = int(query.get("continue") or 0), int(query["limit"])
        following = str(start + size) if start + size < len(found) else ""
        meta = _json({"resourceVersion": "48151623", "continue": following})
        items = b",".join(found[start : start + size])
        return b'{"kind":"List","apiVersion":"v1","metadata":' + meta + b',"items":[' + items + b"]}"

    def _chosen(self, plural: str, query: Mapping[str, str]) -> list[bytes]:
        rendered = self._rendered.get(plural, [])  # a kind of which the scene has none
        if "fieldSelector" in query:
            node = query["fieldSelector"].partition("=")[2]
            pairs = zip(self._objects.get(plural, ()), rendered, strict=True)
            return [text for thing, text in pairs if thing["spec"].get("nodeName") == node]
        asked = _IN.fullmatch(query.get("labelSelector", ""))
        if asked is None:
            return rendered
        key, values = asked[1], frozenset(asked[2].split(","))
        pairs = zip(self._objects.get(plural, ()), rendered, strict=True)
        return [text for thing, text in pairs if thing["metadata"].get("labels", {}).get(key) in values]

    def _one(self, plural: str, name: str) -> tuple[int, bytes]:
        found = self._found(plural, name)
        return (200, _json(found)) if found else (404, b'{"kind":"Status","code":404,"reason":"NotFound"}')

    def _written(self, method: str, plural: str, name: str, body: bytes) -> tuple[int, bytes]:
        """Only a single object that is patched shows it later: lists stay as they were rendered."""
        if method == "PATCH" and (found := self._found(plural, name)):
            _merge(found, json.loads(body))
            return 200, _json(found)
        return 201, b'{"kind":"Status","status":"Success"}'

    def _found(self, plural: str, name: str) -> Object | None:
        return next((each for each in self._objects.get(plural, ()) if each["metadata"]["name"] == name), None)


def _json(thing: Any) -> bytes:
    return json.dumps(thing, separators=(",", ":")).encode()


def _merge(thing: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(thing.get(key), dict):
            _merge(thing[key], value)
        else:
            thing[key] = value
