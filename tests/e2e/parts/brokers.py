"""Redis and RabbitMQ from Debian, and Celery from PyPI: what demand sources are read from. All on loopback."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import requests

from .certificates import Authority
from .needed import MissingToolError
from .part import LOOPBACK, Part, free_ports
from .places import cache

CELERY = "5.5.3"
_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


def missing_brokers() -> str:
    """Empty if both servers are installed."""
    lacking = [
        name
        for name, there in (("redis-server", shutil.which("redis-server")), ("rabbitmq-server", _RABBITMQ.exists()))
        if not there
    ]
    return f"MISSING: apt-get install {' '.join(lacking)}" if lacking else ""


class Redis:
    """With a password, and a second port that speaks TLS."""

    def __init__(self, folder: Path, password: str) -> None:
        port, tls = free_ports(2)
        authority = Authority(folder / "redis-ca")
        certificate, key = authority.serving()
        self.ca = authority.file.read_text()
        self.address, self.tls_address = f"redis://{LOOPBACK}:{port}", f"rediss://{LOOPBACK}:{tls}"
        self.port, self.password = port, password
        command = ["redis-server", "--bind", LOOPBACK, "--port", str(port), "--dir", str(folder), "--save", ""]
        command += ["--requirepass", password, "--tls-port", str(tls), "--tls-cert-file", str(certificate)]
        command += ["--tls-key-file", str(key), "--tls-ca-cert-file", str(authority.file), "--tls-auth-clients", "no"]
        self.part = Part("redis", command, ready=lambda: self.cli("PING") == "PONG", folder=folder)

    def cli(self, *command: str) -> str:
        """The reply of one command; empty while the server does not answer."""
        said = subprocess.run(  # noqa: S603
            ["redis-cli", "-h", LOOPBACK, "-p", str(self.port), "--no-auth-warning", "-a", self.password, *command],  # noqa: S607
            check=False,
            capture_output=True,
            text=True,
        )
        return said.stdout.strip() if said.returncode == 0 else ""


class RabbitMq:
    """The user guest/guest, the management plugin, and an Erlang port mapper of its own."""

    def __init__(self, folder: Path) -> None:
        amqp, management, distribution, mapper = free_ports(4)
        self.url, self.broker = f"http://{LOOPBACK}:{management}", f"amqp://guest:guest@{LOOPBACK}:{amqp}//"
        (folder / "plugins").write_text("[rabbitmq_management].\n")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = {LOOPBACK}:{amqp}\nmanagement.tcp.ip = {LOOPBACK}\nmanagement.tcp.port = {management}\n"
            "collect_statistics_interval = 1000\n"
        )
        self._environment = {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"rabbit{amqp}@localhost",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "rabbitmq.server.pid"),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(mapper),
            "ERL_EPMD_ADDRESS": LOOPBACK,
        }
        self.part = Part(
            "rabbitmq", [str(_RABBITMQ)], ready=self._answers, folder=folder, environment=self._environment
        )

    def stop(self) -> None:
        """With its port mapper, which would stay."""
        self.part.stop()
        mapper = shutil.which("epmd")
        if mapper:
            subprocess.run([mapper, "-kill"], check=False, capture_output=True, env={**os.environ, **self._environment})  # noqa: S603

    def ask(self, method: str, path: str, body: object = None) -> requests.Response:
        return requests.request(method, self.url + path, json=body, auth=("guest", "guest"), timeout=5)

    def _answers(self) -> bool:
        try:
            return self.ask("GET", "/api/overview").ok
        except requests.RequestException:
            return False


def celery_python() -> str:
    """An interpreter with Celery, made once in the cache: it is no dependency of ours."""
    folder = cache() / f"celery-{CELERY}-python{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        made = subprocess.run([sys.executable, "-m", "venv", str(folder)], check=False, capture_output=True, text=True)  # noqa: S603
        wanted = [str(python), "-m", "pip", "install", "-q", f"celery[redis]=={CELERY}"]
        got = subprocess.run(wanted, check=False, capture_output=True, text=True)  # noqa: S603
        if made.returncode or got.returncode:
            raise MissingToolError(f"MISSING: celery {CELERY} from PyPI: {got.stderr.strip().splitlines()[-1:]}")
        (folder / "ready").touch()
    return str(python)
