"""Archives that are the same for the same content, whoever makes them and when.

Entries are sorted, carry one fixed time and one mode, and nothing else. Compression may differ between builds of zlib,
so what a stack should go by is the digest of the content, not that of the archive's bytes.
"""

import hashlib
import zipfile
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

GENERATED = ("__pycache__", "*.egg-info", ".*")  # what Python and editors leave beside sources

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip file knows
_MODE = 0o100644 << 16  # Lambda reads as another user than the one that owns the files
_UNIX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    path: Path
    content: str  # digest of names and contents
    files: int
    unpacked: int  # bytes
    packed: int  # bytes


def files_in(folder: Path, *, bytecode: str = "") -> dict[str, Path]:
    """By the names that they have in an archive, in the same order on every machine. `bytecode` is the tag of the
    Python whose compiled modules are packed too: cpython-313."""
    named = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    compiled = f".{bytecode}.pyc" if bytecode else ""
    return {
        name: named[name]
        for name in sorted(named)
        if not _is_generated(name) or (compiled and "/__pycache__/" in f"/{name}" and name.endswith(compiled))
    }


def digest_of(folder: Path) -> str:
    found = hashlib.sha256()
    for name, path in files_in(folder).items():
        content = path.read_bytes()
        found.update(f"{name}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


def pack(folder: Path, archive: Path, *, bytecode: str = "") -> Archive:
    """`folder`'s content in a zip file; what stood there is replaced when the new one is complete. The digest is that
    of the sources and the tag: Python's compiler may write the same module differently."""
    files = files_in(folder, bytecode=bytecode)
    unfinished = archive.with_suffix(".part")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as made:
        for name, path in files.items():
            made.writestr(_entry(name), path.read_bytes(), compresslevel=9)
    unfinished.replace(archive)
    return Archive(
        path=archive,
        content=hashlib.sha256(f"{digest_of(folder)} {bytecode}".encode()).hexdigest(),
        files=len(files),
        unpacked=sum(path.stat().st_size for path in files.values()),
        packed=archive.stat().st_size,
    )


def _is_generated(name: str) -> bool:
    return any(fnmatch(part, pattern) for part in name.split("/") for pattern in GENERATED)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = _UNIX
    entry.external_attr = _MODE
    return entry
