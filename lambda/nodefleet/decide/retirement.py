"""Workers that are to be replaced in good time: a scheduled change is announced, EC2 recommends to move off them, or
they are ready and yet no good (pressure, crashing pods).

What could not be done by then is an interruption from shortly before its time on (`is_imminent`).
"""

from collections.abc import Sequence

from nodefleet.decide.health import reason_of
from nodefleet.decide.replacement import Due
from nodefleet.domain.alerts import AlertKind
from nodefleet.domain.fleet import Phase, Worker
from nodefleet.domain.operations import Tell
from nodefleet.domain.policy import Pool


def retiring(workers: Sequence[Worker], *, braked: bool = False) -> list[Due]:
    """The earliest first. `braked`: many are unhealthy at once, and then those that are ready stay."""
    going = [worker for worker in workers if is_due(worker) and (worker.planned or not braked)]
    going.sort(key=lambda worker: (_time(worker), worker.id))
    return [
        Due(worker=each, reason=why(each), cause=each.planned.kind.value if each.planned else "unhealthy")
        for each in going
    ]


def why(worker: Worker) -> str:
    return reason_of(worker.planned) if worker.planned else worker.ailment


def is_due(worker: Worker) -> bool:
    reason = worker.planned is not None or worker.ailment
    return bool(reason) and worker.phase is Phase.READY and worker.operation is None


def _time(worker: Worker) -> str:
    return worker.planned.at.isoformat() if worker.planned else ""  # what is no good now comes first


def tells(workers: Sequence[Worker], pool: Pool) -> list[Tell]:
    """Once for each worker: what is planned, with its date, or what is wrong with it, and what is done about it."""
    return [
        Tell(
            alert=AlertKind.INTERRUPTED if worker.planned else AlertKind.SICK,
            pool=pool.name,
            subjects=(worker.name, worker.planned.kind.value if worker.planned else "ailment"),
            text=f"{worker.name} ({worker.zone}): {why(worker)}. It is replaced, and then drained.",
        )
        for worker in workers
        if is_due(worker)
    ]
