"""The checks of AWS on made-up answers: what is right, what is wrong, and what cannot be told."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from nodefleet.adapters.dynamodb import codec
from nodefleet.engine.decide import decide
from nodefleet.errors import DeniedError, MisconfiguredError, UnavailableError
from nodefleet.model.decision import DecisionRecord
from nodefleet.model.inventory import InstanceState
from nodefleet.model.state import Memory
from nodefleet.policy.cluster import Policy
from nodefleet_tools.doctor import account, bucket, clock, ec2_permissions, storage, supply
from nodefleet_tools.doctor.findings import UnknownError
from nodefleet_tools.doctor.versions import versions
from support.builders import NOON, instance, look
from support.doctor_patients import AWAY, SERVER, Shop, raising, refusal, signs, told
from support.wording import assert_wording

NOTHING_CALLED = refusal("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
UNAUTHORIZED = refusal("UnauthorizedOperation", "You are not authorized to perform: ec2:RunInstances")


def shop_with(service, **calls) -> Shop:
    meta = SimpleNamespace(region_name="eu-west-1")
    return Shop(clients={service: SimpleNamespace(meta=meta, **calls)})


def record(**changes) -> DecisionRecord:
    decision = decide(look(), Memory(), Policy())
    return replace(DecisionRecord(id="d", at=NOON, cluster="shop", fence=1, policy=1, decision=decision), **changes)


# ── the account ──────────────────────────────────────────────────────────────────────────────────────────────────

ME = {"Arn": "arn:aws:iam::1:user/me", "Account": "1"}


def test_credentials_say_who_we_are_and_where():
    shop = shop_with("sts", get_caller_identity=lambda: ME)
    assert_wording(shop.found(account.credentials))


def test_expired_credentials_are_refused_with_a_remedy():
    shop = shop_with("sts", get_caller_identity=raising(refusal("ExpiredToken")))
    with pytest.raises(DeniedError) as caught:
        shop.found(account.credentials)
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    ("seconds", "line"),
    [
        (0, "✓ AWS's clock and ours agree"),
        (5, "✓ AWS's clock and ours agree within 5 s"),
        (6, "✗ AWS's clock is at least 6 s ahead of ours, and 5 s are allowed → Set the clocks by NTP"),
        (-90, "✗ AWS's clock is at least 90 s behind ours, and 5 s are allowed → Set the clocks by NTP"),
        (None, "! AWS's answer says no time, so our clock cannot be compared with it"),
    ],
)
def test_a_clock_may_be_off_by_as_much_as_the_policy_allows(seconds, line):
    shop = shop_with("sts", get_caller_identity=lambda: ME)
    shop.skew = None if seconds is None else timedelta(seconds=seconds)
    assert shop.found(account.clock) == [line]


def test_a_policy_may_allow_more_skew_and_without_the_table_the_default_holds():
    shop = shop_with("sts", get_caller_identity=lambda: ME)
    shop.skew = timedelta(seconds=8)
    assert signs(shop.with_policy(trust={"clock_skew": 10}).found(account.clock)) == "✓"
    shop.state = AWAY
    assert signs(shop.found(account.clock)) == "✗"


@pytest.mark.parametrize(
    ("said", "sent", "received", "skew"),
    [
        (0, 0.9, 1.2, 0),  # 12:00:00.9 is still 12:00:00
        (0, 0, 30, 0),  # it may have been said at any moment in between
        (7, 0, 1, 6),
        (-7, 0, 1, -6),
    ],
)
def test_only_what_nothing_else_explains_is_skew(said, sent, received, skew):
    def at(seconds):
        return NOON + timedelta(seconds=seconds)

    assert clock.certain_skew(at(said), at(sent), at(received)) == timedelta(seconds=skew)


def test_the_api_server_s_clock_is_compared_too():
    shop = Shop(server_time=NOON + timedelta(seconds=20))
    assert_wording(shop.found(clock.api_server))


def test_the_spot_role_is_needed_where_spot_is_bought():
    without = shop_with("iam", get_role=raising(refusal("NoSuchEntity")))
    (line,) = without.found(account.spot_role)
    assert_wording(line)
    assert_wording(without.with_policy(market={"spot_percent": 0}).found(account.spot_role))
    assert signs(shop_with("iam", get_role=lambda **_: {}).found(account.spot_role)) == "✓"


def test_not_being_allowed_to_look_at_roles_is_left_to_the_runner():
    with pytest.raises(DeniedError):
        shop_with("iam", get_role=raising(refusal("AccessDenied"))).found(account.spot_role)


@pytest.mark.parametrize(
    ("on_demand", "spot", "line"),
    [
        (32, 32, "✓ the account may run 32 On-Demand, 32 Spot vCPUs, and max needs 20 at most"),
        (
            8,
            32,
            (
                "! the account may run 8 On-Demand, 32 Spot vCPUs, and max may need 20"
                " → Ask AWS for a higher quota of On-Demand vCPUs, or lower limits.max"
            ),
        ),
    ],
)
def test_quotas_are_held_against_max(on_demand, spot, line):
    quotas = {"L-1216C47A": on_demand, "L-34B43A08": spot}
    shop = shop_with(
        "service-quotas", get_service_quota=lambda **asked: {"Quota": {"Value": quotas[asked["QuotaCode"]]}}
    )
    assert shop.with_policy(limits={"max": 10}).found(account.quotas) == [line]


def test_quotas_of_special_types_are_not_guessed():
    shop = Shop(catalog=())
    assert signs(shop.found(account.quotas)) == "!"


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────


def described(partition=codec.PARTITION, sort=codec.SORT, kind="S", **more):
    return {
        "Table": {
            "KeySchema": [
                {"AttributeName": partition, "KeyType": "HASH"},
                {"AttributeName": sort, "KeyType": "RANGE"},
            ],
            "AttributeDefinitions": [
                {"AttributeName": partition, "AttributeType": kind},
                {"AttributeName": sort, "AttributeType": "S"},
            ],
            **more,
        }
    }


STREAM = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (described(**STREAM), "✓"),
        (described(), "✓!"),
        (described(StreamSpecification={"StreamViewType": "KEYS_ONLY"}), "✓!"),
        (described(partition="id"), "✗"),
        (described(kind="N"), "✗"),
    ],
)
def test_a_table_needs_our_keys_and_should_have_a_stream(answer, expected):
    shop = shop_with("dynamodb", describe_table=lambda **_: answer)
    assert signs(shop.found(storage.table)) == expected


def test_a_missing_table_says_so():
    shop = shop_with("dynamodb", describe_table=raising(refusal("ResourceNotFoundException")))
    with pytest.raises(MisconfiguredError) as caught:
        shop.found(storage.table)
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    ("ttl", "recovery", "expected"),
    [("ttl", "ENABLED", "✓✓"), ("expires", "ENABLED", "!✓"), ("ttl", "DISABLED", "✓!"), ("", "DISABLED", "!!")],
)
def test_upkeep_is_a_hint(ttl, recovery, expected):
    expiry = {"TimeToLiveStatus": "ENABLED" if ttl else "DISABLED", "AttributeName": ttl}
    backups = {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": recovery}}
    shop = shop_with(
        "dynamodb",
        describe_time_to_live=lambda **_: {"TimeToLiveDescription": expiry},
        describe_continuous_backups=lambda **_: {"ContinuousBackupsDescription": backups},
    )
    assert signs(shop.found(storage.upkeep)) == expected


def lease(owner="run-1", seconds=60.0):
    expires = int((NOON + timedelta(seconds=seconds)).timestamp() * 1000)
    return {"owner": {"S": owner}, "expires_ms": {"N": str(expires)}} if owner else {"fence": {"N": "7"}}


@pytest.mark.parametrize(
    ("item", "begins"),
    [
        ({}, "✓ no run holds it"),
        (lease(owner=""), "✓ no run holds it"),
        (lease(), "✓ run-1 holds it until 12:01:00 UTC"),
        (lease(seconds=305), "✓ run-1 holds it"),
        (lease(seconds=306), "✗ run-1 holds it until 2026-11-16 12:05:06 UTC, which is longer than any run may"),
        (lease(seconds=-100), "✓ run-1 holds it"),  # the next tick takes it over
        (lease(seconds=-3600), "! run-1 died with it, 60 min ago, and no run has taken it over since"),
    ],
)
def test_a_lease_is_stuck_when_it_outlasts_every_run(item, begins):
    (line,) = told([storage.held(item, NOON, Policy())])
    assert line.startswith(begins)


def test_the_lease_is_read_as_it_is_now():
    asked = []
    shop = shop_with("dynamodb", get_item=lambda **call: asked.append(call) or {"Item": lease()})
    assert signs(shop.found(storage.lease)) == "✓"
    assert asked[0]["ConsistentRead"]
    assert asked[0]["Key"] == {codec.PARTITION: {"S": "shop"}, codec.SORT: {"S": codec.LEASE}}


@pytest.mark.parametrize(
    ("minutes", "begins"),
    [
        (1, "✓ the last decision was made 60 s ago; 0 operations are under way"),
        (7, "! the last decision was made 7 min ago → See that the schedule is on"),
        (None, "! no decision was recorded so far"),
    ],
)
def test_silence_is_noticed(minutes, begins):
    shop = Shop()
    shop.decisions = () if minutes is None else (record(at=NOON - timedelta(minutes=minutes)),)
    (line,) = shop.found(storage.runs)
    assert line.startswith(begins)


def test_a_table_that_does_not_answer_is_the_runs_check_s_own_error():
    with pytest.raises(UnavailableError):
        Shop(state=AWAY).found(storage.runs)
    with pytest.raises(UnknownError):
        Shop(state=AWAY).found(storage.lease)


# ── the bucket ───────────────────────────────────────────────────────────────────────────────────────────────────


class Bucket:
    """boto3's S3 client, with these answers; notes what was called."""

    def __init__(self, write=None, read=None, abort=None):
        self.errors = {"create_multipart_upload": write, "head_object": read, "abort_multipart_upload": abort}
        self.called = []

    def __getattr__(self, name):
        def call(**arguments):
            self.called.append((name, arguments["Key"]))
            if self.errors[name]:
                raise self.errors[name]
            return {"UploadId": "u"}

        return call


