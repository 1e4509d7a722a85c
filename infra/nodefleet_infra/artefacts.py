"""What `make layers` built. A preview must not build anything, but it must say so when there is nothing to deploy, or
when what is there was built from something else than what stands here now."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodefleet.model.serialization import ValidationError, ValidationIssue

if TYPE_CHECKING:
    from layers.build import Target

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "arm64-py313"
_MANIFEST = "artefacts.json"
_PARTS = ("layer", "functions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefact:
    path: Path
    digest: str  # of the content: the same content is the same deployment, whenever it was packed


@dataclass(frozen=True, slots=True, kw_only=True)
class Artefacts:
    layer: Artefact
    functions: Artefact


def found(folder: Path = FOLDER, target: "Target | None" = None) -> Artefacts:
    """RefusedError if they were not built, or not from this tree. `target` is what they are for; none: Lambda."""
    manifest = folder / _MANIFEST
    try:
        said = json.loads(manifest.read_text())
        parts = {name: Artefact(path=folder / said[name]["path"], digest=said[name]["content"]) for name in _PARTS}
    except FileNotFoundError:
        raise ValidationError([_problem(manifest, "is missing")]) from None
    except (ValueError, KeyError, TypeError):
        raise ValidationError([_problem(manifest, "cannot be read")]) from None
    problems = [_problem(part.path, "is missing") for part in parts.values() if not part.path.is_file()]
    problems = problems or [_problem(parts[name].path, wrong) for name, wrong in _stale(said, target)]
    if problems:
        raise ValidationError(problems)
    return Artefacts(**parts)


def _stale(said: Mapping[str, Any], target: "Target | None") -> Iterator[tuple[str, str]]:
    """The parts that would be built otherwise now, and why."""
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))  # the builder stands beside this folder and is not installed
    from layers import build, pack  # noqa: PLC0415

    if said.get("inputs") != build.inputs_of(target or build.LAMBDA):
        yield "layer", "is stale: the libraries in layers/ have changed since"
    if said.get("sources") != pack.digest_of(build.SOURCES):
        yield "functions", "is stale: the code in lambda/ has changed since"


def _problem(path: Path, wrong: str) -> ValidationIssue:
    folder = path.parent.relative_to(ROOT) if path.is_relative_to(ROOT) else path.parent
    return ValidationIssue(path=str(folder), value=path.name, wrong=wrong, right="build it: make layers")
