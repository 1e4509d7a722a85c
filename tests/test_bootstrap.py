"""Where adapters meet the loop: what a warm function keeps, what it notices, and fifty of them at once."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pytest

from nodefleet import bootstrap, settings
from nodefleet.errors import DeniedError, MisconfiguredError, UnavailableError, UnreachableError
from nodefleet.handlers import FUNCTION, report
from nodefleet.model.names import Metric
from nodefleet.model.snapshot import Deployment
from nodefleet.ports import LeaseHeld, RunResult
from support.deployed import Deployed, account, deployed, deployment, dynamodb_at, environment, lukewarm
from support.dynamo_tables import LOCAL, Client
from support.function_output import Printed
from support.wording import assert_wording

__all__ = ["account", "deployed"]

LAMBDA = Path(__file__).parents[1] / "lambda"


def kept(deployed: Deployed) -> bootstrap.ClusterClients:
    return FUNCTION.cluster_clients(deployed.site.name, deployed.store())


class AwayStore:
    """A table that does not answer."""

    def state(self):
        raise UnavailableError("DynamoDB", "timed out")


# ── warm and cold ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_warm_function_keeps_its_connection_and_its_catalogue(deployed):
    site, calls = deployed.site, FUNCTION.shared.session.calls
    site.workers(3)
    calls_so_far = [calls()]
    for _ in range(2):
        deployed.tick()
        calls_so_far.append(calls())
    before, cold, warm = calls_so_far
    assert warm - cold < cold - before  # no deployment, login or catalogue is read again
    assert site.server.connections == 1
    assert kept(deployed) is kept(deployed)


def test_a_changed_deployment_is_noticed_by_a_warm_function_within_the_hour(deployed):
    warm = kept(deployed)
    deployed.clock.passes(seconds=(bootstrap.KEPT_FOR - timedelta(minutes=1)).total_seconds())
    assert kept(deployed) is warm
    deployed.clock.passes(minutes=2)
    assert kept(deployed) is not warm
    assert kept(deployed) is kept(deployed)


def test_while_the_table_is_away_what_is_known_of_a_cluster_is_used_however_old(deployed):
    warm = kept(deployed)
    deployed.clock.passes(hours=5)
    assert FUNCTION.cluster_clients(deployed.site.name, AwayStore()) is warm


def test_what_a_cold_function_makes_without_the_table_is_not_kept(deployed):
    by_name = FUNCTION.cluster_clients(deployed.site.name, AwayStore())
    assert by_name.cluster.view().nodes == ()  # the secret's own name and its address are enough
    assert kept(deployed) is not by_name


def test_a_cluster_that_no_stack_has_written_is_asked_for_again_in_each_run(deployed):
    """It is deployed in a moment, and its workers need not wait an hour for that."""

    class Unwritten:
        def state(self):
            return replace(deployed.store().state(), deployment=None)

    FUNCTION.cluster_clients("new", Unwritten())
    assert "new" not in FUNCTION.clusters


def test_the_cluster_that_ran_last_is_forgotten_last(deployed):
    for name in ("one", "two", "one"):
        FUNCTION.cluster_clients(name, deployed.store())
    assert list(FUNCTION.clusters)[-2:] == ["two", "one"]


def test_clients_of_the_functions_own_region_are_those_of_no_region(deployed, monkeypatch):
    """The request budget of the region is one, whether the record names the region or not."""
    own = FUNCTION.shared.session
    monkeypatch.setattr(FUNCTION, "session_in", lambda _: own)
    made = FUNCTION.connect(Deployment(cluster=deployed.site.name, region="eu-west-1"), deployed.store())
    assert made.region == ""


def test_forgetting_is_as_good_as_a_cold_start(deployed, monkeypatch):
    warm, common = kept(deployed), FUNCTION.shared
    monkeypatch.setenv(settings.TABLE, "another-table")
    assert FUNCTION.settings.table == deployed.table
    FUNCTION.forget()
    assert FUNCTION.settings.table == "another-table"
    assert FUNCTION.shared is not common
    monkeypatch.setenv(settings.TABLE, deployed.table)
    FUNCTION.forget()
    assert kept(deployed) is not warm


# ── deployments that say less ────────────────────────────────────────────────────────────────────────────────────


def redeployed(deployed: Deployed, **changes: object) -> None:
    from nodefleet.adapters.dynamodb.store import put_deployment  # noqa: PLC0415

    targets = deployed.store().state().deployment.targets
    made = Deployment(**{"cluster": deployed.site.name, "targets": targets, **changes})
    put_deployment(deployed.client("dynamodb"), deployed.table, made)


def warned(capsys):
    return [line["message"] for line in Printed.since(capsys).lines if line["level"] == "WARNING"]


def test_without_an_address_in_the_deployment_the_secret_s_is_used(deployed):
    redeployed(deployed)
    assert len(deployed.tick()["did"]) == 2
    assert deployed.site.server.asked


def test_an_address_that_nobody_gave_counts_as_an_api_server_that_is_away_and_says_what_to_do(deployed, capsys):
    deployed.put_secret(
        f"node-fleet/{deployed.site.name}/kubernetes", {"token": "some-token", "ca": "-----BEGIN CERTIFICATE-----"}
    )
    redeployed(deployed)
    assert deployed.tick()["did"] == []
    said = [line["message"] for line in Printed.since(capsys).lines if "Kubernetes" in line["message"]]
    assert_wording(said, CLUSTER=deployed.site.name)


def test_a_cluster_without_prometheus_still_gets_its_workers_and_the_cause_is_said(deployed, capsys):
    redeployed(deployed)
    deployed.tick()
    assert len(deployed.site.ids()) == 2
    assert deployed.site.prometheus.asked == []
    assert_wording(warned(capsys), CLUSTER=deployed.site.name)


def test_without_a_bucket_decisions_are_recorded_but_not_archived(deployed, capsys, monkeypatch):
    monkeypatch.setenv(settings.BUCKET, "")
    lukewarm()
    assert len(deployed.tick()["did"]) == 2
    (record,) = deployed.history().decisions(5)
    assert (record.archived, bool(record.did)) == ("", True)
    assert settings.BUCKET in Printed.since(capsys).text


def test_a_cluster_that_no_stack_has_written_launches_nothing(deployed):
    deployed.client("dynamodb").delete_item(
        TableName=deployed.table,
        Key={"cluster_id": {"S": deployed.site.name}, "record": {"S": "state#stack#deployment"}},
    )
    assert deployed.tick()["did"] == []
    assert deployed.site.ids() == set()


def test_the_weekly_report_is_told_once_even_without_what_types_cost(deployed, monkeypatch, capsys):
    def denied(*_: object) -> None:
        raise DeniedError("EC2", "no", "Allow ec2:DescribeInstanceTypes")

    monkeypatch.setattr("nodefleet.adapters.aws.ec2.Ec2.catalog", denied)
    told = report.handler({"cluster": deployed.site.name}, deployed.context())["told"]
    assert report.handler({"cluster": deployed.site.name}, deployed.context())["told"] == told
    assert deployed.events() == ["report"]
    assert Printed.since(capsys).says("Allow ec2:DescribeInstanceTypes")


# ── what Lambda hears ────────────────────────────────────────────────────────────────────────────────────────────


def _raises(error: Exception):
    def go() -> RunResult:
        raise error

    return go


def test_every_cluster_has_its_run_and_what_went_wrong_is_raised_then():
    held = LeaseHeld(owner="other", expires=None)
    ran = {"a": lambda: RunResult(iterations=1, did=("x",)), "b": lambda: RunResult(held=held)}
    assert bootstrap.all_of(ran) == {
        "runs": [
            {"cluster": "a", "held": False, "looks": 1, "did": ["x"]},
            {"cluster": "b", "held": True, "looks": 0, "did": []},
        ]
    }
    first, second = UnavailableError("EC2", "x"), MisconfiguredError("y")
    with pytest.raises(UnavailableError):
        bootstrap.all_of({"c": _raises(first), **ran})
    with pytest.raises(ExceptionGroup) as raised:
        bootstrap.all_of({"c": _raises(first), "a": ran["a"], "d": _raises(second)})
    assert raised.value.exceptions == (first, second)


@pytest.mark.parametrize(
    ("answer", "clusters"),
    [
        ({"i-1": "blog", "i-2": "elsewhere"}, ("blog",)),
        ({}, ()),
        (UnavailableError("EC2", "timed out"), ("shop", "blog")),
        (DeniedError("EC2", "no", "Allow it"), ("shop", "blog")),
        (MisconfiguredError("no region"), ("shop", "blog")),
    ],
)
def test_a_machine_is_its_cluster_s_and_while_ec2_does_not_say_perhaps_anybody_s(monkeypatch, answer, clusters):
    def clusters_of(*_: object) -> dict[str, str]:
        if isinstance(answer, Exception):
            raise answer
        return answer

    environment(monkeypatch, ["shop", "blog"], "table")
    monkeypatch.setattr("nodefleet.adapters.aws.ec2.clusters_of", clusters_of)
    assert FUNCTION.owners_of(["i-1"]) == dict.fromkeys(clusters, frozenset({"i-1"}))


def test_metrics_are_written_however_a_run_ends(deployed, capsys):
    def fails() -> None:
        with FUNCTION.runtime(deployed.site.name, deployed.context()) as parts:
            parts.telemetry.metric(Metric.INVOCATIONS, 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert Printed.since(capsys).metrics == {"AutoscalerInvocations": [1.0]}
    assert FUNCTION.shared.present.telemetry is None


def test_a_run_counts_its_own_calls_only(deployed):
    deployed.tick()
    with FUNCTION.runtime(deployed.site.name, deployed.context()) as parts:
        before = parts.telemetry.calls()
        parts.cluster.view()
        parts.cloud.instances()
        assert 3 <= parts.telemetry.calls() - before <= 8
    with FUNCTION.runtime(deployed.site.name, deployed.context()) as parts:
        assert parts.telemetry.calls() <= before


def test_no_call_to_kubernetes_is_begun_that_the_run_has_no_time_for(deployed):
    hurried = FUNCTION.runtime(deployed.site.name, deployed.context(timedelta(0)))
    with hurried as parts, pytest.raises(UnavailableError) as raised:
        parts.cluster.view()
    assert_wording(str(raised.value))
    assert deployed.site.server.asked == []


def test_importing_the_handlers_loads_nothing_dear():
    """boto3, requests and the Kubernetes client are loaded when they are needed."""
    code = "import sys; from nodefleet.handlers import interruption, notify, reconcile, report; print(*sys.modules)"
    variables = {**os.environ, "PYTHONPATH": str(LAMBDA)}
    done = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)  # noqa: S603
    assert not {"boto3", "requests", "kubernetes"} & set(done.stdout.split())


# ── fifty at once ────────────────────────────────────────────────────────────────────────────────────────────────

FIFTY = 50


def all_at_once(deployed: Deployed) -> list[dict]:
    """The answers of fifty invocations that start at the same moment; raises what any of them raises."""
    start = Barrier(FIFTY)

    def invoked(_: int) -> dict:
        start.wait()
        return deployed.tick()

    with ThreadPoolExecutor(FIFTY) as threads:
        return list(threads.map(invoked, range(FIFTY)))


def one_has_acted(deployed: Deployed, ran: list[dict]) -> None:
    assert len(deployed.site.ids()) == 2
    assert len([each for each in ran if each["did"]]) == 1
    assert deployed.events().count("scale-up") == 1
    assert "owner" not in deployed.items("state#lease")[0]
    fences = [record.fence for record in deployed.history().decisions(100)]
    assert len(fences) == len(set(fences)) == len([each for each in ran if each["looks"]])


def test_of_fifty_runs_at_once_one_acts(deployed, monkeypatch):
    session = FUNCTION.shared.session
    # moto checks a condition and writes in two steps, which threads can come between.
    monkeypatch.setitem(session._clients, "dynamodb", Client(session.client("dynamodb"), one_at_a_time=True))
    kept(deployed)
    one_has_acted(deployed, all_at_once(deployed))


@pytest.mark.skipif(LOCAL not in os.environ, reason=f"{LOCAL} does not say where DynamoDB Local is")
def test_of_fifty_runs_at_once_one_acts_on_dynamodb_local(account, monkeypatch, tmp_path):
    with dynamodb_at(os.environ[LOCAL]), deployment(monkeypatch, tmp_path, clusters=1) as made:
        kept(made)
        one_has_acted(made, all_at_once(made))


def test_a_moved_api_server_is_found_after_two_calls_that_nobody_answered(deployed, monkeypatch):
    """Its address stands in the deployment's record, its certificate in the secret: a warm function reads both
    again."""
    asked: list[str] = []

    class Away:
        calls = 0

        def view(self) -> None:
            raise UnreachableError("Kubernetes", "timed out")

        def close(self) -> None:
            pass

    def at(server: str, *_: object) -> Away:
        asked.append(server)
        return Away()

    monkeypatch.setattr("nodefleet.adapters.kubernetes.cluster.KubernetesCluster.at", at)
    monkeypatch.setattr("nodefleet.adapters.aws.secrets.ASK_AGAIN_AFTER", timedelta(0))
    store = FUNCTION.store_of(deployed.site.name)
    state = store.state()
    addresses = iter(["https://new:6443", "https://newer:6443"])

    class Store:
        def state(self):
            return replace(state, deployment=replace(state.deployment, api_server=next(addresses)))

    cluster = FUNCTION.connect(replace(state.deployment, api_server="https://old:6443"), Store()).cluster
    for _ in range(5):
        with pytest.raises(UnreachableError):
            cluster.view()
    assert asked == ["https://old:6443", "https://new:6443", "https://newer:6443"]
