import os
import ssl
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace

import pytest
from botocore.exceptions import ConnectTimeoutError, SSLError

from nodefleet.adapters.aws import session as session_module
from nodefleet.adapters.aws.session import (
    ATTEMPTS,
    CONNECT_SECONDS,
    MODELS,
    POOL,
    READ_SECONDS,
    TABLE_READ_SECONDS,
    Session,
    _botocore,
    _dualstack,
    _read_once,
    part,
    share_trust,
)
from nodefleet.errors import MisconfiguredError
from support.builders import NOON
from support.ec2_fakes import Clock, Reply, aws_environment, wired
from support.fake_api_certificates import authority
from support.wording import assert_wording

__all__ = ["aws_environment"]
pytestmark = pytest.mark.usefixtures("aws_environment")

NO_QUEUES = Reply(200, "{}")
BUSY = Reply(400, '{"__type": "com.amazonaws.sqs#RequestThrottled"}')
NO_INSTANCES = "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"


def session() -> Session:
    return Session(Clock())


def address(service: str) -> str:
    return session().client(service).meta.endpoint_url


def asked(made: Session, date: str | None = None, *, takes: timedelta = timedelta(0), clock: Clock | None = None):
    headers = {} if date is None else {"Date": date}
    ends = clock or Clock()
    wired(made, "sqs", Reply(200, "{}", headers, lambda: ends.passes(seconds=takes.total_seconds())))
    made.client("sqs").list_queues()


# ── clients ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_hanging_call_is_given_up_soon_and_repeated_a_few_times_at_most():
    config = session().client("ec2").meta.config
    assert (config.connect_timeout, config.read_timeout) == (CONNECT_SECONDS, READ_SECONDS)
    assert config.retries == {"mode": "standard", "total_max_attempts": ATTEMPTS}
    assert session().client("dynamodb").meta.config.read_timeout == TABLE_READ_SECONDS


def test_many_calls_share_connections_that_are_kept_alive_and_say_who_calls():
    config = session().client("ec2").meta.config
    assert (config.max_pool_connections, config.tcp_keepalive, config.user_agent_extra) == (POOL, True, "node-fleet")


def test_lists_of_instances_are_decoded_for_what_is_needed_alone():
    made = session()
    one = "<item><instanceId>i-1</instanceId><imageId>ami-1</imageId></item>"
    listed = f"<reservationSet><item><instancesSet>{one}</instancesSet></item></reservationSet>"
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    wired(made, "ec2", Reply(200, f'<DescribeInstancesResponse xmlns="{space}">{listed}</DescribeInstancesResponse>'))
    ((found,),) = [each["Instances"] for each in made.client("ec2").describe_instances()["Reservations"]]
    assert found["InstanceId"] == "i-1"
    assert "ImageId" not in found


def test_a_client_is_made_once_even_by_many_threads():
    made = session()
    with ThreadPoolExecutor(4) as threads:
        clients = list(threads.map(lambda _: made.client("sqs"), range(8)))
    assert len({id(client) for client in clients}) == 1


def test_a_missing_region_says_what_to_set(aws_environment):
    aws_environment.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(MisconfiguredError) as caught:
        session().client("ec2")
    assert_wording(str(caught.value))


def test_a_profile_that_does_not_exist_says_so(aws_environment):
    aws_environment.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(MisconfiguredError) as caught:
        session().client("ec2")
    assert_wording(str(caught.value))


def test_a_region_can_be_given():
    assert Session(Clock(), "eu-west-1").client("ec2").meta.region_name == "eu-west-1"


def test_services_have_names_for_people():
    assert (part("secretsmanager"), part("dynamodb"), part("pricing")) == ("Secrets Manager", "DynamoDB", "pricing")


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("service", "url"),
    [
        ("ec2", "https://ec2.us-east-1.api.aws"),
        ("secretsmanager", "https://secretsmanager.us-east-1.api.aws"),
        ("s3", "https://s3.dualstack.us-east-1.amazonaws.com"),
        ("cloudwatch", "https://monitoring.us-east-1.api.aws"),
        ("dynamodb", "https://dynamodb.us-east-1.amazonaws.com"),
        ("sqs", "https://sqs.us-east-1.amazonaws.com"),
    ],
)
def test_without_a_nat_gateway_services_are_reached_by_ipv6_or_a_gateway_endpoint(service, url):
    assert address(service) == url


def test_the_deployment_may_say_which_services_have_dual_stack_addresses(aws_environment):
    aws_environment.setenv("NODEFLEET_DUALSTACK", "DynamoDB, sqs")
    assert address("ec2") == "https://ec2.us-east-1.amazonaws.com"
    assert address("dynamodb") == "https://dynamodb.us-east-1.api.aws"
    aws_environment.setenv("NODEFLEET_DUALSTACK", "none")
    assert address("ec2") == "https://ec2.us-east-1.amazonaws.com"


