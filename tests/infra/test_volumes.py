"""Persistent volumes on EBS: what the driver needs it gets, and nothing else; and without them nothing is there."""

import json
import re
from dataclasses import replace

import pytest
import yaml
from kubernetes import client

from nodefleet.model.names import TAG_CLUSTER, TAG_ROLE
from nodefleet_infra import iam, manifests, volumes
from support.iam_evaluator import Request, allows
from support.iam_samples import PLACE, PLAIN_MASTER
from support.infra_mocks import DEV, ROOT, declared, deployed_stack
from support.shipped_metrics import SITE

KEY = "arn:aws:kms:eu-west-1:123456789012:key/0f8fad5b-d9cb-469f-a165-70867728950e"
WITH = replace(SITE, persistent_volumes=True)
OBJECTS = [each for each in yaml.safe_load_all(manifests.rendered(WITH)[manifests.file_of("volumes")]) if each]
IDS = [f"{each['kind']}/{each['metadata']['name']}" for each in OBJECTS]


def of_kind(kind):
    return {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] == kind}


def pods():
    return {
        name: each["spec"]["template"]["spec"]
        for kind in ("Deployment", "DaemonSet")
        for name, each in of_kind(kind).items()
    }


# ── what runs ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("each", OBJECTS, ids=IDS)
def test_kubernetes_own_types_take_it(each):
    getattr(client, f"V1{each['kind']}").model_validate(each)


def test_without_them_only_a_note_is_there_so_that_k3s_removes_what_was():
    (only,) = yaml.safe_load_all(manifests.rendered(SITE)[manifests.file_of("volumes")])
    assert only["kind"] == "ConfigMap"
    assert manifests.rendered(SITE).keys() == manifests.rendered(WITH).keys()


def test_a_volume_is_made_where_the_pod_goes_and_is_what_the_role_allows():
    (made,) = of_kind("StorageClass").values()
    assert made["volumeBindingMode"] == "WaitForFirstConsumer"
    assert made["parameters"] == {"type": volumes.VOLUME_TYPE, "encrypted": "true"}
    assert "storageclass.kubernetes.io/is-default-class" not in made["metadata"].get("annotations", {})


def test_a_key_of_ones_own_encrypts_volumes_too():
    text = manifests.rendered(replace(WITH, disk_key=KEY))[manifests.file_of("volumes")]
    (made,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "StorageClass")
    assert made["parameters"]["kmsKeyId"] == KEY


