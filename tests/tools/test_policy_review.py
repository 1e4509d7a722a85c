"""What is wrong with a policy that is consistent in itself."""

from dataclasses import fields, replace

import pytest
from botocore.session import Session

from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix, Pool, Queries
from nodefleet.policy.sources import Prometheus
from nodefleet_tools.policy_review import FAMILIES, review


def reviewed(*pools: Pool):
    found = review(Policy(pools=pools))
    return [problem.path for problem in found.problems], [warning.path for warning in found.warnings]


def of_types(*types: str, **market) -> Pool:
    return Pool(market=MarketMix(types=types, **market))


def test_the_defaults_are_fine():
    assert reviewed(Pool()) == ([], [])


@pytest.mark.parametrize(
    "name",
    [
        "t3.small",
        "m5.metal",
        "u-6tb1.56xlarge",
        "c7i.metal-24xl",
        "mac2-m2pro.metal",
        "m8g.xlarge",
        "u7in-16tb.224xlarge",
    ],
)
def test_types_as_ec2_names_them(name):
    assert reviewed(of_types(name)) == ([], [])


@pytest.mark.parametrize("name", ["", " ", "t3", "t3.smal", "T3.small", "small", "t3.small "])
def test_what_is_no_type(name):
    assert reviewed(of_types(name)) == (["market.types[0]"], [])


@pytest.mark.parametrize("name", ["t9.medium", "tt3.large"])
def test_a_family_that_ec2_did_not_have_is_a_warning(name):
    assert reviewed(of_types("m5.large", name)) == ([], ["market.types[1]"])


def test_the_families_are_those_that_botocore_knows():
    known = Session().get_service_model("ec2").shape_for("InstanceType").enum
    assert {name.partition(".")[0] for name in known} == FAMILIES


@pytest.mark.parametrize(
    ("types", "mixed"),
    [
        (("t3.small", "t4g.small"), True),
        (("m7gd.large", "c6i.large"), True),
        (("a1.large", "m5.large"), True),
        (("g5.xlarge", "m5.large"), False),
        (("t4g.small", "m6g.large", "is4gen.large"), False),
    ],
)
def test_one_pool_has_one_architecture(types, mixed):
    assert reviewed(of_types(*types)) == (["market.types"] if mixed else [], [])


def test_each_pool_may_have_its_own():
    arm = Pool(name="arm", market=MarketMix(types=("t4g.small",)))
    assert reviewed(Pool(), arm) == ([], [])
    worse = Pool(name="arm", market=MarketMix(types=("t4g.small", "t3.small")))
    assert reviewed(Pool(), worse) == (["pools[1].market.types"], [])


def test_every_query_is_read():
    pool = Pool(queries=Queries(cpu="sum(", idle="a]"), readings={"jobs": Prometheus(query="(")})
    assert reviewed(pool) == (["queries.cpu", "queries.idle", "readings.jobs.query"], [])


@pytest.mark.parametrize("name", [each.name for each in fields(Queries)])
def test_none_of_a_pools_queries_is_left_out(name):
    assert reviewed(Pool(queries=replace(Queries(), **{name: "sum("}))) == ([f"queries.{name}"], [])


def test_a_pool_whose_name_cannot_stand_in_a_query():
    paths, _ = reviewed(Pool(name="a.b"))
    assert "pools[0].queries.cpu" in paths


def test_a_function_that_the_parser_does_not_know_is_a_warning():
    pytest.importorskip("promql_parser")
    assert reviewed(Pool(queries=Queries(cpu="brand_new(a)"))) == ([], ["queries.cpu"])


@pytest.mark.parametrize(
    ("market", "warned"),
    [
        ({"max_price_usd": 0.0383}, True),  # On-Demand is 0.384: Spot costs a tenth of it at least
        ({"max_price_usd": 0.0385}, False),
        ({"max_price_usd": 0.02, "spot_percent": 0.0}, False),
    ],
)
def test_types_that_are_never_below_the_cap(market, warned):
    assert reviewed(of_types("m5.2xlarge", **market)) == ([], ["market.types[0]"] if warned else [])


@pytest.mark.parametrize(
    ("name", "cap", "warned"),
    [
        ("m5.4xlarge", 0.0767, True),  # twice m5.2xlarge
        ("m5.4xlarge", 0.0769, False),
        ("c6i.xlarge", 0.0169, True),
        ("c6i.medium", 0.0042, True),  # half of c6i.large
        ("c6i.medium", 0.0043, False),
        ("m5.metal", 0.01, False),  # what size it is its name does not say
        ("r5.large", 0.001, False),  # no size of its family has a bundled price
    ],
)
def test_another_size_of_the_family_says_what_a_type_costs(name, cap, warned):
    assert reviewed(of_types(name, max_price_usd=cap)) == ([], ["market.types[0]"] if warned else [])
