"""What `make layers` built. A preview must not build anything, but it must say so when there is nothing to deploy."""

import json
from dataclasses import dataclass
from pathlib import Path

from nodefleet.domain.problems import Problem, RefusedError

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


def found(folder: Path = FOLDER) -> Artefacts:
    """RefusedError if they were not built."""
    manifest = folder / _MANIFEST
    try:
        said = json.loads(manifest.read_text())
        parts = {name: Artefact(path=folder / said[name]["path"], digest=said[name]["content"]) for name in _PARTS}
    except FileNotFoundError:
        raise _refused(manifest, "is missing") from None
    except (ValueError, KeyError, TypeError):
        raise _refused(manifest, "cannot be read") from None
    for part in parts.values():
        if not part.path.is_file():
            raise _refused(part.path, "is missing")
    return Artefacts(**parts)


def _refused(path: Path, wrong: str) -> RefusedError:
    folder = path.parent.relative_to(ROOT) if path.is_relative_to(ROOT) else path.parent
    return RefusedError([Problem(path=str(folder), value=path.name, wrong=wrong, right="build it: make layers")])
