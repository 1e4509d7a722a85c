"""One cluster's parts, each made when it is first used: a command loads and reaches only what it needs."""

import sys
import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodefleet.adapters.clock import utc_now
from nodefleet.adapters.concurrency import Threads
from nodefleet.adapters.credentials import Redactor
from nodefleet.errors import MisconfiguredError, NodeFleetError
from nodefleet.model.snapshot import Deployment, KnownPrices, TuningResult
from nodefleet.ports import Archive, Cloud, Concurrency, History, MetricSources, Store
from nodefleet.reconcile.observe import ActivePolicy, resolve_policy
from nodefleet.settings import Settings
from nodefleet_tools.cli.environment import KUBECONFIG, PROMETHEUS_URL, metrics_login, region_in

if TYPE_CHECKING:
    from nodefleet.adapters.aws.secrets import Secrets
    from nodefleet.adapters.aws.session import Session
    from nodefleet.adapters.kubernetes.cluster import KubernetesCluster, ReconnectingCluster
    from nodefleet.adapters.prometheus import PrometheusClient
    from nodefleet.policy.loading import PolicyReader


SERVICE_HOST = "KUBERNETES_SERVICE_HOST"  # the kubelet sets it in every pod
SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Connection:
    """Nothing is reached before it is used. Tests put other parts in the place of these."""

    def __init__(
        self, settings: Settings, environment: Mapping[str, str], redact: Redactor, deployment: Deployment | None = None
    ) -> None:
        self.settings = settings
        self.redact = redact
        self.clock = utc_now
        self.sleep = time.sleep
        self.together: Concurrency = Threads()
        self._environment = environment
        self._given = deployment

    @property
    def cluster_id(self) -> str:
        return self.settings.clusters[0]

    def warn(self, message: str) -> None:
        print(self.redact(f"warning: {message}"), file=sys.stderr)

    def variable(self, name: str) -> str:
        """What the environment says of it; empty if nothing."""
        return self._environment.get(name, "").strip()

    def calls(self) -> int:
        """Requests to AWS and Kubernetes so far."""
        return self.session.calls() + self.cluster.calls

    def forget(self) -> None:
        """Make again what rests on the deployment, which may have changed."""
        for name in ("deployment", "cloud", "cluster", "gauges", "prometheus"):
            vars(self).pop(name, None)

    # ── AWS ──────────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def session(self) -> "Session":
        from nodefleet.adapters.aws.session import Session  # noqa: PLC0415  # loads botocore

        return Session(self.clock, region_in(self._environment))

    def session_in(self, region: str) -> "Session":
        """Calls to a cluster's own region; empty: the one that the environment names, as for the table."""
        from nodefleet.adapters.aws.session import Session  # noqa: PLC0415

        return Session(self.clock, region) if region not in ("", region_in(self._environment)) else self.session

    @property
    def _cluster_session(self) -> "Session":
        return self.session_in(self.deployment.region if self.deployment else "")

    @cached_property
    def secrets(self) -> "Secrets":
        from nodefleet.adapters.aws.secrets import Secrets  # noqa: PLC0415

        return Secrets(self.session.client, learn=self.redact.learn)

    @cached_property
    def store(self) -> Store:
        from nodefleet.adapters.dynamodb.store import DynamoStore  # noqa: PLC0415

        return DynamoStore(self.session.client("dynamodb"), self.settings.table, self.cluster_id, self.warn)

    @cached_property
    def history(self) -> History:
        from nodefleet.adapters.dynamodb.store import DynamoHistory  # noqa: PLC0415

        return DynamoHistory(self.session.client("dynamodb"), self.settings.table, self.cluster_id, self.warn)

    @cached_property
    def archive(self) -> Archive:
        from nodefleet.adapters.aws.archive import S3Archive  # noqa: PLC0415
        from nodefleet.bootstrap import NoArchive  # noqa: PLC0415

        bucket = self.settings.bucket
        return S3Archive(lambda: self.session.client("s3"), bucket) if bucket else NoArchive()

    @cached_property
    def cloud(self) -> Cloud:
        from nodefleet.adapters.aws.ec2 import Ec2  # noqa: PLC0415

        prices = self.deployment.prices if self.deployment else {}
        return Ec2(self._cluster_session, self.cluster_id, prices, self.clock, self.warn, self._kept_prices())

    def _kept_prices(self) -> KnownPrices | None:
        """Those that AWS said. EC2 can be read without them, and so without the table."""
        if not self.settings.table:
            return None
        try:
            return self.store.state().prices
        except NodeFleetError as problem:
            self.warn(f"the prices that are kept in the table are not known: {problem}")
            return None

    # ── the deployment and the policy ────────────────────────────────────────────────────────────────────────────

    @cached_property
    def deployment(self) -> Deployment | None:
        """The one that was given, else the table's; none if there is neither."""
        return self._given or (self.store.state().deployment if self.settings.table else None)

    def put_deployment(self, deployment: Deployment) -> None:
        """Write it into the table, in place of whatever is there."""
        from nodefleet.adapters.dynamodb.store import put_deployment  # noqa: PLC0415

        put_deployment(self.session.client("dynamodb"), self.settings.table, deployment)

    def put_prices(self, prices: KnownPrices) -> None:
        """Write them into the table, in place of those that are there."""
        from nodefleet.adapters.dynamodb.store import put_prices  # noqa: PLC0415

        put_prices(self.session.client("dynamodb"), self.settings.table, self.cluster_id, prices)

    def put_tuning(self, found: TuningResult) -> None:
        """Write it into the table, in place of what was found for that pool before."""
        from nodefleet.adapters.dynamodb.store import put_tuning  # noqa: PLC0415

        put_tuning(self.session.client("dynamodb"), self.settings.table, self.cluster_id, found)

    def pricing_client(self) -> Any:
        """The Price List API, which has endpoints in few regions."""
        from nodefleet.adapters.aws.session import Session  # noqa: PLC0415
        from nodefleet_tools.pricing import ENDPOINT_REGION  # noqa: PLC0415

        return Session(self.clock, ENDPOINT_REGION).client("pricing")

    @cached_property
    def policies(self) -> "PolicyReader":
        from nodefleet.policy.loading import PolicyReader  # noqa: PLC0415

        return PolicyReader()

    def governing(self) -> ActivePolicy:
        """The policy in force now."""
        return resolve_policy(self.store.state(), self.policies, self.clock())

    # ── Kubernetes ───────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def cluster(self) -> "ReconnectingCluster":
        from nodefleet.adapters.kubernetes.cluster import ReconnectingCluster  # noqa: PLC0415

        return ReconnectingCluster(self.kubernetes, self._refresh_login)

    def kubernetes(self) -> "KubernetesCluster":
        """A fresh connection to the API server, which can also be asked for its version, its time and our rights."""
        from nodefleet.adapters.credentials import ApiLogin  # noqa: PLC0415
        from nodefleet.adapters.kubernetes.cluster import KubernetesCluster  # noqa: PLC0415  # loads the client

        if path := self.variable(KUBECONFIG):
            return KubernetesCluster.of_kubeconfig(path)
        if self.in_cluster:
            host, port = self.variable(SERVICE_HOST), self.variable("KUBERNETES_SERVICE_PORT") or "443"
            # Read for each connection: the kubelet renews the token.
            token, ca = (Path(SERVICE_ACCOUNT, name).read_text(encoding="utf-8") for name in ("token", "ca.crt"))
            self.redact.learn(token.strip())
            return KubernetesCluster.at(f"https://{f'[{host}]' if ':' in host else host}:{port}", token, ca)
        login = self.secrets.login(self.api_secret, ApiLogin)
        server = (self.deployment.api_server if self.deployment else "") or login.server
        if not server:
            raise MisconfiguredError(
                f"The API server's address is not configured: put it into secret {self.api_secret}, or set {KUBECONFIG}"
            )
        return KubernetesCluster.at(server, login.token, login.ca)

    @property
    def in_cluster(self) -> bool:
        """This process is a pod with a ServiceAccount."""
        return bool(self.variable(SERVICE_HOST)) and Path(SERVICE_ACCOUNT, "token").is_file()

    @property
    def api_secret(self) -> str:
        """The secret that Lambda logs in to Kubernetes with."""
        named = self.deployment.api_secret if self.deployment else ""
        return named or self.settings.api_secret(self.cluster_id)

    def _refresh_login(self) -> None:
        if not (self.variable(KUBECONFIG) or self.in_cluster):  # which are read again for each connection
            self.secrets.refresh(self.api_secret)

    # ── readings ─────────────────────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def gauges(self) -> MetricSources:
        from nodefleet.adapters.sources.port import SourceLogins  # noqa: PLC0415
        from nodefleet.adapters.sources.read import Sources, adapters  # noqa: PLC0415

        logins = SourceLogins(self.secrets, self.settings.source_secrets(self.cluster_id))
        return Sources(
            prometheus=self.prometheus,
            adapters=adapters(self._cluster_session.client, logins, self.warn, may_change=False),
            warn=self.warn,
        )

    @cached_property
    def prometheus(self) -> "PrometheusClient | None":
        """None if none is known."""
        from nodefleet.adapters.prometheus import PrometheusClient  # noqa: PLC0415

        known = self.deployment or Deployment(cluster=self.cluster_id)
        address = self.variable(PROMETHEUS_URL) or known.prometheus
        login = metrics_login(self._environment)
        if not address:
            return None
        if login is not None:
            self.redact.learn(*login.secrets())
            return PrometheusClient(address, lambda: login)
        # The deployment's login is for the deployment's address: another one must not learn it. Without a stack there
        # may be no secret at all.
        has_secret = bool(known.prometheus_secret or known.api_secret)
        if address != known.prometheus or (not has_secret and (self.variable(KUBECONFIG) or self.in_cluster)):
            return PrometheusClient(address)
        return PrometheusClient(address, *self.secrets.metrics_login(known.prometheus_secret, self.api_secret))
