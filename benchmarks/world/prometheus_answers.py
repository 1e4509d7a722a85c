"""Prometheus as the stand-in answers it: a fleet with some load, neither too much nor too little."""

import json
import time
from typing import Any

from world.scene import POOL, Scene, node_name

from nodefleet.adapters.prometheus import NEWEST
from nodefleet.policy.pool import Queries

_AGE = 5.0  # seconds since the last scrape


class PrometheusAnswers:
    def __init__(self, scene: Scene) -> None:
        idle = [({"node": node_name(number)}, 40.0 + number % 10) for number in range(scene.nodes)]
        queries = Queries()
        self._series: dict[str, list[tuple[dict[str, str], float]]] = {
            NEWEST: [({}, _AGE)],
            _named(queries.cpu): [({}, 55.0)],
            _named(queries.memory): [({}, 60.0)],
            _named(queries.nodes): [({}, scene.nodes)],
            _named(queries.idle): idle,
        }

    def answer(self, query: str) -> bytes:
        now = time.time()
        result: list[Any] = [{"metric": labels, "value": [now, str(value)]} for labels, value in self._series[query]]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def _named(query: str) -> str:
    return query.replace("$pool", POOL)
