"""Every source that a policy may name can be read."""

import pytest

from nodefleet.adapters.sources.read import adapters
from nodefleet.policy.demand import Prometheus, Source
from nodefleet.policy.file_schema import classes_of
from support.source_doubles import logins


def test_every_source_of_the_policy_has_its_adapter():
    """Prometheus is read with the pools' own queries (promql.py)."""
    known = adapters(pytest.fail, logins(), pytest.fail, may_change=False)
    assert {*known, Prometheus} == set(classes_of(Source))
