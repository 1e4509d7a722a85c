"""How each part is had: from the Go module registry, from Maven Central, from Debian.

Versions stand in go.mod and pom.xml only; Prometheus is the one that this machine's Debian has.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .needed import MissingToolError, go, tool
from .places import DYNAMODB_LOCAL, MODULES
from .store import BuildFailedError, Recipe, made, place, run_step


@dataclass(frozen=True, slots=True, kw_only=True)
class GoRecipe:
    name: str  # also the folder of its go.mod
    module: str
    programs: Mapping[str, str]  # file name → package
    stamps: Mapping[str, str] = field(default_factory=dict)  # what the linker writes in
    scripts: Mapping[str, str] = field(default_factory=dict)  # path in a module that is required → that module
    costs: str

    @property
    def sources(self) -> Sequence[Path]:
        folder = MODULES / self.name
        return [folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))]

    @property
    def version(self) -> str:
        return _found(rf"{re.escape(self.module)} (v[\w.]+)", self.sources[0])

    def check_tools(self) -> None:
        go()

    def make(self, folder: Path) -> None:
        numbers = dict(zip(("major", "minor"), self.version.removeprefix("v").split("."), strict=False))
        stamps = [f"-X {name}={value.format(version=self.version, **numbers)}" for name, value in self.stamps.items()]
        linker = " ".join(["-s -w", *stamps])
        for name, package in self.programs.items():
            command = [go(), "build", "-v", "-trimpath", "-ldflags", linker, "-o", str(folder / name), package]
            # The target is this machine; cgo would ask for a C compiler and buy nothing.
            run_step(f"{self.name} {self.version}: {name}", command, MODULES / self.name, {"CGO_ENABLED": "0"})
        for script, module in self.scripts.items():
            source = _module_folder(module, MODULES / self.name) / script
            shutil.copyfile(source, folder / source.name)
            (folder / source.name).chmod(0o755)


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamoDbRecipe:
    name: str = "dynamodb-local"
    costs: str = "50 MB, some seconds"

    @property
    def sources(self) -> Sequence[Path]:
        return [DYNAMODB_LOCAL / "pom.xml", DYNAMODB_LOCAL / "LoopbackDynamoDb.java"]

    @property
    def version(self) -> str:
        return _found(r"<artifactId>DynamoDBLocal</artifactId>\s*<version>([\w.]+)</version>", self.sources[0])

    def check_tools(self) -> None:
        for name in ("java", "javac", "mvn"):
            tool(name)

    def make(self, folder: Path) -> None:
        copy = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'lib'}"]
        run_step(f"{self.name} {self.version}: download", [tool("mvn"), "-B", "-q", *copy], DYNAMODB_LOCAL)
        classes = ["-cp", f"{folder / 'lib'}/*", "-d", str(folder / "classes"), str(self.sources[1])]
        run_step(f"{self.name} {self.version}: compile", [tool("javac"), *classes], DYNAMODB_LOCAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianRecipe:
    """A package, unpacked but not installed: no root, no service that starts by itself."""

    name: str
    program: str
    costs: str
    sources: Sequence[Path] = ()

    @property
    def version(self) -> str:
        if shutil.which("apt-cache") is None:
            raise self._missing()
        policy = subprocess.run(["apt-cache", "policy", self.name], check=False, capture_output=True, text=True)  # noqa: S603, S607
        candidate = re.search(r"Candidate: ([^\s(]+)", policy.stdout)
        if candidate is None:
            raise self._missing()
        return candidate[1]

    def check_tools(self) -> None:
        if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
            raise self._missing()

    def make(self, folder: Path) -> None:
        run_step(f"{self.name}: download", ["apt-get", "download", self.name], folder)
        (package,) = folder.glob("*.deb")
        run_step(f"{self.name}: unpack", ["dpkg-deb", "--extract", str(package), str(folder)], folder)
        package.unlink()

    def _missing(self) -> MissingToolError:
        return MissingToolError(f"MISSING: {self.name}: apt-get update && apt-get install {self.name}")


_STAMP = "k8s.io/component-base/version"
_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
GO_PARTS = (
    GoRecipe(
        name="etcd",
        module="go.etcd.io/etcd/server/v3",
        programs={"etcd": "go.etcd.io/etcd/server/v3"},
        costs="about 2 CPU-minutes",
    ),
    GoRecipe(
        name="kubernetes",
        module="k8s.io/kubernetes",
        programs={name: f"k8s.io/kubernetes/cmd/{name}" for name in _KUBERNETES},
        stamps={f"{_STAMP}.gitVersion": "{version}", f"{_STAMP}.gitMajor": "{major}", f"{_STAMP}.gitMinor": "{minor}"},
        costs="about 9 CPU-minutes",
    ),
    GoRecipe(
        name="kwok",
        module="sigs.k8s.io/kwok",
        programs={"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
        costs="about 3 CPU-minutes",
    ),
    GoRecipe(
        name="kube-state-metrics",
        module="k8s.io/kube-state-metrics/v2",
        programs={"kube-state-metrics": "k8s.io/kube-state-metrics/v2"},
        costs="about 3 CPU-minutes",
    ),
    GoRecipe(
        name="kubectl",
        module="k8s.io/kubectl",
        programs={"kubectl": "."},
        costs="about 2 CPU-minutes",
    ),
    GoRecipe(
        name="alertmanager",
        module="github.com/prometheus/alertmanager",
        programs={"alertmanager": "github.com/prometheus/alertmanager/cmd/alertmanager"},
        costs="about 1 CPU-minute",
    ),
)
_PULUMI_SDK = "github.com/pulumi/pulumi/sdk/v3"
PULUMI = GoRecipe(
    name="pulumi",
    module="github.com/pulumi/pulumi/pkg/v3",
    programs={"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"},
    stamps={f"{_PULUMI_SDK}/go/common/version.Version": "{version}"},
    scripts={
        "python/cmd/pulumi-language-python-exec": _PULUMI_SDK,
        "python/dist/pulumi-resource-pulumi-python": _PULUMI_SDK,
    },
    costs="about 9 CPU-minutes",
)
PULUMI_PYTHON = GoRecipe(
    name="pulumi-language-python",
    module=_PULUMI_SDK,
    programs={"pulumi-language-python": f"{_PULUMI_SDK}/python/cmd/pulumi-language-python"},
    costs="about 1 CPU-minute",
)
GO_PARTS += (PULUMI, PULUMI_PYTHON)
DYNAMODB = DynamoDbRecipe()
PROMETHEUS = DebianRecipe(name="prometheus", program="prometheus", costs="20 MB")
RECIPES: tuple[Recipe, ...] = (DYNAMODB, PROMETHEUS, *GO_PARTS)


def program(name: str) -> str:
    """The executable: from KUBEBUILDER_ASSETS or PATH if it is there, else our own, made now if need be."""
    if found := _installed(name):
        return found
    if name == PROMETHEUS.program:
        return str(made(PROMETHEUS) / "usr" / "bin" / name)
    recipe = next(each for each in GO_PARTS if name in each.programs)
    return str(made(recipe) / name)


def dynamodb_local() -> Path:
    """The folder with DynamoDB Local's jars in lib/ and our main class in classes/."""
    return made(DYNAMODB)


