"""The artefact as Lambda would unpack it, made by the same builder for this machine: `make layers-here`."""

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from layers import build

from support.lambda_runtime import runtime_folder

REQUIRED = "NODEFLEET_ARTEFACT_REQUIRED"  # set where nothing may be skipped, such as on CI


@dataclass(frozen=True)
class Packaged:
    functions: Path  # /var/task
    layer: Path  # /opt/python
    runtime: Path  # what Lambda itself brings

    @property
    def path(self) -> tuple[Path, ...]:
        """In the order in which Lambda searches."""
        return self.functions, self.layer, self.runtime


def packaged(folder: Path) -> Packaged:
    """Unpacked below `folder`: today's functions, and the layer that was built from today's requirements."""
    layer = build.current_layer(build.here())
    if layer is None:
        lacking("the layer for this machine is not built, or not from these requirements: make layers-here")
    for name in ("functions", "opt", "runtime"):
        (folder / name).mkdir()
    for archive, name in ((build.pack_functions(folder / build.FUNCTIONS, build.here()), "functions"), (layer, "opt")):
        with zipfile.ZipFile(archive.path) as packed:
            packed.extractall(folder / name)
    try:
        runtime = runtime_folder(folder / "runtime")
    except LookupError as error:
        lacking(f"Lambda's runtime is incomplete, {error}: make setup")
    return Packaged(functions=folder / "functions", layer=folder / "opt" / "python", runtime=runtime)


def lacking(what: str) -> NoReturn:
    if os.environ.get(REQUIRED):
        pytest.fail(what)
    pytest.skip(what)
