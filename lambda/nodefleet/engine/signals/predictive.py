"""The predictive layer: what the coming hour was like on the last days.

The profile holds load (utilisation × nodes), not utilisation: a busy hour that was met with more nodes must not look
like a quiet one. Late in the hour the coming one is looked up; if it would be too much for the present nodes, a floor
of a step more, or of as many nodes as that load needs, lasts until that hour is over. Each hour is decided once, so
nodes that join do not raise it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from math import ceil
from statistics import fmean

from nodefleet.capacity import FleetSize
from nodefleet.engine.signals.vote import Abstain, ScaleUp, SignalVote
from nodefleet.model.decision import BoundSource
from nodefleet.model.names import figure, pluralize
from nodefleet.model.names import percent as shown
from nodefleet.model.snapshot import Reading
from nodefleet.model.state import Forecast, HourLoad
from nodefleet.policy.pool import Predictive, Utilisation

_HOUR = timedelta(hours=1)
_SATURDAY = 5
_WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


@dataclass(frozen=True, slots=True)
class _Basis:
    """The days that a prediction rests on."""

    days: Sequence[HourLoad]
    kind: str  # Mondays, workdays, …

    @property
    def load(self) -> float:
        return fmean(day.load for day in self.days)


def learn_profile(
    profile: Sequence[HourLoad], reading: Reading, covered: int, predictive: Predictive, utc_offset: timedelta
) -> tuple[HourLoad, ...]:
    """The profile with this CPU reading in the mean of its hour. A sample that is in it already changes nothing."""
    kept = _recent(profile, predictive, reading.at)
    if covered <= 0:
        return kept
    local = reading.at.astimezone(timezone(utc_offset))
    day, load = local.date().isoformat(), reading.value / 100 * covered
    entry = next((entry for entry in kept if (entry.day, entry.hour) == (day, local.hour)), None)
    if entry is None:
        entry = HourLoad(day=day, hour=local.hour, load=load, samples=1, last=reading.at)
    elif reading.at > entry.last:
        mean = entry.load + (load - entry.load) / (entry.samples + 1)
        entry = replace(entry, load=mean, samples=entry.samples + 1, last=reading.at)
    others = [other for other in kept if (other.day, other.hour) != (day, local.hour)]
    return tuple(sorted([*others, entry], key=lambda hour: (hour.day, hour.hour)))


def evaluate_forecast(
    profile: Sequence[HourLoad],
    forecast: Forecast | None,
    fleet_size: FleetSize,
    *,
    predictive: Predictive,
    cpu: Utilisation,
    utc_offset: timedelta,
) -> tuple[SignalVote, Forecast | None]:
    """What the coming hour asks for, and the forecast to remember. A calm hour has no say: it blocks no shrinking."""
    if not predictive.enabled:
        return _abstain("predictive scaling is off"), None
    running = forecast if forecast and fleet_size.now < forecast.expires else None
    local = fleet_size.now.astimezone(timezone(utc_offset))
    coming = local.replace(minute=0, second=0, microsecond=0) + _HOUR
    if local.minute < predictive.from_minute:
        return _upheld(running, f"looks at the coming hour from minute {predictive.from_minute}")
    if running and running.hour == coming:
        return _upheld(running, "")
    basis = _basis(_recent(profile, predictive, fleet_size.now), coming, predictive.min_days)
    if len(basis.days) < predictive.min_days:
        return _upheld(
            running, f"{len(basis.days)} of {pluralize(predictive.min_days, 'day', 'days')} of data for {coming:%H:%M}"
        )
    if fleet_size.covered <= 0:
        return _upheld(running, "no ready node to predict for")
    percent = 100 * basis.load / fleet_size.covered
    compared = ">" if percent > cpu.up else "≤"
    sentence = (
        f"predicted CPU {shown(percent, cpu.up)} {compared} {cpu.up:g} % for {coming:%H:%M} "
        f"(load {figure(basis.load)} on {pluralize(fleet_size.covered, 'node', 'nodes')},"
        f" {len(basis.days)} {basis.kind})"
    )
    if percent <= cpu.up:
        return _upheld(running, sentence)
    # The hour that still runs keeps what it was promised.
    nodes = max(fleet_size.covered + predictive.step, running.nodes if running else 0)
    if predictive.sizing == "forecast":
        nodes = max(nodes, nodes_for(basis.load, cpu.up))
    start = coming.astimezone(UTC)
    return _upheld(Forecast(nodes=nodes, hour=start, expires=start + _HOUR, sentence=sentence), "")


def nodes_for(load: float, limit: float) -> int:
    """The fewest nodes that carry so many busy nodes without more CPU (percent) than the limit."""
    return ceil(100 * load / limit - 1e-9)


def _recent(profile: Sequence[HourLoad], predictive: Predictive, now: datetime) -> tuple[HourLoad, ...]:
    return tuple(entry for entry in profile if now - entry.last <= timedelta(days=predictive.history_days))


def _basis(profile: Sequence[HourLoad], coming: datetime, enough: int) -> _Basis:
    """The most alike days of which there are enough: that weekday, that kind of day, else all days."""
    days = [entry for entry in profile if entry.hour == coming.hour]
    weekday, weekend = coming.weekday(), coming.weekday() >= _SATURDAY
    alike = (
        _Basis([day for day in days if day.weekday == weekday], _WEEKDAYS[weekday]),
        _Basis(
            [day for day in days if (day.weekday >= _SATURDAY) == weekend], "weekend days" if weekend else "workdays"
        ),
    )
    return next((basis for basis in alike if len(basis.days) >= enough), _Basis(days, "days"))


def _upheld(forecast: Forecast | None, otherwise: str) -> tuple[SignalVote, Forecast | None]:
    if forecast is None:
        return _abstain(otherwise), None
    floor = ScaleUp(nodes=forecast.nodes, reason=forecast.sentence, expires=forecast.expires)
    return SignalVote(signal=BoundSource.PREDICTIVE.value, vote=floor), forecast


def _abstain(reason: str) -> SignalVote:
    return SignalVote(signal=BoundSource.PREDICTIVE.value, vote=Abstain(reason))