def test_botocore_own_setting_is_left_alone(aws_environment):
    aws_environment.setenv("AWS_USE_DUALSTACK_ENDPOINT", "false")
    assert address("ec2") == "https://ec2.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    ("variable", "service", "call"),
    [
        ("AWS_ENDPOINT_URL", "ec2", "describe_instances"),
        ("AWS_ENDPOINT_URL_EC2", "ec2", "describe_instances"),
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", "secretsmanager", "list_secrets"),
        ("AWS_ENDPOINT_URL_S3", "s3", "list_buckets"),
        ("AWS_ENDPOINT_URL_SERVICE_QUOTAS", "service-quotas", "list_services"),
    ],
)
def test_an_address_that_somebody_gave_is_used_as_it_is(aws_environment, variable, service, call):
    aws_environment.setenv(variable, "http://127.0.0.1:5000")
    aws_environment.setenv("AWS_USE_DUALSTACK_ENDPOINT", "true")  # botocore refuses to have both
    made = session()
    wire = wired(made, service, Reply(200, NO_INSTANCES if service in ("ec2", "s3") else "{}"))
    getattr(made.client(service), call)()
    assert wire.sent[0].url.startswith("http://127.0.0.1:5000/")


def test_an_address_for_one_service_does_not_move_the_others(aws_environment):
    aws_environment.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:8000")
    assert address("dynamodb") == "http://127.0.0.1:8000"
    assert address("ec2") == "https://ec2.us-east-1.api.aws"


def test_an_address_in_the_profile_is_used_as_it_is(aws_environment, tmp_path):
    (tmp_path / "config").write_text("[default]\nendpoint_url = http://127.0.0.1:5001\n")
    made = session()
    wire = wired(made, "ec2", Reply(200, NO_INSTANCES))
    made.client("ec2").describe_instances()
    assert wire.sent[0].url.startswith("http://127.0.0.1:5001")


@pytest.mark.parametrize(
    ("profile", "redirected"),
    [("endpoint_url = http://a", {"endpoint_url"}), ("services = b", {"services"}), ("region = eu-west-1", set())],
)
def test_a_profile_that_names_addresses_is_known(aws_environment, tmp_path, profile, redirected):
    (tmp_path / "config").write_text(f"[default]\n{profile}\n[services b]\nsqs =\n  endpoint_url = http://a\n")
    seen = []
    aws_environment.setattr(
        session_module, "_dualstack", lambda service, redirected: seen.append((service, redirected))
    )
    session().client("sqs")
    assert seen == [("sqs", redirected)]


# ── counting ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_request_counts_retries_too():
    made = session()
    wired(
        made,
        "sqs",
        BUSY,
        ConnectTimeoutError(endpoint_url="https://sqs"),
        NO_QUEUES,
        NO_QUEUES,
    )
    made.client("sqs").list_queues()
    assert made.calls() == 3
    made.client("sqs").list_queues()
    assert made.calls() == 4


def test_a_call_is_tried_three_times_and_no_more():
    made = session()
    wire = wired(made, "sqs", *[BUSY] * 9)
    with pytest.raises(made.client("sqs").exceptions.ClientError):
        made.client("sqs").list_queues()
    assert len(wire.sent) == made.calls() == 3


def test_calls_of_all_services_count_together():
    made = session()
    wired(made, "secretsmanager", Reply(200, "{}"))
    wired(made, "sqs", NO_QUEUES)
    made.client("secretsmanager").list_secrets()
    made.client("sqs").list_queues()
    assert made.calls() == 2


# ── the clock ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_said_of_the_clock_before_an_answer_or_without_its_date():
    made = session()
    assert made.skew() is None
    asked(made)
    assert made.skew() is None


@pytest.mark.parametrize(
    "date", ["yesterday", "Mon, 16 Nov 99999999999999999999 12:00:00 GMT", "Mon, 16 Nov 2026 12:00:00 -0000", ""]
)
def test_a_date_that_is_none_says_nothing_of_the_clock(date):
    made = session()
    asked(made, date)
    assert made.skew() is None


@pytest.mark.parametrize(
    ("date", "skew"),
    [
        ("Mon, 16 Nov 2026 12:00:00 GMT", 0),
        ("Mon, 16 Nov 2026 11:59:59 GMT", 0),  # the header leaves out what is less than a second
        ("Mon, 16 Nov 2026 11:59:50 GMT", -9),
        ("Mon, 16 Nov 2026 12:00:07 GMT", 7),
    ],
)
def test_the_clock_differs_by_what_the_header_and_the_way_cannot_explain(date, skew):
    made = session()
    asked(made, date)
    assert made.skew() == timedelta(seconds=skew)


