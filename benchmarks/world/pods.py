"""Pods as the API server writes them, 2 to 3 KB each."""

from datetime import datetime, timedelta

from world.scene import NAMESPACE, REPLICAS, Object, container, named, node_name, template_hash, written

CLAIM_EVERY = 50  # pods, one of which has a volume of its own
NODE_CPU, NODE_MEMORY = 1900, 3600  # millicores and MiB that a node's pods ask for; a DaemonSet's asks for less
_READY = ("Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers")


def app_pod(number: int, node: int | None, born: str, per_node: int) -> Object:
    app, template = number // REPLICAS, template_hash(number // REPLICAS)
    name = f"app-{app}-{template}-{number % 46656:05x}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"app-{app}-{template}", "uid": f"rs-uid-{app}"}
    labels = {
        "app.kubernetes.io/name": f"app-{app}",
        "app.kubernetes.io/part-of": "shop",
        "pod-template-hash": template,
    }
    needs = {"cpu": f"{NODE_CPU // per_node}m", "memory": f"{NODE_MEMORY // per_node}Mi"}  # no further one finds room
    claimed = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{number}"}}]
    return _pod(
        namespace=NAMESPACE,
        name=name,
        uid=f"5f1c{number:08x}-0000-4000-8000-{number:012x}",
        labels=labels,
        owner=owner,
        image=f"registry.example.com/shop/app-{app}:2026.11.4",
        requests=needs,
        node=None if node is None else node_name(node),
        volumes=claimed if node is not None and number % CLAIM_EVERY == 0 else [],
        born=born,
    )


def daemon_pod(node: int, born: str) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "node-exporter", "uid": "ds-uid"}
    pod = _pod(
        namespace="monitoring",
        name=f"node-exporter-{node:05x}",
        uid=f"d43a{node:08x}-0000-4000-8000-{node:012x}",
        labels={"app.kubernetes.io/name": "node-exporter", "controller-revision-hash": "6c9f7d8b5"},
        owner=owner,
        image="quay.io/prometheus/node-exporter:v1.9.1",
        requests={"cpu": "50m", "memory": "64Mi"},
        node=node_name(node),
        volumes=[{"name": "root", "hostPath": {"path": "/", "type": ""}}],
        born=born,
    )
    pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    return pod


def _pod(
    *,
    namespace: str,
    name: str,
    uid: str,
    labels: dict[str, str],
    owner: Object,
    image: str,
    requests: dict[str, str],
    node: str | None,
    volumes: list[Object],
    born: str,
) -> Object:
    owners = [{**owner, "controller": True, "blockOwnerDeletion": True}]
    pod = named("v1", "Pod", namespace, name, uid, born, labels=labels, ownerReferences=owners)
    pod["metadata"]["generateName"] = f"{owner['name']}-"
    pod["spec"] = {
        **spec(image, requests, volumes),
        **({"nodeName": node} if node else {}),
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    pod["status"] = {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": born} for kind in _READY
        ],
        "hostIP": "10.0.1.1",
        "podIP": "10.42.17.23",
        "podIPs": [{"ip": "10.42.17.23"}],
        "startTime": born,
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": born}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": image,
                "imageID": f"{image}@sha256:{0:064x}",
                "containerID": f"containerd://{1:064x}",
                "started": True,
            }
        ],
        "qosClass": "Burstable",
    }
    return pod


def spec(image: str, requests: dict[str, str], volumes: list[Object]) -> Object:
    """What stands in a template too; the server adds the rest."""
    token = {
        "name": "kube-api-access",
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            ],
        },
    }
    return {
        "volumes": [token, *volumes],
        "containers": [container(image, requests)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }


def waiting(pod: Object, now: datetime) -> Object:
    since = written(now - timedelta(seconds=60))
    unplaced = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1000 nodes are available: 1000 Insufficient cpu.",
        "lastProbeTime": None,
        "lastTransitionTime": since,
    }
    return pod | {"status": {"phase": "Pending", "conditions": [unplaced], "qosClass": "Burstable"}}
