"""What the autoscaler itself asks of AWS in a day of the simulated shop: requests, units of DynamoDB, time.

    make own-cost      measures (a minute or two), and writes infra/nodefleet_infra/own_requests.json and the bill

The day is `shop-day`: a run every two minutes, growth and shrinking, looks that are repeated. Every write goes through
the store's own encoding, and is counted as DynamoDB counts it: a kilobyte is a unit, twice in a transaction, also of a
check. A read of the state is as large as the records that were written last.
"""

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nodefleet.adapters.dynamodb.codec import PARTITION, SORT, STATE
from nodefleet.adapters.dynamodb.store import guard, units_of
from nodefleet.adapters.dynamodb.table import Table, Writer
from nodefleet_tools.sim import hooks
from nodefleet_tools.sim.playing import play
from nodefleet_tools.sim.scenarios.reading import find, read

SCENARIO = "shop-day"
FILE = Path(__file__).parents[1] / "infra" / "nodefleet_infra" / "own_requests.json"
WRITE_BYTES, READ_BYTES = 1024, 4096  # a unit of each
IN_TRANSACTION = 2
LEASE_BYTES = 300  # the record of the lease, rounded up: a unit anyway


@dataclass
class Counted:
    calls: Counter[str] = field(default_factory=Counter)
    written: int = 0  # units
    read: int = 0
    archived: int = 0  # bytes
    slept: float = 0.0  # seconds
    _records: dict[str, int] = field(default_factory=dict)  # bytes of what a state has, by key
    _writer: Writer = field(default_factory=lambda: Writer(Table(None, "table", "shop")))

    def hear(self, call: hooks.Call) -> None:
        if call.moment is not hooks.Moment.BEFORE:
            return
        name = call.name
        self.calls[name] += 1
        if name == "store.commit":
            lease, changes = call.arguments
            units = [guard(self._writer.table, lease), *units_of(changes, self._writer, lambda *_: None)]
            for each in (action for unit in units for action in unit.actions):
                self._wrote(each)
        elif name in ("store.acquire", "store.release", "store.wake", "store.record"):
            self.written += math.ceil(LEASE_BYTES / WRITE_BYTES)
        elif name == "store.state":
            self.read += math.ceil(max(1, sum(self._records.values())) / READ_BYTES)
        elif name in ("store.wakes", "store.free_fence"):
            self.read += math.ceil(LEASE_BYTES / READ_BYTES)
        elif name == "archive.keep":
            self.archived += len(call.arguments[1])
        elif name == "time.sleep":
            self.slept += float(call.arguments[0].total_seconds())

    def _wrote(self, action: dict[str, Any]) -> None:
        ((kind, subject),) = action.items()
        size = len(
            json.dumps(subject.get("Item") or subject.get("Key"), default=str)
        )  # more than DynamoDB counts, never less
        self.written += IN_TRANSACTION * math.ceil(size / WRITE_BYTES)
        key = json.dumps(subject.get("Key") or {name: subject["Item"][name] for name in (PARTITION, SORT)})
        if kind == "Delete":
            self._records.pop(key, None)
        elif kind == "Put" and subject["Item"][SORT]["S"].startswith(STATE):
            self._records[key] = size


def measured() -> dict[str, float]:
    counted = Counted()
    made = hooks.Run.__init__

    def with_ears(self: hooks.Run, **given: Any) -> None:
        made(self, **given)
        self.hooks.append(counted.hear)

    hooks.Run.__init__ = with_ears  # type: ignore[method-assign]
    scenario = read(find(SCENARIO)).scenario
    play(scenario)
    days = (scenario.ends - scenario.starts).total_seconds() / 86_400
    return {
        "runs": counted.calls["store.acquire"] / days,
        "looks": counted.calls["cloud.instances"] / days,
        "slept_seconds": round(counted.slept / days, 1),
        "write_units": counted.written / days,
        "read_units": counted.read / days,
        "archived": counted.calls["archive.keep"] / days,
        "archived_bytes": counted.archived / days,
    }


if __name__ == "__main__":
    found = {name: round(value, 1) for name, value in measured().items()}
    FILE.write_text(json.dumps({"scenario": SCENARIO, "a_day": found}, indent=2) + "\n")
    print(FILE.read_text())
