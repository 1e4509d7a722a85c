"""The versions of this software and of its libraries."""

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from nodefleet import __version__
from nodefleet_tools.doctor.findings import Finding, fine, wrong

LEAST = (3, 11)
_PACKAGES = ("boto3", "kubernetes")


def versions(python: tuple[int, int] = sys.version_info[:2]) -> Iterator[Finding]:
    said = ", ".join([f"node-fleet {__version__}", *(f"{name} {_version(name)}" for name in _PACKAGES)])
    if python < LEAST:
        least = ".".join(map(str, LEAST))
        yield wrong(f"{said}, Python {platform.python_version()}", f"Use Python {least} or newer")
    else:
        yield fine(f"{said}, Python {platform.python_version()}")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