DENIED = refusal("AccessDenied")


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (Bucket(), "✓✓"),
        (Bucket(read=refusal("404")), "✓✓"),  # forgotten, but it could be read
        (Bucket(abort=DENIED), "✓✓"),  # the bucket's lifecycle abandons it
        (Bucket(write=DENIED), "✓!"),
        (Bucket(read=refusal("403")), "✓!"),
        (Bucket(write=DENIED, read=refusal("403")), "!✗"),
    ],
)
def test_a_bucket_may_be_only_readable_but_not_neither(client, expected):
    shop = Shop(clients={"s3": client}, decisions=(record(), record(archived="shop/look.json.gz")))
    assert signs(shop.found(bucket.bucket)) == expected


def test_nothing_is_stored_in_the_bucket():
    client = Bucket()
    Shop(clients={"s3": client}, decisions=(record(archived="shop/look.json.gz"),)).found(bucket.bucket)
    assert client.called == [
        ("create_multipart_upload", "doctor/nothing"),
        ("abort_multipart_upload", "doctor/nothing"),
        ("head_object", "shop/look.json.gz"),
    ]


def test_whether_an_empty_bucket_can_be_read_is_not_concluded_from_a_refusal():
    """S3 says “denied” of what is not there, to whoever may not list the bucket."""
    shop = Shop(clients={"s3": Bucket(read=refusal("403"))})
    assert signs(shop.found(bucket.bucket)) == "✓"


