"""Every name and tag, derived from project and stack, so that two stacks in one account never meet.

A cluster's id carries the stack too. It is the tag by which the autoscaler knows its own instances: were `shop` of one
stack and `shop` of another the same, each would take the other's workers for its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from nodefleet.model.names import ROLE_SERVER, ROLE_WORKER, TAG_CLUSTER, TAG_POOL, TAG_ROLE
from nodefleet.settings import Settings

_SHORT = 32  # of a load balancer's and a target group's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    project: str
    stack: str
    extra: Mapping[str, str] = field(default_factory=dict)  # tags that the configuration adds

    @property
    def base(self) -> str:
        return f"{self.project}-{self.stack}"

    def of(self, *parts: str) -> str:
        """A resource's name: node-fleet-dev-reconcile."""
        return "-".join((self.base, *parts))

    def short(self, *parts: str) -> str:
        """The same where AWS takes 32 characters: the end of a longer one is its digest."""
        full = self.of(*parts)
        return (
            full if len(full) <= _SHORT else f"{full[: _SHORT - 9].rstrip('-')}-{sha256(full.encode()).hexdigest()[:8]}"
        )

    def cluster(self, name: str) -> str:
        """The id by which tags, table, secrets and metrics know a cluster."""
        return f"{self.stack}-{name}"

    def master(self, cluster: str) -> str:
        """What belongs to a cluster's server, by the cluster's name in the configuration."""
        return self.of(cluster, "master")

    def workers(self, cluster: str) -> str:
        """What all of a cluster's workers share."""
        return self.of(cluster, "workers")

    def pool(self, cluster: str, pool: str) -> str:
        """A pool's launch template."""
        return self.of(cluster, pool)

    # ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def secrets(self) -> str:
        """What the names of all secrets begin with."""
        return self.base

    def api_secret(self, cluster: str) -> str:
        """The autoscaler's Kubernetes login, by the cluster's id."""
        return Settings(table="", clusters=(), secrets=self.secrets).api_secret(cluster)

    def agent_token_secret(self, cluster: str) -> str:
        return f"{self.secrets}/{cluster}/agent-token"

    def server_token_secret(self, cluster: str) -> str:
        """What a replaced master opens its snapshots with. As good as cluster admin: only the master reads it."""
        return f"{self.secrets}/{cluster}/server-token"

    @property
    def slack_secret(self) -> str:
        return f"{self.secrets}/slack"

    @property
    def slack_parameter(self) -> str:
        """The same in Parameter Store, which costs nothing: its names begin with a slash."""
        return f"/{self.slack_secret}"

    # ── tags ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def tags(self, name: str = "", *, cluster: str = "", **more: str) -> dict[str, str]:
        """What every resource carries; `cluster` is its id."""
        tags = {**self.extra, "Project": self.project, "Stack": self.stack, "ManagedBy": "pulumi"}
        tags |= {"Name": name} if name else {}
        tags |= {TAG_CLUSTER: cluster} if cluster else {}
        return tags | more

    def server_tags(self, cluster: str, name: str) -> dict[str, str]:
        """Of a master's instance and volumes. IAM denies the autoscaler whatever carries this role."""
        return self.tags(name, cluster=cluster, **{TAG_ROLE: ROLE_SERVER})

    def worker_tags(self, cluster: str, pool: str, name: str) -> dict[str, str]:
        """Of a pool's launch template."""
        return self.tags(name, cluster=cluster, **{TAG_ROLE: ROLE_WORKER, TAG_POOL: pool})
