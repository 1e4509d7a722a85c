"""`strategy: adaptive`: nodes by a forecast of the load and the price of a violation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from nodefleet.policy.fields import NODES, PERCENT, SECONDS, describe, setting

Price: TypeAlias = Literal["frugal", "balanced", "careful"] | float

NODE_MINUTES: Mapping[str, float] = {"frugal": 25.0, "balanced": 65.0, "careful": 140.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A time at which more load than usual is expected: a sale, a match, a newsletter."""

    name: str = field(metadata=describe("stands in reasons"))
    at: datetime = field(metadata=describe("when it begins, with its offset: 2026-11-27T09:00:00+01:00"))
    multiple: float = field(metadata=describe("how many times the load that is usual at that time", above=0))
    lasting: timedelta = setting(timedelta(hours=1), SECONDS, "how long nodes are kept for it", above=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Of no effect with `strategy: classic`."""

    price: Price = setting(
        "balanced",
        "node-minutes",
        "what a minute above `limit` is worth: frugal 25, balanced 65, careful 140, or a number; × load ÷ 5 if larger",
        above=0,
    )
    limit: float = setting(85, PERCENT, "CPU above this is a violation: work begins to wait", above=0)
    join: timedelta = setting(timedelta(seconds=180), SECONDS, "from launch to the first work on a new node", above=0)
    waits: int = setting(2, "readings", "so many in a row must find a scale-down worth it", at_least=1)
    headroom: int = setting(0, NODES, "kept ready beyond the forecast, for rises that nothing announces", at_least=0)
    events: tuple[Announced, ...] = setting((), "", "times at which more load than usual is expected")

    @property
    def node_minutes(self) -> float:
        return NODE_MINUTES[self.price] if isinstance(self.price, str) else self.price
