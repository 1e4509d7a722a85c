"""An instance made of stubs, on which user data runs as it would on EC2: under a root of its own, in no time.

Every program that reaches outside (curl, aws, systemctl, k3s, …) is a few lines of shell that keep a small world in
files. `faults` makes one of them fail a number of times; the log tells what was called.

Most tests begin with the same start of a server, a hundred processes long. Sandboxes of one folder, one after another,
keep what a script made of all files, and take it over when the same script runs on the same files again.
"""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nodefleet_infra import userdata

BINARY_URL = "https://downloads.example/k3s"
INSTANCE, FORMER = "i-0123456789abcdef0", "i-0fedcba9876543210"
SERVER = "https://10.20.0.10:6443"
SECURE_TOKEN = "K10" + "a" * 64 + "::node:joins"
ALWAYS = 10_000

_PRELUDE = r"""#!/bin/bash
set -u
W=@W@ ROOT=@ROOT@
echo "${0##*/} $*" >>"$W/log"
fails() { # NAME: true while its fault is not used up
  local left
  [[ -e $W/faults/$1 ]] && read -r left <"$W/faults/$1" && ((left > 0)) || return 1
  echo $((left - 1)) >"$W/faults/$1"
}
after() { local name=$1; shift; while (($#)); do [[ $1 == "$name" ]] && { echo "${2-}"; return; }; shift; done; }
"""

_STUBS = {
    "curl": r"""
url=${@: -1} out=$(after -o "$@")
[[ $url == http* ]] || for each in "$@"; do [[ $each == http* ]] && url=$each; done
case $url in
  */api/token) fails metadata && exit 28; echo session ;;
  */instance-id) echo @INSTANCE@ ;;
  */availability-zone) echo ap-southeast-1a ;;
  */instance-type) echo t3.small ;;
  */instance-life-cycle) cat "$W/market" ;;
  */local-ipv4) echo 10.20.0.10 ;;
  */cacerts) fails server && exit 7; echo CA >"$out" ;;
  @URL@)
    fails download && exit 22
    if fails corrupt; then echo '<html>' >"$out"; else cp "$W/k3s" "$out"; fi ;;
  *) echo "unexpected $url" >&2; exit 99 ;;
esac
""",
    "aws": r"""
name=$(after --secret-id "$@"); file="$W/secrets/${name//\//_}"
case "$1 $2" in
  'secretsmanager get-secret-value')
    fails throttled && { echo 'An error occurred (ThrottlingException)' >&2; exit 254; }
    fails no-token-yet || [[ ! -e $file ]] && { echo 'An error occurred (ResourceNotFoundException)' >&2; exit 254; }
    cat "$file" ;;
  'secretsmanager put-secret-value')
    fails put && { echo 'An error occurred (InternalServiceError)' >&2; exit 254; }
    from=$(after --secret-string "$@"); version=$(after --client-request-token "$@")
    [[ ${#version} -ge 32 && ${#version} -le 64 ]] || exit 252
    grep -qx "$name $version" "$W/versions" || echo "$name $version" >>"$W/versions"
    cat "${from#file://}" >"$file"; echo "$version" ;;
  's3api list-objects-v2')
    fails s3 && { echo 'An error occurred (SlowDown)' >&2; exit 254; }
    if [[ -s $W/newest ]]; then printf 'etcd/dev-shop/%s\t%s\n' "$(cat "$W/newest")" 2026-11-16T06:00:00+00:00
    else echo None; fi ;;
  's3 cp')
    fails programs && { echo 'An error occurred (SlowDown)' >&2; exit 254; }
    from="$W/programs/${4##*/}"
    [[ -e $from ]] || { echo 'An error occurred (404)' >&2; exit 1; }
    if [[ $5 == - ]]; then cat "$from"; elif fails torn; then head -c 100 "$from" >"$5"; else cp "$from" "$5"; fi ;;
  's3 sync')
    fails sync && exit 1
    mkdir -p "${@: -1}" && cp "$W/bucket/"* "${@: -1}" ;;
  'ecr get-login-password') fails ecr && { echo 'An error occurred (AccessDeniedException)' >&2; exit 254; }
    echo "pass-for-$(after --region "$@")" ;;
  *) echo "unexpected $*" >&2; exit 99 ;;
esac
""",
    "systemctl": r"""
unit=${@: -1}
case $1 in
  daemon-reload) ;;
  enable) touch "$W/units/$unit.enabled" ;;
  is-active) [[ -e $W/units/$unit.active ]] ;;
  start | restart)
    fails start && exit 1
    fails "start-${unit%.service}" && exit 1
    [[ -e $ROOT/etc/systemd/system/$unit ]] || exit 5
    touch "$W/units/$unit.active"
    if [[ $unit == k3s.service ]]; then
      data="$ROOT/var/lib/rancher/k3s/server"; mkdir -p "$data/db/etcd"
      token=$(sed -n 's/^agent-token: "\(.*\)"/\1/p' "$ROOT/etc/rancher/k3s/config.yaml")
      echo "K10@HASH@::node:$token" >"$data/agent-token"
      grep -qx node/@INSTANCE@ "$W/nodes" || echo node/@INSTANCE@ >>"$W/nodes"
    elif [[ $unit == k3s-agent.service ]]; then fails join || touch "$W/joined"
    fi ;;
  *) exit 99 ;;
esac
""",
    "journalctl": "echo 'level=fatal msg=\"the server said: duplicate hostname\"'\n",
    "sleep": "exit 0\n",
    "dnf": "fails dnf && exit 1; exit 0\n",
    "grubby": 'echo "/boot/vmlinuz-$(cat "$W/kernel")"\n',
    "uname": "echo 6.1.155\n",
    "shutdown": "exit 0\n",
    "python3": 'fails crypt && exit 1; [[ -e $W/hashes ]] && exec @PYTHON@ -S "$@"; echo "\\$2b\\$10\\$made"\n',
    "htpasswd": "fails htpasswd && exit 1; echo 'node-fleet:$2y$10$made'\n",
    "chown": "exit 0\n",
}

