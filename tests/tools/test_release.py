"""What a release says of its contents: the SBOM from the pinned versions, and archives that do not change."""

import gzip
import hashlib
import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from nodefleet import __version__
from nodefleet_tools import release

ROOT = Path(__file__).parents[2]
AT = datetime(2026, 11, 17, 12, tzinfo=UTC)
HASH = "0" * 64
TEXT = f"""# compiled
alpha==1.2 \\
    --hash=sha256:{HASH}
    # via node-fleet (pyproject.toml)
beta==0.4.6 ; sys_platform == 'win32' \\
    --hash=sha256:{HASH} \\
    --hash=sha256:{"1" * 64}
    # via
    #   -c requirements.txt
    #   alpha
    #   node-fleet (pyproject.toml)
setuptools==84 \\
    --hash=sha256:{HASH}
    # via -r requirements-build.in
"""


def document():
    return release.sbom(TEXT, "1.0.0", AT)


def test_every_pinned_package_is_a_component_with_its_hashes_and_its_marker():
    alpha, beta = document()["components"]
    assert (alpha["name"], alpha["version"], alpha["purl"]) == ("alpha", "1.2", "pkg:pypi/alpha@1.2")
    assert beta["properties"][0] == {"name": "python:marker", "value": "sys_platform == 'win32'"}
    assert [each["value"] for each in beta["properties"][1:]] == [HASH, "1" * 64]


def test_who_asks_for_whom_is_in_the_graph():
    graph = {each["ref"]: each["dependsOn"] for each in document()["dependencies"]}
    assert graph == {
        "pkg:pypi/node-fleet@1.0.0": ["pkg:pypi/alpha@1.2", "pkg:pypi/beta@0.4.6"],
        "pkg:pypi/alpha@1.2": ["pkg:pypi/beta@0.4.6"],
        "pkg:pypi/beta@0.4.6": [],
    }


def test_the_same_versions_give_the_same_document_and_others_another_serial_number():
    assert document() == document()
    other = release.sbom(TEXT.replace("1.2", "1.3"), "1.0.0", AT)
    assert other["serialNumber"] != document()["serialNumber"]


def test_the_pinned_file_is_understood_whole():
    text = (ROOT / release.PINS).read_text()
    found = release.pins(text)
    assert len(found) == sum("==" in line and not line.startswith((" ", "#")) for line in text.splitlines())
    assert all(pin.hashes and (pin.via or pin.name == "setuptools") for pin in found)
    assert {"boto3", "typer", "kubernetes"} <= {pin.name for pin in found}


def test_the_source_archive_is_the_commits_and_the_sums_are_right(tmp_path, monkeypatch):
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / release.PINS).write_text(TEXT)
    (checkout / "later.txt").write_text("not committed")
    for arguments in (["init", "-q"], ["add", release.PINS], ["commit", "-qm", "One"]):
        name = ["-c", "user.name=ann", "-c", "user.email=ann@example.com"]
        subprocess.run(["git", *name, *arguments], cwd=checkout, check=True)  # noqa: S603, S607

    def wheel(source: Path, into: Path, epoch: int) -> Path:
        assert (source / release.PINS).exists()
        assert not (source / "later.txt").exists()
        path = into / "node_fleet.whl"
        path.write_bytes(str(epoch).encode())
        return path

    monkeypatch.setattr(release, "build_wheel", wheel)
    first = [path.read_bytes() for path in release.build(checkout, tmp_path / "one")]
    assert first == [path.read_bytes() for path in release.build(checkout, tmp_path / "two")]
    for line in (tmp_path / "one/SHA256SUMS").read_text().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256((tmp_path / "one" / name).read_bytes()).hexdigest() == digest
    assert b"later.txt" not in gzip.decompress((tmp_path / f"one/node-fleet-{__version__}.tar.gz").read_bytes())
    assert json.loads((tmp_path / f"one/node-fleet-{__version__}.cdx.json").read_text())["bomFormat"] == "CycloneDX"


def test_the_changelog_has_a_section_for_the_version():
    assert f"\n## [{__version__}] - " in (ROOT / "CHANGELOG.md").read_text()
