"""The forecaster as text, and back: what was stored decides like what was not.

About 40 KB for a week, three quarters of it the load by minute. If it is lost or cannot be read, everything is learned
again from the load of the last days.
"""

from array import array
from base64 import b64decode, b64encode
from collections import deque
from struct import error as StructError  # noqa: N812
from struct import iter_unpack, pack

from nodefleet.engine.forecast.forecaster import (
    DEFAULT,
    FORECASTERS,
    Errors,
    Forecaster,
    ForecastWindow,
    Learning,
    Pending,
)
from nodefleet.engine.forecast.history import COUNT, KEPT, RECENT, LoadHistory
from nodefleet.model.state import VERSION, StoredForecaster

_WINDOWS = len(ForecastWindow)
_SINGLE = _WINDOWS * len(FORECASTERS)
_PENDING = f"<q{_SINGLE + _WINDOWS}d"


def store(forecaster: Forecaster) -> StoredForecaster:
    history = forecaster.history
    cut = max(0, len(history.values) - KEPT)
    regression = forecaster.regression
    return StoredForecaster(
        first=history.first + cut,
        load=_text(history.values[cut:].tobytes()),
        sums=_doubles([value for row in (*regression.products, *regression.moments) for value in row]),
        models=_doubles([value for model in forecaster.coefficients for window in model for value in window]),
        losses=_doubles([*(loss for losses in forecaster.losses for loss in losses), forecaster.scores]),
        pending=_text(b"".join(_pack(each) for each in forecaster.pending)),
        errors=_text(b"".join(each.forecasts.tobytes() + each.errors.tobytes() for each in forecaster.errors)),
        learned=forecaster.learned,
    )


def restore(stored: StoredForecaster, learning: Learning = DEFAULT) -> Forecaster | None:
    """None if it is of another version or damaged: then it has to be learned again."""
    if stored.version != VERSION:
        return None
    try:
        return _restore(stored, learning)
    except (ValueError, StructError):  # not Base64, or too short
        return None


def _restore(stored: StoredForecaster, learning: Learning) -> Forecaster:
    forecaster = Forecaster(learning)
    forecaster.history = LoadHistory(stored.first, array("H", _bytes(stored.load)))
    sums = iter(_read(stored.sums, COUNT * (COUNT + 1) // 2 + COUNT * _WINDOWS))
    regression = forecaster.regression
    regression.products = [[next(sums) for _ in row] for row in regression.products]
    regression.moments = [[next(sums) for _ in row] for row in regression.moments]
    if stored.models:
        models = iter(_read(stored.models, _WINDOWS * (COUNT + RECENT)))
        forecaster.coefficients = [
            [[next(models) for _ in range(size)] for _ in range(_WINDOWS)] for size in (COUNT, RECENT)
        ]
    losses = _read(stored.losses, _SINGLE + 1)
    forecaster.losses = [losses[at : at + len(FORECASTERS)] for at in range(0, _SINGLE, len(FORECASTERS))]
    forecaster.scores = losses[-1]
    forecaster.pending = deque(_unpack(row) for row in iter_unpack(_PENDING, _bytes(stored.pending)))
    forecaster.errors = _errors(_bytes(stored.errors))
    forecaster.learned = stored.learned
    return forecaster


def _pack(pending: Pending) -> bytes:
    single = [value for window in pending.single for value in window]
    return pack(_PENDING, pending.minute, *single, *pending.mixed)


def _unpack(row: tuple[float, ...]) -> Pending:
    size = len(FORECASTERS)
    single = tuple(tuple(row[at : at + size]) for at in range(1, 1 + _SINGLE, size))
    return Pending(minute=int(row[0]), single=single, mixed=tuple(row[1 + _SINGLE :]))


def _errors(data: bytes) -> tuple[Errors, ...]:
    size, rest = divmod(len(data), 2 * _WINDOWS)
    if rest:
        raise ValueError("the errors are cut off")
    parts = [data[at : at + size] for at in range(0, 2 * _WINDOWS * size, size)] if size else [b""] * 2 * _WINDOWS
    return tuple(Errors(array("H", parts[at]), array("h", parts[at + 1])) for at in range(0, 2 * _WINDOWS, 2))


def _doubles(values: list[float]) -> str:
    return _text(pack(f"<{len(values)}d", *values))


def _read(text: str, count: int) -> list[float]:
    values = [value for (value,) in iter_unpack("<d", _bytes(text))]
    if len(values) != count:
        raise ValueError(f"{len(values)} numbers instead of {count}")
    return values


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text, validate=True)
