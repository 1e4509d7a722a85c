"""Redis and Celery on a double that speaks the protocol; the real server is in tests/e2e/test_sources_real.py."""

import pytest

from nodefleet.adapters.credentials import RedisLogin
from nodefleet.adapters.sources.port import SourceLogins
from nodefleet.adapters.sources.redis import CeleryQueues, RedisKeys
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.policy.sources import Celery, Redis
from support.builders import NOON
from support.source_doubles import FakeSecrets, RespDouble, cause, free_port, logins, moment, read_one
from support.wording import assert_wording

GROUPS = (
    b"*2\r\n"
    b"*12\r\n$4\r\nname\r\n$5\r\nother\r\n$9\r\nconsumers\r\n:1\r\n$7\r\npending\r\n:9\r\n"
    b"$17\r\nlast-delivered-id\r\n$3\r\n1-0\r\n$12\r\nentries-read\r\n:1\r\n$3\r\nlag\r\n:9\r\n"
    b"*12\r\n$4\r\nname\r\n$7\r\nworkers\r\n$9\r\nconsumers\r\n:1\r\n$7\r\npending\r\n:2\r\n"
    b"$17\r\nlast-delivered-id\r\n$3\r\n1-0\r\n$12\r\nentries-read\r\n:1\r\n$3\r\nlag\r\n:5\r\n"
)


def reading(replies, *, key="q", secret=None, path="", seconds=5.0, secrets=None, **entry):
    with RespDouble(replies).serving() as server:
        source = Redis(address=f"redis://127.0.0.1:{server.port}{path}", key=key, secret=secret, **entry)
        sample = read_one(RedisKeys(secrets or logins(redis=RedisLogin(password="pw"))), source, seconds)
    return sample, server.commands


@pytest.mark.parametrize(
    ("kind", "command"),
    [("list", "LLEN"), ("stream", "XLEN"), ("zset", "ZCARD"), ("set", "SCARD"), ("hash", "HLEN")],
)
def test_the_type_of_the_key_decides_what_is_counted(kind, command):
    sample, commands = reading({"TYPE q": f"+{kind}\r\n".encode(), f"{command} q": b":7\r\n"})
    assert (sample, commands) == (Reading(7, NOON), ["TYPE q", f"{command} q"])


def test_a_key_that_is_not_there_is_no_data_and_no_fault():
    sample, _ = reading({"TYPE q": b"+none\r\n"})
    assert sample == Missing("Redis has no key q", empty_at=NOON)


def test_a_group_of_a_stream_counts_unread_and_unacknowledged_entries():
    sample, _ = reading({"TYPE q": b"+stream\r\n", "XINFO GROUPS q": GROUPS}, group="workers")
    assert sample == Reading(7, NOON)


@pytest.mark.parametrize(
    ("replies", "entry", "expected"),
    [
        ({"TYPE q": b"+string\r\n"}, {}, "Redis has a string at q, which has no length: name a list, stream"),
        ({"TYPE q": b"-NOPERM no permissions\r\n"}, {}, "Redis refuses to show q: NOPERM no permissions"),
        ({"TYPE q": b"+list\r\n", "LLEN q": b"-BUSY script\r\n"}, {}, "Redis refuses to count q: BUSY script"),
        ({"TYPE q": b"+list\r\n", "LLEN q": b"$-1\r\n"}, {}, "Redis gave no count: None"),
        (
            {"TYPE q": b"+stream\r\n", "XINFO GROUPS q": GROUPS},
            {"group": "gone"},
            "stream q has no group gone: check its name",
        ),
        (
            {"TYPE q": b"+stream\r\n", "XINFO GROUPS q": GROUPS.replace(b":5", b"$-1")},
            {"group": "workers"},
            "Redis cannot tell how far group workers is behind on q",
        ),
        ({"TYPE q": b"hang up"}, {}, "Redis at 127.0.0.1:"),
        ({"TYPE q": b"HTTP/1.1 400 Bad Request\r\n"}, {}, "Redis at 127.0.0.1:"),
        ({"TYPE q": b"$2000000\r\n" + b"x" * 2_000_000}, {}, "Redis at 127.0.0.1:"),
    ],
)
def test_what_goes_wrong_is_missing_with_its_cause(replies, entry, expected):
    sample, _ = reading(replies, **entry)
    assert cause(sample).startswith(expected)
    assert sample.empty_at is None


def test_a_login_and_a_database_are_sent_first():
    replies = {"AUTH pw": b"+OK\r\n", "SELECT 3": b"+OK\r\n", "TYPE q": b"+list\r\n", "LLEN q": b":1\r\n"}
    sample, commands = reading(replies, secret="redis", path="/3")
    assert (sample, commands[:2]) == (Reading(1, NOON), ["AUTH pw", "SELECT 3"])


