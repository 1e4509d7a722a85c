"""The evaluator itself, on the cases that IAM's documentation spells out: the other tests believe what it says."""

import pytest

from nodefleet_infra.statements import Statement
from support.iam_evaluator import Request, Verdict, allows, applies, holds, verdict

INSTANCE = "arn:aws:ec2:eu-west-1:123456789012:instance/i-1"


def statement(effect="Allow", actions=("ec2:StopInstances",), resources=("*",), **conditions):
    return Statement(sid="S", effect=effect, actions=actions, resources=resources, conditions=conditions)


STOP = Request("ec2:StopInstances", INSTANCE)


def test_what_nobody_speaks_of_is_refused():
    assert verdict([], STOP) is Verdict.REFUSED
    assert verdict([statement(actions=("ec2:StartInstances",))], STOP) is Verdict.REFUSED


def test_a_denial_wins_wherever_it_stands():
    allow, deny = statement(), statement("Deny")
    assert verdict([allow], STOP) is Verdict.ALLOWED
    assert verdict([allow, deny], STOP) is verdict([deny, allow], STOP) is Verdict.DENIED


@pytest.mark.parametrize(
    ("action", "matches"),
    [
        ("ec2:StopInstances", True),
        ("ec2:stopinstances", True),
        ("ec2:Stop*", True),
        ("ec2:*", True),
        ("*", True),
        ("ec2:Stop?nstances", True),
        ("ec2:Stop", False),
        ("ec2:Stop[I]nstances", False),
        ("s3:StopInstances", False),
    ],
)
def test_actions_match_by_wildcard_and_without_regard_to_case(action, matches):
    assert allows([statement(actions=(action,))], STOP) is matches


@pytest.mark.parametrize(
    ("resource", "matches"),
    [
        (INSTANCE, True),
        ("*", True),
        ("arn:aws:ec2:eu-west-1:123456789012:instance/*", True),
        ("arn:aws:ec2:*:123456789012:instance/i-?", True),
        ("arn:aws:ec2:eu-west-1:123456789012:*/*", True),
        ("arn:aws:ec2:eu-west-1:123456789012:volume/*", False),
        ("arn:aws:ec2:eu-west-1:999999999999:instance/*", False),
        ("arn:aws:ec2:eu-west-1::instance/*", False),
        ("arn:aws:*:instance/*", False),  # a wildcard stands for one part
        (INSTANCE.upper(), False),
    ],
)
def test_resources_match_part_by_part(resource, matches):
    assert allows([statement(resources=(resource,))], STOP) is matches


def test_an_action_without_resources_is_allowed_by_a_star_only():
    look = Request("ec2:DescribeInstances", "*")
    assert not allows([statement(actions=("ec2:*",), resources=(INSTANCE,))], look)
    assert allows([statement(actions=("ec2:*",))], look)


@pytest.mark.parametrize(
    ("operator", "wanted", "present", "result"),
    [
        ("StringEquals", ["a", "b"], ["b"], True),
        ("StringEquals", ["a"], ["A"], False),
        ("StringEquals", ["a*"], ["ab"], False),
        ("StringEquals", ["a"], None, False),
        ("StringEqualsIfExists", ["a"], None, True),
        ("StringEqualsIfExists", ["a"], ["b"], False),
        ("StringNotEquals", ["a", "b"], ["b"], False),
        ("StringNotEquals", ["a", "b"], ["c"], True),
        ("StringNotEquals", ["a"], None, True),
        ("StringLike", ["a*"], ["ab"], True),
        ("StringLike", ["a?"], ["a"], False),
        ("StringLike", ["*"], None, False),
        ("ArnEquals", ["arn:aws:ec2:*:1:launch-template/lt-1"], ["arn:aws:ec2:eu:1:launch-template/lt-1"], True),
        ("ArnEquals", ["arn:aws:ec2:eu:1:launch-template/lt-1"], ["arn:aws:ec2:eu:1:launch-template/lt-12"], False),
        ("ArnLike", ["arn:aws:ec2:*:launch-template/lt-1"], ["arn:aws:ec2:eu:1:launch-template/lt-1"], False),
        ("ArnEquals", ["arn:aws:ec2:eu:1:launch-template/lt-1"], None, False),
        ("ArnNotEquals", ["arn:aws:ec2:eu:1:launch-template/lt-1"], None, True),
        ("Bool", ["true"], ["TRUE"], True),
        ("Bool", ["true"], ["false"], False),
        ("Bool", ["true"], None, False),
        ("Null", ["true"], None, True),
        ("Null", ["true"], ["x"], False),
        ("Null", ["false"], ["x"], True),
        ("Null", ["false"], None, False),
        ("ForAllValues:StringEquals", ["a", "b"], ["a", "b"], True),
        ("ForAllValues:StringEquals", ["a"], ["a", "b"], False),
        ("ForAllValues:StringEquals", ["a"], [], True),
        ("ForAllValues:StringEquals", ["a"], None, True),
        ("ForAnyValue:StringEquals", ["a"], ["a", "b"], True),
        ("ForAnyValue:StringEquals", ["c"], ["a", "b"], False),
        ("ForAnyValue:StringEquals", ["a"], None, False),
        ("ForAllValues:StringNotEquals", ["a"], ["b", "c"], True),
        ("ForAllValues:StringNotEquals", ["a"], ["a", "c"], False),
    ],
)
def test_conditions(operator, wanted, present, result):
    assert holds(operator, wanted, present) is result


def test_all_conditions_of_a_statement_must_hold():
    both = statement(StringEquals={"aws:RequestTag/a": ["1"], "aws:RequestTag/b": ["2"]}, Bool={"aws:Secure": ["true"]})
    full = {"aws:RequestTag/a": ["1"], "aws:RequestTag/b": ["2"], "aws:Secure": ["true"]}
    assert applies(both, Request(STOP.action, INSTANCE, full))
    for key in full:
        assert not applies(both, Request(STOP.action, INSTANCE, {name: full[name] for name in full if name != key}))


def test_keys_are_compared_without_regard_to_case_but_tags_with_it():
    tagged = statement(StringEquals={"aws:resourcetag/Team": ["a"]})
    assert applies(tagged, Request(STOP.action, INSTANCE, {"aws:ResourceTag/Team": ["a"]}))
    assert not applies(tagged, Request(STOP.action, INSTANCE, {"aws:ResourceTag/team": ["a"]}))


def test_what_is_not_known_here_is_an_error_and_not_a_pass():
    with pytest.raises(KeyError):
        holds("NumericLessThan", ["3"], ["2"])
    with pytest.raises(ValueError, match="no quantifier"):
        holds("ForSomeValues:StringEquals", ["3"], ["2"])
    with pytest.raises(ValueError, match="ForAllValues"):
        holds("StringEquals", ["a"], ["a", "b"])
