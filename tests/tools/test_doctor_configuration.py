"""The checks of what was written down: the deployment, the policy, the secret for messages."""

from dataclasses import replace

import pytest

from nodefleet.errors import MisconfiguredError
from nodefleet.model.snapshot import Deployment
from nodefleet.model.state import LoopState
from nodefleet_tools.doctor import configuration, messages
from nodefleet_tools.doctor.findings import UnknownError
from support.doctor_patients import AWAY, TARGET, Shop, raising, signs, version
from support.wording import assert_wording


def deployed(*targets) -> Shop:
    shop = Shop()
    shop.state = replace(shop.state, deployment=Deployment(cluster="shop", targets=targets))
    return shop


def test_a_deployment_that_has_everything_is_fine():
    assert_wording(deployed(TARGET).found(configuration.deployment))


@pytest.mark.parametrize(
    ("target", "sign", "words"),
    [
        (replace(TARGET, template=""), "✗", "pool default has no launch template"),
        (replace(TARGET, template_version="$Latest"), "✗", "names version '$Latest' of its launch template"),
        (replace(TARGET, subnets={}), "✗", "pool default has no subnet"),
        (replace(TARGET, subnets={"a": "subnet-a"}), "!", "pool default is in one zone only: a"),
    ],
)
def test_what_a_pool_lacks_is_named(target, sign, words):
    (line,) = deployed(target).found(configuration.deployment)
    assert line[0] == sign
    assert words in line


def test_pools_that_only_one_side_knows_are_told():
    lines = deployed(replace(TARGET, pool="gpu")).found(configuration.deployment)
    assert signs(lines) == "✗!"
    assert_wording(lines[0])
    assert "gpu" in lines[1]


def test_no_deployment_record_is_wrong_and_no_table_leaves_it_unchecked():
    shop = Shop()
    shop.state = replace(shop.state, deployment=None)
    (line,) = shop.found(configuration.deployment)
    assert_wording(line)
    with pytest.raises(UnknownError) as caught:
        Shop(state=AWAY).found(configuration.deployment)
    assert_wording(str(caught.value))


# ── the policy ───────────────────────────────────────────────────────────────────────────────────────────────────

BAD = {"limits": {"min": 9, "max": 2}}


def governed(policy=None, declared=None, adopted="") -> Shop:
    shop = Shop()
    journal = LoopState(adopted_policy=adopted)
    shop.state = replace(shop.state, policy=policy, declared=declared, journal=journal)
    return shop


def test_a_policy_in_force_is_told_with_its_origin():
    assert_wording(governed(version({}, 3)).found(configuration.policy))
    dry = governed(version({"dry_run": True}))
    assert_wording(dry.found(configuration.policy))


def test_without_a_policy_the_defaults_hold():
    assert signs(governed().found(configuration.policy)) == "!"


def test_a_policy_that_is_no_longer_valid_is_wrong_with_its_first_problem():
    (line,) = governed(version(BAD)).found(configuration.policy)
    assert_wording(line)


def test_a_declared_policy_is_checked_before_it_is_taken_up():
    new = version({"limits": {"max": 4}}, 0)
    waiting = governed(version({}), new).found(configuration.policy)
    assert_wording(waiting[1])
    taken = governed(version({}), new, adopted=new.digest).found(configuration.policy)
    assert_wording(taken[1])
    refused = governed(version({}), version(BAD, 0)).found(configuration.policy)
    assert signs(refused) == "✓✗"


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────────────────


NAME = "node-fleet/slack"


def test_a_webhook_is_read_and_not_shown():
    asked = []
    shop = Shop(slack_secret=NAME, slack=lambda name: asked.append(name) or "https://hooks/secret")
    assert_wording(shop.found(messages.slack))
    assert asked == [NAME]


def test_no_webhook_is_a_hint_and_a_bad_one_an_error():
    assert signs(Shop().found(messages.slack)) == "!"
    bad = Shop(slack_secret=NAME, slack=raising(MisconfiguredError("it is not JSON")))
    with pytest.raises(MisconfiguredError):
        bad.found(messages.slack)
