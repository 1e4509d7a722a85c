"""What does not ship, and why. Everything else of a package does, licences included.

The official Kubernetes client is most of what pip brings: a second client for asyncio, a class for each API and a model
for each object. We use the part that sends requests (lambda/nodefleet/adapters/kubernetes/cluster.py), and the client
imports the rest only when somebody asks for it. Whoever uses more of a library takes its line out here; the test of
the packaged artefact (tests/infra/test_artefact.py) fails for what is missing.
"""

import re
import shutil
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

# Packages that pip would bring and nothing imports.
UNUSED_PACKAGES = {
    **dict.fromkeys(("aiohttp", "aiohttp-retry"), "the Kubernetes client for asyncio needs it, which does not ship"),
    **dict.fromkeys(
        ("aiohappyeyeballs", "aiosignal", "attrs", "frozenlist", "multidict", "propcache", "yarl"), "of aiohttp"
    ),
}

# Parts of packages that ship, by path.
UNUSED_PARTS = {
    "kubernetes/aio": "the client for asyncio: 42 MB",
    "kubernetes/client/api": "a class for each API: 23 MB",
    "kubernetes/client/apis": "their old names",
    "kubernetes/client/models/[!_]*": "a model for each object: 10 MB; the package itself is imported",
    "aws_lambda_powertools/event_handler": "for functions behind an HTTP API",
    "pydantic/v1": "the old one",
    "bin": "commands",
}

# Anywhere, by name.
UNUSED_FILES = {
    "tests": "of the libraries",
    "__pycache__": "of the wrong Python; build.py makes the right one",
    "*.pyi": "types are for checkers",
    "py.typed": "the same",
    "*.pyx": "sources of what is compiled",
    "*.pxd": "the same",
    "*.c": "the same",
    "*.h": "the same",
}

# Of the metadata only METADATA and the licences say something to whoever runs it; RECORD would be wrong after trimming.
_KEPT_METADATA = re.compile(r"METADATA|licen[cs]es?|(LICEN[CS]E|COPYING|NOTICE|AUTHORS).*", re.IGNORECASE)


def canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def without_unused(requirements: str) -> str:
    """A compiled requirements file without the packages that nothing imports. Raises ValueError for one that is not
    in it any more: then its line above is a leftover."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", requirements)
    found = [canonical(re.split(r"[=\s\[;]", block, maxsplit=1)[0]) for block in blocks]
    gone = sorted(set(UNUSED_PACKAGES) - set(found))
    if gone:
        raise ValueError(f"layers/trim.py leaves out {', '.join(gone)}, which the requirements do not have")
    kept = [block for name, block in zip(found, blocks, strict=True) if name not in UNUSED_PACKAGES]
    return "\n".join(kept).rstrip("\n") + "\n"


def trim(folder: Path) -> None:
    """Takes out of `folder`, which is as pip left it, what does not ship. Raises ValueError for a rule that matches
    nothing: a library has changed, and the rule must be looked at again."""
    idle = [pattern for pattern in UNUSED_PARTS if not any(folder.glob(pattern))]
    if idle:
        raise ValueError(f"layers/trim.py leaves out {', '.join(idle)}, which no package has any more")
    for path in [*_parts(folder), *_anywhere(folder), *_metadata(folder)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # it may have gone with its folder


def _parts(folder: Path) -> Iterator[Path]:
    for pattern in UNUSED_PARTS:
        yield from folder.glob(pattern)


def _anywhere(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if any(fnmatch(path.name, pattern) for pattern in UNUSED_FILES):
            yield path


def _metadata(folder: Path) -> Iterator[Path]:
    for path in folder.glob("*.dist-info/*"):
        if not _KEPT_METADATA.fullmatch(path.name):
            yield path