_K3S = r"""
while [[ ${1-} == kubectl || ${1-} == --kubeconfig || ${1-} == -n ]]; do [[ $1 == kubectl ]] && shift || shift 2; done
data="$ROOT/var/lib/rancher/k3s/server"
case "$*" in
  'server --cluster-reset'*)
    grep -q '^token: "[0-9a-f]' "$ROOT/etc/rancher/k3s/config.yaml" || { echo 'please pass --token' >&2; exit 1; }
    mkdir -p "$data/db/etcd"
    fails restore && exit 1
    [[ -e $data/db/reset-flag ]] && { echo 'was reset before' >&2; exit 1; }
    touch "$data/db/reset-flag"; echo "${2#*=}" >"$W/restored" ;;
  'etcd-snapshot save'*) fails snapshot && exit 1; echo "$4-$RANDOM" >"$W/newest" ;;
  'get --raw /readyz') fails api && exit 1; echo ok ;;
  'get nodes'*) cat "$W/nodes" ;;
  'delete node/'*) grep -vx "$2" "$W/nodes" >"$W/nodes.new"; mv "$W/nodes.new" "$W/nodes" ;;
  'get serviceaccount'*) fails account && exit 1; echo "serviceaccount/$3" ;;
  'create token'*) fails unmade && exit 1
    granted=${4#--duration=}; [[ -e $W/granted ]] && granted=$(cat "$W/granted")
    echo made >>"$W/logins"
    printf 'token-%s-of-%s %s' "$(wc -l <"$W/logins")" "$3" "$(TZ=UTC date -d "+${granted%s} seconds" +%FT%TZ)" ;;
  'get configmap kube-root-ca.crt'*) cat "$W/ca" ;;
  'get secret prometheus-login'*) fails sealed && exit 1
    [[ ! -e $W/prometheus-login ]] || base64 -w0 <"$W/prometheus-login/password" ;;
  'create secret generic prometheus-login'*) fails uncreated && exit 1
    cp -r "${5#--from-file=}" "$W/prometheus-login" ;;
  'delete secrets -l '*) echo "$4" >>"$W/forgotten" ;;
  'get node '*) [[ -e $W/joined ]] && echo "node/$3" ;;
  *) echo "unexpected k3s $*" >&2; exit 99 ;;
esac
"""


@dataclass(frozen=True)
class Ran:
    code: int
    said: str


