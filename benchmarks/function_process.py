"""One function instance, as Lambda would start it: imports its handler, is called some times, and says what it took.

Started by `functions.py`, which gives it its orders as JSON and reads its figures as JSON. What the handler itself
prints goes to standard output, and nobody reads it.
"""

import time

_BEGAN = time.monotonic()  # before anything else is imported, so that nothing is left out

import importlib  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from http.client import HTTPConnection  # noqa: E402
from types import SimpleNamespace  # noqa: E402
from typing import Any  # noqa: E402
from urllib.parse import urlsplit  # noqa: E402

_LIMIT = 150.0  # seconds that a run may take


def main() -> None:
    orders = json.loads(sys.argv[1])
    started = {"wall": _BEGAN - orders["spawned"], "cpu": time.process_time()}
    wall, cpu = time.monotonic(), time.process_time()
    handler = importlib.import_module(f"nodefleet.handlers.{orders['handler']}").handler
    imported = {"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu, **_memory()}
    decided = _listen()
    clock, wire = _measures() if orders["steps"] else (None, None)
    runs = []
    for number in range(orders["runs"]):
        if number == 0 or orders["afresh"]:
            _ask(orders["plain"], "/reset", json.dumps(orders["reset"]).encode())
        decided.clear()
        runs.append({**_run(handler, orders, number, clock, wire), "decided": decided[-1:]})
    figures = {"started": started, "imported": imported, "runs": runs, **_memory()}
    with open(orders["figures"], "w", encoding="utf-8") as file:  # noqa: PTH123  # pathlib is not needed otherwise
        json.dump(figures, file)


def _run(handler: Any, orders: dict[str, Any], number: int, clock: Any, wire: Any) -> dict[str, Any]:
    if clock:
        clock.begin()
        wire.begin()
    wall, cpu = time.monotonic(), time.process_time()
    answer = handler(orders["event"], _context(number))
    took = {"wall": time.monotonic() - wall, "cpu": time.process_time() - cpu, **_memory()}
    steps = clock.taken() if clock else {}
    sent, read = (dict(wire.sent), dict(wire.read)) if wire else ({}, {})
    calls = sent | json.loads(_ask(orders["plain"], "/calls"))  # a stand-in has counted those to Kubernetes itself
    return {**took, "answer": answer, "steps": steps, "calls": calls, "read": read}


def _memory() -> dict[str, float]:
    """What the process holds now and held at most, in MiB. (rusage would also count what was there before exec.)"""
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123  # as above
        lines = dict(line.split(":", 1) for line in status)
    return {name: int(lines[key].split()[0]) / 1024 for name, key in (("now", "VmRSS"), ("peak", "VmHWM"))}


def _context(number: int) -> Any:
    ends = time.monotonic() + _LIMIT
    return SimpleNamespace(
        aws_request_id=f"request-{os.getpid()}-{number}",
        get_remaining_time_in_millis=lambda: int((ends - time.monotonic()) * 1000),
    )


def _ask(plain: str, path: str, body: bytes = b"") -> bytes:
    connection = HTTPConnection(urlsplit(plain).netloc)
    connection.request("POST", path, body)
    content = connection.getresponse().read()
    connection.close()
    return content


def _listen() -> list[str]:
    """What is decided from now on: whether everything was seen, and what came of it."""
    heard: list[str] = []
    cycle: Any = sys.modules.get("nodefleet.reconcile.run")
    if cycle:
        decide = cycle.decide

        def listened(*args: Any) -> Any:
            decision = decide(*args)
            pools = [f"{pool.action.value} {pool.count.capacity} → {pool.target}" for pool in decision.pools]
            heard.append(f"{decision.level.value}: {', '.join(pools)}")
            return decision

        cycle.decide = listened
    return heard


def _measures() -> tuple[Any, Any]:
    """They load whatever steps are made of: whoever measures a first call does without them."""
    from step_clock import StepClock  # noqa: PLC0415
    from wire import Wire  # noqa: PLC0415

    return StepClock(), Wire()


if __name__ == "__main__":
    main()
