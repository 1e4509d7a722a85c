"""What is sent to the API server and read from it: the shipped client, wrapped from outside.

A real server counts requests too, but not by who sent them: its own controllers ask it all the time.
"""

import threading
from collections import Counter
from typing import Any

from nodefleet.adapters.kubernetes.client import Api, Response
from nodefleet.adapters.kubernetes.resources import Request


class Wire:
    """Requests and bytes of answers, by what was asked for. Every retry counts."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self._noting = threading.Lock()
        client: Any = Api
        send = client._send  # noqa: SLF001  # each try, not each call

        def noted(api: Api, request: Request) -> Response:
            what = f"Kubernetes {request.verb} {request.resource}"
            with self._noting:
                self.sent[what] += 1
            answer: Response = send(api, request)
            with self._noting:
                self.read[what] += answer.received
            return answer

        client._send = noted  # noqa: SLF001

    def begin(self) -> None:
        self.sent.clear()
        self.read.clear()
