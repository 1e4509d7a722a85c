"""A real Prometheus behind the login that the server's script makes: who gets in, and who does not."""

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

from nodefleet.adapters.credentials import ApiLogin, MetricsLogin
from nodefleet.adapters.prometheus import PrometheusClient, QueryResult
from nodefleet.model.snapshot import Missing
from nodefleet_infra import manifests
from support.shipped_metrics import SITE, scrape_configs
from support.userdata_machines import API, as_server
from support.userdata_sandbox import Sandbox, login_in, runs_here

PROGRAM, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="prometheus is missing (Debian: prometheus): its login was NOT tried"),
    pytest.mark.skipif(bool(runs_here()), reason=runs_here() or "-"),
]
FOLDER = "/etc/prometheus-login"  # in the pod
SOON = timedelta(seconds=5)


@dataclass(kw_only=True)
class Running:
    machine: Sandbox
    address: str
    files: Path  # what the Secret holds

    def take_up(self) -> MetricsLogin:
        """The Secret's files as the kubelet would bring them into the pod; and the login as the functions read it."""
        for path in (self.machine.world / "prometheus-login").iterdir():
            fresh = self.files / f".{path.name}"
            fresh.write_text(path.read_text().replace(FOLDER, str(self.files)))
            fresh.rename(self.files / path.name)
        login = ApiLogin(**login_in(self.machine, API)).metrics
        assert login is not None
        return login

    def ask(self, query: str, login: MetricsLogin | None) -> QueryResult | Missing:
        return PrometheusClient(self.address, lambda: login).ask(query, SOON)

    def promtool(self, check: str, *arguments: str) -> int:
        command = [str(PROMTOOL), "check", check, *arguments]
        if check != "--help":
            command.append(f"--url={self.address}")
        return subprocess.run(command, check=False, capture_output=True).returncode  # noqa: S603


def eventually(true: Callable[[], object], seconds: float = 40) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With the manifest's own flags, and of the configuration the one job that can run here: Prometheus itself."""
    folder = tmp_path_factory.mktemp("prometheus")
    machine = Sandbox(folder / "machine")
    machine.note("hashes", "really")  # a real Prometheus compares with it
    assert as_server(machine).code == 0
    files = folder / "login"
    files.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    found = Running(machine=machine, address=f"http://{address}", files=files)
    found.take_up()
    job = scrape_configs()["prometheus"] | {"scrape_interval": "1s", "scrape_timeout": "1s"}
    job["static_configs"] = [{"targets": [address]}]
    job["basic_auth"]["password_file"] = job["basic_auth"]["password_file"].replace(FOLDER, str(files))
    (folder / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}))
    flags = [flag.replace(FOLDER, str(files)) for flag in deployed()["args"] if flag.startswith("--web.config")]
    command = [str(PROGRAM), f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen([*command, f"--web.listen-address={address}", *flags], stderr=log) as process,  # noqa: S603
    ):
        try:
            eventually(lambda: status_of(f"http://{address}/-/ready") is not None)
            yield found
        finally:
            process.terminate()


def deployed() -> dict:
    documents = yaml.safe_load_all(manifests.rendered(SITE)[manifests.file_of("prometheus")])
    (deployment,) = (each for each in documents if each["kind"] == "Deployment")
    return deployment["spec"]["template"]["spec"]["containers"][0]


def status_of(url: str) -> int | None:
    try:
        with urlopen(url, timeout=5) as answer:  # noqa: S310
            return answer.status
    except HTTPError as refused:
        with refused:
            return refused.code
    except OSError:
        return None


@pytest.mark.parametrize("path", ["/api/v1/query?query=up", "/metrics", "/federate", "/-/healthy", "/"])
def test_nobody_is_answered_without_the_login(running, path):
    assert status_of(f"{running.address}{path}") == HTTPStatus.UNAUTHORIZED


def test_the_functions_login_is_answered_and_a_wrong_one_is_not(running):
    login = running.take_up()
    assert isinstance(running.ask("vector(1)", login), QueryResult)
    wrong = MetricsLogin(username=login.username, password="0" * 64)
    assert isinstance(running.ask("vector(1)", wrong), Missing)
    assert isinstance(running.ask("vector(1)", None), Missing)


def test_it_scrapes_itself_by_its_own_login(running):
    def scraped() -> bool:
        found = running.ask('up{job="prometheus"} == 1', running.take_up())
        return isinstance(found, QueryResult) and bool(found.series)

    eventually(scraped)


def test_the_kubelets_probe_gets_in(running):
    program, check, what, *rest = deployed()["readinessProbe"]["exec"]["command"]
    config = [each.replace(FOLDER, str(running.files)) for each in rest if each.startswith("--http.config.file")]
    assert (program, check, len(config)) == ("promtool", "check", 1)
    if running.promtool("--help", what):
        pytest.skip(f"this promtool is older than `check {what}`: the probe was NOT tried")
    eventually(lambda: running.promtool(what, *config) == 0)
    assert running.promtool(what) != 0, "without the login it would not"


def test_the_probes_that_can_end_the_pod_need_no_login():
    for probe in ("startupProbe", "livenessProbe"):
        assert deployed()[probe]["tcpSocket"] == {"port": "http"}


def test_another_login_counts_at_once_and_the_old_one_no_longer(running):
    """Without a restart: no reading is lost for it."""
    old = running.take_up()
    shutil.rmtree(running.machine.world / "prometheus-login")
    assert as_server(running.machine, "keep").code == 0
    new = running.take_up()
    assert new != old
    assert isinstance(running.ask("vector(1)", new), QueryResult)
    assert isinstance(running.ask("vector(1)", old), Missing)
