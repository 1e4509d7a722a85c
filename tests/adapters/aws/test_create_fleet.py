from dataclasses import replace
from datetime import timedelta

import pytest
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

from nodefleet.adapters.aws.create_fleet import NO_SPOT_ROLE, fleet_request, launch_result, refused_launch
from nodefleet.errors import ThrottledError, UnavailableError
from nodefleet.model.inventory import Market
from nodefleet.model.operations import Purpose, Refusal, RefusalKind
from nodefleet.ports import LaunchResult
from support.builders import after
from support.operation_builders import launch
from support.wording import assert_wording

SPOT = launch(id="shop-f17-launch-default-a-spot", max_price_usd=0.02, template="lt-1", subnet="subnet-a")
ON_DEMAND = replace(SPOT, id="shop-f17-launch-default-a-on-demand", market=Market.ON_DEMAND)
BOTH = pytest.mark.parametrize("wanted", [SPOT, ON_DEMAND], ids=["spot", "on-demand"])


@pytest.fixture(scope="module")
def shape():
    return ServiceModel(Loader().load_service_model("ec2", "service-2")).operation_model("CreateFleet").input_shape


def unlisted_values(value, shape, at="CreateFleet"):
    """Values that EC2's model does not list for their field: botocore itself does not check them."""
    if shape.type_name == "structure":
        for name, inner in value.items():
            yield from unlisted_values(inner, shape.members[name], f"{at}.{name}")
    elif shape.type_name == "list":
        for inner in value:
            yield from unlisted_values(inner, shape.member, at)
    elif getattr(shape, "enum", None) and value not in shape.enum:
        yield at, value


def error(code: str, type_: str = "t3.small", message: str = "no"):
    spec = {"LaunchTemplateAndOverrides": {"Overrides": {"InstanceType": type_}}} if type_ else {}
    return {**spec, "ErrorCode": code, "ErrorMessage": message, "Lifecycle": "spot"}


def given(*identities: str, type_: str = "t3.small"):
    return {"InstanceIds": list(identities), "InstanceType": type_, "Lifecycle": "spot"}


# ── the request ──────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_the_request_fits_ec2s_own_model(shape, wanted):
    asked = fleet_request(wanted, "shop")
    report = ParamValidator().validate(asked, shape)
    assert not report.has_errors(), report.generate_report()
    assert list(unlisted_values(asked, shape)) == []


@BOTH
def test_the_same_launch_asks_the_same_whatever_has_become_of_it(wanted):
    later = replace(
        wanted,
        attempts=7,
        instances=("i-1",),
        refusals=(Refusal(type="t3.small"),),
        answered=True,
        answered_at=after(9),
        learned=True,
        joined=("i-1",),
        lost=("i-2",),
        silent=timedelta(seconds=30),
        silent_since=after(5),
        deadline=after(900),
        purpose=Purpose.RESTORE,
    )
    assert repr(fleet_request(later, "shop")) == repr(fleet_request(wanted, "shop"))


def test_another_launch_has_another_token():
    assert (
        fleet_request(SPOT, "shop")["ClientToken"] != fleet_request(replace(SPOT, id="another"), "shop")["ClientToken"]
    )
    assert len(fleet_request(SPOT, "shop")["ClientToken"]) == 64


def test_a_spot_launch_asks_for_what_is_cheap_and_likely_to_stay_and_bids_no_more_than_allowed():
    asked = fleet_request(SPOT, "shop")
    assert asked["Type"] == "instant"
    assert asked["TargetCapacitySpecification"] == {"TotalTargetCapacity": 2, "DefaultTargetCapacityType": "spot"}
    assert asked["SpotOptions"] == {
        "AllocationStrategy": "price-capacity-optimized",
        "InstanceInterruptionBehavior": "terminate",
    }
    assert "OnDemandOptions" not in asked
    (config,) = asked["LaunchTemplateConfigs"]
    assert config["LaunchTemplateSpecification"] == {"LaunchTemplateId": "lt-1", "Version": "3"}
    assert config["Overrides"] == [
        {"InstanceType": "t3.small", "SubnetId": "subnet-a", "MaxPrice": "0.02"},
        {"InstanceType": "t3a.small", "SubnetId": "subnet-a", "MaxPrice": "0.02"},
    ]


