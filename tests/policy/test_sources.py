from datetime import timedelta

import pytest

from nodefleet.model.serialization import IssueCode
from nodefleet.policy.cluster import Policy
from nodefleet.policy.constraints import check
from nodefleet.policy.pool import Pool
from nodefleet.policy.sources import Celery, Github, HttpJson, Prometheus, Rabbitmq, Redis, source_problems

LONGEST = timedelta(minutes=4)
JOBS = {"repositories": ("shop/web",), "secret": "github"}


@pytest.mark.parametrize(
    "source",
    [
        Prometheus(query="up"),
        Redis(address="redis://queue", key="q"),
        Redis(address="rediss://queue.internal:6380/12", key="q", secret="redis_1"),
        Celery(address="redis://127.0.0.1:6379/"),
        Rabbitmq(url="https://rabbit:15671", queue="q", secret="rabbit"),
        Rabbitmq(url="http://rabbit:15672/prefix", queue="q"),
        Github(**JOBS),
        Github(**JOBS, runner_prefix="ours-", remove_offline_after=timedelta(minutes=10)),
        HttpJson(url="https://host/path?a=b", value="/a/~1b/0"),
        HttpJson(url="http://host?a=b", value="/"),
    ],
)
def test_what_can_be_asked(source):
    assert list(source_problems(source, LONGEST)) == []


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        (Redis(address="queue:6379", key="q"), ("address",)),
        (Redis(address="redis://queue/a", key="q"), ("address",)),
        (Celery(address="amqp://rabbit"), ("address",)),
        (Celery(address="redis://queue", queues=()), ("queues",)),
        (Rabbitmq(url="rabbit:15672", queue="q"), ("url",)),
        (Rabbitmq(url="http://rabbit", queue="q", secret="node-fleet/shop/kubernetes"), ("secret",)),
        (Github(repositories=("web",), secret="s"), ("repositories", 0)),
        (Github(repositories=(), secret="s"), ("repositories",)),
        (Github(**JOBS, labels=()), ("labels",)),
        (Github(**JOBS, api="github.com"), ("api",)),
        (Github(**JOBS, remove_offline_after=timedelta(minutes=10)), ("remove_offline_after",)),
        (HttpJson(url="ftp://host", value="/a"), ("url",)),
        (HttpJson(url="https://host", value="a.b"), ("value",)),
        (HttpJson(url="https://host", value="/a~2"), ("value",)),
    ],
)
def test_what_cannot_be_asked(source, keys):
    assert [problem.keys for problem in source_problems(source, LONGEST)] == [keys]


def test_a_login_in_an_address_is_refused_and_not_repeated():
    (problem,) = source_problems(Rabbitmq(url="https://guest:hunter2@rabbit", queue="q"), LONGEST)
    assert "hunter2" not in f"{problem}"


def test_a_policy_with_such_a_text_is_refused_at_its_place():
    pool = Pool(readings={"jobs": Github(repositories=("web",), secret="s")})
    (problem,) = check(Policy(pools=(pool,)))
    assert (problem.path, problem.code) == ("pools[0].readings.jobs.repositories[0]", IssueCode.INVALID)
