"""`make dist`: a release of the current commit, in dist/.

    node_fleet-X.Y.Z-py3-none-any.whl   for `pipx install`
    node-fleet-X.Y.Z.tar.gz             the source, as `git archive` writes it
    node-fleet-X.Y.Z.cdx.json           a CycloneDX SBOM of what `node-fleet[aws]` installs, from the pinned versions
    SHA256SUMS                          for `sha256sum --check`

The same commit gives the same bytes: everything is built from a copy of the commit, times are the commit's, and the
SBOM holds nothing that changes from run to run.
"""

import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nodefleet import __version__

NAME = "node-fleet"
PINS = "requirements-run.txt"
_NAMESPACE = uuid.UUID("6d1f7c0e-8f0a-5f0b-9a52-0d7f5a1d1c11")  # of our SBOMs' serial numbers
_NO_DEPENDENCY = "setuptools"  # it builds the package and is not asked for by it


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    via: tuple[str, ...]  # the packages that ask for it; ours among them


def build(root: Path, into: Path) -> list[Path]:
    """The files of a release, made from the commit that is checked out in `root`."""
    into.mkdir(parents=True, exist_ok=True)
    epoch = int(_git(root, "log", "-1", "--format=%ct"))
    tar = _git_bytes(root, "archive", "--format=tar", f"--prefix={NAME}-{__version__}/", "HEAD")
    source = into / f"{NAME}-{__version__}.tar.gz"
    source.write_bytes(_gzipped(tar))
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            archive.extractall(folder, filter="data")
        copy = Path(folder) / f"{NAME}-{__version__}"
        wheel = build_wheel(copy, into, epoch)
        bill = into / f"{NAME}-{__version__}.cdx.json"
        document = sbom((copy / PINS).read_text(), __version__, datetime.fromtimestamp(epoch, UTC))
        bill.write_text(json.dumps(document, indent=2) + "\n")
    files = [wheel, source, bill]
    sums = into / "SHA256SUMS"
    sums.write_text("".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in files))
    return [*files, sums]


def build_wheel(source: Path, into: Path, epoch: int) -> Path:
    """The wheel of a clean copy of the sources. File modes follow a fixed umask: zip archives record them."""
    into.mkdir(parents=True, exist_ok=True)
    subprocess.run(  # noqa: S603  # our own interpreter
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(into), str(source)),
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0"},
        umask=0o022,
        check=True,
    )
    (wheel,) = into.glob("node_fleet-*.whl")
    return wheel


# ── the software bill of materials ───────────────────────────────────────────────────────────────────────────────


def pins(text: str) -> list[Pin]:
    """The packages of a compiled requirements file."""
    return [_pin(match) for match in re.finditer(_PIN, text, re.MULTILINE)]


_PIN = (
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\\n]+?))?(?P<rest>(?: \\)?\n(?:[ #].*\n?)*)"
)


def _pin(match: re.Match[str]) -> Pin:
    comments = re.findall(r"^ +# +(?:via +)?(\S.*)$", match["rest"], re.MULTILINE)
    return Pin(
        name=match["name"],
        version=match["version"],
        marker=(match["marker"] or "").strip(),
        hashes=tuple(re.findall(r"--hash=sha256:([0-9a-f]{64})", match["rest"])),
        via=tuple(each for each in comments if each != "via" and not each.startswith(("-c", "-r"))),
    )


def sbom(requirements: str, version: str, at: datetime) -> dict[str, Any]:
    """CycloneDX 1.5. The hashes are those of every file that pip accepts for a package, of all platforms."""
    found = [pin for pin in pins(requirements) if pin.name != _NO_DEPENDENCY]
    ours = f"pkg:pypi/{NAME}@{version}"
    purls = {pin.name: f"pkg:pypi/{pin.name}@{pin.version}" for pin in found}
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": at.isoformat().replace("+00:00", "Z"),
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": NAME,
                "version": version,
                "purl": ours,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": [_component(pin, purls[pin.name]) for pin in found],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(purls[pin.name] for pin in found if name in map(_asker, pin.via))}
            for name, ref in [(NAME, ours), *purls.items()]
        ],
    }
    serial = uuid.uuid5(_NAMESPACE, json.dumps(document, sort_keys=True))
    return {"serialNumber": f"urn:uuid:{serial}", **document}


def _asker(via: str) -> str:
    """Our own package is called `node-fleet (pyproject.toml)` there."""
    return via.partition(" ")[0]


def _component(pin: Pin, purl: str) -> dict[str, Any]:
    marker = [{"name": "python:marker", "value": pin.marker}] if pin.marker else []
    hashes = [{"name": "pip:sha256", "value": each} for each in pin.hashes]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": pin.name,
        "version": pin.version,
        "purl": purl,
        "properties": [*marker, *hashes],
    }


# ── reading the commit ───────────────────────────────────────────────────────────────────────────────────────────


def _gzipped(content: bytes) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as stream:
        stream.write(content)
    return packed.getvalue()


def _git_bytes(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True).stdout  # noqa: S603, S607


def _git(root: Path, *arguments: str) -> str:
    return _git_bytes(root, *arguments).decode().strip()


def main() -> None:
    root = Path.cwd()
    if _git(root, "status", "--porcelain", "--untracked-files=no"):
        print("Changes that are not committed are left out: a release is built from the commit.", file=sys.stderr)  # noqa: T201
    for path in build(root, root / "dist"):
        print(path.relative_to(root))  # noqa: T201


if __name__ == "__main__":
    main()
