"""Pulumi's command line with all it needs in a folder of its own: backend, plugins, passphrase, a fresh checkout.

    with engine(folder) as pulumi:
        pulumi("stack", "init", "dev")
        ran = pulumi.up()
        ran.steps  # what it did to which resource, in turn

Commands run as an operator types them, with `pulumi` on PATH: see `Engine.shell`. Nothing here leaves the folder, and
what listens, listens on 127.0.0.1.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import boto3
from moto import mock_aws

from e2e.parts.recipes import program
from support.moto_over_http import moto_over_http

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"
PROVIDER = version("pulumi_aws")
_LONGEST = 600.0  # seconds for one command
_EVENTS = "events.jsonl"
_NOTHING = frozenset({"same", "read", "refresh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the engine did, or in a preview would do, to one resource."""

    op: str  # create, update, delete, replace, create-replacement, delete-replaced
    type: str  # aws:ec2/vpc:Vpc
    name: str
    keys: tuple[str, ...] = ()  # the inputs that differ

    def __str__(self) -> str:
        return f"{self.op} {self.type.rpartition(':')[2]} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of one command."""

    code: int
    output: str
    steps: tuple[Step, ...] = ()  # done
    planned: tuple[Step, ...] = ()  # what the preview said before

    @property
    def ok(self) -> bool:
        return self.code == 0


@dataclass(kw_only=True)
class Engine:
    folder: Path
    checkout: Path
    endpoint: str
    region: str
    environment: dict[str, str] = field(default_factory=dict)

    def shell(self, script: str, *, stdin: str = "", check: bool = True) -> Ran:
        """A piece of a page, as bash runs it in the checkout. It stops at the first command that fails.

        The steps are those of its last command of Pulumi's that takes any.
        """
        log = self.folder / _EVENTS
        log.unlink(missing_ok=True)
        ran = subprocess.run(  # noqa: S603
            ["bash", "-euo", "pipefail", "-c", script],  # noqa: S607
            cwd=self.checkout,
            env=self.environment,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_LONGEST,
            input=stdin,
        )
        found = Ran(
            code=ran.returncode,
            output=ran.stdout,
            steps=_steps(log, "resOutputsEvent", planning=False),
            planned=_steps(log, "resourcePreEvent", planning=True),
        )
        assert found.ok or not check, f"{script}\nfailed:\n{found.output}"
        return found

    def __call__(self, *arguments: str, check: bool = True) -> Ran:
        """One command of Pulumi's."""
        return self.shell(shlex.join(["pulumi", *arguments]), check=check)

    def preview(self, *arguments: str, check: bool = True) -> Ran:
        return self("preview", *arguments, check=check)

    def up(self, *arguments: str, check: bool = True) -> Ran:
        """Without the preview that it would begin with: that takes half of the time."""
        return self("up", "--skip-preview", *arguments, check=check)

    def destroy(self, *arguments: str, check: bool = True) -> Ran:
        return self("destroy", "--skip-preview", *arguments, check=check)

    def refuse(self, *lines: str) -> None:
        """ "create shop-master": changes whose URN holds this are refused from now on. None: no more."""
        (self.folder / "provider" / "refused").write_text("\n".join(lines))

    def publish_image(self, image: str) -> None:
        """The newest Amazon Linux from now on."""
        (self.folder / "provider" / "image").write_text(image)

    def withdraw_image(self) -> None:
        (self.folder / "provider" / "image").unlink()

    def left(self) -> list[str]:
        """Names that AWS would still have, of what moto does not keep."""
        register = self.folder / "provider" / "register.json"
        return [" ".join(each) for each in json.loads(register.read_text())] if register.exists() else []

    def client(self, service: str) -> Any:
        return boto3.client(service, region_name=self.region)

    def outputs(self) -> dict[str, Any]:
        return dict(json.loads(self.shell("pulumi stack output --json 2>/dev/null").output))

    def resources(self) -> list[dict[str, Any]]:
        """As the stack's state has them."""
        exported = json.loads(self.shell("pulumi stack export 2>/dev/null").output)
        return list(exported["deployment"].get("resources", []))


@contextmanager
def engine(folder: Path, region: str = "ap-southeast-1") -> Iterator[Engine]:
    """In moto; clients of the test's own see the same account."""
    checkout = fresh_checkout(folder / "checkout")
    with mock_aws(), moto_over_http() as moto:
        environment = _environment(folder, checkout, moto.address, region)
        yield Engine(folder=folder, checkout=checkout, endpoint=moto.address, region=region, environment=environment)


