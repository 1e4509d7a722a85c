"""What is deployed, laid out without bytecode.

Lambda unpacks functions and layers to places where nothing can be written, so Python would compile whatever comes
without its bytecode at every cold start. The archives have it; here is what that is worth.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

from functions import Started
from tables import progress

_ROOT = Path(__file__).parents[1]
_PINNED = re.compile(r"^([\w.-]+)==", re.MULTILINE)


@contextmanager
def without_bytecode() -> Iterator[Started]:
    """How a function is started that finds our own code and the layer's packages without bytecode. boto3 is the
    runtime's, which has it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = {path.relative_to(_ROOT / "lambda"): path for path in (_ROOT / "lambda").rglob("*.py")}
        for package in _PINNED.findall((_ROOT / "layers/requirements.txt").read_text()):
            for file in distribution(package).files or ():
                if file.suffix != ".pyc" and ".." not in file.parts:
                    sources[Path(file)] = Path(str(file.locate()))
        progress(f"laying out {len(sources):,} files without bytecode")
        for place, source in sources.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).symlink_to(source)
        yield Started(paths=(folder,), flags=("-B",))
