"""The harness itself, on stand-ins: what is started ends, what fails says why, what is missing is named."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from e2e.parts import get, needed
from e2e.parts.needed import MissingToolError
from e2e.parts.part import LOOPBACK, Part, PartFailedError, answers, free_ports
from e2e.parts.places import MODULES
from e2e.parts.recipes import GO_PARTS, missing_tools, program
from e2e.parts.running import NEEDS, with_needs
from e2e.parts.store import BuildFailedError, made, run_step

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STARTER = """
import sys, time
from pathlib import Path
from e2e.parts.part import Part
folder = Path(sys.argv[1])
Part("sleeper", sys.argv[2:], ready=(folder / "sleeper.pid").exists, folder=folder).start()
print("started", flush=True)
time.sleep(60)
"""


def eventually(true: Callable[[], bool], seconds: float = 5.0) -> bool:
    until = time.monotonic() + seconds
    while not true() and time.monotonic() < until:
        time.sleep(0.02)
    return true()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def web_server(folder: Path) -> tuple[Part, str]:
    (port,) = free_ports(1)
    url = f"http://{LOOPBACK}:{port}"
    command = [sys.executable, "-m", "http.server", str(port), "--bind", LOOPBACK, "--directory", str(folder)]
    return Part("web", command, ready=lambda: answers(url), folder=folder), url


def test_a_part_ends_with_a_starter_that_was_killed(tmp_path):
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", STARTER, str(tmp_path), *SLEEP],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    ) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        pid = int((tmp_path / "sleeper.pid").read_text())
        assert not gone(pid)
        starter.send_signal(signal.SIGKILL)
    assert eventually(lambda: gone(pid))


def test_a_part_that_is_started_again_is_found_where_it_was(tmp_path):
    part, url = web_server(tmp_path)
    part.start()
    assert answers(url)
    part.kill()
    assert not part.running
    assert not answers(url)
    part.restart()
    assert answers(url)
    part.stop()
    assert not answers(url)


def test_a_paused_part_neither_answers_nor_outlives_its_stop(tmp_path):
    part, url = web_server(tmp_path)
    part.start()
    part.pause()
    assert not answers(url)
    part.resume()
    assert answers(url)
    part.pause()
    part.stop()
    assert not part.running


def test_a_part_that_ends_by_itself_says_its_last_words(tmp_path):
    part = Part("brief", [sys.executable, "-c", "print('no such flag')"], ready=lambda: False, folder=tmp_path)
    with pytest.raises(PartFailedError, match=r"(?s)brief ended by itself.*brief\.log.*no such flag"):
        part.start()
    part.stop()


def test_a_part_that_never_gets_ready_is_an_error_in_the_end(tmp_path):
    part = Part("slow", SLEEP, ready=lambda: False, folder=tmp_path, patience=0.2)
    with pytest.raises(PartFailedError, match=r"slow was not ready after 0\.2 s"):
        part.start()
    part.stop()


def test_ports_differ_and_are_not_those_that_clients_get():
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert max(ports) < 32768


def test_what_a_part_needs_comes_along_in_starting_order():
    assert with_needs(["scheduler", "dynamodb"]) == ["dynamodb", "etcd", "apiserver", "scheduler"]
    assert with_needs(list(NEEDS)) == list(NEEDS)
    with pytest.raises(ValueError, match=r"no such part: etc\. There are: dynamodb, etcd"):
        with_needs(["etc"])


@pytest.fixture
def nothing_there(monkeypatch, tmp_path):
    """No tools, no parts in the cache, nothing installed."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setattr(needed, "_USUAL_GO", tmp_path / "go")
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_each_missing_tool_is_one_line_that_says_how_to_get_it(nothing_there):
    lines = missing_tools()
    assert [line.split(":")[1].strip() for line in lines] == [
        "Java 17 or newer",
        "prometheus",
        "Go 1.24 or newer",
    ]
    assert all("apt-get" in line and "\n" not in line for line in lines)


def test_a_go_that_is_too_old_is_missing_too(nothing_there):
    script(nothing_there / "go", "echo go1.19.8")
    with pytest.raises(MissingToolError, match=r"Go 1\.24 or newer.*this is go1\.19\.8"):
        needed.go()


def test_what_is_installed_is_not_built(nothing_there, monkeypatch, tmp_path):
    script(nothing_there / "etcd", "")
    assert program("etcd") == str(nothing_there / "etcd")
    assets = tmp_path / "assets"
    assets.mkdir()
    script(assets / "etcd", "")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert program("etcd") == str(assets / "etcd")


@dataclass
class Stew:
    """A recipe for the store: counts how often it was made, and may fail."""

    sources: Sequence[Path]
    name: str = "stew"
    version: str = "v1"
    costs: str = "nothing"
    fails: bool = False
    times: list[Path] = field(default_factory=list)

    def check_tools(self) -> None:
        pass

    def make(self, folder: Path) -> None:
        self.times.append(folder)
        (folder / "bowl").touch()
        if self.fails:
            raise BuildFailedError("burnt")


def test_a_part_is_made_once_and_anew_when_its_sources_change(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "go.mod"
    source.write_text("one")
    stew = Stew([source])
    first = made(stew)
    assert made(stew) == first
    assert len(stew.times) == 1
    source.write_text("two")
    assert made(stew) != first
    assert len(stew.times) == 2


def test_a_failed_build_leaves_nothing_that_looks_made(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "go.mod"
    source.touch()
    with pytest.raises(BuildFailedError):
        made(Stew([source], fails=True))
    stew = Stew([source])
    assert (made(stew) / "bowl").exists()
    assert len(stew.times) == 1


def test_a_failed_step_says_what_its_command_said(tmp_path):
    with pytest.raises(BuildFailedError, match=r"(?s)soup failed.*no such module"):
        run_step("soup", [sys.executable, "-c", "import sys; print('no such module'); sys.exit(3)"], tmp_path)


@pytest.mark.parametrize(
    "said",
    [
        'go: k8s.io/kubernetes@v1.34.4: Get "https://host/x": dial tcp: lookup host: no such host',
        "Could not transfer artifact com.amazonaws:DynamoDBLocal from/to central: Unknown host repo",
        "E: Failed to fetch http://host/pool/p.deb  Temporary failure resolving 'host'",
    ],
)
def test_without_a_way_to_the_registry_everything_is_skipped_with_a_loud_reason(monkeypatch, tmp_path, capsys, said):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", ["get"])

    class Far(Stew):
        def make(self, folder: Path) -> None:
            run_step("far", [sys.executable, "-c", f"import sys; print({said!r}); sys.exit(1)"], folder)

    monkeypatch.setattr(get, "RECIPES", [Far(())])
    monkeypatch.setattr(get, "missing_tools", list)
    assert get.main() == get.SKIPPED
    printed = capsys.readouterr().err
    assert "e2e SKIPPED" in printed
    assert said in printed


def test_the_libraries_are_of_the_same_release_as_the_control_plane():
    (kubernetes,) = (each for each in GO_PARTS if each.name == "kubernetes")
    wanted = kubernetes.version.replace("v1.", "v0.")
    replaced = [line.split() for line in (MODULES / "kubernetes" / "go.mod").read_text().splitlines() if "=>" in line]
    assert len(replaced) > 25
    assert {(new, version) for _, _, new, version in replaced} == {(old, wanted) for old, *_ in replaced}
