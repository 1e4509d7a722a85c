"""The memory of a pool that has lived for weeks."""

from datetime import UTC, datetime, timedelta
from random import Random

from nodefleet.model.snapshot import Reading
from nodefleet.model.state import Breaches, HourLoad, PodGrant, PoolMemory, ScaleUpRecord
from support.builders import NOON


def profile(days: int, draw: Random) -> tuple[HourLoad, ...]:
    hours = [datetime(2026, 10, 1, tzinfo=UTC) + timedelta(hours=number) for number in range(24 * days)]
    return tuple(
        HourLoad(
            day=hour.date().isoformat(),
            hour=hour.hour,
            load=draw.random() * 500,
            samples=30,
            last=hour + timedelta(minutes=58, seconds=draw.random() * 60),
        )
        for hour in hours
    )


def lived(days: int = 28, nodes: int = 500, draw: Random | None = None) -> PoolMemory:
    draw = draw or Random(0)  # noqa: S311  # repeatable on purpose
    return PoolMemory(
        last_grow=NOON,
        profile=profile(days, draw),
        members=tuple(f"i-{draw.getrandbits(68):017x}" for _ in range(nodes)),
        breaches={"cpu:up": Breaches(times=(NOON,))},
        peaks={"2026-10-01": 4},
        cached={"cpu": Reading(value=1.0, at=NOON)},
        grants=(ScaleUpRecord(signal="cpu", value=1.0, at=NOON, nodes=2),),
        pod_grants=(PodGrant(uid="u", at=NOON),),
    )
