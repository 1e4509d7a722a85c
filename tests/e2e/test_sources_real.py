"""Demand sources on real servers: Redis 7 and RabbitMQ of Debian, and a Celery worker."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.celery_tasks import CeleryTasks
from e2e.parts.brokers import RabbitMq, Redis, missing_brokers
from e2e.site.waiting import eventually
from nodefleet.adapters.credentials import MetricsLogin, RedisLogin
from nodefleet.adapters.sources.http_json import RabbitmqQueues
from nodefleet.adapters.sources.redis import CeleryQueues, RedisKeys
from nodefleet.model.snapshot import Missing, Reading, Sample
from nodefleet.policy import sources
from support.source_doubles import cause, logins, read_one

pytestmark = pytest.mark.skipif(bool(missing_brokers()), reason=missing_brokers())

PASSWORD = "only-for-tests"
TASKS = 24


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    server = Redis(tmp_path_factory.mktemp("redis"), PASSWORD)
    server.part.start()
    yield server
    server.part.stop()


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMq]:
    server = RabbitMq(tmp_path_factory.mktemp("rabbitmq"))
    server.part.start()
    yield server
    server.stop()


def value(sample: Sample) -> float:
    assert isinstance(sample, Reading), sample
    return sample.value


def value_or_none(sample: Sample) -> float | None:
    """None while a server has no figures of a queue that was just declared."""
    return sample.value if isinstance(sample, Reading) else None


# ── Redis ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_redis(server: Redis, *, tls: bool = False, secret: str | None = "redis", **entry: Any) -> Sample:  # noqa: S107
    known = logins(redis=RedisLogin(password=PASSWORD, ca=server.ca), wrong=RedisLogin(password="no", ca=server.ca))
    address = (server.tls_address if tls else server.address) + "/1"
    return read_one(RedisKeys(known), sources.Redis(address=address, secret=secret, **entry))


def test_lists_streams_and_sets_of_a_real_redis(redis: Redis) -> None:
    redis.cli("-n", "1", "RPUSH", "orders", "a", "b", "c")
    redis.cli("-n", "1", "ZADD", "delayed", "1", "a", "2", "b")
    for number in range(5):
        redis.cli("-n", "1", "XADD", "events", "*", "n", str(number))
    redis.cli("-n", "1", "XGROUP", "CREATE", "events", "workers", "0")
    redis.cli("-n", "1", "XREADGROUP", "GROUP", "workers", "w1", "COUNT", "2", "STREAMS", "events", ">")
    counts = [value(of_redis(redis, key=key)) for key in ("orders", "delayed", "events")]
    assert counts == [3, 2, 5]
    assert value(of_redis(redis, key="events", group="workers")) == 5, "two are not acknowledged, three not read"
    acknowledged = redis.cli("-n", "1", "XREADGROUP", "GROUP", "workers", "w1", "COUNT", "1", "STREAMS", "events", "0")
    redis.cli("-n", "1", "XACK", "events", "workers", acknowledged.splitlines()[1])
    assert value(of_redis(redis, key="events", group="workers")) == 4


def test_a_list_that_ran_empty_is_no_data(redis: Redis) -> None:
    redis.cli("-n", "1", "RPUSH", "short", "a")
    redis.cli("-n", "1", "LPOP", "short")
    sample = of_redis(redis, key="short")
    assert isinstance(sample, Missing)
    assert sample.empty_at is not None


def test_tls_with_an_authority_of_ones_own(redis: Redis) -> None:
    redis.cli("-n", "1", "RPUSH", "safe", "a")
    assert value(of_redis(redis, tls=True, key="safe")) == 1


def test_a_password_is_needed_and_must_be_right(redis: Redis) -> None:
    assert "NOAUTH" in cause(of_redis(redis, key="orders", secret=None))
    assert "WRONGPASS" in cause(of_redis(redis, key="orders", secret="wrong"))
    stranger = logins(redis=RedisLogin(password=PASSWORD))
    entry = sources.Redis(address=redis.tls_address, key="orders", secret="redis")
    assert cause(read_one(RedisKeys(stranger), entry)).startswith("no secure connection to Redis")


# ── RabbitMQ ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def of_rabbitmq(server: RabbitMq, queue: str, counts: Any = "all", password: str = "guest") -> Sample:  # noqa: S107
    known = logins(rabbit=MetricsLogin(username="guest", password=password))
    entry = sources.Rabbitmq(url=server.url, queue=queue, counts=counts, secret="rabbit")
    return read_one(RabbitmqQueues(known), entry)


def test_a_queue_of_a_real_rabbitmq(rabbitmq: RabbitMq) -> None:
    assert cause(of_rabbitmq(rabbitmq, "letters")).startswith("RabbitMQ has no queue letters in virtual host /")
    rabbitmq.ask("PUT", "/api/queues/%2F/letters", {"durable": True}).raise_for_status()
    eventually(lambda: value_or_none(of_rabbitmq(rabbitmq, "letters")) == 0)
    for number in range(3):
        message = {"properties": {}, "routing_key": "letters", "payload": str(number), "payload_encoding": "string"}
        rabbitmq.ask("POST", "/api/exchanges/%2F/amq.default/publish", message).raise_for_status()
    eventually(
        lambda: [value_or_none(of_rabbitmq(rabbitmq, "letters", each)) for each in ("ready", "unacked")] == [3, 0]
    )


def test_a_wrong_password_is_refused(rabbitmq: RabbitMq) -> None:
    assert "refuses the login (HTTP 401)" in cause(of_rabbitmq(rabbitmq, "letters", password="wrong"))


# ── Celery ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def all_tasks_run_once_while_workers_come_and_go(load: CeleryTasks, count: Callable[[str], float | None]) -> None:
    load.send(range(TASKS), 0.2)
    eventually(lambda: count("all") == TASKS)
    with load.worker("first"):
        eventually(lambda: len(load.counted("end")) >= 3)
        with load.worker("second"):
            eventually(lambda: len(load.counted("end")) >= TASKS // 2)
        # The second was scaled down with tasks waiting and one in hand.
        assert count("all") != 0
    left = TASKS - sum(load.counted("end").values())
    eventually(lambda: count("all") == left)
    with load.worker("third"):
        eventually(lambda: count("all") == 0)
    runs = load.counted("end")
    assert runs == Counter({str(number): 1 for number in range(TASKS)}), "every task once, none lost"
    assert load.counted("begin") == runs


def test_celery_on_redis_loses_no_task_while_workers_come_and_go(redis: Redis, tmp_path: Path) -> None:
    broker = redis.address.replace("redis://", f"redis://:{PASSWORD}@") + "/2"
    known = logins(redis=RedisLogin(password=PASSWORD))

    def count(counts: Any) -> float:
        entry = sources.Celery(address=f"{redis.address}/2", queues=("orders",), counts=counts, secret="redis")
        return value(read_one(CeleryQueues(known), entry))

    all_tasks_run_once_while_workers_come_and_go(CeleryTasks(broker, tmp_path), count)


def test_celery_on_rabbitmq_loses_no_task_while_workers_come_and_go(rabbitmq: RabbitMq, tmp_path: Path) -> None:
    def count(counts: Any) -> float | None:
        return value_or_none(of_rabbitmq(rabbitmq, "orders", counts))

    all_tasks_run_once_while_workers_come_and_go(CeleryTasks(rabbitmq.broker, tmp_path), count)