def fresh_checkout(target: Path) -> Path:
    """What a clone has, as a repository of its own, with an environment as `make setup` would leave it.

    Libraries are those of this environment; the code is the checkout's own, so that it can be changed.
    """
    target.mkdir(parents=True)
    tracked = _git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, tracked):
        source, copy = ROOT / name, target / name
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    _git(target, "init", "--quiet")
    _git(target, "add", "--all")
    _git(target, "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "--message", "All")
    _environment_of_python(target)
    # What `make layers` downloads once is there already; what it builds, too, if it is up to date.
    (target / "build").mkdir()
    (ROOT / "build" / "wheels").mkdir(parents=True, exist_ok=True)
    (target / "build" / "wheels").symlink_to(ROOT / "build" / "wheels")
    if (built := ROOT / "build" / "arm64-py313").is_dir():
        shutil.copytree(built, target / "build" / built.name)
    return target


def _environment_of_python(checkout: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(checkout / ".venv")], check=True)  # noqa: S603
    (packages,) = (checkout / ".venv").glob("lib/python*/site-packages")
    libraries = [Path(each) for each in sys.path if each.endswith("site-packages")]
    paths = [*(checkout / each for each in ("lambda", "tools", "infra", ".")), *libraries]
    (packages / "checkout.pth").write_text("".join(f"{path.resolve()}\n" for path in paths))
    command = "from nodefleet_tools.cli.main import main; main()"
    _executable(checkout / ".venv/bin/nodefleet", f"exec '{checkout}/.venv/bin/python' -c '{command}' \"$@\"")
    (checkout / ".venv" / ".ready").touch()


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout  # noqa: S603, S607


def _environment(folder: Path, checkout: Path, endpoint: str, region: str) -> dict[str, str]:
    home = folder / "home"
    plugin = home / "plugins" / f"resource-aws-v{PROVIDER}"
    plugin.mkdir(parents=True)
    # The provider runs on the tests' own environment, whatever the engine sets for the program.
    command = f'PYTHONPATH="{TESTS}:{ROOT}/lambda" exec "{sys.executable}" -m e2e.engine.provider {PROVIDER}'
    _executable(plugin / "pulumi-resource-aws", command)
    (folder / "state").mkdir()
    (folder / "provider").mkdir()
    pulumi = Path(program("pulumi"))
    (folder / "bin").mkdir()
    # As typed, and the engine's own account of it beside.
    noted = f'case "$1" in preview|up|destroy|refresh) set -- "$@" --event-log=\'{folder / _EVENTS}\';; esac'
    _executable(folder / "bin" / "pulumi", f"{noted}\nexec '{pulumi}' \"$@\"")
    # The language host looks for its script beside itself, and the two come from two versions.
    host = Path(program("pulumi-language-python"))
    for needed in (host, pulumi.parent / "pulumi-language-python-exec"):
        shutil.copy2(needed, folder / "bin")
    path = [str(folder / "bin"), os.environ.get("PATH", "")]
    return {
        "PATH": os.pathsep.join(path),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PULUMI_HOME": str(home),
        "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        "PULUMI_CONFIG_PASSPHRASE": "only here",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_SKIP_CONFIRMATIONS": "true",
        "PULUMI_DEBUG_COMMANDS": "true",  # for --event-log
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        # The language host is older than the engine and is not told of `virtualenv`.
        "PULUMI_PYTHON_CMD": str(checkout / ".venv" / "bin" / "python"),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NODEFLEET_PROVIDER_FOLDER": str(folder / "provider"),
        "NO_COLOR": "1",
    }


def _executable(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def _steps(log: Path, event: str, *, planning: bool) -> tuple[Step, ...]:
    """From the engine's own account, in the order in which it was done."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    found = [each[event] for each in lines if event in each]
    steps = [each["metadata"] for each in found if bool(each.get("planning")) is planning]
    return tuple(_step(each) for each in steps if each["op"] not in _NOTHING and not each["type"].startswith("pulumi:"))


def _step(metadata: dict[str, Any]) -> Step:
    urn: Sequence[str] = metadata["urn"].split("::", 3)
    keys = metadata.get("diffs") or sorted(metadata.get("detailedDiff") or {})
    return Step(op=metadata["op"], type=metadata["type"], name=urn[3], keys=tuple(keys))
