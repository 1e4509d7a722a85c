"""The K3s server as the stack declares it, and its user data from the graph at work beside a worker's."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from unittest import mock

import pulumi_aws as aws
import pytest
import yaml

from nodefleet.settings import SECRETS, Settings
from nodefleet_infra import k3s
from nodefleet_infra.statements import Statement
from support.iam_evaluator import Request, allows
from support.infra_mocks import DEV, IMAGE, PRODUCTION, ROOT, declared, deployed_stack
from support.userdata_sandbox import BINARY_URL, INSTANCE, Sandbox, login_in, runs_here
from support.wording import assert_wording

BOTH = pytest.mark.parametrize("file", [DEV, PRODUCTION])
INSTANCE_KIND, INTERFACE, ADDRESS = "ec2/instance:Instance", "ec2/networkInterface:NetworkInterface", "ec2/eip:Eip"
OBJECT = "s3/bucketObjectv2:BucketObjectv2"
SMALL = {
    "aws:region": "ap-southeast-1",
    "node-fleet:network": {"zones": ["ap-southeast-1a", "ap-southeast-1b"]},
}
BROKEN = runs_here()
runs = pytest.mark.skipif(bool(BROKEN), reason=BROKEN)


def told(script):
    """The values that user data is told."""
    return dict(re.findall(r"^readonly ([A-Z0-9_]+)='?([^'\n]*)'?$", script, re.MULTILINE))


def program_of(graph):
    """What the instance's user data fetches, by its checksum."""
    (current,) = (each for each in graph.of(OBJECT) if each.name.endswith("-current"))
    folder, _, _ = current.inputs["key"].rpartition("/")
    (program,) = (each for each in graph.of(OBJECT) if each.inputs["key"] == f"{folder}/{current.inputs['content']}")
    assert hashlib.sha256(program.inputs["content"].encode()).hexdigest() == current.inputs["content"]
    return program.inputs["content"]


def manifests_of(graph):
    return [each for each in graph.of(OBJECT) if each.inputs["key"].startswith("manifests/")]


def machine_of(graph):
    (found,) = graph.of(INSTANCE_KIND)
    return found


def statements(graph, role):
    policy = json.loads(graph.one("iam/rolePolicy:RolePolicy", role).inputs["policy"])
    for each in policy["Statement"]:
        actions, resources = (
            (value,) if isinstance(value, str) else tuple(value) for value in (each["Action"], each["Resource"])
        )
        yield Statement(sid=each["Sid"], effect=each["Effect"], actions=actions, resources=resources)


# ── the instance ─────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_the_disk_is_encrypted_gp3(file):
    disk = machine_of(deployed_stack(file)).inputs["rootBlockDevice"]
    assert (disk["volumeType"], disk["encrypted"]) == ("gp3", True)
    assert disk["volumeSize"] == (40 if file == DEV else 60)


@BOTH
def test_the_metadata_service_wants_a_token_and_answers_no_pod(file):
    options = machine_of(deployed_stack(file)).inputs["metadataOptions"]
    assert options["httpTokens"] == "required"
    assert options["httpPutResponseHopLimit"] == 1


@BOTH
def test_nobody_gets_in_by_ssh(file):
    graph = deployed_stack(file)
    assert "keyName" not in machine_of(graph).inputs
    assert not [rule for rule in graph.of("SecurityGroupIngressRule") if rule.inputs.get("fromPort") == 22]


@BOTH
def test_it_carries_the_tag_by_which_the_autoscaler_is_kept_off(file):
    machine = machine_of(deployed_stack(file))
    for tags in (machine.tags, machine.inputs["rootBlockDevice"]["tags"]):
        assert tags["node-fleet:role"] == "server"
    assert machine.inputs["ami"] == IMAGE
    assert machine.inputs["instanceType"] == ("t3.medium" if file == DEV else "t3.large")


