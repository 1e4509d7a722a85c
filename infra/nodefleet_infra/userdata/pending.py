"""Wakes the autoscaler when the scheduler finds no node for a pod: a watch of unscheduled pods, and a message to SNS.

Runs on the K3s server as a unit of its own, with Amazon Linux's Python 3.9 and its AWS CLI and nothing else. Its login
to the API server may list and watch pods; the instance's role may publish to this one topic. A message holds the
cluster's name and a count. Alertmanager publishes the same message some seconds later, so a watcher that is away costs
seconds and no node.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterable  # noqa: UP035  # Python 3.9

GATHER_SECONDS = 0.5  # a Deployment's pods become unschedulable within moments: one message for all of them
APART_SECONDS = 3.0  # between two messages
BURST = 20  # so many messages that close together; then one every REFILL_SECONDS
REFILL_SECONDS = 15.0
WATCH_SECONDS = 60  # the server ends a watch after this, so a connection that died unnoticed is not trusted for longer
PAUSES = (1, 2, 4, 8)  # seconds until the API server or SNS is tried again; the last one repeats
# A watch from version 0 begins with every pod that matches, one by one: no list has to fit into memory.
PATH = (
    "/api/v1/pods?watch=1&resourceVersion=0&fieldSelector=spec.nodeName%3D%2Cstatus.phase%3DPending"
    f"&timeoutSeconds={WATCH_SECONDS}"
)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def is_unschedulable(pod: dict[str, Any]) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod.get("status", {}).get("conditions") or []
    return any(
        each["type"] == "PodScheduled" and each["status"] == "False" and each.get("reason") == "Unschedulable"
        for each in conditions
    )


class Pending:
    """Unschedulable pods, and which of them no message has told of yet. Two threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._news = threading.Event()
        self._before: set[str] = set()  # uids that the watch before this one saw
        self._now: set[str] = set()
        self._untold: set[str] = set()

    def begin_watch(self) -> None:
        """A pod that a whole watch did not show any more is forgotten."""
        with self._lock:
            self._before, self._now = self._now, set()
            self._untold &= self._before

    def see(self, event: dict[str, Any]) -> None:
        pod = event["object"]
        uid = pod["metadata"]["uid"]
        with self._lock:
            if event["type"] == "DELETED" or not is_unschedulable(pod):
                for uids in (self._before, self._now, self._untold):
                    uids.discard(uid)
                return
            if uid not in self._before and uid not in self._now:
                self._untold.add(uid)
                self._news.set()
            self._now.add(uid)

    def wait(self) -> None:
        self._news.wait()
        self._news.clear()

    def take(self) -> set[str]:
        with self._lock:
            untold, self._untold = self._untold, set()
            return untold

    def give_back(self, uids: set[str]) -> None:
        """Their message did not get out."""
        with self._lock:
            self._untold |= uids & (self._before | self._now)
            if self._untold:
                self._news.set()


class Limit:
    """A token bucket: how long the next message has to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = float(BURST)
        self._at = clock() - APART_SECONDS

    def delay(self) -> float:
        since = self._clock() - self._at
        tokens = min(float(BURST), self._tokens + since / REFILL_SECONDS)
        return max(GATHER_SECONDS, APART_SECONDS - since, (1 - tokens) * REFILL_SECONDS)

    def use(self) -> None:
        now = self._clock()
        self._tokens = min(float(BURST), self._tokens + (now - self._at) / REFILL_SECONDS) - 1
        self._at = now


def follow(lines: Iterable[bytes], pending: Pending) -> None:
    """One watch, until the server ends it."""
    pending.begin_watch()
    for line in lines:
        if not line.strip():
            continue
        event = json.loads(line)
        if event["type"] == "ERROR":
            raise OSError(f"the API server ends the watch: {event['object'].get('message', event['object'])}")
        pending.see(event)


def connect(server: str, files: Path) -> Iterable[bytes]:
    """The lines of a new watch. The login is read each time: it is renewed while this runs."""
    context = ssl.create_default_context(cafile=str(files / "ca.crt"))
    connection = http.client.HTTPSConnection(server, timeout=WATCH_SECONDS + 15, context=context)
    token = (files / "token").read_text().strip()
    connection.request("GET", PATH, headers={"Authorization": f"Bearer {token}", "Accept": "application/json"})
    answer = connection.getresponse()
    if answer.status != http.client.OK:
        raise OSError(f"the API server answers {answer.status}: {answer.read(300).decode(errors='replace')}")
    return iter(answer.readline, b"")


def watch_for_ever(open_watch: Callable[[], Iterable[bytes]], pending: Pending) -> None:
    failures = 0
    while True:
        try:
            follow(open_watch(), pending)
            failures = 0
        except (OSError, http.client.HTTPException, ValueError, LookupError) as error:
            pause = PAUSES[min(failures, len(PAUSES) - 1)]
            failures += 1
            say(f"the watch ended, the next one begins in {pause} s: {error}")
            time.sleep(pause)


def publish(cluster: str, region: str, topic: str, pods: int) -> None:
    """As Alertmanager's message (manifests/alertmanager.yml)."""
    message = json.dumps({"cluster": cluster, "alert": "UnschedulablePod", "pods": pods})
    attributes = json.dumps({"cluster": {"DataType": "String", "StringValue": cluster}})
    command = ["aws", "sns", "publish", "--region", region, "--topic-arn", topic, "--message", message]
    command += ["--message-attributes", attributes, "--query", "MessageId", "--output", "text"]
    subprocess.run(command, check=True, timeout=20, stdout=subprocess.DEVNULL)  # noqa: S603


def publish_for_ever(send: Callable[[int], None], pending: Pending, limit: Limit) -> None:
    failures = 0
    while True:
        pending.wait()
        time.sleep(limit.delay())
        uids = pending.take()
        if not uids:
            continue
        limit.use()
        try:
            send(len(uids))
            failures = 0
        except (OSError, subprocess.SubprocessError) as error:
            pause = PAUSES[min(failures, len(PAUSES) - 1)]
            failures += 1
            say(f"the message did not get out, it is sent again in {pause} s: {error}")
            time.sleep(pause)
            pending.give_back(uids)


def main() -> None:
    given = os.environ
    server, files = given["SERVER"], Path(given["RUNTIME_DIRECTORY"])
    pending = Pending()
    watching = threading.Thread(target=watch_for_ever, args=(lambda: connect(server, files), pending), daemon=True)
    watching.start()
    say(f"watching for unschedulable pods at {server}")

    def send(pods: int) -> None:
        publish(given["CLUSTER"], given["REGION"], given["TOPIC"], pods)
        say(f"{pods} {'pod finds' if pods == 1 else 'pods find'} no node: the autoscaler is woken")

    publish_for_ever(send, pending, Limit())


if __name__ == "__main__":
    main()