def test_no_bucket_is_a_hint_and_a_missing_one_an_error():
    assert signs(Shop(bucket="").found(bucket.bucket)) == "!"
    with pytest.raises(MisconfiguredError):
        Shop(clients={"s3": Bucket(write=refusal("NoSuchBucket"))}).found(bucket.bucket)


# ── EC2 ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Ec2:
    """boto3's EC2 client: dry runs that answer as told, noted."""

    def __init__(self, **errors):
        self.errors = errors
        self.asked = []

    def __getattr__(self, name):
        def call(**arguments):
            assert arguments["DryRun"] is True
            self.asked.append((name, arguments))
            error = self.errors.get(name, NOTHING_CALLED)
            raise error(arguments) if callable(error) and not isinstance(error, Exception) else error

        return call


def test_launches_are_asked_for_as_the_loop_would_ask_for_them():
    client = Ec2()
    assert signs(Shop(clients={"ec2": client}).found(ec2_permissions.launches)) == "✓✓✓"
    spot, on_demand, run = (arguments for _, arguments in client.asked)
    assert [name for name, _ in client.asked] == ["create_fleet", "create_fleet", "run_instances"]
    assert spot["Type"] == "instant"
    assert spot["TargetCapacitySpecification"] == {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"}
    assert on_demand["TargetCapacitySpecification"]["DefaultTargetCapacityType"] == "on-demand"
    assert run["LaunchTemplate"] == {"LaunchTemplateId": "lt-1", "Version": "3"}
    assert (run["SubnetId"], run["MinCount"], run["MaxCount"]) == ("subnet-a", 1, 1)


def test_a_pool_without_spot_is_not_asked_about_spot():
    client = Ec2()
    Shop(clients={"ec2": client}).with_policy(market={"spot_percent": 0}).found(ec2_permissions.launches)
    assert [name for name, _ in client.asked] == ["create_fleet", "run_instances"]


def test_a_launch_that_is_not_allowed_names_the_permission_and_the_others_are_asked():
    lines = Shop(clients={"ec2": Ec2(run_instances=UNAUTHORIZED)}).found(ec2_permissions.launches)
    assert signs(lines) == "✓✓✗"
    assert_wording(lines[2])


def test_a_launch_that_cannot_work_says_why():
    broken = refusal("InvalidSubnetID.NotFound", "The subnet ID 'subnet-a' does not exist")
    lines = Shop(clients={"ec2": Ec2(run_instances=broken)}).found(ec2_permissions.launches)
    assert signs(lines) == "✓✓✗"
    assert "subnet-a" in lines[2]


def test_without_a_deployment_launches_are_not_checked():
    shop = Shop(clients={"ec2": Ec2()})
    shop.state = replace(shop.state, deployment=None)
    with pytest.raises(UnknownError) as caught:
        shop.found(ec2_permissions.launches)
    assert_wording(str(caught.value))


def only_workers(arguments):
    return NOTHING_CALLED if arguments["InstanceIds"] != ["i-server"] else UNAUTHORIZED


def test_removals_are_asked_of_a_worker_and_must_be_refused_of_the_control_plane():
    client = Ec2(terminate_instances=only_workers)
    assert signs(Shop(clients={"ec2": client}).found(ec2_permissions.removals)) == "✓✓"
    assert [arguments.get("InstanceIds") or arguments["Resources"] for _, arguments in client.asked] == [
        ["i-000"],
        ["i-000"],
        ["i-server"],
    ]


def test_credentials_that_may_terminate_the_control_plane_are_a_hint():
    lines = Shop(clients={"ec2": Ec2()}).found(ec2_permissions.removals)
    assert signs(lines) == "✓✓!"
    assert_wording(lines[2])


def test_without_a_worker_nobody_can_tell_whether_one_may_be_terminated():
    gone = instance(0, state=InstanceState.TERMINATED)
    assert signs(Shop(clients={"ec2": Ec2()}, instances=(gone,)).found(ec2_permissions.removals)) == "!"


def test_machines_are_counted_by_their_tag():
    assert_wording(Shop().found(ec2_permissions.instances))
    assert signs(Shop(instances=()).found(ec2_permissions.instances)) == "!"
    assert signs(Shop(instances=(SERVER,)).found(ec2_permissions.instances)) == "✓"


# ── templates, subnets, types ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (lambda **_: {"LaunchTemplateVersions": [{}]}, "✓ pool default: lt-1 version 3 exists"),
        (
            lambda **_: {"LaunchTemplateVersions": []},
            "✗ pool default: there is no lt-1 version 3 → Deploy the stack again",
        ),
        (
            raising(refusal("InvalidLaunchTemplateId.VersionNotFound", "Could not find version 3.")),
            "✗ pool default: Could not find version 3 → Deploy the stack again",
        ),
    ],
)
def test_a_template_must_have_the_version_that_is_named(answer, line):
    assert shop_with("ec2", describe_launch_template_versions=answer).found(supply.templates) == [line]


