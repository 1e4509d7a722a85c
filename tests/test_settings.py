"""What the environment tells the functions."""

import pytest

from nodefleet.errors import MisconfiguredError
from nodefleet.model.names import Metric
from nodefleet.settings import APPROVERS, BUCKET, CLUSTERS, METRICS, SECRETS, SLACK, TABLE, Settings, settings_in
from support.wording import assert_wording

LEAST = {TABLE: "fleet", CLUSTERS: "shop"}


def test_a_table_and_a_cluster_are_enough():
    assert settings_in(LEAST) == Settings(table="fleet", clusters=("shop",))


def test_everything_is_read():
    environment = {
        **LEAST,
        CLUSTERS: "shop,blog",
        BUCKET: "looks",
        SECRETS: "prod/fleet",
        METRICS: "HourlyCost,SpotShare",
        SLACK: "prod/slack",
        APPROVERS: "U0ANNA, U0BEN",
    }
    assert settings_in(environment) == Settings(
        table="fleet",
        clusters=("shop", "blog"),
        bucket="looks",
        secrets="prod/fleet",
        opt_in=(Metric.HOURLY_COST, Metric.SPOT_SHARE),
        approvers=("U0ANNA", "U0BEN"),
        slack_secret="prod/slack",  # noqa: S106  # its name
    )


def test_all_that_is_missing_or_wrong_is_named_at_once():
    with pytest.raises(MisconfiguredError) as raised:
        settings_in({METRICS: "HourlyCosts,Beauty"})
    said = str(raised.value)
    assert_wording(said)
    assert "HourlyCost" in said.replace("HourlyCosts", "")  # what was probably meant


@pytest.mark.parametrize("name", [TABLE, CLUSTERS])
@pytest.mark.parametrize("value", ["", "  ", "\n"])
def test_an_empty_value_is_a_missing_one(name, value):
    with pytest.raises(MisconfiguredError) as caught:
        settings_in({**LEAST, name: value})
    assert_wording(str(caught.value))


@pytest.mark.parametrize("text", ["shop,blog", " shop , blog ", "shop,,blog,", "shop,blog,shop"])
def test_lists_forgive_spaces_commas_and_repetition(text):
    assert settings_in({**LEAST, CLUSTERS: text}).clusters == ("shop", "blog")


def test_a_list_of_nothing_but_commas_names_no_cluster():
    with pytest.raises(MisconfiguredError, match=CLUSTERS):
        settings_in({**LEAST, CLUSTERS: " , "})


def test_a_cluster_s_login_has_a_name_that_needs_no_record():
    assert settings_in(LEAST).api_secret("shop") == "node-fleet/shop/kubernetes"
    assert settings_in({**LEAST, SECRETS: "prod"}).api_secret("blog") == "prod/blog/kubernetes"


def test_metrics_may_be_instead_of_the_default_ones():
    given = {"NODEFLEET_TABLE": "t", "NODEFLEET_CLUSTERS": "shop"}
    only = settings_in({**given, "NODEFLEET_METRICS": "only:AtMax,HourlyCost"})
    assert (only.opt_in, only.only_those) == ((Metric.AT_MAX, Metric.HOURLY_COST), True)
    assert not settings_in({**given, "NODEFLEET_METRICS": "AtMax"}).only_those
