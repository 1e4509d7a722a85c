"""How much a pod asks for and a node has, in the units Kubernetes schedules by."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

_QUANTITY = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[A-Za-z]*)")
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
    "Ki": Decimal(2) ** 10,
    "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30,
    "Ti": Decimal(2) ** 40,
    "Pi": Decimal(2) ** 50,
    "Ei": Decimal(2) ** 60,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    cpu: int = 0  # millicores
    memory: int = 0  # bytes
    storage: int = 0  # bytes of ephemeral storage
    pods: int = 0  # how many pods a node may hold; 0 in a request
    extended: Mapping[str, int] = field(default_factory=dict)  # nvidia.com/gpu, hugepages-2Mi, …

    def __add__(self, other: "Resources") -> "Resources":
        return self._combined(other, int.__add__)

    def __sub__(self, other: "Resources") -> "Resources":
        return self._combined(other, int.__sub__)

    def at_least(self, other: "Resources") -> "Resources":
        """The larger of the two, resource by resource."""
        return self._combined(other, max)

    def _combined(self, other: "Resources", combine: Callable[[int, int], int]) -> "Resources":
        extended: dict[str, int] = {}
        if self.extended or other.extended:
            names = sorted({*self.extended, *other.extended})
            extended = {name: combine(self.extended.get(name, 0), other.extended.get(name, 0)) for name in names}
        return Resources(
            cpu=combine(self.cpu, other.cpu),
            memory=combine(self.memory, other.memory),
            storage=combine(self.storage, other.storage),
            pods=combine(self.pods, other.pods),
            extended=extended,
        )


NOTHING = Resources()


def total(parts: Iterable[Resources]) -> Resources:
    result = NOTHING
    for part in parts:
        result += part
    return result


def quantity(text: str) -> Decimal:
    """A Kubernetes quantity as a number: "500m" → 0.5, "2Gi" → 2147483648, "1e3" → 1000."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match["suffix"] not in _SUFFIXES:
        raise ValueError(f"{text!r} is not a quantity; write for example 500m, 2 or 1Gi")
    return Decimal(match["number"]) * _SUFFIXES[match["suffix"]]