def test_an_on_demand_launch_asks_for_the_cheapest_and_names_no_price():
    asked = fleet_request(ON_DEMAND, "shop")
    assert asked["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "on-demand"
    assert asked["OnDemandOptions"] == {"AllocationStrategy": "lowest-price"}
    assert "SpotOptions" not in asked
    assert all("MaxPrice" not in override for override in asked["LaunchTemplateConfigs"][0]["Overrides"])


@pytest.mark.parametrize(
    ("price", "text"), [(0.02, "0.02"), (0.00001, "0.00001"), (0.0000001, "0.0000001"), (1.0, "1.0"), (0.1 + 0.2, None)]
)
def test_a_price_is_written_out(price, text):
    (override, *_) = fleet_request(replace(SPOT, max_price_usd=price), "shop")["LaunchTemplateConfigs"][0]["Overrides"]
    assert override["MaxPrice"] == text or (text is None and float(override["MaxPrice"]) == price)
    assert "e" not in override["MaxPrice"]


def test_without_a_limit_spot_bids_none():
    (override, *_) = fleet_request(replace(SPOT, max_price_usd=None), "shop")["LaunchTemplateConfigs"][0]["Overrides"]
    assert "MaxPrice" not in override


def test_a_type_named_twice_is_asked_for_once():
    asked = fleet_request(replace(SPOT, types=("t3.small", "t2.small", "t3.small")), "shop")
    overrides = asked["LaunchTemplateConfigs"][0]["Overrides"]
    assert [override["InstanceType"] for override in overrides] == ["t3.small", "t2.small"]


def test_the_machines_their_disks_and_the_fleet_carry_their_tags_from_the_start():
    specifications = fleet_request(SPOT, "shop")["TagSpecifications"]
    assert [one["ResourceType"] for one in specifications] == ["fleet", "instance", "volume"]
    for one in specifications:
        assert {tag["Key"]: tag["Value"] for tag in one["Tags"]} == {
            "node-fleet:cluster": "shop",
            "node-fleet:pool": "default",
            "node-fleet:role": "worker",
            "node-fleet:operation": "shop-f17-launch-default-a-spot",
            "node-fleet:capacity-type": "spot",
            "Project": "node-fleet",
            "ManagedBy": "node-fleet",
            "Name": "shop-default",
        }


# ── the answer ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_everything_given_is_an_answer_without_refusals():
    response = {"Instances": [given("i-1", "i-2"), given("i-3", type_="t3a.small")]}
    assert launch_result(SPOT, response) == LaunchResult(instances=("i-1", "i-2", "i-3"))


def test_some_given_and_some_refused_is_normal():
    response = {"Instances": [given("i-1")], "Errors": [error("InsufficientInstanceCapacity", "t3a.small")]}
    refusals = (Refusal(type="t3a.small", kind=RefusalKind.CAPACITY, code="InsufficientInstanceCapacity"),)
    assert launch_result(SPOT, response) == LaunchResult(instances=("i-1",), refusals=refusals)


def test_a_type_may_be_given_once_and_refused_for_the_rest():
    response = {"Instances": [given("i-1")], "Errors": [error("InsufficientInstanceCapacity", "t3.small")]}
    assert [refusal.type for refusal in launch_result(SPOT, response).refusals] == ["t3.small"]


def test_nothing_given_without_a_reason_is_an_answer_too():
    assert launch_result(SPOT, {}) == LaunchResult()
    assert launch_result(SPOT, {"Instances": None, "Errors": None}) == LaunchResult()


def test_a_type_is_refused_once_by_the_reason_that_most_needs_a_person():
    codes = ["InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "InsufficientInstanceCapacity"]
    (found,) = launch_result(SPOT, {"Errors": [error(code) for code in codes]}).refusals
    assert (found.kind, found.code) == (RefusalKind.QUOTA, "MaxSpotInstanceCountExceeded")
    (found,) = launch_result(
        SPOT, {"Errors": [error(code) for code in ("InvalidAMIID.NotFound", NO_SPOT_ROLE)]}
    ).refusals
    assert found.kind is RefusalKind.PERMISSION


def test_of_two_reasons_alike_the_first_is_told():
    said = [error("InsufficientInstanceCapacity", message="first"), error("UnfulfillableCapacity", message="second")]
    alone = launch_result(SPOT, {"Errors": said[:1]})
    assert launch_result(SPOT, {"Errors": said}) == alone
    assert launch_result(SPOT, {"Errors": said[::-1]}) != alone


def test_a_refusal_says_what_to_do_about_this_launch():
    (found,) = launch_result(SPOT, {"Errors": [error("InsufficientFreeAddressesInSubnet")]}).refusals
    assert "subnet-a" in found.remedy
    (found,) = launch_result(SPOT, {"Errors": [error("SpotMaxPriceTooLow")]}).refusals
    assert "0.02" in found.remedy
    (found,) = launch_result(SPOT, {"Errors": [error("InvalidAMIID.NotFound", message="ami-1 is gone")]}).refusals
    assert_wording(found.remedy)


def test_refusals_come_in_the_launchs_order():
    response = {"Errors": [error("UnfulfillableCapacity", "t3a.small"), error("UnfulfillableCapacity", "t3.small")]}
    assert [refusal.type for refusal in launch_result(SPOT, response).refusals] == ["t3.small", "t3a.small"]


@pytest.mark.parametrize("type_", ["", "m5.large"])
def test_what_is_said_of_no_type_of_ours_is_said_of_all(type_):
    response = {"Errors": [error(NO_SPOT_ROLE, type_)]}
    assert [refusal.type for refusal in launch_result(SPOT, response).refusals] == ["t3.small", "t3a.small"]


@pytest.mark.parametrize("said", [{}, {"ErrorCode": None, "LaunchTemplateAndOverrides": {"Overrides": None}}])
def test_an_error_without_a_code_is_lack_of_capacity_of_every_type(said):
    refusals = [Refusal(type=name, kind=RefusalKind.CAPACITY, code="") for name in ("t3.small", "t3a.small")]
    assert launch_result(SPOT, {"Errors": [said]}) == LaunchResult(refusals=tuple(refusals))


def test_throttled_inside_and_nothing_given_is_not_known():
    response = {"Errors": [error("InsufficientInstanceCapacity", "t3a.small"), error("RequestLimitExceeded")]}
    with pytest.raises(ThrottledError, match="CreateFleet: RequestLimitExceeded"):
        launch_result(SPOT, response)


def test_a_fault_of_ec2_inside_and_nothing_given_is_not_known():
    with pytest.raises(UnavailableError, match="InternalError"):
        launch_result(SPOT, {"Errors": [error("InternalError")]})


def test_throttled_inside_with_something_given_teaches_nothing_about_the_type():
    response = {"Instances": [given("i-1")], "Errors": [error("RequestLimitExceeded", "t3a.small")]}
    assert launch_result(SPOT, response) == LaunchResult(instances=("i-1",))


# ── an error to the whole call ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("UnauthorizedOperation", RefusalKind.PERMISSION),
        (NO_SPOT_ROLE, RefusalKind.PERMISSION),
        ("InvalidLaunchTemplateId.NotFound", RefusalKind.INVALID),
        ("InvalidSubnetID.NotFound", RefusalKind.INVALID),
        ("InvalidAMIID.NotFound", RefusalKind.INVALID),
        ("InvalidParameterValue", RefusalKind.INVALID),
        ("MaxFleetCountExceeded", RefusalKind.QUOTA),
        ("InsufficientInstanceCapacity", RefusalKind.CAPACITY),
    ],
)
def test_an_error_that_rules_out_a_launch_refuses_every_type(code, kind):
    found = refused_launch(SPOT, code, "words")
    assert found is not None
    assert found.instances == ()
    assert [(refusal.type, refusal.kind, refusal.code) for refusal in found.refusals] == [
        ("t3.small", kind, code),
        ("t3a.small", kind, code),
    ]


@pytest.mark.parametrize("code", ["InternalError", "RequestLimitExceeded", "ExpiredToken", "SomethingNew", ""])
def test_any_other_error_is_no_answer(code):
    assert refused_launch(SPOT, code, "words") is None


def test_a_token_with_other_parameters_is_never_an_answer():
    with pytest.raises(UnavailableError) as caught:
        refused_launch(SPOT, "IdempotentParameterMismatch", "words")
    assert_wording(str(caught.value))
