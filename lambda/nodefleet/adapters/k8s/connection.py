"""How the API server is reached: by its address, a token and its CA, or as a person's kubeconfig says.

The official client does authentication and TLS. Of it only the part that sends requests is used: its API classes and
models would take most of its import time and memory. Certificates are always verified.
"""

import ssl
from typing import Any
from urllib.parse import urlsplit

from nodefleet.adapters.imports import ONE_AT_A_TIME
from nodefleet.adapters.k8s.calls import Client
from nodefleet.errors import MisconfiguredError

_AGENT = "node-fleet"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def to_server(server: str, token: str, ca: str) -> Client:
    """A client for the server with this URL, bearer token and CA certificate (PEM)."""
    with ONE_AT_A_TIME:
        from kubernetes.client.configuration import Configuration  # noqa: PLC0415  # a quarter of a second

    if not token.strip():
        raise MisconfiguredError("The Kubernetes token is empty: put the ServiceAccount's token into the secret")
    _check_ca(ca)
    configuration = Configuration(
        host=server.rstrip("/"),
        api_key={"authorization": token.strip()},
        api_key_prefix={"authorization": "Bearer"},
        ca_cert_data=ca,
    )
    return _client(configuration)


def from_kubeconfig(path: str | None = None, context: str | None = None) -> Client:
    """A client for the current context of a kubeconfig. `path` may list several files as KUBECONFIG does; none means
    the usual place."""
    with ONE_AT_A_TIME:
        from kubernetes.client.configuration import Configuration  # noqa: PLC0415
        from kubernetes.config import kube_config  # noqa: PLC0415

    configuration = Configuration()
    load: Any = kube_config.load_kube_config
    try:
        load(config_file=path, context=context, client_configuration=configuration)
    except Exception as error:  # its parser, its plugins and the loader each have errors of their own
        raise MisconfiguredError(f"The kubeconfig cannot be used: {error}") from error
    return _client(configuration)


def _client(configuration: Any) -> Client:
    with ONE_AT_A_TIME:
        from kubernetes.client.api_client import ApiClient  # noqa: PLC0415

    _check_safety(configuration.host, verified=configuration.verify_ssl)
    # The client's own retries would repeat writes, sleep for as long as the server says and follow redirects.
    configuration.retries = False
    client: Any = ApiClient(configuration)
    client.user_agent = _AGENT
    made: Client = client
    return made


def _check_safety(server: str, *, verified: bool) -> None:
    url = urlsplit(server)
    if url.scheme == "https":
        if not verified:
            raise MisconfiguredError(
                "The kubeconfig says insecure-skip-tls-verify: give it the cluster's CA (certificate-authority-data)"
            )
    elif url.scheme != "http" or url.hostname not in _LOOPBACK:
        raise MisconfiguredError(f"The Kubernetes server {server!r} must be an https:// URL: a token must not be seen")


def _check_ca(ca: str) -> None:
    try:
        ssl.create_default_context(cadata=ca or " ")
    except (ssl.SSLError, ValueError) as error:
        raise MisconfiguredError(
            "The Kubernetes CA is no PEM certificate: put the content of the cluster's server-ca.crt into the secret"
        ) from error
