"""What EC2 has to sell: instance types with their prices, and where it is short of them.

A test says what is refused for which type, zone and market, how many are left of something, and what the account's
quota is. Everything else can be had.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from nodefleet.model.inventory import InstanceType, Market, Resources
from nodefleet.model.operations import Refusal, RefusalKind

GIB = 1 << 30
NO_CAPACITY = "InsufficientInstanceCapacity"
QUOTA = {Market.SPOT: "MaxSpotInstanceCountExceeded", Market.ON_DEMAND: "VcpuLimitExceeded"}
TOO_DEAR = "SpotMaxPriceTooLow"

_DEVICES = {"gpus": "nvidia.com/gpu"}

Offer: TypeAlias = tuple[str, str, Market]  # type, zone, market
Line: TypeAlias = tuple[str | None, str | None, Market | None]  # none: all of them


def _type(name: str, cores: int, memory: float, hourly: float, spot: float, **devices: int) -> InstanceType:
    extended = {_DEVICES[name]: count for name, count in devices.items()}
    offered = Resources(cpu=cores * 1000, memory=int(memory * GIB), extended=extended)
    return InstanceType(name=name, resources=offered, hourly_usd=hourly, spot_usd=spot)


TYPES = (
    _type("t3.small", 2, 2, 0.0208, 0.0063),
    _type("t3a.small", 2, 2, 0.0188, 0.0058),
    _type("t2.small", 1, 2, 0.0230, 0.0070),
    _type("t3.medium", 2, 4, 0.0416, 0.0125),
    _type("t3a.medium", 2, 4, 0.0376, 0.0116),
    _type("m5.large", 2, 8, 0.0960, 0.0360),
    _type("c5.xlarge", 4, 8, 0.1700, 0.0700),
    _type("g4dn.xlarge", 4, 16, 0.5260, 0.1900, gpus=1),
    _type("g4dn.12xlarge", 48, 192, 3.9120, 1.5000, gpus=4),
)


def amount_of(cap: str, kind: InstanceType, market: Market) -> float:
    """What one instance counts against a cap of the fleet: cores, GiB, GPUs, USD/h by the price list."""
    offered = kind.resources
    match cap:
        case "cpu":
            return offered.cpu / 1000
        case "memory":
            return offered.memory / GIB
        case "gpus":
            return float(sum(offered.extended.get(name, 0) for name in _DEVICES.values()))
        case _:
            spot = kind.spot_usd if market is Market.SPOT else None
            return spot if spot is not None else kind.hourly_usd or 0.0


@dataclass(slots=True, kw_only=True)
class Shop:
    types: dict[str, InstanceType] = field(default_factory=lambda: {each.name: each for each in TYPES})
    spot_prices: dict[tuple[str, str], float] = field(default_factory=dict)  # by type and zone, where it is special
    stock: dict[Offer, int] = field(default_factory=dict)  # how many are left; not in it: any number
    refusals: dict[Line, tuple[RefusalKind, str]] = field(default_factory=dict)
    quota: int | None = None  # workers that the account may have

    def refuse(
        self,
        *,
        type_: str | None = None,
        zone: str | None = None,
        market: Market | None = None,
        kind: RefusalKind = RefusalKind.CAPACITY,
        code: str = NO_CAPACITY,
    ) -> None:
        """From now on EC2 says no to these; what is left out means all of them."""
        self.refusals[type_, zone, market] = (kind, code)

    def allow(self) -> None:
        """Everything can be had again."""
        self.refusals.clear()
        self.stock.clear()
        self.quota = None

    def price(self, offer: Offer) -> float | None:
        name, zone, market = offer
        kind = self.types.get(name)
        if kind is None:
            return None
        return kind.hourly_usd if market is Market.ON_DEMAND else self.spot_prices.get((name, zone), kind.spot_usd)

    def refusal(self, offer: Offer, max_price: float | None) -> Refusal | None:
        """Why one more of this cannot be had."""
        name, zone, market = offer
        for (of_type, of_zone, of_market), (kind, code) in self.refusals.items():
            if of_type in (None, name) and of_zone in (None, zone) and of_market in (None, market):
                return Refusal(type=name, kind=kind, code=code)
        price = self.price(offer)
        if price is None:
            return Refusal(type=name, kind=RefusalKind.INVALID, code="InvalidParameterValue")
        if market is Market.SPOT and max_price is not None and price > max_price:
            return Refusal(type=name, code=TOO_DEAR)
        if self.stock.get(offer, 1) < 1:
            return Refusal(type=name, code=NO_CAPACITY)
        return None

    def sell(self, offer: Offer) -> None:
        if offer in self.stock:
            self.stock[offer] -= 1

    def ranked(self, names: tuple[str, ...], zone: str, market: Market) -> list[str]:
        """Types in the order in which a fleet takes them: the cheapest first."""
        return sorted(names, key=lambda name: (self.price((name, zone, market)) or float("inf"), names.index(name)))
