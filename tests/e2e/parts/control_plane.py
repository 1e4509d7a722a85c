"""A Kubernetes control plane without machines: etcd, API server, controllers and scheduler.

Each component has its own identity and the role that Kubernetes ships for it, so authorisation is the real one. The
administrator has a token, as service accounts do.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import requests

from .certificates import Authority
from .part import LOOPBACK, Part, answers, free_ports
from .recipes import program

TAKES_FLAGS = ("etcd", "apiserver", "controller-manager", "scheduler")
# Never used as an address: the API server wants one that is not loopback, even on a machine without a network.
_ADVERTISED = "192.0.2.1"
# The components' own politeness would make a thousand nodes take minutes to appear.
_HASTE = ("--kube-api-qps=500", "--kube-api-burst=1000")


class ControlPlane:
    """`extra` flags take the place of ours with the same name: a test may shorten a grace period, for example."""

    def __init__(self, folder: Path, *, extra: Mapping[str, Sequence[str]] | None = None) -> None:
        self._folder = folder
        self._extra = extra or {}
        if unknown := sorted(set(self._extra) - set(TAKES_FLAGS)):
            raise ValueError(f"no extra flags for {', '.join(unknown)}; only for {', '.join(TAKES_FLAGS)}")
        self._authority = Authority(folder / "keys")
        self._serving = self._authority.serving()
        self._signing_key = self._authority.signing_key()
        self._token = secrets.token_urlsafe(24)
        client, peer, self._api_port, self._controllers_port, self._scheduler_port = free_ports(5)
        self._etcd_client, self._etcd_peer = f"http://{LOOPBACK}:{client}", f"http://{LOOPBACK}:{peer}"
        self.server = f"https://{LOOPBACK}:{self._api_port}"
        self.kubeconfig = self._authority.token_kubeconfig(
            folder / "admin.kubeconfig", self.server, "admin", self._token
        )

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for anybody: what they may do is up to the roles bound to that user and those groups."""
        file = f"{user.replace(':', '-')}.kubeconfig"  # KUBECONFIG is a list separated by colons
        return self._authority.kubeconfig(self._folder / file, self.server, user, groups)

    def etcd(self) -> Part:
        command = [
            program("etcd"),
            f"--data-dir={self._folder / 'data' / 'etcd'}",
            f"--listen-client-urls={self._etcd_client}",
            f"--advertise-client-urls={self._etcd_client}",
            f"--listen-peer-urls={self._etcd_peer}",
            f"--initial-advertise-peer-urls={self._etcd_peer}",
            f"--initial-cluster=default={self._etcd_peer}",
            "--unsafe-no-fsync",  # a test's data need not survive a power cut
        ]
        return self._part("etcd", command, lambda: answers(f"{self._etcd_client}/health"))

    def api_server(self) -> Part:
        certificate, key = self._serving
        tokens = self._folder / "keys" / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self._token},admin,admin,"system:masters"\n')
        command = [
            program("kube-apiserver"),
            f"--etcd-servers={self._etcd_client}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._api_port}",
            f"--advertise-address={_ADVERTISED}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self._authority.file}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._signing_key}",
            f"--service-account-signing-key-file={self._signing_key}",
            "--service-cluster-ip-range=10.43.0.0/16",  # as K3s
            "--allow-privileged=true",  # as K3s
            # Pods may then be made at once in a new namespace, also without the controllers.
            "--disable-admission-plugins=ServiceAccount",
        ]
        return self._part("apiserver", command, self._serves)

    def controller_manager(self) -> Part:
        command = [
            program("kube-controller-manager"),
            *self._client("system:kube-controller-manager", port=self._controllers_port),
            f"--service-account-private-key-file={self._signing_key}",
            f"--root-ca-file={self._authority.file}",
            "--use-service-account-credentials=true",  # each controller with its own role
        ]
        return self._part("controller-manager", command, self._controls)

    def scheduler(self) -> Part:
        command = [
            program("kube-scheduler"),
            *self._client("system:kube-scheduler", port=self._scheduler_port),
        ]
        return self._part("scheduler", command, self._schedules)

    def scheduler_metrics(self) -> str:
        """What the scheduler says of itself: how many pods are in its queues, for example."""
        url, header = f"https://{LOOPBACK}:{self._scheduler_port}/metrics", {"Authorization": f"Bearer {self._token}"}
        said = requests.get(url, headers=header, verify=str(self._authority.file), timeout=5)
        said.raise_for_status()
        return said.text

    def _part(self, name: str, command: Sequence[str], ready: Callable[[], bool]) -> Part:
        extra = self._extra.get(name, ())
        replaced = {flag.split("=")[0] for flag in extra}
        kept = [word for word in command if word.split("=")[0] not in replaced]
        return Part(name, [*kept, *extra], ready=ready, folder=self._folder)

    def _client(self, user: str, *, port: int) -> Sequence[str]:
        """Flags that both clients of the API server share."""
        certificate, key = self._serving
        config = self.kubeconfig_for(user)
        names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        return [
            *(f"--{name}={config}" for name in names),
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            "--leader-elect=false",
            *_HASTE,
        ]

    def _serves(self) -> bool:
        # /readyz covers the built-in roles; the first namespaces come a moment later.
        return self._has("/readyz") and self._has("/api/v1/namespaces/default")

    def _controls(self) -> bool:
        # /healthz says yes before any controller runs; the account is the first thing that one visibly makes.
        healthy = answers(f"https://{LOOPBACK}:{self._controllers_port}/healthz", ca=self._authority.file)
        return healthy and self._has("/api/v1/namespaces/default/serviceaccounts/default")

    def _schedules(self) -> bool:
        return answers(f"https://{LOOPBACK}:{self._scheduler_port}/readyz", ca=self._authority.file)

    def _has(self, path: str) -> bool:
        return answers(f"{self.server}{path}", ca=self._authority.file, token=self._token)
