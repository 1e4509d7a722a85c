"""The manifests: what Kubernetes's own types say of them, and what we say of how a pod may run."""

import json
import re
from dataclasses import replace

import pytest
import yaml
from kubernetes import client

from nodefleet.adapters.aws.triggers import Trigger, triggers_in
from nodefleet.adapters.kubernetes.resources import NEEDED, NEEDED_PATHS
from nodefleet.model.names import CAPACITY_LABEL, POOL_LABEL
from nodefleet_infra import manifests, userdata
from support.shipped_metrics import SITE
from support.userdata_machines import SERVER_SETTINGS

WITHOUT_GRAFANA = replace(SITE, grafana=False)
OBJECTS = [(name, each) for name, text in manifests.rendered(SITE).items() for each in yaml.safe_load_all(text) if each]
IDS = [f"{name}:{each['kind']}/{each['metadata']['name']}" for name, each in OBJECTS]
WORKLOADS = [each for _, each in OBJECTS if each["kind"] in ("Deployment", "DaemonSet")]
EVERY_OBJECT = pytest.mark.parametrize(("name", "each"), OBJECTS, ids=IDS)
EVERY_WORKLOAD = pytest.mark.parametrize("workload", WORKLOADS, ids=[each["metadata"]["name"] for each in WORKLOADS])
LOGIN = "prometheus-login"  # the Secret that the server makes
ON_SERVER = {"node-role.kubernetes.io/control-plane": "true"}


def of_kind(kind, name=None):
    return [each for _, each in OBJECTS if each["kind"] == kind and name in (None, each["metadata"]["name"])]


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


def containers_of(workload):
    pod = pod_of(workload)
    return [*pod.get("initContainers", ()), *pod["containers"]]


def keys_in(value):
    """Every key that is a field's name, not a name that somebody chose."""
    if isinstance(value, dict):
        for key, inside in value.items():
            yield key
            if key not in ("data", "labels", "annotations", "matchLabels", "nodeSelector"):
                yield from keys_in(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from keys_in(inside)


# ── schemas ──────────────────────────────────────────────────────────────────────────────────────────────────────


@EVERY_OBJECT
def test_kubernetes_own_types_take_it(name, each):
    """The client's models are made from the API's schemas: unknown, mistyped and missing fields are errors."""
    assert re.fullmatch(r"(v1|[a-z.0-9]+/v1)", each["apiVersion"])
    getattr(client, f"V1{each['kind']}").model_validate(each)
    assert not [key for key in keys_in(each) if "_" in key]  # the models would take snake_case too, the API does not


def test_the_types_would_notice():
    broken = json.loads(json.dumps(WORKLOADS[0]))
    pod_of(broken)["containers"][0]["imagePolicy"] = "Always"
    with pytest.raises(ValueError, match="imagePolicy"):
        client.V1Deployment.model_validate(broken)


@EVERY_OBJECT
def test_everything_is_at_home_somewhere(name, each):
    cluster_wide = each["kind"] in ("Namespace", "ClusterRole", "ClusterRoleBinding")
    assert ("namespace" not in each["metadata"]) == cluster_wide
    if not cluster_wide:
        assert each["metadata"]["namespace"] in (manifests.NAMESPACE, "kube-system")


def test_nothing_is_there_twice():
    found = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for _, each in OBJECTS]
    assert len(found) == len(set(found))


def test_file_names_are_ours_alone_and_the_namespace_comes_first():
    """K3s keeps what it applied by the file's base name, whatever folder it is in."""
    names = list(manifests.rendered(SITE))
    assert names[0] == manifests.file_of("namespace")
    assert all(re.fullmatch(r"node-fleet-[a-z0-9-]+\.yaml", name) for name in names)


def test_no_value_of_ours_was_forgotten():
    assert "@@" not in "".join(manifests.rendered(SITE).values())


def test_the_same_site_makes_the_same_text():
    assert manifests.rendered(SITE) == manifests.rendered(replace(SITE))


# ── how pods run ─────────────────────────────────────────────────────────────────────────────────────────────────


@EVERY_WORKLOAD
def test_a_pod_finds_its_own_kind(workload):
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()


@EVERY_WORKLOAD
def test_a_pod_is_nobody_and_can_change_nothing(workload):
    pod = pod_of(workload)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in containers_of(workload):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "privileged" not in context


@EVERY_WORKLOAD
def test_a_pod_says_what_it_needs_and_how_it_is(workload):
    for container in containers_of(workload):
        assert set(container["resources"]["requests"]) == {"cpu", "memory"}
        assert "memory" in container["resources"]["limits"]
    assert all("readinessProbe" in container for container in pod_of(workload)["containers"])


@EVERY_WORKLOAD
def test_an_image_is_pinned_by_a_full_version_and_by_its_digest(workload):
    wanted = r"[a-z0-9.]+\.[a-z]+/[a-z0-9/-]+:v?\d+\.\d+\.\d+@sha256:[0-9a-f]{64}"
    for container in containers_of(workload):
        assert re.fullmatch(wanted, container["image"])