def missing_tools() -> list[str]:
    """A line for each tool that is missing for something that is not there yet. Empty: all parts can be had."""
    lines: dict[str, None] = {}
    for recipe in RECIPES:
        try:
            if not _there(recipe):
                recipe.check_tools()
        except MissingToolError as missing:
            lines[str(missing)] = None
    return list(lines)


def _there(recipe: Recipe) -> bool:
    match recipe:
        case GoRecipe(programs=programs) if all(map(_installed, programs)):
            return True
        case DebianRecipe(program=name) if _installed(name):
            return True
        case DynamoDbRecipe():
            tool("java")  # to run it, also when there is nothing to make
    return place(recipe).is_dir()


def _installed(name: str) -> str | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    return (shutil.which(name, path=assets) if assets else None) or shutil.which(name)


def _module_folder(module: str, inside: Path) -> Path:
    """Where Go keeps the sources of a module that the go.mod of this folder requires."""
    command = [go(), "list", "-m", "-f", "{{.Dir}}", module]
    listed = subprocess.run(command, cwd=inside, check=True, capture_output=True, text=True)  # noqa: S603
    return Path(listed.stdout.strip())


def _found(pattern: str, source: Path) -> str:
    match = re.search(pattern, source.read_text())
    if match is None:
        raise BuildFailedError(f"{source} names no version: nothing matches {pattern}")
    return match[1]
