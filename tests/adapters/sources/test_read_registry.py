"""Every source that a policy may name can be read, and cleans up only where it may."""

from datetime import timedelta

import pytest

from nodefleet.adapters.credentials import GithubLogin
from nodefleet.adapters.sources.read import adapters
from nodefleet.policy.demand import Github, Prometheus, Source
from nodefleet.policy.file_schema import classes_of
from support.builders import NOON, after
from support.source_doubles import GithubDouble, job, logins, read_one


def test_every_source_of_the_policy_has_its_adapter():
    """Prometheus is read with the pools' own queries (promql.py)."""
    known = adapters(pytest.fail, logins(), pytest.fail, may_change=False)
    assert {*known, Prometheus} == set(classes_of(Source))


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
