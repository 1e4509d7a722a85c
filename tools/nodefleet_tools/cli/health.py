"""`nodefleet health`: whether runs happen, as an exit status for probes and monitors."""

from datetime import timedelta
from pathlib import Path

from nodefleet_tools.cli.connect import connected
from nodefleet_tools.cli.outcome import Status, fail, print_json
from nodefleet_tools.durations import ago

_MISSED = 3  # runs that may be missed before it is unhealthy


def health(*, file: Path | None, within: int, as_json: bool, cluster: str, table: str) -> None:
    if file is not None:
        _answer(*_of_file(file, timedelta(seconds=within)), as_json=as_json)
        return
    with connected(cluster=cluster, table=table) as connection:
        last = next(iter(connection.history.decisions(1)), None)
        if last is None:
            fail(f"No decision of {connection.cluster_id} is recorded.", Status.NOTHING)
        _answer(connection.clock() - last.at, _MISSED * connection.governing().policy.interval, as_json=as_json)


def _of_file(file: Path, most: timedelta) -> tuple[timedelta, timedelta]:
    from nodefleet.adapters.clock import utc_now  # noqa: PLC0415

    if file.is_dir():
        fail(f"{file}: is a folder; name the file that `run --loop --heartbeat FILE` touches")
    try:
        written = file.stat().st_mtime
    except OSError:
        fail(f"{file}: there is no heartbeat yet", Status.NOTHING)
    return timedelta(seconds=utc_now().timestamp() - written), most


def _answer(age: timedelta, most: timedelta, *, as_json: bool) -> None:
    is_healthy = age <= most
    message = f"The last run ended {ago(age)}; {most.total_seconds():.0f} s are allowed."
    if not is_healthy:
        fail(message, Status.FAILED)
    if as_json:
        print_json({"healthy": True, "age_seconds": round(age.total_seconds(), 1)})
    else:
        print(message)
