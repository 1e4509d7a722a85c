"""Every source that a policy may name can be read, and cleans up only where it may."""

import ast
import re
from datetime import timedelta
from pathlib import Path

import pytest

from nodefleet.adapters.credentials import GithubLogin
from nodefleet.adapters.sources.read import adapters
from nodefleet.model.serialization import kind_of
from nodefleet.policy.file_schema import classes_of
from nodefleet.policy.sources import (
    Celery,
    CloudWatch,
    Github,
    HttpJson,
    Prometheus,
    Rabbitmq,
    Redis,
    Source,
    Sqs,
    server_of,
)
from support.builders import NOON, after
from support.source_doubles import GithubDouble, job, logins, read_one

ROOT = Path(__file__).parents[3]
OWN = (Prometheus, Sqs, CloudWatch)  # the cluster's own, and AWS's: the deployment grants and watches these
ADAPTERS = "lambda/nodefleet/adapters/sources"
ENTRY, REGISTRY, PAGE = "lambda/nodefleet/policy/sources.py", f"{ADAPTERS}/read.py", "docs/policy.md"
FOLDERS = ("lambda/nodefleet", "tools/nodefleet_tools", "infra/nodefleet_infra")
MODULES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
TREE = {str(path.relative_to(ROOT)): path.read_text() for path in MODULES}


def files_that_name(source):
    """Where a source has to be written down: code that names its entry, and the page with an example of it."""
    code = {path for path, text in TREE.items() if re.search(rf"\b{source.__name__}\b", _code(text))}
    return code | {PAGE}


def _code(text):
    """Without docstrings, comments and texts: names of services stand there too."""
    return " ".join(each.id for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Name))


def test_every_source_of_the_policy_has_its_adapter():
    """Prometheus is read with the pools' own queries."""
    known = adapters(pytest.fail, logins(), pytest.fail, may_change=False)
    assert {*known, Prometheus} == set(classes_of(Source))


@pytest.mark.parametrize("source", sorted(set(classes_of(Source)) - set(OWN), key=kind_of))
def test_a_source_touches_four_files(source):
    named = files_that_name(source)
    (adapter,) = named - {ENTRY, REGISTRY, PAGE}
    assert adapter.startswith(ADAPTERS)
    assert f"kind: {kind_of(source)}" in (ROOT / PAGE).read_text()


def test_a_server_at_any_address_is_reached_without_a_change_of_the_deployment():
    """Its port follows from the entry, and so does its login."""
    entries = {kind: server_of(entry) for kind, entry in EXAMPLES.items()}
    assert entries == dict.fromkeys(EXAMPLES, ADDRESS)
    assert set(EXAMPLES) == set(classes_of(Source)) - set(OWN)


ADDRESS = "https://queue.internal:8443"
EXAMPLES = {
    Redis: Redis(address=ADDRESS, key="q"),
    Celery: Celery(address=ADDRESS),
    Rabbitmq: Rabbitmq(url=ADDRESS, queue="q"),
    Github: Github(api=ADDRESS, repositories=("shop/web",), secret="s"),
    HttpJson: HttpJson(url=ADDRESS, value="/a"),
}


@pytest.mark.parametrize(("may_change", "left"), [(True, []), (False, ["ours-1"])])
def test_only_a_reader_that_may_change_something_removes_offline_runners(may_change, left):
    offline = {"id": 1, "name": "ours-1", "status": "offline", "busy": False}
    double = GithubDouble(jobs={"shop/web": {1: [job("queued")]}}, runners={"shop/web": [offline]})
    known = adapters(pytest.fail, logins(github=GithubLogin(token="pat")), [].append, may_change=may_change)
    with double.http.serving():
        source = Github(
            api=double.http.address,
            secret="github",
            repositories=("shop/web",),
            runner_prefix="ours-",
            remove_offline_after=timedelta(minutes=10),
        )
        for now in (NOON, after(600)):
            read_one(known[Github], source, now=now, may_change=True)
    assert [each["name"] for each in double.runners["shop/web"]] == left


def test_aws_is_asked_by_its_services_names():
    made = adapters(lambda service: service, logins(), print, may_change=False)
    assert (made[Sqs]._client(), made[CloudWatch]._client()) == ("sqs", "cloudwatch")
