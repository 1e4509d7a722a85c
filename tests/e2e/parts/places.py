"""Where things are: our own sources, the cache of what was built, and one folder for each run."""

import os
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = HERE.parent / "controlplane"
DYNAMODB_LOCAL = HERE.parent / "dynamodb_local"


def cache() -> Path:
    """Outside the tree, so that `make clean` and a new clone need not build for a quarter of an hour again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "node-fleet" / "parts"


def new_run() -> Path:
    """A folder for logs, keys and data of one run. It stays, so that the logs can be read after a failure."""
    return Path(tempfile.mkdtemp(prefix="node-fleet-parts-"))
