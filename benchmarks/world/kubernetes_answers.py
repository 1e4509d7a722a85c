"""The API server as the stand-in answers it: lists in pages, each object rendered beforehand."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from world.objects import objects
from world.scene import Object, Scene

Answer: TypeAlias = Callable[[], tuple[int, bytes]]

_IN = re.compile(r"(\S+) in \((.*)\)")
_WRITTEN = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}


class KubernetesAnswers:
    def __init__(self, scene: Scene) -> None:
        self._listed = {plural: [_Listed.of(each) for each in made] for plural, made in objects(scene).items()}

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
        listed = self._listed.get(plural, [])  # a kind of which the scene has none
        if "fieldSelector" in query:
            node = query["fieldSelector"].partition("=")[2]
            listed = [each for each in listed if each.node == node]
        elif asked := _IN.fullmatch(query.get("labelSelector", "")):
            key, values = asked[1], frozenset(asked[2].split(","))
            listed = [each for each in listed if each.labels.get(key) in values]
        return [each.text for each in listed]

    def _one(self, plural: str, name: str) -> tuple[int, bytes]:
        found = self._found(plural, name)
        return (200, found.text) if found else (404, b'{"kind":"Status","code":404,"reason":"NotFound"}')

    def _written(self, method: str, plural: str, name: str, body: bytes) -> tuple[int, bytes]:
        if method == "PATCH" and (found := self._found(plural, name)):
            thing = json.loads(found.text)
            _merge(thing, json.loads(body))
            found.text = _json(thing)
            return 200, found.text
        return 201, b'{"kind":"Status","status":"Success"}'

    def _found(self, plural: str, name: str) -> "_Listed | None":
        return next((each for each in self._listed.get(plural, ()) if each.name == name), None)


@dataclass(slots=True)
class _Listed:
    """An object as it is sent, and what lists choose it by."""

    name: str
    node: str
    labels: Mapping[str, str]
    text: bytes

    @classmethod
    def of(cls, thing: Object) -> "_Listed":
        meta = thing["metadata"]
        return cls(meta["name"], thing.get("spec", {}).get("nodeName", ""), meta.get("labels", {}), _json(thing))


def _json(thing: Any) -> bytes:
    return json.dumps(thing, separators=(",", ":")).encode()


def _merge(thing: Object, patch: Object) -> None:
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(thing.get(key), dict):
            _merge(thing[key], value)
        else:
            thing[key] = value
