import pytest

from nodefleet.adapters.aws.create_fleet import NO_SPOT_ROLE, FleetError, is_unsure, launch_refusal, refusal_kind
from nodefleet.model.inventory import Market
from nodefleet.model.operations import Refusal, RefusalKind
from support.operation_builders import launch
from support.wording import assert_wording

CAPACITY, QUOTA = RefusalKind.CAPACITY, RefusalKind.QUOTA
PERMISSION, INVALID = RefusalKind.PERMISSION, RefusalKind.INVALID


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InsufficientInstanceCapacity", CAPACITY),
        ("InsufficientHostCapacity", CAPACITY),
        ("InsufficientFreeAddressesInSubnet", CAPACITY),
        ("UnfulfillableCapacity", CAPACITY),
        ("Unsupported", CAPACITY),
        ("SpotMaxPriceTooLow", CAPACITY),
        ("MaxSpotInstanceCountExceeded", QUOTA),
        ("VcpuLimitExceeded", QUOTA),
        ("InstanceLimitExceeded", QUOTA),
        ("VolumeLimitExceeded", QUOTA),
        ("MaxFleetCountExceeded", QUOTA),
        ("UnauthorizedOperation", PERMISSION),
        ("AccessDenied", PERMISSION),
        ("AuthFailure", PERMISSION),
        (NO_SPOT_ROLE, PERMISSION),
        ("PendingVerification", PERMISSION),
        ("InvalidLaunchTemplateId.NotFound", INVALID),
        ("InvalidLaunchTemplateId.VersionNotFound", INVALID),
        ("InvalidSubnetID.NotFound", INVALID),
        ("InvalidAMIID.NotFound", INVALID),
        ("InvalidParameterValue", INVALID),
        ("InvalidFleetConfiguration", INVALID),
        ("MissingParameter", INVALID),
        ("UnsupportedOperation", INVALID),
        ("UnknownParameter", INVALID),
        ("TagLimitExceeded", INVALID),
    ],
)
def test_a_code_is_sorted_by_who_can_do_something_about_it(code, kind):
    assert refusal_kind(code) is kind


@pytest.mark.parametrize(
    "code",
    [
        "RequestLimitExceeded",  # its name ends like a quota's
        "Throttling",
        "InternalError",
        "ServiceUnavailable",
        "InvalidClientTokenId",  # the credentials, not the launch
        "ExpiredToken",
        "IdempotentParameterMismatch",
        "IdempotentInstanceTerminated",
        "SomethingNew",
        "",
    ],
)
def test_what_does_not_tell_is_not_sorted(code):
    assert refusal_kind(code) is None


@pytest.mark.parametrize(
    ("code", "unsure"),
    [
        ("RequestLimitExceeded", True),
        ("InternalError", True),
        ("Unavailable", True),
        ("InsufficientInstanceCapacity", False),
        ("SomethingNew", False),
    ],
)
def test_throttling_and_faults_of_ec2_leave_the_answer_open(code, unsure):
    assert is_unsure(FleetError(code=code)) is unsure


def remedy(code: str, message: str = "", **changes) -> str:
    return launch_refusal("t3.small", FleetError(code=code, message=message), launch(**changes)).remedy


def test_a_new_code_for_a_type_is_remembered_like_missing_capacity_and_its_words_are_passed_on():
    new = launch_refusal("t3.small", FleetError(code="SomethingNew", message="Try tomorrow."), launch())
    assert new == Refusal(type="t3.small", kind=CAPACITY, code="SomethingNew", remedy="EC2 says: Try tomorrow")
    assert remedy("SomethingNew") == ""


def test_plain_lack_of_capacity_has_the_general_remedy():
    assert remedy("InsufficientInstanceCapacity", "We currently do not have sufficient t3.small capacity.") == ""


def test_the_missing_spot_role_comes_with_the_command_that_makes_it():
    command = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
    assert remedy(NO_SPOT_ROLE).endswith(command)


def test_a_denied_launch_names_what_to_allow():
    said = "User: x is not authorized to perform: iam:PassRole on resource: arn:aws:iam::1:role/worker because"
    expected = "Allow iam:PassRole on arn:aws:iam::1:role/worker to the autoscaler's role"
    assert remedy("UnauthorizedOperation", said) == expected
    assert_wording(remedy("UnauthorizedOperation"))


def test_the_price_limit_is_named_only_where_there_is_one():
    expected = "Spot costs more than market.max_price_usd (0.02) there: raise it, or wait"
    assert remedy("SpotMaxPriceTooLow", max_price_usd=0.02) == expected
    assert remedy("SpotMaxPriceTooLow", max_price_usd=None) == ""
    assert remedy("SpotMaxPriceTooLow", max_price_usd=0.02, market=Market.ON_DEMAND) == ""


def test_a_full_subnet_is_named():
    assert_wording(remedy("InsufficientFreeAddressesInSubnet"))


def test_an_invalid_request_comes_with_ec2s_own_words():
    said = "The subnet ID 'subnet-1' does not exist."
    expected = (
        "EC2 says: The subnet ID 'subnet-1' does not exist."
        " Look at the launch template, its subnet and the pool's types"
    )
    assert remedy("InvalidSubnetID.NotFound", said) == expected
    assert_wording(remedy("InvalidSubnetID.NotFound"))


@pytest.mark.parametrize("code", ["MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", "MaxFleetCountExceeded"])
def test_a_quota_says_which_one_to_raise(code):
    assert_wording(remedy(code))
