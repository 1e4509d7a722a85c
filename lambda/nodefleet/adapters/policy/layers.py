"""Defaults, preset, file and pool laid over each other. Who said what is kept: `policy show` and problems name it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodefleet.adapters.policy.sound import Sound
from nodefleet.domain.plain import Plain, to_plain
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.policy.shape import Keys, Part, is_table, part

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Trace:
    origin: str
    place: Keys | None = None  # in the file, if it is written there


@dataclass(slots=True)
class Layers:
    """A policy in the making, as plain data."""

    value: dict[str, Plain] = field(default_factory=lambda: dict(to_plain(Policy(pools=()), full=True)))
    traces: dict[Keys, Trace] = field(default_factory=dict)  # of everything that is not a default
    broken: set[Keys] = field(default_factory=set)  # what was written but cannot be used

    def add_pool(self, place: Keys) -> Keys:
        """A pool of defaults; what it has not written itself would stand at `place`."""
        pools = self.value["pools"]
        pools.append(to_plain(Pool(), full=True))
        keys = ("pools", len(pools) - 1)
        self.traces[keys] = Trace(DEFAULT, place)
        return keys

    def lay(self, layer: Sound, parts: Mapping[str, Part], origin: str, under: Keys = ()) -> None:
        """Puts what `layer` says of these parts over what is there: tables merge, all else replaces."""
        for key, value in layer.value.items():
            if key in parts:
                self._lay(value, parts[key].hint, layer.places, origin, (*under, key), (key,))
        self.broken |= {(*under, *keys) for keys in layer.broken if keys[0] in parts}

    def origin(self, keys: Keys) -> str:
        trace = self.traces.get(keys)
        return trace.origin if trace else DEFAULT

    def is_written(self, keys: Keys) -> bool:
        trace = self.traces.get(keys)
        return trace is not None and trace.place is not None

    def place(self, keys: Keys) -> Keys:
        """Where in the file this stands, or would."""
        for length in range(len(keys), 0, -1):
            trace = self.traces.get(keys[:length])
            if trace and trace.place is not None:
                return (*trace.place, *keys[length:])
        return keys

    def is_unsure(self, keys: Keys) -> bool:
        """Something written here, or around it, or inside it, cannot be used."""
        return any(lost[: len(keys)] == keys or keys[: len(lost)] == lost for lost in self.broken)

    def _lay(self, value: Plain, hint: Any, places: Mapping[Keys, Keys], origin: str, keys: Keys, source: Keys) -> None:
        if is_table(hint):
            self.traces[keys] = Trace(origin, places.get(source))
            for key, each in value.items():
                inner = part(hint, value, key)
                if inner:
                    self._lay(each, inner.hint, places, origin, (*keys, key), (*source, key))
            return
        self._forget(keys)
        holder: Any = self.value
        for key in keys[:-1]:
            holder = holder[key]
        holder[keys[-1]] = value
        for inside in _nodes(value):
            self.traces[*keys, *inside] = Trace(origin, places.get((*source, *inside)))

    def _forget(self, keys: Keys) -> None:
        self.traces = {at: trace for at, trace in self.traces.items() if at[: len(keys)] != keys}
        self.broken = {at for at in self.broken if at[: len(keys)] != keys}


def _nodes(value: Plain) -> Iterator[Keys]:
    yield ()
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in parts:
        for inside in _nodes(each):
            yield (key, *inside)
