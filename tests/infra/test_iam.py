"""The statements' form: what AWS would take without complaint and then not do is found here."""

import json
import re
from fnmatch import fnmatchcase

import pytest

from nodefleet_infra import iam
from nodefleet_infra.statements import MOST_CHARACTERS, Statement, TooLongError, document, trust
from support.iam_reference import ACTIONS, ARNS, GLOBAL
from support.iam_samples import PLACE, cluster, everybody, facts, function_arn
from support.wording import assert_wording

EACH = [(role, each) for role, statements in everybody().items() for each in statements]
each_statement = pytest.mark.parametrize(("role", "statement"), EACH, ids=lambda it: getattr(it, "sid", it))


@each_statement
def test_every_action_is_spelled_out_and_known(role, statement):
    assert [action for action in statement.actions if "*" in action or "?" in action] == []
    assert [action for action in statement.actions if action not in ACTIONS] == []


@each_statement
def test_a_star_stands_only_for_what_aws_cannot_narrow_down(role, statement):
    if statement.effect == "Deny":
        return  # the more the better
    if statement.resources == ("*",):
        assert all(ACTIONS[action].needs_star for action in statement.actions)
    else:
        assert "*" not in statement.resources
        assert not any(ACTIONS[action].needs_star for action in statement.actions)


def fits(resource, kind):
    """A statement's resource can be one of this kind."""
    example = ARNS[kind].replace("*", "x")
    return fnmatchcase(resource, ARNS[kind]) or fnmatchcase(example, re.sub(r"\d{12}|eu-west-1|\baws\b", "x", resource))


@each_statement
def test_each_resource_is_of_a_kind_that_an_action_knows_and_each_action_finds_one(role, statement):
    if statement.resources == ("*",):
        return
    for resource in statement.resources:
        assert any(fits(resource, kind) for action in statement.actions for kind in ACTIONS[action].kinds), resource
    for action in statement.actions:
        kinds = ACTIONS[action].kinds
        assert any(fits(resource, kind) for resource in statement.resources for kind in kinds), action


@each_statement
def test_each_condition_is_on_a_key_that_the_action_knows_for_the_resource(role, statement):
    """A condition on another key is never met, and nobody says so."""
    keys = {key.partition("/")[0] for conditions in statement.conditions.values() for key in conditions}
    for action in statement.actions:
        for kind, known in ACTIONS[action].kinds.items():
            if any(fits(resource, kind) for resource in statement.resources):
                assert keys - known - GLOBAL == set(), f"{action} on {kind}"


@pytest.mark.parametrize("role", everybody())
def test_a_role_s_statements_have_names_of_their_own(role):
    names = [each.sid for each in everybody()[role]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9]+", name) for name in names)


@pytest.mark.parametrize("role", everybody())
def test_a_condition_on_all_values_cannot_be_met_by_none(role):
    """ForAllValues also holds of nothing. DynamoDB always tells the keys; of tags there must be one."""
    for each in everybody()[role]:
        for key in each.conditions.get("ForAllValues:StringEquals", {}):
            tags = each.conditions.get("Null", {}).get("aws:TagKeys") == ("false",)
            assert key == "dynamodb:LeadingKeys" or (key == "aws:TagKeys" and tags)


# ── documents ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_document_is_what_iam_reads():
    one = Statement(sid="One", actions=("s3:GetObject",), resources=("a", "b", "a"), conditions={"Bool": {"k": ("x",)}})
    two = Statement(sid="Two", effect="Deny", actions=("s3:GetObject", "s3:PutObject"), resources=("*",))
    assert json.loads(document([one, two])) == {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "One",
                "Effect": "Allow",
                "Action": "s3:GetObject",
                "Resource": ["a", "b"],
                "Condition": {"Bool": {"k": "x"}},
            },
            {"Sid": "Two", "Effect": "Deny", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "*"},
        ],
    }


def test_the_same_facts_give_the_same_text():
    assert document(iam.reconcile(facts())) == document(iam.reconcile(facts()))


def many(clusters, pools):
    """Names and ids as long as they come."""
    listed = [cluster(f"production-customer-{index:02}", pools=pools) for index in range(clusters)]
    return (*iam.interruption(facts(*listed)), *iam.in_vpc(PLACE, function_arn("interruption")))


def test_six_clusters_of_three_pools_fit_into_one_stack():
    assert len(document(many(clusters=6, pools=3))) <= MOST_CHARACTERS


def test_what_iam_would_not_take_is_an_error_that_says_what_to_do():
    with pytest.raises(TooLongError) as refused:
        document(many(clusters=12, pools=3))
    assert_wording(re.sub(r"1\d,\d{3}", "COUNT", str(refused.value)))


def test_several_clusters_share_their_statements():
    one, two = iam.reconcile(facts(cluster("dev-shop"))), iam.reconcile(facts(cluster("dev-shop"), cluster("dev-blog")))
    assert [each.sid for each in one] == [each.sid for each in two]


def test_a_log_group_is_named_once_however_pulumi_writes_it():
    logged = next(each for each in iam.report(facts()) if each.sid == "Log")
    assert [resource.count(":*") for resource in logged.resources] == [1]


def test_a_function_without_a_queue_may_send_to_none():
    alone = facts()
    without = type(alone)(**{name: getattr(alone, name) for name in alone.__slots__} | {"queues": {}})
    assert "SetAside" not in [each.sid for each in iam.notify(without)]


def test_a_scheduler_without_a_queue_may_only_start():
    (only,) = iam.scheduler(iam.SchedulerArns(functions=("arn:aws:lambda:eu-west-1:1:function:f:tick",)))
    assert only.actions == ("lambda:InvokeFunction",)


def test_a_role_is_taken_by_one_service_only():
    said = json.loads(trust("scheduler", {"StringEquals": {"aws:SourceAccount": ["1"]}}))["Statement"]
    assert said == [
        {
            "Effect": "Allow",
            "Principal": {"Service": "scheduler.amazonaws.com"},
            "Action": "sts:AssumeRole",
            "Condition": {"StringEquals": {"aws:SourceAccount": ["1"]}},
        }
    ]
    assert "Condition" not in json.loads(trust("lambda"))["Statement"][0]