def test_the_controller_is_on_the_server_where_its_role_is_and_workers_have_no_role_for_it():
    controller, node = pods()["ebs-controller"], pods()["ebs-node"]
    assert controller["hostNetwork"] is True
    assert controller["nodeSelector"] == {"node-role.kubernetes.io/control-plane": "true"}
    (term,) = node["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}]


def test_every_volume_gets_the_clusters_tag():
    driver = pods()["ebs-controller"]["containers"][0]
    assert f"--extra-tags={TAG_CLUSTER}={WITH.cluster}" in driver["args"]


def test_only_what_mounts_is_privileged_and_nothing_listens_beyond_the_machine():
    privileged = set()
    for name, pod in pods().items():
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            if context.get("privileged"):
                privileged.add((name, container["name"]))
            else:
                assert context["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} == set(container["resources"]["requests"])
            listening = [arg for arg in container["args"] if "http-endpoint" in arg]
            assert all(arg.startswith("--http-endpoint=127.0.0.1:") for arg in listening)
    assert privileged == {("ebs-node", "driver")}
    ports = [arg for pod in pods().values() for each in pod["containers"] for arg in each["args"] if "127.0.0.1" in arg]
    assert len(set(ports)) == len(ports), "both are on the host's network"


def test_every_image_is_of_a_full_version_and_pinned_by_its_digest():
    used = {each["image"] for pod in pods().values() for each in pod["containers"]}
    assert used == set(manifests.VOLUME_IMAGES.values())
    assert all(re.fullmatch(r"[a-z.0-9/-]+:v\d+\.\d+\.\d+@sha256:[0-9a-f]{64}", image) for image in used)


def test_nobody_of_it_reads_secrets_or_makes_workloads():
    for role in of_kind("ClusterRole").values():
        for rule in role["rules"]:
            assert not {"secrets", "configmaps", "pods", "serviceaccounts"} & set(rule["resources"])
            assert "*" not in rule["verbs"]


# ── what it may do in EC2 ────────────────────────────────────────────────────────────────────────────────────────

STATEMENTS = iam.master(replace(PLAIN_MASTER, makes_volumes=True))
DRIVER = volumes.DRIVER_TAG


def ec2(kind, identity="x"):
    return f"arn:aws:ec2:{PLACE.region}:{PLACE.account}:{kind}/{identity}"


def tagged(how, cluster="dev-shop", **more):
    return {f"aws:{how}/{TAG_CLUSTER}": [cluster], f"aws:{how}/{DRIVER}": ["true"], **more}


NEW = tagged("RequestTag", **{"ec2:VolumeType": ["gp3"], "ec2:Encrypted": ["true"]})
WORKER = {f"aws:ResourceTag/{TAG_CLUSTER}": ["dev-shop"], f"aws:ResourceTag/{TAG_ROLE}": ["worker"]}
# What the driver asks for to make, attach, detach and delete a volume, by its own documentation of its rights.
CALLS = [
    Request("ec2:DescribeAvailabilityZones", "*"),
    Request("ec2:DescribeInstances", "*"),
    Request("ec2:DescribeVolumes", "*"),
    Request("ec2:CreateVolume", ec2("volume", "*"), NEW),
    Request("ec2:CreateTags", ec2("volume", "*"), {**tagged("RequestTag"), "ec2:CreateAction": ["CreateVolume"]}),
    Request("ec2:AttachVolume", ec2("volume"), tagged("ResourceTag")),
    Request("ec2:AttachVolume", ec2("instance"), WORKER),
    Request("ec2:DetachVolume", ec2("volume"), tagged("ResourceTag")),
    Request("ec2:DetachVolume", ec2("instance"), WORKER),
    Request("ec2:DeleteVolume", ec2("volume"), tagged("ResourceTag")),
]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_what_the_driver_asks_for_is_allowed_to_the_server_with_volumes_alone(call):
    assert allows(STATEMENTS, call)
    assert not allows(iam.master(PLAIN_MASTER), call)


def test_every_statement_is_needed_and_grants_no_other_action():
    added = [each for each in STATEMENTS if each.sid.startswith("Volumes")]
    for statement in added:
        others = [each for each in STATEMENTS if each is not statement]
        assert not all(allows(others, call) for call in CALLS), f"{statement.sid} is not needed"
    assert {action for each in added for action in each.actions} == {call.action for call in CALLS}


@pytest.mark.parametrize(
    "refused",
    [
        Request("ec2:CreateVolume", ec2("volume", "*"), {**NEW, "ec2:VolumeType": ["io2"]}),
        Request("ec2:CreateVolume", ec2("volume", "*"), {**NEW, "ec2:Encrypted": ["false"]}),
        Request("ec2:CreateVolume", ec2("volume", "*"), {**NEW, f"aws:RequestTag/{TAG_CLUSTER}": ["prod-shop"]}),
        Request("ec2:CreateVolume", ec2("snapshot"), NEW),
        Request("ec2:CreateTags", ec2("volume"), tagged("RequestTag")),
        Request("ec2:CreateTags", ec2("instance"), {**tagged("RequestTag"), "ec2:CreateAction": ["CreateVolume"]}),
        Request("ec2:AttachVolume", ec2("volume"), tagged("ResourceTag", "prod-shop")),
        Request("ec2:AttachVolume", ec2("volume"), {f"aws:ResourceTag/{TAG_CLUSTER}": ["dev-shop"]}),
        Request("ec2:AttachVolume", ec2("instance"), {**WORKER, f"aws:ResourceTag/{TAG_CLUSTER}": ["prod-shop"]}),
        Request("ec2:DetachVolume", ec2("instance"), {**WORKER, f"aws:ResourceTag/{TAG_ROLE}": ["server"]}),
        Request("ec2:DeleteVolume", ec2("volume"), {f"aws:ResourceTag/{TAG_CLUSTER}": ["dev-shop"]}),
        Request("ec2:DeleteVolume", ec2("volume"), tagged("ResourceTag", "prod-shop")),
        Request("ec2:ModifyVolume", ec2("volume"), tagged("ResourceTag")),
        Request("ec2:CreateSnapshot", ec2("volume"), tagged("ResourceTag")),
    ],
    ids=str,
)
def test_the_servers_own_disk_other_clusters_and_dear_volumes_are_out_of_reach(refused):
    assert not allows(STATEMENTS, refused)


def test_the_role_and_the_manifests_follow_the_configuration():
    config = yaml.safe_load((ROOT / DEV).read_text())["config"]
    (cluster,) = config["node-fleet:clusters"]
    graph = declared({**config, "node-fleet:clusters": [{**cluster, "persistent_volumes": True}]}, "dev")

    def actions(made):
        policy = made.one("iam/rolePolicy:RolePolicy", "shop-master").inputs["policy"]
        return {action for each in json.loads(policy)["Statement"] for action in _list(each["Action"])}

    def content(made):
        (found,) = (each for each in made.of("BucketObjectv2") if "node-fleet-volumes" in each.name)
        return found.inputs["content"]

    before = deployed_stack(DEV)
    assert actions(graph) - actions(before) == {call.action for call in CALLS}
    assert "ebs-controller" in content(graph)
    assert "ebs-controller" not in content(before)


def _list(value):
    return [value] if isinstance(value, str) else value


def test_with_a_key_of_ones_own_the_role_may_use_it_through_ec2_alone():
    statements = iam.master(replace(PLAIN_MASTER, makes_volumes=True, disk_key=KEY))
    by_ec2 = {"kms:ViaService": [f"ec2.{PLACE.region}.amazonaws.com"]}
    assert allows(statements, Request("kms:GenerateDataKeyWithoutPlaintext", KEY, by_ec2))
    assert not allows(statements, Request("kms:GenerateDataKeyWithoutPlaintext", KEY))
    assert not allows(STATEMENTS, Request("kms:GenerateDataKeyWithoutPlaintext", KEY, by_ec2))
