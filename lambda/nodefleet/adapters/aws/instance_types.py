"""What instance types offer and cost. It changes over months, so it is asked every few hours and kept between runs.

A catalogue that cannot be had again is served as it was. Prices are for operators to read: lacking ones stop nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any, TypeAlias

from nodefleet.adapters.aws.errors import calling
from nodefleet.errors import DeniedError, NodeFleetError, UnavailableError
from nodefleet.model.inventory import InstanceType, Resources, list_prices
from nodefleet.model.snapshot import KnownPrices

KEPT = timedelta(hours=6)
SOON = timedelta(minutes=10)  # when something was lacking

_AT_ONCE = 100  # values that EC2 takes in one filter
_LINUX = "Linux/UNIX"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    types: tuple[InstanceType, ...]
    good_until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    offers: Mapping[str, InstanceType]  # without prices
    spot: Mapping[str, float]
    good_until: datetime


Answers: TypeAlias = dict[tuple[str, ...], _Answer]  # by the types that were asked for


class Catalog:
    """One cluster's. `answers` are EC2's, which the clusters of a region may share: only prices are a cluster's own."""

    def __init__(
        self,
        client: Callable[[], Any],
        prices: Mapping[str, float],
        clock: Callable[[], datetime],
        warn: Callable[[str], None],
        known: KnownPrices | None = None,
        *,
        answers: Answers | None = None,
    ) -> None:
        self._answers: Answers = {} if answers is None else answers
        self._client = client
        self._prices = prices
        self._clock = clock
        self._warn = warn
        self._known = known
        self._copies: dict[frozenset[str], _Copy] = {}

    def of(self, types: Sequence[str]) -> tuple[InstanceType, ...]:
        """By name. A type that this region does not have is left out, and said."""
        wanted, now = frozenset(types), self._clock()
        copy = self._copies.get(wanted)
        if copy is None or now >= copy.good_until:
            copy = self._copies[wanted] = self._renew(wanted, copy, now)
        return copy.types

    def _renew(self, wanted: frozenset[str], old: _Copy | None, now: datetime) -> _Copy:
        try:
            return self._ask(sorted(wanted), now)
        except NodeFleetError as problem:
            if old is None:
                raise
            self._warn(f"The catalogue of instance types is served as it was: {problem}")
            return replace(old, good_until=now + SOON)

    def _answer(self, wanted: Sequence[str], now: datetime) -> _Answer:
        known = self._answers.get(tuple(wanted))
        if known is not None and now < known.good_until:
            return known
        offers = dict(self._offers(wanted))
        spot = self._spot(sorted(offers), now)
        fresh = _Answer(offers=offers, spot=spot, good_until=now + (SOON if offers and not spot else KEPT))
        self._answers[tuple(wanted)] = fresh
        return fresh

    def _ask(self, wanted: Sequence[str], now: datetime) -> _Copy:
        answer = self._answer(wanted, now)
        offers, spot = answer.offers, answer.spot
        unknown = [name for name in wanted if name not in offers]
        if unknown:
            self._warn(f"EC2 does not offer {', '.join(unknown)} in this region. Take them out of the policy's types")
        region = self._client().meta.region_name
        known = self._known if self._known is not None and self._known.region == region else None
        listed = {**list_prices(region), **(known.on_demand if known else {}), **self._prices}
        last_spot = known.spot if known else {}
        types = tuple(
            replace(offers[name], hourly_usd=listed.get(name), spot_usd=spot.get(name, last_spot.get(name)))
            for name in sorted(offers)
        )
        return _Copy(types=types, good_until=answer.good_until)

    def _offers(self, wanted: Sequence[str]) -> Iterator[tuple[str, InstanceType]]:
        """Asked for by filter: by name one unknown type would refuse them all."""
        for start in range(0, len(wanted), _AT_ONCE):
            names = list(wanted[start : start + _AT_ONCE])
            with calling("EC2"):
                pages = self._client().get_paginator("describe_instance_types")
                for page in pages.paginate(Filters=[{"Name": "instance-type", "Values": names}]):
                    yield from (_offer(raw) for raw in page.get("InstanceTypes") or [])

    def _spot(self, names: Sequence[str], now: datetime) -> Mapping[str, float]:
        """What Spot costs now by type, on the mean over zones; nothing if EC2 does not say."""
        if not names:
            return {}
        try:
            with calling("EC2"):
                pages = self._client().get_paginator("describe_spot_price_history")
                asked = pages.paginate(InstanceTypes=list(names), ProductDescriptions=[_LINUX], StartTime=now)
                return _means(entry for page in asked for entry in page.get("SpotPriceHistory") or [])
        except (UnavailableError, DeniedError) as problem:
            self._warn(f"Spot prices are not known: {problem}")
            return {}


def _offer(raw: Mapping[str, Any]) -> tuple[str, InstanceType]:
    """Without prices."""
    try:
        name = str(raw["InstanceType"])
        resources = Resources(
            cpu=1000 * int(raw["VCpuInfo"]["DefaultVCpus"]),
            memory=int(raw["MemoryInfo"]["SizeInMiB"]) << 20,
            extended=_devices(raw),
        )
        return name, InstanceType(
            name=name,
            resources=resources,
            architecture=_architecture(raw),
            local_disk_gb=int((raw.get("InstanceStorageInfo") or {}).get("TotalSizeInGB") or 0),
        )
    except (KeyError, TypeError, ValueError) as problem:
        raise UnavailableError("EC2", f"DescribeInstanceTypes: a type cannot be read: {problem!r}") from problem


# Extended resources as the common device plugins name them, by the manufacturer that EC2 gives.
_GPUS = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}
_NEURON_DEVICE, _NEURON_CORE = "aws.amazon.com/neuron", "aws.amazon.com/neuroncore"
_ARCHITECTURES = {"x86_64": "amd64", "arm64": "arm64"}  # EC2's names and the kubelet's


def _devices(raw: Mapping[str, Any]) -> Mapping[str, int]:
    found: Counter[str] = Counter()
    for gpu in (raw.get("GpuInfo") or {}).get("Gpus") or ():
        if name := _GPUS.get(str(gpu.get("Manufacturer"))):
            found[name] += int(gpu["Count"])
    for device in (raw.get("NeuronInfo") or {}).get("NeuronDevices") or ():
        found[_NEURON_DEVICE] += int(device["Count"])
        found[_NEURON_CORE] += int(device["Count"]) * int((device.get("CoreInfo") or {}).get("Count") or 1)
    return dict(sorted(found.items()))


def _architecture(raw: Mapping[str, Any]) -> str:
    supported = (raw.get("ProcessorInfo") or {}).get("SupportedArchitectures") or ()
    return next((_ARCHITECTURES[each] for each in supported if each in _ARCHITECTURES), "")


def _means(entries: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The mean over zones of each zone's latest price."""
    latest: dict[tuple[str, str], tuple[datetime, float]] = {}
    for entry in entries:
        try:
            place, price = (str(entry["InstanceType"]), str(entry["AvailabilityZone"])), float(entry["SpotPrice"])
        except (KeyError, TypeError, ValueError):
            continue  # a price that cannot be read is not known
        at = entry.get("Timestamp") or datetime.min.replace(tzinfo=UTC)
        if place not in latest or at > latest[place][0]:
            latest[place] = (at, price)
    by_type: dict[str, list[float]] = {}
    for (name, _), (_, price) in latest.items():
        by_type.setdefault(name, []).append(price)
    return {name: fmean(prices) for name, prices in by_type.items()}