def subnets(zone_b="b", free=4000):
    found = {"subnet-a": "a", "subnet-b": zone_b}
    return {
        "Subnets": [
            {"SubnetId": subnet, "AvailabilityZone": zone, "AvailableIpAddressCount": free}
            for subnet, zone in found.items()
        ]
    }


@pytest.mark.parametrize(
    ("answer", "begins"),
    [
        (subnets(), "✓ pool default: 2 zones, 8,000 free addresses"),
        (subnets(zone_b="c"), "✗ pool default: subnet-b is in c, not in b"),
        (subnets(free=2), "! pool default: few free addresses: 2 in a, 2 in b"),
    ],
)
def test_subnets_must_be_where_the_deployment_says_and_have_room(answer, begins):
    (line,) = shop_with("ec2", describe_subnets=lambda **_: answer).found(supply.subnets)
    assert line.startswith(begins)


def test_a_subnet_that_is_gone_is_named():
    gone = refusal("InvalidSubnetID.NotFound", "The subnet ID 'subnet-b' does not exist")
    assert_wording(shop_with("ec2", describe_subnets=raising(gone)).found(supply.subnets))


@pytest.mark.parametrize(
    ("offered", "expected"),
    [
        (
            {"a": {"t3.small", "t2.small"}, "b": {"t3.small", "t2.small"}},
            ["✓ pool default: t3.small, t2.small in a, b"],
        ),
        (
            {"a": {"t3.small", "t2.small"}, "b": {"t3.small"}},
            ["! pool default: not offered: t2.small in b → The other types have to do there"],
        ),
        (
            {"a": {"t3.small"}, "b": {"t3.small"}},
            ["! pool default: this region does not have t2.small → Take them out of the policy"],
        ),
        (
            {"a": {"t3.small", "t2.small"}},
            [
                (
                    "✗ pool default: none of its types is offered in b"
                    " → Add a type that these zones have, or take their subnets out of the stack"
                )
            ],
        ),
    ],
)
def test_types_must_be_offered_in_the_zones(offered, expected):
    pages = [
        {"InstanceTypeOfferings": [{"Location": zone, "InstanceType": name} for name in names]}
        for zone, names in offered.items()
    ]
    shop = shop_with("ec2", get_paginator=lambda _: SimpleNamespace(paginate=lambda **_: pages))
    assert shop.with_policy(market={"types": ["t3.small", "t2.small"]}).found(supply.offers) == expected


