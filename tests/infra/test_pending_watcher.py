"""The watcher on the server: which pods it reports, how often, and what it does while the API server or SNS is away."""

import ast
import json
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodefleet.adapters.aws.triggers import Trigger, triggers_in
from nodefleet_infra import manifests
from nodefleet_infra.userdata import pending as watcher
from nodefleet_infra.userdata.pending import BURST, Limit, Pending, follow, watch_for_ever
from nodefleet_tools.sim import pending_watch
from support.userdata_machines import SERVER_SETTINGS

NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}


def pod(uid: str, *conditions: dict[str, str], **metadata: str) -> dict[str, Any]:
    return {"metadata": {"uid": uid, **metadata}, "status": {"conditions": list(conditions)}}


def line(kind: str, which: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": which}).encode() + b"\n"


def untold(*lines: bytes, pending: Pending | None = None) -> set[str]:
    pending = pending or Pending()
    follow(lines, pending)
    return pending.take()


def test_a_pod_that_the_scheduler_refused_is_reported_once():
    pending = Pending()
    refused = line("MODIFIED", pod("a", NO_NODE))
    assert untold(line("ADDED", pod("a")), refused, refused, pending=pending) == {"a"}
    assert untold(refused, pending=pending) == set()  # the next watch begins with it again


@pytest.mark.parametrize(
    "seen",
    [
        pod("a"),
        pod("a", GATED),
        pod("a", {"type": "PodScheduled", "status": "True"}),
        pod("a", NO_NODE, deletionTimestamp="2026-11-16T12:00:00Z"),
    ],
)
def test_pods_that_wait_for_something_else_are_not_reported(seen):
    assert untold(line("ADDED", seen)) == set()


def test_a_pod_that_is_bound_or_deleted_before_the_message_is_not_reported():
    """A watch with a field selector tells of a bound pod as of a deleted one."""
    assert untold(line("ADDED", pod("a", NO_NODE)), line("DELETED", pod("a"))) == set()


def test_a_pod_that_two_watches_did_not_show_is_forgotten():
    pending = Pending()
    untold(line("ADDED", pod("a", NO_NODE)), pending=pending)
    untold(pending=pending)
    untold(pending=pending)
    assert untold(line("ADDED", pod("a", NO_NODE)), pending=pending) == {"a"}


def test_a_message_that_did_not_get_out_is_owed_while_its_pods_still_wait():
    pending = Pending()
    uids = untold(line("ADDED", pod("a", NO_NODE)), line("ADDED", pod("b", NO_NODE)), pending=pending)
    follow([line("ADDED", pod("a", NO_NODE)), line("DELETED", pod("b", NO_NODE))], pending)
    pending.give_back(uids)
    assert pending.take() == {"a"}


def test_what_the_api_server_calls_an_error_ends_the_watch():
    gone = line("ERROR", {"code": 410, "message": "too old resource version"})
    with pytest.raises(OSError, match="too old"):
        follow([gone], Pending())


# ── how often ────────────────────────────────────────────────────────────────────────────────────────────────────


class Hand:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def published(seconds: float) -> list[float]:
    """When messages go out while new pods come all the time."""
    clock = Hand()
    limit, sent = Limit(clock), []
    while clock.now < 1000 + seconds:
        clock.now += limit.delay()
        limit.use()
        sent.append(clock.now)
    return sent


def test_the_first_message_waits_a_moment_and_the_next_ones_a_little_longer():
    first, second, *_ = published(10)
    assert first == 1000 + watcher.GATHER_SECONDS
    assert second == first + watcher.APART_SECONDS


def test_messages_never_flood_however_many_pods_come():
    hour = 3600
    assert len(published(hour)) <= BURST + hour / watcher.REFILL_SECONDS + 1


def test_the_simulation_has_the_watchers_times():
    assert (pending_watch.GATHER_SECONDS, pending_watch.APART_SECONDS) == (
        watcher.GATHER_SECONDS,
        watcher.APART_SECONDS,
    )


# ── while something is away ──────────────────────────────────────────────────────────────────────────────────────


class StoppedError(Exception):
    """The test has seen enough."""


def run_until(target: Callable[..., None], *arguments: Any) -> None:
    def body() -> None:
        with pytest.raises(StoppedError):
            target(*arguments)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_an_api_server_that_restarts_is_asked_again_with_growing_pauses(monkeypatch):
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    tries = iter(
        [OSError("refused"), OSError("refused"), ValueError("half a line"), [line("ADDED", pod("a", NO_NODE))]]
    )

    def open_watch() -> Iterable[bytes]:
        came = next(tries, StoppedError())
        if isinstance(came, Exception):
            raise came
        return came

    pending = Pending()
    run_until(watch_for_ever, open_watch, pending)
    assert pauses == [1, 2, 4]
    assert pending.take() == {"a"}


def test_a_message_is_sent_again_until_it_gets_out(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    pending, sent = Pending(), []
    follow([line("ADDED", pod("a", NO_NODE)), line("ADDED", pod("b", NO_NODE))], pending)

    def send(pods: int) -> None:
        sent.append(pods)
        if len(sent) < 3:
            raise OSError("SNS is away")
        raise StoppedError

    run_until(watcher.publish_for_ever, send, pending, Limit())
    assert sent == [2, 2, 2]


# ── what it says, and with which rights ──────────────────────────────────────────────────────────────────────────


def test_its_message_starts_an_urgent_run_of_its_cluster(tmp_path, monkeypatch):
    stub = tmp_path / "aws"
    stub.write_text(f'#!/bin/bash\nprintf "%s\\0" "$@" >{tmp_path}/said\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    watcher.publish("dev-shop", "ap-southeast-1", "arn:aws:sns:ap-southeast-1:1:wake", 3)
    words = (tmp_path / "said").read_text().split("\0")
    assert words[words.index("--topic-arn") + 1] == "arn:aws:sns:ap-southeast-1:1:wake"
    attributes = json.loads(words[words.index("--message-attributes") + 1])
    record = {
        "Sns": {
            "Message": words[words.index("--message") + 1],
            "MessageAttributes": {name: {"Value": each["StringValue"]} for name, each in attributes.items()},
        }
    }
    assert triggers_in({"Records": [record]}, ["dev-shop", "dev-other"]) == (Trigger(cluster="dev-shop", urgent=True),)
    assert json.loads(record["Sns"]["Message"])["pods"] == 3


def test_it_may_watch_pods_and_nothing_else():
    site = manifests.Site(cluster="dev-shop", region="ap-southeast-1", wake_topic="arn:wake", grafana=False)
    account, role, binding = yaml.safe_load_all(manifests.rendered(site)[manifests.file_of("pending-watcher")])
    assert account["metadata"]["name"] == binding["subjects"][0]["name"] == SERVER_SETTINGS.watcher
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]


def test_amazon_linuxs_python_understands_it():
    ast.parse(Path(watcher.__file__).read_text(encoding="utf-8"), feature_version=(3, 9))