@BOTH
def test_its_address_is_an_interfaces_and_outlives_it(file):
    graph = deployed_stack(file)
    (interface,) = graph.of(INTERFACE)
    assert machine_of(graph).inputs["primaryNetworkInterface"] == {"networkInterfaceId": interface.id}
    assert graph.exports["apiServers"] == {f"{'dev' if file == DEV else 'production'}-shop": "https://10.20.0.10:6443"}
    groups = [group.id for group in graph.of("ec2/securityGroup:SecurityGroup") if group.name.endswith("-master")]
    assert interface.inputs["securityGroups"] == groups


def test_it_has_a_public_address_only_where_that_is_the_way_out():
    """EC2 gives none to an interface that exists already, and without one K3s cannot be downloaded."""
    (address,) = deployed_stack(DEV).of(ADDRESS)
    (interface,) = deployed_stack(DEV).of(INTERFACE)
    assert address.inputs["networkInterface"] == interface.id
    assert not [each for each in deployed_stack(PRODUCTION).of(ADDRESS) if "networkInterface" in each.inputs]


@BOTH
def test_it_starts_when_everything_it_needs_is_there(file):
    graph = deployed_stack(file)
    before = graph.before(machine_of(graph).urn)
    needed = [*graph.of(OBJECT), *graph.of("RouteTableAssociation"), graph.one("RolePolicy", "shop-master")]
    assert {each.urn for each in needed} <= before


@pytest.mark.parametrize(("image", "ignored"), [("", ["ami"]), ("ami-0a1b2c3d4e5f67890", [])])
def test_it_is_replaced_when_its_user_data_changes_but_not_by_a_newer_image(image, ignored):
    cluster = {"name": "shop", "master": {"image": image}}
    with mock.patch.object(aws.ec2, "Instance") as made:
        made.return_value.id = "i-0a1b2c3d4e5f67890"  # its alarm wants to know
        declared({**SMALL, "node-fleet:clusters": [cluster]}, "one")
    said = made.call_args.kwargs
    assert said["user_data_replace_on_change"] is True
    assert said["opts"].ignore_changes == ignored
    assert said["opts"].delete_before_replace is True  # two instances cannot have the same interface


def test_a_production_server_is_neither_deleted_nor_replaced_unless_the_configuration_says_so():
    def protected(production, **master):
        cluster = {"name": "shop", "master": master}
        graph = declared({**SMALL, "node-fleet:production": production, "node-fleet:clusters": [cluster]}, "one")
        return machine_of(graph).protected, graph.of(INTERFACE)[0].protected

    assert protected(production=False) == (False, False)
    assert protected(production=True) == (True, True)
    assert protected(production=True, allow_replacement=True) == (False, True)  # its address stays in any case


def test_two_clusters_have_a_server_each():
    graph = declared({**SMALL, "node-fleet:clusters": [{"name": "shop"}, {"name": "blog"}]}, "two")
    assert {machine.tags["node-fleet:cluster"] for machine in graph.of(INSTANCE_KIND)} == {"two-shop", "two-blog"}
    folders = {each.inputs["key"].rsplit("/", 1)[0] for each in graph.of(OBJECT)}
    assert folders == {"manifests/two-shop", "manifests/two-blog", "server/two-shop", "server/two-blog"}


# ── what it is told ──────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_the_program_pins_the_release_and_its_checksum(file):
    values = told(program_of(deployed_stack(file)))
    assert values["BINARY_SHA256"] == k3s.RELEASE.sha256["x86_64"]
    assert values["BINARY_URL"].endswith(f"/{k3s.RELEASE.version.replace('+', '%2B')}/k3s")
    assert values["ROOT"] == ""


def test_another_release_and_another_processor_are_configuration():
    release = {"version": "v1.37.1+k3s1", "sha256": {"arm64": "a" * 64, "x86_64": "b" * 64}}
    cluster = {"name": "shop", "k3s": release, "master": {"type": "t4g.medium", "restore": "etcd-snapshot-3"}}
    graph = declared({**SMALL, "node-fleet:clusters": [cluster]}, "arm")
    values = told(program_of(graph))
    assert values["BINARY_SHA256"] == "a" * 64
    assert values["BINARY_URL"].endswith("/v1.37.1%2Bk3s1/k3s-arm64")
    assert told(machine_of(graph).inputs["userData"])["RESTORE"] == "etcd-snapshot-3"
    worker = base64.b64decode(graph.of("LaunchTemplate")[0].inputs["userData"]).decode()
    assert told(worker)["BINARY_SHA256"] == "b" * 64
    assert graph.exports["k3s"] == {"arm-shop": "v1.37.1+k3s1"}
    (kept,) = (each for each in graph.of(OBJECT) if each.name.endswith("-k3s"))
    assert kept.ignored == frozenset()  # what the configuration says is followed