@pytest.mark.parametrize(
    ("prices", "begins"),
    [
        ({"t3.small": ["0.03", "0.009"], "t2.small": ["0.01"]}, "✓ pool default: 2 types below the cap"),
        ({"t3.small": ["0.03", "0.021"], "t2.small": ["0.01"]}, "! pool default: above market.max_price_usd (0.02"),
        ({"t3.small": ["0.03"], "t2.small": ["0.025"]}, "✗ pool default: above market.max_price_usd (0.02 USD/h)"),
        ({}, "! pool default: Spot prices of its types are not known"),
    ],
)
def test_types_should_cost_less_than_the_cap_at_times(prices, begins):
    pages = [
        {"SpotPriceHistory": [{"InstanceType": name, "SpotPrice": price} for price in held]}
        for name, held in prices.items()
    ]
    shop = shop_with("ec2", get_paginator=lambda _: SimpleNamespace(paginate=lambda **_: pages))
    (found,) = shop.with_policy(market={"types": ["t3.small", "t2.small"]}).found(supply.spot_prices)
    assert found.startswith(begins)
    assert shop.with_policy(market={"spot_percent": 0}).found(supply.spot_prices) == []


# ── versions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_versions_are_told_and_an_old_python_is_wrong():
    (line,) = told(versions())
    assert line.startswith("✓ node-fleet ")
    assert "boto3" in line
    assert "kubernetes" in line
    assert signs(told(versions((3, 9)))) == "✗"