class Kept:
    """What scripts made of the files of a folder, by the script and by the files that it found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ran: dict[tuple[object, ...], tuple[Ran, Path]] = {}

    def run(self, sandbox: "Sandbox", script: tuple[object, ...], start: Callable[[], Ran]) -> Ran:
        key = (*script, *_contents(sandbox.root), *_contents(sandbox.world))
        if key not in self._ran:
            into = self.folder / str(len(self._ran))
            self._ran[key] = (start(), into)
            for each in (sandbox.root, sandbox.world):
                shutil.copytree(each, into / each.name, symlinks=True)
            return self._ran[key][0]
        ran, made = self._ran[key]
        for each in (sandbox.root, sandbox.world):
            shutil.rmtree(each)
            shutil.copytree(made / each.name, each, symlinks=True)
        return ran


def _contents(folder: Path) -> list[tuple[str, int, bytes]]:
    """All files and folders, with their modes."""
    found = ((path, path.lstat().st_mode) for path in sorted(folder.rglob("*")))
    return [(str(path), mode, _bytes(path, mode)) for path, mode in found]


def _bytes(path: Path, mode: int) -> bytes:
    if stat.S_ISLNK(mode):
        return str(path.readlink()).encode()
    return path.read_bytes() if stat.S_ISREG(mode) else b""


class Sandbox:
    def __init__(self, folder: Path, kept: Kept | None = None) -> None:
        self._kept = kept
        self.root, self.world, self._bin = folder / "root", folder / "world", folder / "bin"
        for each in (self.root / "dev", self._bin, *(self.world / name for name in _FOLDERS)):
            each.mkdir(parents=True)
        for name in ("log", "logins", "nodes", "versions"):
            (self.world / name).touch()
        (self.world / "market").write_text("spot")
        (self.world / "kernel").write_text("6.1.155")
        (self.world / "ca").write_text("-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n")
        (self.world / "bucket" / "node-exporter.yaml").write_text("kind: DaemonSet\n")
        for name, text in _STUBS.items():
            self._program(self._bin / name, text)
        self._program(self.world / "k3s", _K3S)

    # ── what the world is like ───────────────────────────────────────────────────────────────────────────────────

    def faults(self, **times: int) -> None:
        for name, count in times.items():
            (self.world / "faults" / name.replace("_", "-")).write_text(f"{count}\n")

    def secret(self, name: str) -> str:
        """Its value, with an empty one for none."""
        file = self.world / "secrets" / name.replace("/", "_")
        return file.read_text().rstrip("\n") if file.exists() else ""

    def deploy(self, program: str) -> None:
        """What the stack does when the server's program changes."""
        digest = hashlib.sha256(program.encode()).hexdigest()
        (self.world / "programs" / digest).write_text(program)
        (self.world / "programs" / "current").write_text(digest)

    def give_secret(self, name: str, value: str) -> None:
        (self.world / "secrets" / name.replace("/", "_")).write_text(value + "\n")

    def note(self, name: str, text: str) -> None:
        (self.world / name).write_text(text)

    def noted(self, name: str) -> str:
        file = self.world / name
        return file.read_text() if file.exists() else ""

    # ── what an instance has ─────────────────────────────────────────────────────────────────────────────────────

    def file(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text()

    def put(self, path: str, text: str) -> None:
        (self.root / path.lstrip("/")).write_text(text)

    def has(self, path: str) -> bool:
        return (self.root / path.lstrip("/")).exists()

    def mode(self, path: str) -> int:
        return (self.root / path.lstrip("/")).stat().st_mode & 0o777

    def calls(self, program: str) -> list[str]:
        lines = self.noted("log").splitlines()
        return [line.removeprefix(f"{program} ") for line in lines if line.split(" ", 1)[0] == program]

    def files(self) -> dict[str, bytes]:
        """Everything that is kept on the instance."""
        kept = (self.root / name for name in ("etc", "usr", "var"))
        found = (path for folder in kept for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found}

    def replace_machine(self) -> None:
        """Terminated, and another one in its place: secrets and bucket stay, everything else is gone."""
        shutil.rmtree(self.root)
        (self.root / "dev").mkdir(parents=True)
        for each in (self.world / "units").iterdir():
            each.unlink()

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def binary(self) -> userdata.Binary:
        digest = hashlib.sha256((self.world / "k3s").read_bytes()).hexdigest()
        return userdata.Binary(url=BINARY_URL, sha256=digest)

    def run(self, script: str, *arguments: str) -> Ran:
        file = self.world / "part-001"
        file.write_text(script)
        if self._kept:
            return self._kept.run(self, arguments, lambda: self._start(file, *arguments))
        return self._start(file, *arguments)

    def _start(self, file: Path, *arguments: str) -> Ran:
        environment = {"PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C"}
        ran = subprocess.run(  # noqa: S603  # the script under test
            ["bash", str(file), *arguments],  # noqa: S607
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(code=ran.returncode, said=ran.stdout + ran.stderr)

    def ask(self, path: str, *arguments: str, given: str = "", **environment: str) -> Ran:
        """Runs a program that the instance has."""
        ran = subprocess.run(  # noqa: S603  # what the script under test wrote
            [str(self.root / path.lstrip("/")), *arguments],
            env={"PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}", "LC_ALL": "C", **environment},
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(code=ran.returncode, said=ran.stdout)

    def _program(self, file: Path, text: str) -> None:
        whole = _PRELUDE + text
        values = {"W": self.world, "ROOT": self.root, "INSTANCE": INSTANCE, "URL": BINARY_URL, "HASH": "a" * 64}
        values["PYTHON"] = _python()
        for key, value in values.items():
            whole = whole.replace(f"@{key}@", str(value))
        file.write_text(whole)
        file.chmod(0o755)


_FOLDERS = ("secrets", "faults", "units", "bucket", "programs")


@cache
def _python() -> str:
    """The machine's own python3 itself: what stands on the PATH may be a slow script that looks for it."""
    asked = subprocess.run(
        ["python3", "-c", "import sys; print(sys.executable)"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    )
    return asked.stdout.strip()


def login_in(sandbox: Sandbox, name: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(sandbox.secret(name))
    return found


def runs_here() -> str:
    """Why user data cannot run on this machine; empty if it can."""
    if sys.platform != "linux":
        return "user data runs on Linux only"
    missing = [name for name in ("bash", "flock", "sha256sum") if shutil.which(name) is None]
    return f"{', '.join(missing)} is missing: user data was NOT run" if missing else ""
