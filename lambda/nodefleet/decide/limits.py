"""Bounds that people set: min and max, schedule windows, and a scale command. And replacing what was lost."""

from collections.abc import Sequence

from nodefleet.decide.bounds import ceiling, floor
from nodefleet.domain.decision import Bound, Count, Rank
from nodefleet.domain.memory import Loss
from nodefleet.domain.observation import Observation, Scale
from nodefleet.domain.policy import Pool
from nodefleet.domain.wording import counted, some


def limits(pool: Pool, count: Count) -> list[Bound]:
    """Min and max. What is not capacity but still there (draining, a kept failure) leaves less room to grow."""
    least, most = pool.limits.min, pool.limits.max
    besides = count.occupied - count.capacity
    room = max(min(count.capacity, most), most - besides)
    taken = f", {counted(besides, 'of them is', 'of them are')} no capacity" if besides > 0 else ""
    return [
        floor(least, "min", Rank.LIMIT, f"min is {least}, {counted(count.capacity, 'is', 'are')} there"),
        ceiling(room, "max", Rank.LIMIT, f"max is {most}, {counted(count.occupied, 'is', 'are')} there{taken}"),
    ]


def replacements(losses: Sequence[Loss], capacity: int) -> list[Bound]:
    if not losses:
        return []
    names = some(f"{loss.worker} ({loss.cause})" for loss in losses)
    return [floor(capacity + len(losses), "replace", Rank.LIMIT, f"{len(losses)} lost: {names}")]


def windows(seen: Observation, pool: str) -> list[Bound]:
    bounds = []
    for window in seen.windows:
        if window.pool != pool or window.until <= seen.at:
            continue
        source, until = f"window:{window.name}", f"until {window.until:%Y-%m-%d %H:%M}"
        if window.min is not None:
            sentence = f"window {window.name} wants at least {window.min} {until}"
            bounds.append(floor(window.min, source, Rank.WINDOW, sentence, window.until))
        if window.max is not None:
            sentence = f"window {window.name} wants at most {window.max} {until}"
            bounds.append(ceiling(window.max, source, Rank.WINDOW, sentence, window.until))
    return bounds


def commands(seen: Observation, pool: str) -> list[Bound]:
    """A person's size, as floor and ceiling; the last one given counts."""
    scales = [each for each in seen.commands if isinstance(each, Scale) and each.pool == pool and seen.at < each.until]
    if not scales:
        return []
    asked = scales[-1]
    because = f": {asked.reason}" if asked.reason else ""
    sentence = f"{asked.by} asked for {asked.nodes} until {asked.until:%Y-%m-%d %H:%M}{because}"
    return [
        floor(asked.nodes, "person", Rank.PERSON, sentence, asked.until),
        ceiling(asked.nodes, "person", Rank.PERSON, sentence, asked.until),
    ]
