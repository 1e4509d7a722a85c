"""What stands behind pods: their controllers, their budgets and their volumes."""

from typing import Any

from world.scene import NAMESPACE, REPLICAS, ZONES, Object, container, named, template_hash


def controller(version: str, kind: str, namespace: str, name: str, uid: str, born: str, **meta: Any) -> Object:
    made = named(version, kind, namespace, name, uid, born, generation=1, **meta)
    template = {"spec": {"containers": [container(f"registry.example.com/{name}:1", {"cpu": "1", "memory": "1Gi"})]}}
    made["spec"] = {"replicas": REPLICAS, "template": template}
    made["status"] = {"replicas": REPLICAS, "readyReplicas": REPLICAS, "observedGeneration": 1}
    return made


def replica_set(app: int, born: str) -> Object:
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"app-{app}", "uid": f"deployment-uid-{app}"}
    return controller(
        "apps/v1",
        "ReplicaSet",
        NAMESPACE,
        f"app-{app}-{template_hash(app)}",
        f"rs-uid-{app}",
        born,
        labels={"app.kubernetes.io/name": f"app-{app}", "pod-template-hash": template_hash(app)},
        ownerReferences=[{**above, "controller": True, "blockOwnerDeletion": True}],
    )


def deployment(app: int, born: str) -> Object:
    return controller("apps/v1", "Deployment", NAMESPACE, f"app-{app}", f"deployment-uid-{app}", born)


def budget(app: int, born: str) -> Object:
    made = named("policy/v1", "PodDisruptionBudget", NAMESPACE, f"app-{app}", f"pdb-uid-{app}", born, generation=1)
    made["spec"] = {
        "maxUnavailable": 1,
        "selector": {"matchLabels": {"app.kubernetes.io/name": f"app-{app}"}},
    }
    figures = {"disruptionsAllowed": 1, "currentHealthy": REPLICAS, "desiredHealthy": REPLICAS - 1}
    made["status"] = {**figures, "expectedPods": REPLICAS, "observedGeneration": 1}
    return made


def claim(number: int, born: str) -> Object:
    made = named("v1", "PersistentVolumeClaim", NAMESPACE, f"data-{number}", f"pvc-uid-{number}", born)
    made["spec"] = {"accessModes": ["ReadWriteOnce"], "volumeName": f"pv-{number}", "storageClassName": "gp3"}
    return made


def volume(number: int, born: str) -> Object:
    made = named("v1", "PersistentVolume", "", f"pv-{number}", f"pv-uid-{number}", born)
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": list(ZONES)}
    made["spec"] = {
        "capacity": {"storage": "8Gi"},
        "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{number:017x}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}},
    }
    return made
