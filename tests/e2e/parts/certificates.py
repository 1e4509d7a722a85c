"""A certificate authority for one run: the API server's identity, and everybody who talks to it.

Users are told apart by certificate, as in K3s, so each component runs with its own built-in role and a test can be
whoever it likes.
"""

import base64
import datetime as dt
import ipaddress
import json
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID = dt.timedelta(days=2)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def _private(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node-fleet test authority")])
        may = x509.BasicConstraints(ca=True, path_length=0)
        builder = self._builder(self._name, self._key.public_key()).add_extension(may, critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.file = folder / "ca.crt"
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def serving(self) -> tuple[Path, Path]:
        """Certificate and key of a server on loopback."""
        names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")])
        certificate, key = self._issued(subject, ExtendedKeyUsageOID.SERVER_AUTH, x509.SubjectAlternativeName(names))
        public = self._folder / "server.crt"
        public.write_bytes(certificate)
        return public, _private(self._folder / "server.key", key)

    def signing_key(self) -> Path:
        """What service account tokens are signed with."""
        return _private(self._folder / "tokens.key", _pem(rsa.generate_private_key(65537, 2048)))

    def kubeconfig(self, path: Path, server: str, user: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig that makes its bearer this user; everything is inside, so the file can go anywhere."""
        organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        certificate, key = self._issued(subject, ExtendedKeyUsageOID.CLIENT_AUTH)
        encoded = {"client-certificate-data": certificate, "client-key-data": key}
        credentials = {name: base64.b64encode(value).decode() for name, value in encoded.items()}
        return self._written(path, server, user, credentials)

    def token_kubeconfig(self, path: Path, server: str, user: str, token: str) -> Path:
        return self._written(path, server, user, {"token": token})

    def _written(self, path: Path, server: str, user: str, credentials: dict[str, str]) -> Path:
        trusted = base64.b64encode(self.file.read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "parts",
            "clusters": [{"name": "parts", "cluster": {"server": server, "certificate-authority-data": trusted}}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "parts", "context": {"cluster": "parts", "user": user}}],
        }
        return _private(path, json.dumps(content, indent=2).encode())  # JSON is YAML too

    def _issued(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, *extensions: x509.ExtensionType
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key())
        for extension in (x509.ExtendedKeyUsage([usage]), *extensions):
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        builder = x509.CertificateBuilder(subject_name=subject, issuer_name=self._name, public_key=key)
        dated = builder.not_valid_before(now - dt.timedelta(hours=1)).not_valid_after(now + _VALID)
        return dated.serial_number(x509.random_serial_number())
