"""The parts themselves: they serve, keep to loopback, survive a restart, and their rules are the real ones."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
import requests
import yaml
from kubernetes import client, config
from kubernetes.client import ApiException

from e2e.parts.kwok import ALIVE_LABEL
from e2e.parts.prometheus import Alertmanager, Prometheus
from e2e.parts.running import RunningParts
from e2e.site.waiting import eventually

SIZE = {"cpu": "2", "memory": "4Gi", "pods": "110"}


def core(kubeconfig: Path) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(str(kubeconfig)))


def pod(name: str, **annotations: str) -> dict[str, object]:
    notes = {f"node-fleet.test/{key.replace('_', '-')}": value for key, value in annotations.items()}
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
    return {"metadata": {"name": name, "annotations": notes}, "spec": {"containers": containers}}


@pytest.fixture(scope="module")
def api(real_parts: RunningParts) -> client.CoreV1Api:
    return core(real_parts.kubeconfig)


@pytest.fixture
def node(api: client.CoreV1Api) -> Iterator[str]:
    name = "worker"
    labels = {ALIVE_LABEL: "true", "kubernetes.io/hostname": name}
    api.create_node({"metadata": {"name": name, "labels": labels}, "status": {"capacity": SIZE, "allocatable": SIZE}})
    yield name
    for each in api.list_namespaced_pod("default").items:
        api.delete_namespaced_pod(each.metadata.name, "default", grace_period_seconds=0)
    api.delete_node(name)


def phases(api: client.CoreV1Api) -> dict[str, str]:
    return {each.metadata.name: each.status.phase for each in api.list_namespaced_pod("default").items}


def test_pods_run_while_there_is_room_and_the_rest_is_unschedulable(api, node):
    for number in range(3):
        api.create_namespaced_pod("default", pod(f"p{number}"))
    assert eventually(lambda: sorted(phases(api).values()) == ["Pending", "Running", "Running"])
    (waiting,) = (name for name, phase in phases(api).items() if phase == "Pending")
    (condition,) = api.read_namespaced_pod(waiting, "default").status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")


def test_a_pod_takes_its_time_to_stop_and_a_finalizer_holds_it(api, node):
    held = pod("held")
    held["metadata"] |= {"finalizers": ["node-fleet.test/hold"]}
    api.create_namespaced_pod("default", held)
    api.create_namespaced_pod("default", pod("slow", stops_after="2s"))
    assert eventually(lambda: phases(api) == {"held": "Running", "slow": "Running"})
    began = time.monotonic()
    for name in ("held", "slow"):
        api.delete_namespaced_pod(name, "default")
    assert eventually(lambda: set(phases(api)) == {"held"})
    assert time.monotonic() - began >= 2
    api.patch_namespaced_pod("held", "default", {"metadata": {"finalizers": None}})
    assert eventually(lambda: not phases(api))


def test_what_somebody_may_do_is_up_to_their_roles(real_parts, api):
    somebody = core(real_parts.control_plane.kubeconfig_for("somebody", ["readers"]))
    with pytest.raises(ApiException) as refused:
        somebody.list_node()
    assert refused.value.status == 403
    assert 'User "somebody" cannot list resource "nodes"' in json.loads(refused.value.body)["message"]
    roles = client.RbacAuthorizationV1Api(api.api_client)
    subject = {"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "ClusterRole", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    roles.create_cluster_role({"metadata": {"name": "readers"}, "rules": rules})
    roles.create_cluster_role_binding({"metadata": {"name": "readers"}, "subjects": [subject], "roleRef": role})
    assert eventually(lambda: may(somebody.list_node))


def may(call: Callable[[], object]) -> bool:
    try:
        call()
    except ApiException as refused:
        if refused.status != 403:
            raise
        return False
    return True


def test_a_restarted_control_plane_remembers(real_parts, api):
    api.create_namespace({"metadata": {"name": "kept"}})
    real_parts["etcd"].restart()
    real_parts["apiserver"].restart()
    assert api.read_namespace("kept").status.phase == "Active"


def test_dynamodb_keeps_tables_and_stream_over_a_restart(real_parts):
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "eu-central-1"}
    endpoint = real_parts.dynamodb_endpoint
    tables = boto3.client("dynamodb", endpoint_url=endpoint, **keys)
    tables.create_table(
        TableName="kept",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )
    tables.put_item(TableName="kept", Item={"id": {"S": "a"}})
    real_parts["dynamodb"].kill()
    real_parts["dynamodb"].start()
    assert tables.scan(TableName="kept")["Items"] == [{"id": {"S": "a"}}]
    streams = boto3.client("dynamodbstreams", endpoint_url=endpoint, **keys)
    arn = tables.describe_table(TableName="kept")["Table"]["LatestStreamArn"]
    (shard,) = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"]
    place = {"StreamArn": arn, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
    found = streams.get_records(ShardIterator=streams.get_shard_iterator(**place)["ShardIterator"])["Records"]
    assert [each["dynamodb"]["NewImage"] for each in found] == [{"id": {"S": "a"}}]


def test_nothing_listens_to_the_outside(real_parts):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing, but chooses our address towards the outside
        except OSError:
            pytest.skip("this machine has no address but loopback")
        outside = probe.getsockname()[0]
    urls = (real_parts.dynamodb_endpoint, real_parts.control_plane.server, f"//{real_parts.state_metrics_address}")
    for url in urls:
        with socket.socket() as door:
            assert door.connect_ex((outside, urlsplit(url).port or 0)) != 0, url


def test_prometheus_sees_what_kube_state_metrics_says(real_parts, api, node, tmp_path):
    scrape = {"job_name": "state", "static_configs": [{"targets": [real_parts.state_metrics_address]}]}
    settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": [scrape]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(settings))
    prometheus = Prometheus(tmp_path, tmp_path / "prometheus.yml")

    def nodes() -> list[str]:
        said = requests.get(f"{prometheus.endpoint}/api/v1/query", {"query": "kube_node_info"}, timeout=5).json()
        return [each["metric"]["node"] for each in said["data"]["result"]]

    try:
        prometheus.part.start()
        assert eventually(lambda: nodes() == [node])
    finally:
        prometheus.part.stop()


def test_alertmanager_starts_alone(tmp_path):
    (tmp_path / "alertmanager.yml").write_text(
        yaml.safe_dump({"route": {"receiver": "r"}, "receivers": [{"name": "r"}]})
    )
    alertmanager = Alertmanager(tmp_path, tmp_path / "alertmanager.yml")
    try:
        alertmanager.part.start()
        said = requests.get(f"{alertmanager.endpoint}/api/v2/status", timeout=5).json()
        assert said["cluster"]["status"] == "disabled"
    finally:
        alertmanager.part.stop()
