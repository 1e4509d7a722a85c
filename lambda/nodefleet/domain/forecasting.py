"""What the adaptive strategy keeps from one look to the next. Safe to lose: it is learned again from the load."""

from dataclasses import dataclass
from datetime import UTC, datetime

VERSION = 1  # of what is in the texts: another one is not read, but learned again


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredForecaster:
    """Numbers as little-endian bytes in Base64."""

    version: int = VERSION
    first: int = 0  # minute of the first load, since the epoch
    load: str = ""  # 16 bits a minute
    sums: str = ""  # of the regression
    models: str = ""  # its coefficients; empty: too few rows yet
    losses: str = ""  # of the forecasters, then their weight
    pending: str = ""  # forecasts whose time has not come
    errors: str = ""  # 16 bits each: forecasts, then errors, window by window
    learned: int = 0  # rows

    @property
    def last(self) -> datetime:
        """The last minute that is in it. Two bytes a minute, in Base64."""
        minutes = (len(self.load) * 3 // 4 - self.load.count("=")) // 2
        return datetime.fromtimestamp(60 * (self.first + minutes - 1), UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptiveMemory:
    forecaster: StoredForecaster | None = None
    calm: int = 0  # decisions in a row that found a scale-down worth it
    decided_at: datetime | None = None  # the last scheduled decision: looks soon after it may only grow the fleet
    promised: float = 0.0  # Σ of the chances of a violation that decisions accepted, fading over days …
    violated: float = 0.0  # … and how often it came so
    due: tuple[tuple[float, ...], ...] = ()  # (minute, chance, nodes) of promises whose time has not come