def test_the_time_that_an_answer_takes_is_no_skew():
    clock = Clock()
    made = Session(clock)
    asked(made, "Mon, 16 Nov 2026 12:00:04 GMT", takes=timedelta(seconds=5), clock=clock)
    assert made.skew() == timedelta(0)
    assert clock() == NOON + timedelta(seconds=5)


# ── certificates ─────────────────────────────────────────────────────────────────────────────────────────────────


class _Empty(BaseHTTPRequestHandler):
    """Closes the connection after every answer, so that each call makes a new one."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def aws_over_tls(tmp_path, aws_environment):
    """A server whose certificate the authority in AWS_CA_BUNDLE has signed."""
    signed = authority()
    bundle = tmp_path / "ca.pem"
    bundle.write_text(signed.ca)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(signed.in_folder(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Empty) as server:
        server.socket = trust.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever)
        thread.start()
        aws_environment.setenv("AWS_ENDPOINT_URL", f"https://127.0.0.1:{server.server_port}")
        aws_environment.setenv("AWS_CA_BUNDLE", str(bundle))
        yield bundle
        server.shutdown()
        thread.join()


def authorities_read(monkeypatch):
    """How often a list of authorities is read from now on."""
    read = []
    load = ssl.SSLContext.load_verify_locations
    monkeypatch.setattr(
        ssl.SSLContext, "load_verify_locations", lambda self, *args: (read.append(args), load(self, *args))[1]
    )
    return read


@pytest.mark.usefixtures("aws_over_tls")
def test_the_list_of_authorities_is_read_once_for_all_connections_of_all_clients(monkeypatch):
    read, made = authorities_read(monkeypatch), session()
    for _ in range(3):
        made.client("sqs").list_queues()
    made.client("dynamodb").list_tables()
    assert len(read) == 1


def test_a_server_that_no_known_authority_has_signed_for_is_refused(aws_over_tls):
    aws_over_tls.write_text(authority("another").ca)
    made = session()
    for _ in range(2):  # nor is it trusted because it was tried before
        with pytest.raises(SSLError):
            made.client("sqs").list_queues()


def read_once(*asked):
    """What is read from the disk, of these lists of authorities."""
    read = []
    trust = SimpleNamespace(load_verify_locations=lambda *given: read.append(given))
    _read_once(trust)
    for each in asked:
        trust.load_verify_locations(*each)
    return read


def test_each_list_of_authorities_is_read_once_whatever_it_is_made_of():
    lists = [("a.pem", None, None), ("b.pem", None, None), (None, "folder", None), (None, None, "pem")]
    assert read_once(*lists, *lists) == lists


def test_a_client_that_is_built_differently_verifies_by_itself():
    odd = SimpleNamespace(_endpoint=SimpleNamespace(http_session=object()))
    assert share_trust(odd, None) is None
    trust = ssl.create_default_context()
    assert share_trust(odd, trust) is trust


def test_an_answer_to_nothing_says_nothing_of_the_clock():
    made = session()
    made._compare({"headers": {"date": "Mon, 16 Nov 2026 12:00:07 GMT"}})
    made._compare(None)
    assert made.skew() is None


def test_botocore_looks_for_services_in_the_archive_then_where_the_environment_says(aws_environment):
    aws_environment.setenv("AWS_DATA_PATH", f"~/models{os.pathsep}/more")
    services = ["ec2"]
    loader = _botocore(None, services).get_component("data_loader")
    assert loader.search_paths[:3] == [str(MODELS), os.path.expanduser("~/models"), "/more"]  # noqa: PTH111  # as it does
    assert loader.list_available_services("service-2") is services


@pytest.mark.parametrize(
    ("environment", "redirected", "expected"),
    [
        ({}, (), {"ec2": True, "dynamodb": False}),
        ({}, ("services",), {"ec2": False, "dynamodb": False}),
        ({"AWS_ENDPOINT_URL": "http://x"}, (), {"ec2": False, "secretsmanager": False}),
        ({"AWS_ENDPOINT_URL_SECRETS_MANAGER": "http://x"}, (), {"secretsmanager": False, "ec2": True}),
        (
            {"AWS_ENDPOINT_URL_SERVICE_QUOTAS": "http://x", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
            (),
            {"service-quotas": False},
        ),
        ({"AWS_USE_DUALSTACK_ENDPOINT": "true"}, (), {"ec2": None, "dynamodb": None}),
        (
            {"NODEFLEET_DUALSTACK": "SQS, dynamodb", "AWS_USE_DUALSTACK_ENDPOINT": "true"},
            (),
            {"sqs": True, "ec2": False},
        ),
    ],
)
def test_whether_a_service_is_reached_at_its_dual_stack_address(aws_environment, environment, redirected, expected):
    for name, value in environment.items():
        aws_environment.setenv(name, value)
    assert {service: _dualstack(service, redirected=redirected) for service in expected} == expected
