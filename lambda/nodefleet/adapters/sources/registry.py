"""The adapter of each kind of entry that a policy may read."""

from collections.abc import Callable, Mapping
from typing import Any

from nodefleet.adapters.sources.celery import CeleryQueues
from nodefleet.adapters.sources.cloudwatch import CloudWatchMetrics
from nodefleet.adapters.sources.github import GithubJobs
from nodefleet.adapters.sources.http_json import HttpDocuments
from nodefleet.adapters.sources.logins import SourceLogins
from nodefleet.adapters.sources.port import SourceAdapter
from nodefleet.adapters.sources.rabbitmq import RabbitmqQueues
from nodefleet.adapters.sources.redis import RedisKeys
from nodefleet.adapters.sources.sqs import SqsQueues
from nodefleet.policy.demand import Celery, CloudWatch, Github, HttpJson, Rabbitmq, Redis, Source, Sqs


def adapters(
    client: Callable[[str], Any], logins: SourceLogins, warn: Callable[[str], None], *, may_change: bool
) -> Mapping[type[Source], SourceAdapter]:
    """`client` makes boto3's client of a service when it is needed. PromQL is read with the pools' own queries."""
    return {
        Sqs: SqsQueues(lambda: client("sqs")),
        CloudWatch: CloudWatchMetrics(lambda: client("cloudwatch")),
        Redis: RedisKeys(logins),
        Celery: CeleryQueues(logins),
        Rabbitmq: RabbitmqQueues(logins),
        Github: GithubJobs(logins, warn=warn, may_change=may_change),
        HttpJson: HttpDocuments(logins),
    }
