"""The units that user data writes are read by systemd's own parser: keys, values, dependencies and commands that exist.

Amazon Linux 2023 has systemd 252, as Debian 12 has. Nothing is started: there is no systemd at work in the tests.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.userdata_machines import AGENT, as_server, as_worker
from support.userdata_sandbox import SECURE_TOKEN, Sandbox, runs_here

ANALYZE = shutil.which("systemd-analyze")
pytestmark = [
    pytest.mark.skipif(bool(runs_here()), reason=runs_here()),
    pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze is missing: NOT checked"),
]
EXPOSURE = re.compile(r"Overall exposure level for \S+: ([\d.]+)")
WATCHER = "node-fleet-pending.service"


def units_of(machine: Sandbox, folder: Path) -> list[Path]:
    """Its units, with the paths of the sandbox's own programs."""
    found = []
    for each in sorted((machine.root / "etc/systemd/system").iterdir()):
        text = each.read_text().replace("/usr/local/", f"{machine.root}/usr/local/")
        found.append(folder / each.name)
        found[-1].write_text(text)
    return found


def asked(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(ANALYZE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


@pytest.fixture(scope="module")
def of_the_server(tmp_path_factory):
    machine = Sandbox(tmp_path_factory.mktemp("server"))
    assert as_server(machine).code == 0
    return units_of(machine, tmp_path_factory.mktemp("units"))


def test_systemd_finds_nothing_wrong_with_the_servers_units(of_the_server):
    names = {each.name for each in of_the_server}
    assert names >= {"k3s.service", "node-fleet-keep.timer", "node-fleet-snapshot.service", WATCHER}
    ran = asked("verify", "--man=no", *of_the_server)
    assert (ran.stderr.strip(), ran.returncode) == ("", 0)


def test_systemd_finds_nothing_wrong_with_a_workers_unit(tmp_path):
    machine = Sandbox(tmp_path / "machine")
    machine.give_secret(AGENT, SECURE_TOKEN)
    assert as_worker(machine).code == 0
    (unit,) = units_of(machine, tmp_path)
    ran = asked("verify", "--man=no", unit)
    assert (unit.name, ran.stderr.strip(), ran.returncode) == ("k3s-agent.service", "", 0)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("DynamicUser=", "DynamicUsr="), ("RestartSec=5s", "RestartSec=5 x"), ("node-fleet-server pending", "no-program")],
)
def test_systemd_would_notice(of_the_server, tmp_path, right, wrong):
    (unit,) = [each for each in of_the_server if each.name == WATCHER]
    text = unit.read_text()
    assert right in text
    (tmp_path / WATCHER).write_text(text.replace(right, wrong))
    assert asked("verify", "--man=no", tmp_path / WATCHER).stderr.strip()


def test_the_watcher_is_confined_by_systemds_own_measure(of_the_server):
    """From 0 to 10; a unit without any of it has 9.6."""
    (unit,) = [each for each in of_the_server if each.name == WATCHER]
    found = EXPOSURE.search(asked("security", "--offline=true", "--no-pager", unit).stdout)
    assert found is not None
    assert float(found[1]) < 4
