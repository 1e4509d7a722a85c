"""A mail before the month has cost more than was meant."""

import pytest

from nodefleet.model.serialization import ValidationError
from nodefleet_infra.stack import stack_from
from support.infra_mocks import DEV, declared, deployed_stack

SMALL = {
    "aws:region": "ap-southeast-1",
    "node-fleet:network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]},
    "node-fleet:clusters": [{"name": "shop"}],
    "node-fleet:messages": {"emails": ["ops@example.com"]},
}


def test_nobody_gets_a_budget_who_did_not_ask_for_one():
    assert deployed_stack(DEV).of("budgets/budget:Budget") == []


def test_a_budget_mails_before_the_month_is_spent_and_when_it_is_going_to_be():
    graph = declared({**SMALL, "node-fleet:budget": {"monthly_usd": 150}}, "dev")
    (budget,) = graph.of("budgets/budget:Budget")
    assert (budget.inputs["limitAmount"], budget.inputs["timeUnit"]) == ("150", "MONTHLY")
    assert "costFilters" not in budget.inputs
    told = {(each["notificationType"], each["threshold"]) for each in budget.inputs["notifications"]}
    assert told == {("ACTUAL", 80), ("FORECASTED", 100)}
    mails = [each["subscriberEmailAddresses"] for each in budget.inputs["notifications"]]
    assert mails == [["ops@example.com"]] * 2


def test_a_budget_may_count_the_stacks_own_tag_alone():
    own = {"monthly_usd": 150, "whole_account": False, "emails": ["money@example.com"]}
    (budget,) = declared({**SMALL, "node-fleet:budget": own}, "dev").of("budgets/budget:Budget")
    assert budget.inputs["costFilters"] == [{"name": "TagKeyValue", "values": ["user:Stack$dev"]}]
    assert budget.inputs["notifications"][0]["subscriberEmailAddresses"] == ["money@example.com"]


def test_a_budget_without_an_amount_or_a_reader_is_refused():
    data = {"network": SMALL["node-fleet:network"], "clusters": [{"name": "shop"}], "budget": {"monthly_usd": 0}}
    with pytest.raises(ValidationError) as refused:
        stack_from("node-fleet", "dev", "ap-southeast-1", data)
    assert {each.path for each in refused.value.problems} == {"budget.monthly_usd", "budget.emails"}
