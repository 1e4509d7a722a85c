"""Redis and Celery on a double that speaks the protocol; the real server is in tests/e2e/test_sources_real.py."""

import re
import socket
import ssl
import time

import pytest

from nodefleet.adapters.credentials import RedisLogin
from nodefleet.adapters.http import UnusableError
from nodefleet.adapters.sources.port import SourceLogins
from nodefleet.adapters.sources.redis import CeleryQueues, RedisAddress, RedisKeys, RespConnection
from nodefleet.model.snapshot import Missing, Reading
from nodefleet.policy.sources import Celery, Redis
from support.builders import NOON
from support.source_doubles import FakeSecrets, RespDouble, cause, free_port, logins, moment, read_one
from support.wording import assert_wording

CA = "-----BEGIN CERTIFICATE-----"
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
        (
            {"TYPE q": b"+stream\r\n", "XINFO GROUPS q": b":3\r\n"},
            {"group": "workers"},
            "stream q has no group workers: check its name",
        ),
        (
            {"TYPE q": b"+stream\r\n", "XINFO GROUPS q": b"*1\r\n*3\r\n$4\r\nname\r\n$7\r\nworkers\r\n$3\r\nlag\r\n"},
            {"group": "workers"},
            "Redis cannot tell how far group workers is behind on q",
        ),
        ({"TYPE q": b"hang up"}, {}, "Redis at 127.0.0.1:PORT closed the connection"),
        (
            {"TYPE q": b"HTTP/1.1 400 Bad Request\r\n"},
            {},
            "Redis at 127.0.0.1:PORT does not speak the Redis protocol: is it another server?",
        ),
        ({"TYPE q": b"$2000000\r\n" + b"x" * 2_000_000}, {}, "Redis at 127.0.0.1:PORT answers more than 1 MiB"),
    ],
)
def test_what_goes_wrong_is_missing_with_its_cause(replies, entry, expected):
    sample, _ = reading(replies, **entry)
    assert re.sub(r"(127\.0\.0\.1):\d+", r"\1:PORT", cause(sample)).startswith(expected)
    assert sample.empty_at is None


def test_a_key_without_a_length_is_asked_for_nothing():
    _, commands = reading({"TYPE q": b"+string\r\n"})
    assert commands == ["TYPE q", "PING q"]


@pytest.mark.parametrize("depth", [8, 9])
def test_lists_within_lists_have_an_end(depth):
    sample, _ = reading({"TYPE q": b"+list\r\n", "LLEN q": b"*1\r\n" * depth + b":1\r\n"})
    assert_wording(re.sub(r"(127\.0\.0\.1):\d+", r"\1:PORT", cause(sample)))


class Plain:
    """A socket that does nothing, and keeps how long it may wait."""

    def __init__(self, *replies):
        self.replies, self.limits, self.sent, self.closed = list(replies), [], b"", False

    def settimeout(self, seconds):
        self.limits.append(seconds)

    def sendall(self, content):
        self.sent += content

    def recv(self, size):
        assert size == 1 << 14
        return self.replies.pop(0)

    def close(self):
        self.closed = True


@pytest.fixture
def connected(monkeypatch):
    """A connection on such a socket, with so many seconds left."""

    def connect(*replies, left=5.0, address="redis://host:7000", login=None):
        plain, made = Plain(*replies), []
        monkeypatch.setattr(time, "monotonic", lambda: 100.0)

        def create(*where, **how):
            made.append((*where, how))
            return plain

        monkeypatch.setattr(socket, "create_connection", create)
        return RespConnection(RedisAddress.of(address), login, 100.0 + left), plain, made

    return connect


@pytest.mark.parametrize(("left", "connecting"), [(5.0, 2.0), (0.5, 0.5)])
def test_every_wait_ends_at_the_deadline(connected, left, connecting):
    redis, plain, made = connected(b":", b"7\r\n", left=left)
    assert made == [(("host", 7000), {"timeout": connecting})]
    with redis:
        assert redis.ask([["LLEN", "q"]]) == [7]
    assert plain.limits == [left] * 3  # to send, and for each piece
    assert plain.sent == b"*2\r\n$4\r\nLLEN\r\n$1\r\nq\r\n"
    assert plain.closed


@pytest.mark.parametrize(
    ("login", "ca"),
    [(None, None), (RedisLogin(password="p"), None), (RedisLogin(password="p", ca=CA), CA)],
    ids=["none", "without", "with"],
)
def test_a_certificate_authority_of_one_s_own_counts_for_tls(connected, monkeypatch, login, ca):
    asked = []

    class Context:
        def wrap_socket(self, plain, server_hostname):
            asked.append(server_hostname)
            return plain

    monkeypatch.setattr(ssl, "create_default_context", lambda cadata: asked.append(cadata) or Context())
    _, plain, _ = connected(b"+OK\r\n", address="rediss://host", login=login)
    assert asked == [ca, "host"]
    assert plain.limits[0] == 5.0


def test_no_connection_in_time_says_how_long_it_was_waited_for(connected, monkeypatch):
    def late(*_, **__):
        raise TimeoutError

    connected()
    monkeypatch.setattr(socket, "create_connection", late)
    with pytest.raises(UnusableError) as raised:
        RespConnection(RedisAddress.of("redis://host"), None, 105.0)
    assert_wording(str(raised.value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("redis://host", RedisAddress(host="host", port=6379, database=0, tls=False)),
        ("rediss://host:7000/3", RedisAddress(host="host", port=7000, database=3, tls=True)),
        ("redis://host/", RedisAddress(host="host", port=6379, database=0, tls=False)),
    ],
)
def test_an_address_has_a_port_and_a_database_by_default(text, expected):
    assert RedisAddress.of(text) == expected


@pytest.mark.parametrize(
    ("adapter", "entry", "service"),
    [
        (RedisKeys, lambda **entry: Redis(key="q", **entry), "Redis"),
        (CeleryQueues, Celery, "Celery's broker"),
    ],
)
def test_a_call_is_named_and_logs_in(adapter, entry, service):
    with RespDouble({"AUTH pw": b"+OK\r\n"}).serving() as server:
        made = entry(address=f"redis://127.0.0.1:{server.port}", secret="redis")
        (call,) = adapter(logins(redis=RedisLogin(password="pw"))).calls([made], moment())
        call.read()
    assert call.service == service
    assert server.commands[0] == "AUTH pw"


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


def test_an_answer_that_is_no_count_is_missing_and_not_zero():
    assert_wording(cause(tasks({**TASKS, f"LLEN celery{SEP}3": b"$-1\r\n"})))


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
