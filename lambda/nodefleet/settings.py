"""What the environment tells the functions. Nothing in it is secret; all that is missing is named at once."""

from collections.abc import Mapping
from dataclasses import dataclass

from nodefleet.errors import MisconfiguredError
from nodefleet.model.names import Metric
from nodefleet.model.serialization import nearest

TABLE = "NODEFLEET_TABLE"  # the state table's name
CLUSTERS = "NODEFLEET_CLUSTERS"  # the clusters that this deployment serves: "shop,blog"; "*": those of its registry
QUEUE = "NODEFLEET_QUEUE"  # the FIFO queue that runs go through; empty: each event starts its run at once
BUCKET = "NODEFLEET_BUCKET"  # where observations are archived; empty: nowhere
SECRETS = "NODEFLEET_SECRETS"  # what the names of secrets begin with
METRICS = "NODEFLEET_METRICS"  # beyond the default ones: "HourlyCost,SpotShare"; "only:…": instead of them
SLACK = "NODEFLEET_SLACK_SECRET"  # the secret with Slack's webhook; only `notify` needs it
APPROVERS = "NODEFLEET_SLACK_APPROVERS"  # ids of Slack users whose ✅ drains unowned workers; empty: nothing is asked

ONLY = "only:"
REGISTRY = "*"
_PREFIX = "node-fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    table: str
    clusters: tuple[str, ...]
    registry: bool = False  # the table says which clusters there are, and `clusters` is empty
    queue: str = ""
    bucket: str = ""
    secrets: str = _PREFIX
    opt_in: tuple[Metric, ...] = ()
    only_those: bool = False  # the default metrics are not written: each is billed by itself
    slack_secret: str = ""
    approvers: tuple[str, ...] = ()

    def api_secret(self, cluster: str) -> str:
        """Where a cluster's Kubernetes login is, if its deployment does not say so."""
        return f"{self.secrets}/{cluster}/kubernetes"

    def source_secrets(self, cluster: str) -> str:
        """The folder of the logins that readings of a cluster's policy name."""
        return f"{self.secrets}/{cluster}/sources"


def settings_in(environment: Mapping[str, str]) -> Settings:
    def value(name: str) -> str:
        return environment.get(name, "").strip()

    clusters, metrics = _list(value(CLUSTERS)), _list(value(METRICS).removeprefix(ONLY))
    missing = [name for name, given in ((TABLE, value(TABLE)), (CLUSTERS, clusters)) if not given]
    known = {metric.value: metric for metric in Metric}
    unknown = [f"{METRICS}: no metric {name}, {nearest(name, list(known))}" for name in metrics if name not in known]
    problems = [f"{name} is not set" for name in missing] + unknown
    if problems:
        raise MisconfiguredError(f"The environment lacks something: {'; '.join(problems)}")
    registry = clusters == (REGISTRY,)
    return Settings(
        table=value(TABLE),
        clusters=() if registry else clusters,
        registry=registry,
        queue=value(QUEUE),
        bucket=value(BUCKET),
        secrets=value(SECRETS) or _PREFIX,
        opt_in=tuple(known[name] for name in metrics),
        only_those=value(METRICS).startswith(ONLY),
        slack_secret=value(SLACK),
        approvers=_list(value(APPROVERS)),
    )


def _list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