def test_a_cluster_keeps_the_release_that_it_began_with(monkeypatch):
    """Another version of this program, with another release in it, finds what the first `up` wrote: changes of that are
    ignored, so that Pulumi hands the old content to the program."""
    first = deployed_stack(DEV)
    (kept,) = (each for each in first.of(OBJECT) if each.name.endswith("-k3s"))
    assert kept.ignored == {"content"}
    newer = replace(k3s.RELEASE, version="v9.9.9+k3s1", sha256={"x86_64": "9" * 64, "arm64": "9" * 64})
    monkeypatch.setattr(k3s, "RELEASE", newer)
    config = yaml.safe_load((ROOT / DEV).read_text())["config"]
    later = declared(config, "dev", kept={kept.name: kept.inputs})
    assert program_of(later) == program_of(first)
    assert [each.inputs["userData"] for each in later.of("LaunchTemplate")] == [
        each.inputs["userData"] for each in first.of("LaunchTemplate")
    ]
    assert machine_of(later).inputs["userData"] == machine_of(first).inputs["userData"]
    assert [line for line in later.said if "v9.9.9+k3s1" in line]


@pytest.mark.parametrize(
    ("preview", "new", "warned"),
    [
        (True, ["shop-master"], True),
        (True, [], False),
        (True, ["shop-master", "the address"], False),  # a cluster that is not there yet
        (False, [], False),
    ],
)
def test_preview_says_in_words_that_the_server_will_be_replaced(preview, new, warned):
    unknown = {(INSTANCE_KIND, "shop-master")} if "shop-master" in new else set()
    unknown |= {(INTERFACE, "shop-master")} if "the address" in new else set()
    graph = declared({**SMALL, "node-fleet:clusters": [{"name": "shop"}]}, "one", preview=preview, unknown=unknown)
    assert bool([line for line in graph.said if "WILL BE REPLACED" in line]) is warned


@BOTH
def test_the_login_is_published_where_the_functions_look_for_it(file):
    graph = deployed_stack(file)
    values = told(program_of(graph))
    (function,) = (
        each for each in graph.of("lambda/function:Function") if each.inputs["handler"].endswith("reconcile.handler")
    )
    prefix = function.inputs["environment"]["variables"][SECRETS]
    (cluster,) = graph.exports["clusters"]
    assert values["API_SECRET"] == Settings(table="", clusters=(), secrets=prefix).api_secret(cluster)


@BOTH
def test_the_program_names_secrets_and_a_bucket_that_the_stack_makes(file):
    graph = deployed_stack(file)
    values = told(program_of(graph))
    secrets = {each.inputs["name"] for each in graph.of("secretsmanager/secret:Secret")}
    assert {values[name] for name in ("API_SECRET", "AGENT_TOKEN_SECRET", "SERVER_TOKEN_SECRET")} <= secrets
    assert values["BUCKET"] in {each.inputs["bucket"] for each in graph.of("s3/bucket:Bucket")}
    first = told(machine_of(graph).inputs["userData"])
    assert (first["BUCKET"], first["PROGRAMS"]) == (values["BUCKET"], values["PROGRAMS"])


@BOTH
def test_the_manifests_lie_where_the_program_fetches_them(file):
    graph = deployed_stack(file)
    values = told(program_of(graph))
    assert manifests_of(graph)
    for each in manifests_of(graph):
        assert each.inputs["bucket"] == values["BUCKET"]
        assert each.inputs["key"].startswith(f"{values['MANIFESTS']}/")
        assert list(yaml.safe_load_all(each.inputs["content"]))
    assert len({values[name].split("/")[0] for name in ("MANIFESTS", "SNAPSHOTS", "PROGRAMS")}) == 3


