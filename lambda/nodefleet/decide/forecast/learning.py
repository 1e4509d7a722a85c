"""The figures by which the forecaster learns. They are the same for every pool: nothing here is fitted to one load."""

from dataclasses import dataclass
from enum import IntEnum


class Window(IntEnum):
    """What is forecast of the minutes to come."""

    LEVEL = 0  # the mean when a node launched now would serve: for scale-up
    SOON = 1  # the highest minute of the next few: for scale-down
    LATER = 2  # the highest minute until a removed node would have been worth it: for scale-down


@dataclass(frozen=True, slots=True)
class Prior:
    """What is expected of errors before there are any, and a tail for those that were never seen: a normal curve."""

    mean: float  # of z
    deviation: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    interval: int = 2  # minutes between two rows: the pace of the scheduled runs
    join: int = 3  # minutes until a node that is launched now serves
    soon: int = 5  # minutes: a node that was removed cannot be back earlier
    later: int = 20  # minutes: a removal that is undone earlier saved nothing
    half_life: float = 3.5 * 1440  # minutes after which a row weighs half: last week still counts, last month does not
    ridge: float = 1e-3
    least: int = 360  # rows, twelve hours: fewer are not regressed on
    solve_every: int = 30  # minutes: the equations hardly change within
    grade_half_life: float = 360.0  # minutes: a forecaster that was good yesterday and is bad now loses its vote
    quantile: float = 0.95  # at which forecasters are graded: too low costs more than too high
    temperature: float = 0.1  # of the best loss: a forecaster that is worse by this has 1/e of the best one's vote
    # Rows between two errors that are kept. Seven, which 30 and 5 are no multiple of: every tenth minute sees only
    # some minutes of the hour, and a job that runs at five past would never be among the errors.
    error_rows: int = 7
    error_days: float = 7.0
    near: float = 0.25  # of z: errors made when the forecast was so close to today's count half …
    floor: float = 0.05  # … and all others so much
    prior_weight: float = 6.0  # errors
    priors: tuple[Prior, Prior, Prior] = (Prior(0.0, 0.10), Prior(0.05, 0.12), Prior(0.12, 0.20))
    saturated: float = 0.97  # of all CPU: above it the true demand is hidden …
    hidden: float = 0.40  # … and taken to be so much more, in z

    @property
    def horizon(self) -> int:
        """Minutes after which all windows of a forecast are past."""
        return max(self.soon, self.later, self.join + self.interval - 1)


DEFAULT = Learning()