@EVERY_WORKLOAD
def test_what_is_mounted_is_there(workload):
    pod = pod_of(workload)
    volumes = {volume["name"] for volume in pod["volumes"]} if "volumes" in pod else set()
    mounted = {mount["name"] for container in containers_of(workload) for mount in container.get("volumeMounts", ())}
    assert mounted == volumes
    for volume in pod.get("volumes", ()):
        if "configMap" in volume:
            assert of_kind("ConfigMap", volume["configMap"]["name"])
    if "serviceAccountName" in pod:
        assert of_kind("ServiceAccount", pod["serviceAccountName"])
    else:
        assert pod["automountServiceAccountToken"] is False


@EVERY_WORKLOAD
def test_probes_go_where_something_listens(workload):
    for container in pod_of(workload)["containers"]:
        names = {port["name"] for port in container.get("ports", ())}
        for probe in (container.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness")):
            if probe:
                get = probe.get("httpGet") or probe.get("tcpSocket")
                if get is None:  # promtool in the pod
                    get = (
                        {"port": "http"} if "--url=http://127.0.0.1:9090" in probe["exec"]["command"] else {"port": ""}
                    )
                assert get["port"] in names or get.get("host") == "127.0.0.1"


@EVERY_WORKLOAD
def test_only_what_must_be_on_every_node_is_on_workers(workload):
    pod = pod_of(workload)
    if workload["kind"] == "DaemonSet":
        assert pod["tolerations"] == [{"operator": "Exists"}]
        assert "nodeSelector" not in pod
    else:
        assert pod["nodeSelector"] == ON_SERVER
        assert {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"} in pod["tolerations"]
        assert workload["spec"]["strategy"] == {"type": "Recreate"}  # two would want the same port and the same data


def test_nothing_but_prometheus_and_node_exporter_listens_to_others():
    listens = {}
    for workload in WORKLOADS:
        if pod_of(workload).get("hostNetwork"):
            (container,) = pod_of(workload)["containers"]
            said = [
                arg.split("=", 1)[1] for arg in container.get("args", ()) if arg.startswith("--web.listen-address=")
            ]
            said += [each["value"] for each in container.get("env", ()) if each["name"] == "GF_SERVER_HTTP_ADDR"]
            listens[workload["metadata"]["name"]] = said
    assert listens == {
        "prometheus": [":9090"],
        "node-exporter": [":9100"],
        "alertmanager": ["127.0.0.1:9093"],
        "grafana": ["127.0.0.1"],
    }


def test_a_changed_configuration_starts_its_pod_anew():
    def digest(site, name):
        found = yaml.safe_load_all(manifests.rendered(site)[manifests.file_of(name)])
        (workload,) = (each for each in found if each["kind"] == "Deployment")
        return workload["spec"]["template"]["metadata"]["annotations"]["node-fleet.io/configuration"]

    other = replace(SITE, cluster="dev-blog")
    for name in ("prometheus", "alertmanager"):
        assert digest(SITE, name) != digest(other, name)
        assert digest(SITE, name) == digest(WITHOUT_GRAFANA, name)


# ── the autoscaler's rights ──────────────────────────────────────────────────────────────────────────────────────


def test_the_role_is_exactly_what_the_code_needs():
    (role,) = of_kind("ClusterRole", "node-fleet-autoscaler")
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    }
    assert granted == {(need.group, need.resource, verb) for need in NEEDED for verb in need.verbs}
    paths = [
        (path, verb) for rule in role["rules"] for path in rule.get("nonResourceURLs", ()) for verb in rule["verbs"]
    ]
    assert paths == [(path, "get") for path in NEEDED_PATHS]
    assert "*" not in json.dumps(role)


def test_every_binding_binds_something_that_is_there():
    for binding in of_kind("ClusterRoleBinding"):
        assert of_kind("ClusterRole", binding["roleRef"]["name"])
        for subject in binding["subjects"]:
            assert of_kind(subject["kind"], subject["name"])
            assert subject["namespace"] == manifests.NAMESPACE


def test_nobody_may_read_secrets():
    for role in of_kind("ClusterRole"):
        assert not [rule for rule in role["rules"] if "secrets" in rule.get("resources", ())]


# ── budgets ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_k3s_brings_does_not_hold_its_node_for_ever():
    """The labels are those of K3s's own manifests and of Traefik's chart."""
    budgets = {each["metadata"]["name"]: each for each in of_kind("PodDisruptionBudget")}
    assert {name: each["spec"]["selector"]["matchLabels"] for name, each in budgets.items()} == {
        "coredns": {"k8s-app": "kube-dns"},
        "traefik": {"app.kubernetes.io/name": "traefik"},
        "metrics-server": {"k8s-app": "metrics-server"},
        "local-path-provisioner": {"app": "local-path-provisioner"},
    }
    for each in budgets.values():
        assert each["metadata"]["namespace"] == "kube-system"
        assert each["spec"]["maxUnavailable"] == 1  # minAvailable 1 would forbid to move the only replica


# ── the alarm clock ──────────────────────────────────────────────────────────────────────────────────────────────


def alertmanager():
    return yaml.safe_load(manifests.configuration("alertmanager", SITE))


def test_an_unschedulable_pod_is_told_at_once():
    (route,) = alertmanager()["route"]["routes"]
    (rule,) = yaml.safe_load(manifests.configuration("rules", SITE))["groups"][0]["rules"]
    assert route["group_wait"] == "0s"
    assert "for" not in rule
    assert route["matchers"] == ['wake = "true"']
    assert rule["labels"] == {"wake": "true"}


def test_what_alertmanager_publishes_is_what_the_function_understands():
    (receiver,) = (each for each in alertmanager()["receivers"] if "sns_configs" in each)
    (sns,) = receiver["sns_configs"]
    assert sns["topic_arn"] == SITE.wake_topic
    assert sns["send_resolved"] is False
    attributes = {key: {"Type": "String", "Value": value} for key, value in sns["attributes"].items()}
    event = {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": "…", "MessageAttributes": attributes}}]}
    assert triggers_in(event, ["dev-blog", SITE.cluster]) == (Trigger(cluster=SITE.cluster, urgent=True),)
    text = re.sub(r"\{\{ len .*?\}\}", "3", sns["message"]).replace("{{ .CommonLabels.alertname }}", "x")
    assert json.loads(text) == {"cluster": SITE.cluster, "alert": "x", "pods": 3}


def test_alertmanager_has_no_credentials_of_its_own():
    """It is on the host's network, and so it has the instance's role."""
    (receiver,) = (each for each in alertmanager()["receivers"] if "sns_configs" in each)
    assert receiver["sns_configs"][0]["sigv4"] == {"region": SITE.region}
    (workload,) = of_kind("Deployment", "alertmanager")
    assert pod_of(workload)["hostNetwork"] is True


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_grafana_only_its_dashboards_are_there():
    """The file stays: K3s removes what a file no longer holds, but not what a file held that is gone."""
    assert manifests.rendered(SITE).keys() == manifests.rendered(WITHOUT_GRAFANA).keys()
    (only,) = yaml.safe_load_all(manifests.rendered(WITHOUT_GRAFANA)[manifests.file_of("grafana")])
    assert only["kind"] == "ConfigMap"
    assert only["data"].keys() == manifests.dashboards().keys()


def test_a_config_map_holds_less_than_kubernetes_takes():
    for each in of_kind("ConfigMap"):
        assert sum(len(text.encode()) for text in each["data"].values()) < 900_000


def test_grafana_lets_nobody_change_anything_and_has_no_password():
    (workload,) = of_kind("Deployment", "grafana")
    told = pod_of(workload)["containers"][0]["env"]
    said = {each["name"]: each["value"] for each in told if "value" in each}
    assert said["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert said["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert not [name for name in said if "PASSWORD" in name]
    (secret,) = (each for each in told if "value" not in each)
    assert secret["valueFrom"] == {"secretKeyRef": {"name": LOGIN, "key": "password"}}


def test_prometheus_waits_for_its_login_and_scrapes_itself_by_it():
    """The Secret that the server's script makes: without it the pod does not start, and nobody is let in unasked."""
    (workload,) = of_kind("Deployment", "prometheus")
    (volume,) = (each for each in pod_of(workload)["volumes"] if each["name"] == "login")
    assert volume["secret"] == {"secretName": LOGIN}
    assert f"--web.config.file=/etc/{LOGIN}/web.yml" in pod_of(workload)["containers"][0]["args"]
    script = userdata.server(SERVER_SETTINGS)
    assert f"METRICS_SECRET={LOGIN}\n" in script
    (itself,) = (
        each
        for each in yaml.safe_load(manifests.configuration("prometheus", SITE))["scrape_configs"]
        if each["job_name"] == "prometheus"
    )
    assert itself["basic_auth"] == {"username": "node-fleet", "password_file": f"/etc/{LOGIN}/password"}
    assert "METRICS_USER=node-fleet\n" in script


def test_metrics_tell_the_labels_that_workers_get():
    assert {POOL_LABEL, CAPACITY_LABEL} <= set(manifests.NODE_LABELS)
    (workload,) = of_kind("Deployment", "kube-state-metrics")
    (allowed,) = (arg for arg in pod_of(workload)["containers"][0]["args"] if "labels-allowlist" in arg)
    assert allowed == f"--metric-labels-allowlist=nodes=[{','.join(manifests.NODE_LABELS)}]"


def test_no_secret_stands_in_a_manifest():
    text = "".join(manifests.rendered(SITE).values()).lower()
    assert not of_kind("Secret")
    assert not re.search(r"password:(?! \$prometheus_password\n)|secret_key|access_key", text)