@BOTH
def test_alertmanager_publishes_to_the_topic_that_wakes_the_function(file):
    graph = deployed_stack(file)
    (text,) = (each.inputs["content"] for each in graph.of(OBJECT) if each.name.endswith("alertmanager.yaml"))
    config = yaml.safe_load(next(yaml.safe_load_all(text))["data"]["alertmanager.yml"])
    (sns,) = config["receivers"][1]["sns_configs"]
    assert sns["topic_arn"] == graph.exports["wakeTopic"]
    assert [sns["attributes"]["cluster"]] == graph.exports["clusters"]


@BOTH
def test_grafana_is_an_option(file):
    (text,) = (each.inputs["content"] for each in deployed_stack(file).of(OBJECT) if each.name.endswith("grafana.yaml"))
    assert ("kind: Deployment" in text) == (file == PRODUCTION)


# ── the instances together ───────────────────────────────────────────────────────────────────────────────────────


def on(sandbox, script):
    """User data of the graph, on an instance of stubs."""
    values = {"ROOT": str(sandbox.root), "BINARY_URL": BINARY_URL, "BINARY_SHA256": sandbox.binary.sha256}
    for name, value in values.items():  # those that it has
        script = re.sub(rf"^readonly {name}=.*$", f"readonly {name}='{value}'", script, count=1, flags=re.MULTILINE)
    return script


@runs
@BOTH
def test_a_worker_joins_with_what_the_server_published_and_each_does_only_what_its_role_may(file, tmp_path):
    graph = deployed_stack(file)
    server, worker = Sandbox(tmp_path / "server"), Sandbox(tmp_path / "worker")
    script = program_of(graph)
    server.deploy(on(server, script))
    ran = server.run(on(server, machine_of(graph).inputs["userData"]))
    assert ran.code == 0, ran.said
    for secret in (server.world / "secrets").iterdir():
        (worker.world / "secrets" / secret.name).write_bytes(secret.read_bytes())
    template = graph.of("LaunchTemplate")[0].inputs
    ran = worker.run(on(worker, base64.b64decode(template["userData"]).decode()))
    assert ran.code == 0, ran.said
    assert (
        login_in(server, told(script)["API_SECRET"])["server"]
        == yaml.safe_load(worker.file("etc/rancher/k3s/config.yaml"))["server"]
    )
    assert_wording(ran.said.splitlines()[-1].partition(" ")[2], INSTANCE=INSTANCE)
    for sandbox, role in ((server, "shop-master"), (worker, "shop-workers")):
        asked = [request for call in sandbox.calls("aws") for request in requests(graph, call)]
        assert asked
        assert not [str(each) for each in asked if not allows(tuple(statements(graph, role)), each)]


def requests(graph, call):
    """What a call of the AWS command line asks IAM."""
    words = call.split()
    if words[0] == "secretsmanager":
        (arn,) = (
            each.outputs["arn"]
            for each in graph.of("secretsmanager/secret:Secret")
            if each.inputs["name"] == words[words.index("--secret-id") + 1]
        )
        action = {"get-secret-value": "GetSecretValue", "put-secret-value": "PutSecretValue"}[words[1]]
        return [Request(f"secretsmanager:{action}", arn)]
    if words[:2] == ["s3api", "list-objects-v2"]:
        return [Request("s3:ListBucket", f"arn:aws:s3:::{words[words.index('--bucket') + 1]}")]
    if words[:2] == ["s3", "cp"]:
        return [Request("s3:GetObject", f"arn:aws:s3:::{words[3].removeprefix('s3://')}")]
    assert words[:2] == ["s3", "sync"]
    bucket, _, folder = words[-2].removeprefix("s3://").partition("/")
    found = f"arn:aws:s3:::{bucket}"
    return [Request("s3:ListBucket", found), Request("s3:GetObject", f"{found}/{folder}prometheus.yaml")]
