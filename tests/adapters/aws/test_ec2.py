"""What moto cannot show of the adapter: pages, gaps, tokens, refusals, races."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import ANY, Stubber

from nodefleet.adapters.aws.create_fleet import fleet_request
from nodefleet.adapters.aws.ec2 import PAGE, Ec2
from nodefleet.adapters.aws.session import Session
from nodefleet.errors import ChangedError, DeniedError, ThrottledError, UnavailableError
from nodefleet.model.inventory import Instance, InstanceState, Market
from nodefleet.model.operations import Refusal, RefusalKind
from nodefleet.ports import LaunchResult
from support.builders import NOON
from support.ec2_fakes import CLUSTER, Clock, Reply, aws_environment, ec2_error, shared_session, wired
from support.operation_builders import launch
from support.sentences import is_explained
from support.wording import assert_wording

__all__ = ["aws_environment", "shared_session"]

OURS = {
    "Filters": [{"Name": "tag:node-fleet:cluster", "Values": [CLUSTER]}],
    "MaxResults": PAGE,
}
GIVEN = (
    "<CreateFleetResponse><fleetId>fleet-1</fleetId><fleetInstanceSet><item><instanceIds><item>i-1</item></instanceIds>"
    "<instanceType>t3.small</instanceType></item></fleetInstanceSet></CreateFleetResponse>"
)


@pytest.fixture
def stub(shared_session: Session) -> Iterator[Stubber]:
    with Stubber(shared_session.client("ec2")) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def ec2(shared_session: Session, stub: Stubber) -> Ec2:
    return Ec2(shared_session, CLUSTER, {}, Clock())


def machine(identity: str = "i-1", tags: dict[str, str] | None = None, **changes):
    every = {"node-fleet:cluster": CLUSTER, "node-fleet:pool": "default", "node-fleet:role": "worker"} | (tags or {})
    base = {
        "InstanceId": identity,
        "State": {"Code": 16, "Name": "running"},
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "InstanceType": "t3.small",
        "LaunchTime": NOON,
        "Tags": [{"Key": key, "Value": value} for key, value in every.items() if value],
    }
    return {key: value for key, value in (base | changes).items() if value is not None}


def page(*machines, more: str | None = None):
    answer = {"Reservations": [{"Instances": [one]} for one in machines]}
    return answer | ({"NextToken": more} if more else {})


def shows(stub: Stubber, *machines):
    stub.add_response("describe_instances", page(*machines), {"InstanceIds": ["i-1"]})


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_page_is_read(stub, ec2):
    stub.add_response("describe_instances", page(machine("i-1"), machine("i-2"), more="2"), OURS)
    stub.add_response("describe_instances", page(more="3"), OURS | {"NextToken": "2"})
    stub.add_response("describe_instances", page(machine("i-3")), OURS | {"NextToken": "3"})
    assert [one.id for one in ec2.instances()] == ["i-1", "i-2", "i-3"]


def test_a_lost_page_is_an_error_not_a_short_list(stub, ec2):
    stub.add_response("describe_instances", page(machine("i-1"), more="2"), OURS)
    stub.add_client_error("describe_instances", "RequestLimitExceeded", "slow down")
    with pytest.raises(ThrottledError) as caught:
        ec2.instances()
    assert_wording(str(caught.value))


def test_the_same_token_twice_is_an_error_not_an_endless_list(stub, ec2):
    for _ in range(2):
        stub.add_response("describe_instances", page(machine("i-1"), more="2"))
    with pytest.raises(UnavailableError) as caught:
        ec2.instances()
    assert_wording(str(caught.value))


def test_a_machine_that_pages_show_twice_is_listed_once_as_last_seen(stub, ec2):
    stub.add_response("describe_instances", page(machine("i-1"), more="2"), OURS)
    stub.add_response("describe_instances", page(machine("i-1", State={"Name": "stopping"})))
    assert [one.state for one in ec2.instances()] == [InstanceState.STOPPING]


def test_everything_that_is_known_of_a_machine(stub, ec2):
    tags = {
        "node-fleet:pool": "batch",
        "node-fleet:operation": "launch-1",
        "node-fleet:status": "join-failed",
        "aws:ec2launchtemplate:id": "lt-1",
        "aws:ec2launchtemplate:version": "7",
        "Name": "x",
    }
    shows(stub, machine("i-1", tags, InstanceLifecycle="spot", State={"Name": "shutting-down"}))
    assert ec2.instance("i-1") == Instance(
        id="i-1",
        pool="batch",
        state=InstanceState.SHUTTING_DOWN,
        zone="us-east-1a",
        type="t3.small",
        market=Market.SPOT,
        launched_at=NOON,
        operation="launch-1",
        worker=True,
        failed=True,
        template="lt-1",
        template_version="7",
    )


def test_a_machine_without_pool_or_operation_belongs_to_none(stub, ec2):
    shows(stub, machine(tags={"node-fleet:pool": ""}))
    found = ec2.instance("i-1")
    assert (found.pool, found.operation, found.failed) == ("", "", False)
    assert (found.template, found.template_version) == ("", "")


@pytest.mark.parametrize("state", [state.value for state in InstanceState])
def test_every_state_of_ec2_is_known(stub, ec2, state):
    shows(stub, machine(State={"Name": state}))
    assert ec2.instance("i-1").state.value == state


@pytest.mark.parametrize(
    ("lifecycle", "tag", "market"),
    [
        ("spot", "on-demand", Market.SPOT),
        (None, "spot", Market.SPOT),
        (None, "on-demand", Market.ON_DEMAND),
        (None, "", Market.ON_DEMAND),
        ("capacity-block", "spot", Market.ON_DEMAND),
    ],
)
def test_ec2_says_the_market_and_the_tag_where_ec2_is_silent(stub, ec2, lifecycle, tag, market):
    shows(stub, machine(tags={"node-fleet:capacity-type": tag}, InstanceLifecycle=lifecycle))
    assert ec2.instance("i-1").market is market


@pytest.mark.parametrize("role", ["server", "Worker", "", "worker "])
def test_only_what_is_clearly_a_worker_is_one(stub, ec2, role):
    shows(stub, machine(tags={"node-fleet:role": role}))
    assert not ec2.instance("i-1").worker


@pytest.mark.parametrize(
    "changes",
    [
        {"State": {"Name": "dreaming"}},
        {"State": None},
        {"Placement": None},
        {"LaunchTime": None},
        {"InstanceType": None},
        {"InstanceId": None},
    ],
)
def test_a_machine_that_cannot_be_read_is_an_error_not_a_gap(stub, ec2, changes):
    stub.add_response("describe_instances", page(machine("i-1"), machine("i-2", **changes)), OURS)
    with pytest.raises(UnavailableError) as caught:
        ec2.instances()
    assert_wording(str(caught.value))


def test_a_filter_is_not_trusted_with_whose_machine_it_is(stub, ec2):
    others = machine("i-2", {"node-fleet:cluster": "shop-2"}), machine("i-3", Tags=[])
    stub.add_response("describe_instances", page(machine("i-1"), *others), OURS)
    assert [one.id for one in ec2.instances()] == ["i-1"]


@pytest.mark.parametrize("code", ["InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"])
def test_an_id_that_ec2_does_not_know_is_none(stub, ec2, code):
    stub.add_client_error("describe_instances", code, "no such instance")
    assert ec2.instance("i-1") is None


def test_an_empty_answer_for_one_machine_is_none(stub, ec2):
    shows(stub)
    assert ec2.instance("i-1") is None


def test_any_other_trouble_with_one_machine_is_not_none(stub, ec2):
    stub.add_client_error("describe_instances", "InternalError", "try again", http_status_code=500)
    with pytest.raises(UnavailableError, match="InternalError"):
        ec2.instance("i-1")


# ── launching ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_launch_sends_its_request_and_tells_what_was_given_and_what_not(stub, ec2):
    response = {
        "FleetId": "fleet-1",
        "Instances": [{"InstanceIds": ["i-1"], "InstanceType": "t3a.small", "Lifecycle": "spot"}],
        "Errors": [
            {
                "LaunchTemplateAndOverrides": {"Overrides": {"InstanceType": "t3.small"}},
                "ErrorCode": "InsufficientInstanceCapacity",
                "ErrorMessage": "There is no Spot capacity available that matches your request.",
                "Lifecycle": "spot",
            }
        ],
    }
    wanted = launch(max_price_usd=0.02)
    stub.add_response("create_fleet", response, fleet_request(wanted, CLUSTER))
    refusals = (Refusal(type="t3.small", kind=RefusalKind.CAPACITY, code="InsufficientInstanceCapacity"),)
    assert ec2.launch(wanted) == LaunchResult(instances=("i-1",), refusals=refusals)


def test_a_denied_launch_is_an_answer_that_says_what_to_allow(stub, ec2):
    said = (
        "You are not authorized to perform this operation. User: x is not authorized to perform: ec2:CreateFleet on"
        " resource: arn:aws:ec2:us-east-1:1:fleet/* because. Encoded authorization failure message: abc"
    )
    stub.add_client_error("create_fleet", "UnauthorizedOperation", said)
    answer = ec2.launch(launch())
    assert answer.instances == ()
    assert {refusal.kind for refusal in answer.refusals} == {RefusalKind.PERMISSION}
    assert_wording(answer.refusals[0].remedy)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("RequestLimitExceeded", ThrottledError),
        ("InternalError", UnavailableError),
        ("IdempotentParameterMismatch", UnavailableError),
        ("IdempotentInstanceTerminated", UnavailableError),
        ("ExpiredToken", DeniedError),
        ("SomethingNew", UnavailableError),
    ],
)
def test_an_error_that_leaves_the_launch_open_is_raised(stub, ec2, code, error):
    stub.add_client_error("create_fleet", code, "words")
    with pytest.raises(error) as caught:
        ec2.launch(launch())
    assert type(caught.value) is error


def test_a_launch_sent_again_is_byte_for_byte_the_same(aws_environment):
    session = Session(Clock())
    unanswered = ReadTimeoutError(endpoint_url="https://ec2")
    wire = wired(session, "ec2", unanswered, ec2_error("InternalError", status=500), *[Reply(200, GIVEN)] * 2)
    for wanted in (launch(), replace(launch(), attempts=4, instances=("i-1",))):
        # Another run, of another process, has another adapter.
        assert Ec2(session, CLUSTER, {}, Clock()).launch(wanted).instances == ("i-1",)
    assert len(wire.sent) == 4
    assert len({sent.body for sent in wire.sent}) == 1
    assert f"ClientToken={launch().token}" in wire.sent[0].body


def test_a_launch_that_nobody_answers_is_unavailable(aws_environment):
    session = Session(Clock())
    wired(session, "ec2", *[ReadTimeoutError(endpoint_url="https://ec2")] * 3)
    with pytest.raises(UnavailableError) as caught:
        Ec2(session, CLUSTER, {}, Clock()).launch(launch())
    assert_wording(str(caught.value))


def test_an_answer_that_is_no_xml_is_unavailable(aws_environment):
    session = Session(Clock())
    wired(session, "ec2", *[Reply(200, "<html>Bad gateway")] * 3)
    with pytest.raises(UnavailableError) as caught:
        Ec2(session, CLUSTER, {}, Clock()).launch(launch())
    assert_wording(str(caught.value))


# ── terminating ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_worker_is_looked_at_and_then_terminated_by_its_id(stub, ec2):
    shows(stub, machine())
    stub.add_response("terminate_instances", {}, {"InstanceIds": ["i-1"]})
    ec2.terminate("i-1")


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_what_goes_already_is_not_asked_again(stub, ec2, state):
    shows(stub, machine(State={"Name": state}))
    ec2.terminate("i-1")


@pytest.mark.parametrize("state", ["pending", "running", "stopping", "stopped"])
def test_a_worker_is_terminated_in_every_other_state(stub, ec2, state):
    shows(stub, machine(State={"Name": state}))
    stub.add_response("terminate_instances", {}, {"InstanceIds": ["i-1"]})
    ec2.terminate("i-1")


def test_a_worker_that_goes_meanwhile_is_fine(stub, ec2):
    shows(stub, machine())
    stub.add_client_error("terminate_instances", "InvalidInstanceID.NotFound", "gone")
    ec2.terminate("i-1")


def test_a_machine_whose_tag_was_taken_off_is_left_alone(stub, ec2):
    shows(stub, machine(Tags=[]))
    with pytest.raises(ChangedError) as caught:
        ec2.terminate("i-1")
    assert_wording(str(caught.value))


def test_the_control_plane_is_refused_with_what_to_do(stub, ec2):
    shows(stub, machine(tags={"node-fleet:role": "server"}))
    with pytest.raises(DeniedError) as caught:
        ec2.terminate("i-1")
    assert_wording(str(caught.value))


@pytest.mark.parametrize(
    ("act", "to_be"),
    [
        (lambda ec2: ec2.terminate("i-1"), "terminated"),
        (lambda ec2: ec2.mark_failed("i-1"), "tagged"),
        (lambda ec2: ec2.assign("i-1", "web"), "tagged"),
        (lambda ec2: ec2.keep_warm("i-1"), "stopped"),
        (lambda ec2: ec2.start_warm(launch(starts=("i-1",))), "started"),
    ],
    ids=["terminate", "mark", "assign", "keep", "start"],
)
def test_whatever_is_no_worker_of_ours_is_never_touched_and_says_what_it_was_to_be(stub, ec2, act, to_be):
    shows(stub, machine(Tags=[]))
    with pytest.raises(ChangedError) as caught:
        act(ec2)
    assert_wording(str(caught.value))
    shows(stub, machine(tags={"node-fleet:role": "server"}))
    with pytest.raises(DeniedError) as raised:
        act(ec2)
    assert_wording(str(raised.value))
    assert is_explained(raised.value, "EC2")


def test_without_a_look_nothing_is_terminated(stub, ec2):
    stub.add_client_error("describe_instances", "RequestLimitExceeded", "slow down")
    with pytest.raises(ThrottledError):
        ec2.terminate("i-1")


def test_termination_protection_says_what_to_do(stub, ec2):
    shows(stub, machine())
    stub.add_client_error("terminate_instances", "OperationNotPermitted", "Modify its disableApiTermination")
    with pytest.raises(DeniedError) as raised:
        ec2.terminate("i-1")
    assert_wording(str(raised.value))
    assert is_explained(raised.value, "EC2")
    assert "i-1" in raised.value.cause


@pytest.mark.parametrize(
    ("code", "error"), [("UnauthorizedOperation", DeniedError), ("InternalError", UnavailableError)]
)
def test_a_termination_that_ec2_does_not_take_is_an_error(stub, ec2, code, error):
    shows(stub, machine())
    stub.add_client_error("terminate_instances", code, "no")
    with pytest.raises(error) as caught:
        ec2.terminate("i-1")
    if error is DeniedError:
        assert_wording(caught.value.remedy)


# ── marking ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_worker_gets_the_one_tag_and_no_other(stub, ec2):
    shows(stub, machine())
    tags = [{"Key": "node-fleet:status", "Value": "join-failed"}]
    stub.add_response("create_tags", {}, {"Resources": ["i-1"], "Tags": tags})
    ec2.mark_failed("i-1")


def test_a_worker_that_is_marked_already_is_not_marked_again(stub, ec2):
    shows(stub, machine(tags={"node-fleet:status": "join-failed"}))
    ec2.mark_failed("i-1")


def test_marking_what_goes_meanwhile_is_fine(stub, ec2):
    shows(stub, machine())
    stub.add_client_error("create_tags", "InvalidInstanceID.NotFound", "gone")
    ec2.mark_failed("i-1")


def test_a_mark_that_ec2_does_not_take_is_an_error(stub, ec2):
    shows(stub, machine())
    stub.add_client_error("create_tags", "UnauthorizedOperation", "no")
    with pytest.raises(DeniedError) as caught:
        ec2.mark_failed("i-1")
    assert_wording(str(caught.value))


def test_a_worker_is_given_to_another_pool_and_to_its_own_not_again(stub, ec2):
    shows(stub, machine())
    stub.add_response("create_tags", {}, {"Resources": ["i-1"], "Tags": [{"Key": "node-fleet:pool", "Value": "batch"}]})
    ec2.assign("i-1", "batch")
    shows(stub, machine())
    ec2.assign("i-1", "default")


@pytest.mark.parametrize(
    "act",
    [
        lambda ec2: ec2.terminate("i-1"),
        lambda ec2: ec2.mark_failed("i-1"),
        lambda ec2: ec2.assign("i-1", "batch"),
        lambda ec2: ec2.keep_warm("i-1"),
        lambda ec2: ec2.start_warm(launch(starts=("i-1",))),
    ],
    ids=["terminate", "mark", "assign", "keep", "start"],
)
def test_nothing_is_done_to_what_ec2_does_not_know(stub, ec2, act):
    shows(stub)
    act(ec2)


BUSY = "RequestLimitExceeded"


@pytest.mark.parametrize(
    ("shown", "operation", "act"),
    [
        (None, "describe_instances", lambda ec2: ec2.instances()),
        (None, "describe_instances", lambda ec2: ec2.instance("i-1")),
        (None, "describe_instance_types", lambda ec2: ec2.catalog(("t3.small",))),
        (None, "create_fleet", lambda ec2: ec2.launch(launch())),
        ("running", "terminate_instances", lambda ec2: ec2.terminate("i-1")),
        ("running", "create_tags", lambda ec2: ec2.mark_failed("i-1")),
        ("running", "create_tags", lambda ec2: ec2.assign("i-1", "batch")),
        ("running", "create_tags", lambda ec2: ec2.keep_warm("i-1")),
        ("stopped", "start_instances", lambda ec2: ec2.start_warm(launch(starts=("i-1",)))),
        ("warm", "stop_instances", lambda ec2: ec2.keep_warm("i-1")),
    ],
)
def test_every_call_that_ec2_throttles_says_that_ec2_does_and_which_call_it_was(stub, ec2, shown, operation, act):
    if shown:
        state = "running" if shown == "warm" else shown
        shows(stub, machine(State={"Name": state}, tags={"node-fleet:status": "warm" if shown == "warm" else ""}))
    stub.add_client_error(operation, BUSY, "slow down")
    with pytest.raises(ThrottledError) as caught:
        act(ec2)
    called = "".join(word.capitalize() for word in operation.split("_"))
    assert (caught.value.part, caught.value.cause) == ("EC2", f"{called}: {BUSY}: slow down")


# ── warm instances ───────────────────────────────────────────────────────────────────────────────────────────────

WARM, STARTED = ([{"Key": "node-fleet:status", "Value": value}] for value in ("warm", "started"))
STOPPED = {"State": {"Code": 80, "Name": "stopped"}}


def test_a_worker_that_is_kept_is_tagged_and_then_stopped(stub, ec2):
    shows(stub, machine())
    stub.add_response("create_tags", {}, {"Resources": ["i-1"], "Tags": WARM})
    stub.add_response("stop_instances", {}, {"InstanceIds": ["i-1"]})
    assert ec2.keep_warm("i-1")


def test_what_is_tagged_already_is_only_stopped(stub, ec2):
    shows(stub, machine(tags={"node-fleet:status": "warm"}))
    stub.add_response("stop_instances", {}, {"InstanceIds": ["i-1"]})
    assert ec2.keep_warm("i-1")


@pytest.mark.parametrize(
    "code", ["UnsupportedOperation", "OperationNotPermitted", "UnsupportedHibernationConfiguration"]
)
def test_what_ec2_cannot_stop_is_said(stub, ec2, code):
    shows(stub, machine(tags={"node-fleet:status": "warm"}))
    stub.add_client_error("stop_instances", code, "a Spot instance of a one-time request")
    assert not ec2.keep_warm("i-1")


@pytest.mark.parametrize(
    ("code", "error"), [("UnauthorizedOperation", DeniedError), ("InternalError", UnavailableError)]
)
def test_a_stop_that_ec2_does_not_take_is_an_error(stub, ec2, code, error):
    shows(stub, machine(tags={"node-fleet:status": "warm"}))
    stub.add_client_error("stop_instances", code, "no")
    with pytest.raises(error):
        ec2.keep_warm("i-1")


def test_stopping_what_goes_meanwhile_is_fine(stub, ec2):
    shows(stub, machine(tags={"node-fleet:status": "warm"}))
    stub.add_client_error("stop_instances", "InvalidInstanceID.NotFound", "gone")
    assert ec2.keep_warm("i-1")


@pytest.mark.parametrize("state", ["shutting-down", "terminated"])
def test_what_goes_already_is_not_stopped(stub, ec2, state):
    shows(stub, machine(State={"Name": state}))
    assert ec2.keep_warm("i-1")


def test_a_warm_instance_is_started_and_then_says_that_it_was(stub, ec2):
    shows(stub, machine(**STOPPED, tags={"node-fleet:status": "warm"}))
    stub.add_response("start_instances", {}, {"InstanceIds": ["i-1"]})
    stub.add_response("create_tags", {}, {"Resources": ["i-1"], "Tags": STARTED})
    assert ec2.start_warm(launch(starts=("i-1",))).instances == ("i-1",)


def test_one_that_runs_already_is_in_the_answer_and_is_not_started_again(stub, ec2):
    shows(stub, machine(tags={"node-fleet:status": "started"}))
    assert ec2.start_warm(launch(starts=("i-1",))).instances == ("i-1",)


def test_one_that_has_ended_is_not_in_the_answer(stub, ec2):
    shows(stub, machine(State={"Code": 48, "Name": "terminated"}))
    assert ec2.start_warm(launch(starts=("i-1",))) == LaunchResult()


def test_a_start_that_lacks_capacity_is_refused_and_the_instance_stays_warm(stub, ec2):
    shows(stub, machine(**STOPPED, tags={"node-fleet:status": "warm"}))
    stub.add_client_error("start_instances", "InsufficientInstanceCapacity", "none here")
    answer = ec2.start_warm(launch(types=("t3.small",), starts=("i-1",)))
    assert answer.instances == ()
    assert [(each.type, each.kind) for each in answer.refusals] == [("t3.small", RefusalKind.CAPACITY)]


def test_those_that_run_already_count_though_ec2_refuses_to_start_the_others(stub, ec2):
    shows(stub, machine(**STOPPED, tags={"node-fleet:status": "warm"}))
    stub.add_response("describe_instances", page(machine("i-2")), {"InstanceIds": ["i-2"]})
    stub.add_client_error("start_instances", "InsufficientInstanceCapacity", "none here")
    answer = ec2.start_warm(launch(types=("t3.small",), starts=("i-1", "i-2")))
    assert answer.instances == ("i-2",)
    assert [each.kind for each in answer.refusals] == [RefusalKind.CAPACITY]


def test_an_instance_is_as_old_as_its_disk_and_not_as_its_last_start(stub, ec2):
    made = datetime(2026, 11, 1, tzinfo=UTC)
    attached = (NOON - timedelta(days=1), made, NOON)  # volumes of pods come and go
    disks = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeId": "vol-1", "AttachTime": at}} for at in attached]
    shows(stub, machine(BlockDeviceMappings=disks))
    assert ec2.instance("i-1").first_launched_at == made


# ── the catalogue ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_adapter_keeps_the_catalogue_and_knows_the_deployments_prices(shared_session, stub):
    kept = Ec2(shared_session, CLUSTER, {"t3.small": 0.03}, Clock())
    described = {
        "InstanceTypes": [
            {"InstanceType": "t3.small", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 2048}}
        ]
    }
    stub.add_response("describe_instance_types", described, {"Filters": ANY})
    prices = {"SpotPriceHistory": [{"InstanceType": "t3.small", "AvailabilityZone": "a", "SpotPrice": "0.01"}]}
    stub.add_response("describe_spot_price_history", prices)
    for _ in range(2):
        (one,) = kept.catalog(("t3.small",))
        assert (one.hourly_usd, one.spot_usd) == (0.03, 0.01)
