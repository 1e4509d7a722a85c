"""A real API server where the autoscaler's account has the role that `infra/` ships, and nothing more.

Kubernetes gives every account some rights of its own: those are taken away here, so that nothing works by accident. And
the server writes an audit log of what the account does, which tells what of its role is really used.
"""

import json
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from e2e.parts.running import running
from e2e.site.waiting import until
from nodefleet.adapters.kubernetes import NEEDED, NEEDED_PATHS
from nodefleet.adapters.kubernetes.resources import NAMESPACES, Resource
from nodefleet_infra import manifests
from support.real_cluster_world import Admin
from support.shipped_metrics import SITE

USER = f"system:serviceaccount:{manifests.NAMESPACE}:{manifests.ACCOUNT}"
_EVERYBODY = ("system:basic-user", "system:discovery", "system:public-info-viewer")
_RBAC = "rbac.authorization.k8s.io"
_KINDS = {
    "ServiceAccount": Resource(plural="serviceaccounts"),
    "ClusterRole": Resource(group=_RBAC, plural="clusterroles"),
    "ClusterRoleBinding": Resource(group=_RBAC, plural="clusterrolebindings"),
}
_REVIEWS = Resource(group="authorization.k8s.io", plural="subjectaccessreviews")


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource, or on a path that is none."""

    verb: str
    resource: str  # pods, pods/eviction, /version
    group: str = ""

    @property
    def is_path(self) -> bool:
        return self.resource.startswith("/")

    def __str__(self) -> str:
        group = f" of API group {self.group}" if self.group else ""
        return f"{self.verb} on {self.resource}{group}"


NEEDED_RIGHTS = (
    *(Right(verb, each.resource, each.group) for each in NEEDED for verb in each.verbs),
    *(Right("get", path) for path in NEEDED_PATHS),
)


def shipped(name: str) -> list[dict[str, Any]]:
    """The objects of a manifest."""
    return list(yaml.safe_load_all(manifests.rendered(SITE)[manifests.file_of(name)]))


def rights_in(rules: Sequence[Mapping[str, Any]]) -> list[Right]:
    """One by one."""
    found = [
        Right(verb, resource, group)
        for rule in rules
        for group in rule.get("apiGroups", ())
        for resource in rule.get("resources", ())
        for verb in rule["verbs"]
    ]
    return found + [
        Right(verb, path) for rule in rules for path in rule.get("nonResourceURLs", ()) for verb in rule["verbs"]
    ]


def _rule(right: Right) -> dict[str, Any]:
    if right.is_path:
        return {"nonResourceURLs": [right.resource], "verbs": [right.verb]}
    return {"apiGroups": [right.group], "resources": [right.resource], "verbs": [right.verb]}


class AuthorisedCluster:
    def __init__(self, kubeconfig: Path, log: Path, signing_key: Path) -> None:
        self.admin = Admin(str(kubeconfig))
        self._log = log
        self._signing_key = signing_key
        self._read = 0  # how much of the log has been read
        (self.role,) = [each for each in shipped("autoscaler") if each["kind"] == "ClusterRole"]

    @property
    def rights(self) -> list[Right]:
        """What the shipped role grants."""
        return rights_in(self.role["rules"])

    def ship(self) -> None:
        """As K3s does with its manifests folder; and nobody has rights just for being somebody."""
        for name in _EVERYBODY:
            self.admin.do(_KINDS["ClusterRoleBinding"].delete(name, {}))
        for each in shipped("namespace"):
            self.admin.do(NAMESPACES.create(each))
        for each in shipped("autoscaler"):
            self.admin.do(_KINDS[each["kind"]].create(each, each["metadata"].get("namespace", "")))
        self._wait_for(self.rights)

    def token(self, account: str = manifests.ACCOUNT) -> str:
        """A new one, as a TokenRequest gives it."""
        request = _KINDS["ServiceAccount"].create_under(account, "token", {"spec": {}}, manifests.NAMESPACE)
        return str(self.admin.do(request)["status"]["token"])

    def expired_token(self) -> str:
        """A token as it will be when its time is over. The shortest that a server gives is ten minutes."""
        header, payload, _ = self.token().split(".")
        claims = json.loads(_decoded(payload))
        times = {name: claims[name] - 24 * 3600 for name in ("exp", "iat", "nbf")}
        signed = f"{header}.{_encoded(json.dumps(claims | times).encode())}"
        key = serialization.load_pem_private_key(self._signing_key.read_bytes(), None)
        assert isinstance(key, rsa.RSAPrivateKey)
        return f"{signed}.{_encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    @contextmanager
    def without(self, *lost: Right) -> Iterator[None]:
        """Somebody takes these out of the role."""
        kept = [right for right in self.rights if right not in lost]
        self._write([_rule(right) for right in kept])
        self._wait_for(kept, lost)
        try:
            yield
        finally:
            self._write(self.role["rules"])
            self._wait_for(self.rights)

    def _write(self, rules: Sequence[Mapping[str, Any]]) -> None:
        self.admin.do(_KINDS["ClusterRole"].patch(self.role["metadata"]["name"], {"rules": list(rules)}))

    def _wait_for(self, granted: Sequence[Right], lost: Sequence[Right] = ()) -> None:
        """The server hears of a changed role a little later."""
        until(
            lambda: all(map(self.may, granted)) and not any(map(self.may, lost)),
            "the role as it was written",
            every=0.02,
        )

    def may(self, right: Right) -> bool:
        """What the server itself says of our account."""
        name, _, part = right.resource.partition("/")
        asked = {"resource": name, "subresource": part, "group": right.group, "verb": right.verb}
        what: dict[str, Any] = {"resourceAttributes": asked}
        if right.is_path:
            what = {"nonResourceAttributes": {"path": right.resource, "verb": right.verb}}
        spec = {"user": USER, "groups": ["system:serviceaccounts", "system:authenticated"], **what}
        return bool(self.admin.do(_REVIEWS.create({"spec": spec}))["status"]["allowed"])

    def kubeconfig(self, path: Path) -> Path:
        """Of our account, for whoever would rather not use a secret."""
        cluster = {
            "server": self.admin.server,
            "certificate-authority-data": b64encode(self.admin.ca.encode()).decode(),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "fleet"}}],
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "fleet", "user": {"token": self.token()}}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    # ── the audit log ────────────────────────────────────────────────────────────────────────────────────────────

    def audited(self) -> list["Audited"]:
        """What the account has asked for since this was last called. The server writes it down before it answers."""
        lines = self._log.read_text().splitlines()
        new, self._read = lines[self._read :], len(lines)
        return [_audited(json.loads(line)) for line in new]


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _encoded(part: bytes) -> str:
    return urlsafe_b64encode(part).decode().rstrip("=")


@dataclass(frozen=True)
class Audited:
    right: Right
    allowed: bool


def _audited(entry: Mapping[str, Any]) -> Audited:
    about = entry.get("objectRef")
    allowed = entry["annotations"]["authorization.k8s.io/decision"] == "allow"
    if about is None:
        return Audited(Right(entry["verb"], entry["requestURI"].partition("?")[0]), allowed)
    parts = [about["resource"], *([about["subresource"]] if "subresource" in about else [])]
    return Audited(Right(entry["verb"], "/".join(parts), about.get("apiGroup", "")), allowed)


@contextmanager
def authorised_cluster(folder: Path) -> Iterator[AuthorisedCluster]:
    policy, log = folder / "audit-policy.yaml", folder / "audit.log"
    rules = [{"level": "Metadata", "users": [USER]}, {"level": "None"}]
    written = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    policy.write_text(yaml.safe_dump(written))
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={log}"]
    with running("apiserver", folder=folder, extra={"apiserver": flags}) as parts:
        log.touch()
        made = AuthorisedCluster(parts.kubeconfig, log, folder / "keys" / "tokens.key")
        made.ship()
        yield made
        made.admin.api.close()
