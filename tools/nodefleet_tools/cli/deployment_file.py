"""Reading a deployment file: where a cluster's parts are, for those who have no stack that writes it down."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from nodefleet.model.serialization import ValidationError, ValidationIssue, decode
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet.policy.cluster import Policy
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.input_file import read_or_exit
from nodefleet_tools.cli.policy_file import parsed, text_of

NO_TEMPLATE = "lt-00000000000000000"  # in the files of `nodefleet init` until the launch template exists


def deployment_or_exit(path: Path, cluster: str) -> Deployment:
    """The deployment in a file; everything that is wrong with it goes to stderr, and the status is 2."""
    return read_or_exit(path, lambda file: read_deployment(file, cluster))


def read_deployment(path: Path, cluster: str) -> Deployment:
    """The deployment in a file, or an UnreadableError, or a RefusedError. The file may leave its cluster to us."""
    content = parsed(text_of(path), is_json=path.suffix == ".json")
    data = {} if content.data is None else content.data
    if isinstance(data, dict) and cluster:
        data = {"cluster": cluster, **data}
    problems = list(content.problems)
    deployment = decode(Deployment, data, problems)
    if isinstance(deployment, Deployment):
        problems += _wrong(deployment, cluster)
    if problems:
        raise ValidationError(problems)
    found: Deployment = deployment
    return found


def warn_of_homeless(connection: Connection, policy: Policy, deployment: Deployment | None) -> None:
    """Pools that the policy scales and the deployment has no place for."""
    targets = {target.pool for target in deployment.targets} if deployment else set()
    unplaceable = [pool.name for pool in policy.pools if pool.name not in targets]
    if unplaceable:
        connection.warn(
            f"nothing can be launched for {', '.join(unplaceable)}: the deployment has no target for it."
            " See `nodefleet deployment put --help`"
        )


def _wrong(deployment: Deployment, cluster: str) -> Iterator[ValidationIssue]:
    if cluster and deployment.cluster != cluster:
        right = f"it is {cluster} that was asked for: take another file, or another --cluster"
        yield _problem("cluster", deployment.cluster, "is another cluster", right)
    if not deployment.cluster:
        yield _problem("cluster", deployment.cluster, "is empty", "name the cluster")
    yield from address_issues(deployment)
    several = Counter(target.pool for target in deployment.targets)
    for index, target in enumerate(deployment.targets):
        path = f"targets[{index}]"
        if several[target.pool] > 1:
            yield _problem(f"{path}.pool", target.pool, "has several targets", "keep one for each pool")
        yield from _wrong_target(path, target)
    for name, price in deployment.prices.items():
        if price <= 0:
            yield _problem(f"prices.{name}", price, "is no price", "write USD per hour, such as 0.0208")


def _wrong_target(path: str, target: LaunchTarget) -> Iterator[ValidationIssue]:
    if not target.template:
        right = "write the launch template's id, such as lt-0123456789abcdef0"
        yield _problem(f"{path}.template", target.template, "is missing", right)
    elif target.template == NO_TEMPLATE:
        right = "create the launch template (`nodefleet init --apply`, or from launch-template.json) and write its id"
        yield _problem(f"{path}.template", target.template, "stands for a template that does not exist yet", right)
    if not target.template_version.isdigit():
        right = 'write a number, such as "3": what $Latest means may change between two tries of one launch'
        yield _problem(f"{path}.template_version", target.template_version, "is not a version's number", right)
    if not target.subnets:
        yield _problem(f"{path}.subnets", {}, "are missing", "write zone: subnet, such as eu-west-1a: subnet-0aa")
    for zone, subnet in target.subnets.items():
        if not subnet:
            yield _problem(f"{path}.subnets.{zone}", subnet, "is empty", "write the subnet's id, such as subnet-0aa")


def address_issues(deployment: Deployment) -> Iterator[ValidationIssue]:
    """Neither address is shown: it may hold what it should not."""
    wanted = {
        "api_server": (deployment.api_server, ("https",), "https://host:6443"),
        "prometheus": (deployment.prometheus, ("http", "https"), "http://host:9090"),
    }
    for name, (address, schemes, form) in wanted.items():
        if address and "@" in address:
            yield _problem(name, None, "holds a login", f"put that into a secret and its name into {_SECRETS[name]}")
        elif address and not _is_address(address, schemes):
            yield _problem(name, None, "is not an address", f"write it as {form}")


_SECRETS = {"api_server": "api_secret", "prometheus": "prometheus_secret"}


def _is_address(address: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.hostname)


def _problem(path: str, value: object, wrong: str, right: str) -> ValidationIssue:
    return ValidationIssue(path=path, value=value, wrong=wrong, right=right)
