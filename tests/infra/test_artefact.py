"""The packaged artefact at work: unpacked, in a clean interpreter, under AWS's own runtime client, on moto.

What runs here is what ships. A library that was trimmed too far, a file that was not packed, or an import that only
this environment satisfies shows here and nowhere else.
"""

import json
import subprocess
import sys

import pytest

from nodefleet import settings
from nodefleet.adapters.aws.session import DUALSTACK_VARIABLE
from support.deployed import account, deployed
from support.deployed_site import written
from support.ec2_fakes import REGION
from support.lambda_runtime import FunctionError, function
from support.loopback_slack import loopback_slack
from support.moto_over_http import moto_over_http
from support.packaged import packaged

__all__ = ["account", "deployed"]


@pytest.fixture(scope="module")
def artefact(tmp_path_factory):
    return packaged(tmp_path_factory.mktemp("artefact"))


@pytest.fixture
def aws(deployed):
    with moto_over_http() as served:
        yield served


def environment(deployed, aws, function_name, **more):
    """What Lambda and the stack tell a function."""
    return {
        "AWS_ENDPOINT_URL": aws.address,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "fake",
        "AWS_SECRET_ACCESS_KEY": "fake",
        "AWS_LAMBDA_FUNCTION_NAME": f"node-fleet-{function_name}",
        "TZ": ":UTC",
        "LANG": "en_US.UTF-8",
        DUALSTACK_VARIABLE: "none",
        settings.TABLE: deployed.table,
        settings.CLUSTERS: ",".join(deployed.sites),
        settings.BUCKET: deployed.bucket,
        **more,
    }


def running(name, deployed, aws, artefact, **more):
    return function(f"nodefleet.handlers.{name}.handler", environment(deployed, aws, name, **more), *artefact.path)


def test_a_reconcile_launches_the_first_workers(artefact, deployed, aws):
    site = deployed.site
    with running("reconcile", deployed, aws, artefact) as reconcile:
        (ran,) = reconcile.invoke({"cluster": site.name})["runs"]
        assert len(ran["did"]) == 2
        assert len(site.ids()) == 2
        site.join()
        (again,) = reconcile.invoke({"cluster": site.name})["runs"]  # warm
    assert again["did"] == []
    assert len(site.ids()) == 2
    assert sorted(deployed.events()) == ["policy-changed", "scale-up"]  # of one moment
    assert {asked.split()[0] for asked in aws.asked} == {"dynamodb", "ec2", "s3", "secretsmanager"}


def test_what_ec2_says_is_recorded(artefact, deployed, aws):
    """A recommendation: a warning would wait for its drain, in earnest."""
    worker, *_ = deployed.site.workers(2)
    recommendation = {
        "source": "aws.ec2",
        "detail-type": "EC2 Instance Rebalance Recommendation",
        "time": written(deployed.clock()),
        "detail": {"instance-id": worker},
    }
    with running("interruption", deployed, aws, artefact) as interruption:
        (ran,) = interruption.invoke(recommendation)["runs"]
    assert ran["looks"] == 1
    assert [notice.instance for notice in deployed.store().state().notices] == [worker]


def test_events_reach_slack(artefact, deployed, aws):
    deployed.tick()
    with loopback_slack() as slack:
        deployed.put_secret("node-fleet/hook", {"url": slack.hook.url})
        more = {settings.SLACK: "node-fleet/hook"}
        with running("notify", deployed, aws, artefact, **more) as notify:
            assert notify.invoke(deployed.stream()) == {"batchItemFailures": []}
    assert len(slack.messages) == len(deployed.items("sent#")) > 0


def test_the_week_is_told(artefact, deployed, aws):
    deployed.tick()
    with running("report", deployed, aws, artefact) as report:
        (told,) = report.invoke({"cluster": deployed.site.name})["told"]
    assert "report" in deployed.events(), told


def test_what_a_function_raises_comes_out_of_the_runtime(artefact, deployed, aws):
    with (
        running("notify", deployed, aws, artefact) as notify,
        pytest.raises(FunctionError, match=r"NODEFLEET_SLACK_SECRET.*MisconfiguredError"),
    ):
        notify.invoke({"Records": []})


# ── what is in it ────────────────────────────────────────────────────────────────────────────────────────────────

EVERYTHING = """
import importlib, json, pkgutil, sys
sys.path[:0] = sys.argv[1:]
import nodefleet
for module in pkgutil.walk_packages(nodefleet.__path__, "nodefleet."):
    importlib.import_module(module.name)
from nodefleet.adapters.kubernetes import cluster
from kubernetes.client.configuration import Configuration
cluster.ClientTransport(Configuration(host="https://127.0.0.1"))
print(json.dumps(sorted({getattr(module, "__file__", None) or "" for module in sys.modules.values()})))
"""


def test_every_module_finds_what_it_imports_in_the_artefact_or_the_runtime(artefact):
    done = subprocess.run(  # noqa: S603  # ours
        [sys.executable, "-I", "-S", "-B", "-c", EVERYTHING, *map(str, artefact.path)],
        capture_output=True,
        text=True,
        env={},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)
    assert any(file.startswith(str(artefact.layer / "kubernetes")) for file in files)
    assert not any("site-packages" in file for file in files if not file.startswith(str(artefact.runtime)))


def test_no_file_ships_that_only_this_machine_could_have_made(artefact):
    shipped = [path for folder in (artefact.functions, artefact.layer) for path in folder.rglob("*")]
    assert not [path for path in shipped if path.suffix in (".pyi", ".egg-info")]
    assert not [path for path in shipped if path.name in ("tests", "RECORD", "direct_url.json")]