def test_a_rotated_password_is_fetched_again():
    renewed = [RedisLogin(password="old", username="me"), RedisLogin(password="new", username="me")]
    replies = {"AUTH me new": b"+OK\r\n", "TYPE q": b"+list\r\n", "LLEN q": b":1\r\n"}
    sample, _ = reading(replies, secret="redis", secrets=logins(redis=renewed))
    assert sample == Reading(1, NOON)


def test_a_refused_password_says_so_without_showing_it():
    sample, _ = reading({"AUTH pw": b"-WRONGPASS invalid\r\n"}, secret="redis")
    assert_wording(cause(sample).partition(" refuses ")[2])


def test_a_secret_that_is_not_there_is_missing():
    sample, commands = reading({}, secret="other")
    assert_wording(cause(sample))
    assert commands == []


def test_a_server_that_does_not_answer_is_late():
    with RespDouble({"TYPE q": b"+list\r\n"}, silent=True).serving() as server:
        source = Redis(address=f"redis://127.0.0.1:{server.port}", key="q")
        with pytest.raises(TimeoutError):
            read_one(RedisKeys(logins()), source, seconds=0.2)
        assert not server.answered  # so it was not waited for


def test_no_server_is_missing():
    port = free_port()
    sample = read_one(RedisKeys(logins()), Redis(address=f"redis://127.0.0.1:{port}", key="q"))
    assert_wording(cause(sample).rpartition(": ")[0], PORT=port)


def test_no_tls_on_the_other_side_is_missing():
    with RespDouble({}).serving() as server:
        sample = read_one(RedisKeys(logins()), Redis(address=f"rediss://127.0.0.1:{server.port}", key="q"), 1.0)
    assert_wording(cause(sample).partition(": ")[0], PORT=server.port)


@pytest.mark.parametrize(
    "address",
    ["http://host:6379", "redis://", "redis://host/x", "redis://host:99999", "redis://host/0?ssl=1", "redis://host/-1"],
)
def test_an_address_of_another_form_is_refused(address):
    assert_wording(cause(read_one(RedisKeys(logins()), Redis(address=address, key="q"))))


def test_a_password_in_the_address_is_refused_and_not_shown():
    found = cause(read_one(RedisKeys(logins()), Redis(address="redis://:hunter2@host:6379/0", key="q")))
    assert_wording(found)


def test_all_keys_of_a_server_share_a_connection():
    replies = {f"TYPE {key}": b"+list\r\n" for key in "ab"} | {"LLEN a": b":1\r\n", "LLEN b": b":2\r\n"}
    with RespDouble(replies).serving() as server:
        address = f"redis://127.0.0.1:{server.port}"
        entries = [Redis(address=address, key="a"), Redis(address=address, key="b")]
        (call,) = RedisKeys(logins()).calls(entries, moment())
        assert call.read() == [Reading(1, NOON), Reading(2, NOON)]


# ── Celery ───────────────────────────────────────────────────────────────────────────────────────────────────────────

SEP = "\x06\x16"
TASKS = {
    "LLEN celery": b":4\r\n",
    f"LLEN celery{SEP}3": b":0\r\n",
    f"LLEN celery{SEP}6": b":2\r\n",
    f"LLEN celery{SEP}9": b":0\r\n",
    "HLEN unacked": b":3\r\n",
}


def tasks(replies, **entry):
    with RespDouble(replies).serving() as server:
        return read_one(CeleryQueues(logins()), Celery(address=f"redis://127.0.0.1:{server.port}", **entry))


@pytest.mark.parametrize(("counts", "number"), [("waiting", 6), ("reserved", 3), ("all", 9)])
def test_tasks_wait_in_a_list_for_each_priority_and_are_reserved_in_a_hash(counts, number):
    assert tasks(TASKS, counts=counts) == Reading(number, NOON)


def test_a_queue_that_is_no_list_is_missing():
    found = tasks({**TASKS, "LLEN celery": b"-WRONGTYPE not a list\r\n"})
    assert_wording(cause(found))


def test_a_broker_that_is_away_is_missing():
    port = free_port()
    sample = read_one(CeleryQueues(logins()), Celery(address=f"redis://127.0.0.1:{port}"))
    assert_wording(cause(sample).rpartition(": ")[0], PORT=port)


def test_a_refused_login_is_fetched_again_once():
    secrets = FakeSecrets(redis=RedisLogin(password="pw"))
    with RespDouble({}).serving() as server:
        source = Redis(address=f"redis://127.0.0.1:{server.port}", key="q", secret="redis")
        read_one(RedisKeys(SourceLogins(secrets, "node-fleet/shop/sources")), source)
    assert secrets.refreshed == ["node-fleet/shop/sources/redis"]
