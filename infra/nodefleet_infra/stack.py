"""From what stands in Pulumi.<stack>.yaml to a stack in which everything fits together, or every problem at once."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nodefleet.model.serialization import Plain, ValidationError, ValidationIssue, decode, fields_of, nearest
from nodefleet.policy.cluster import Policy
from nodefleet.policy.loading import load
from nodefleet_infra import checks, instance_types
from nodefleet_infra.checks import problem
from nodefleet_infra.config import Cluster, ClusterConfig, Machines, Pool, Stack, StackConfig
from nodefleet_infra.names import Names

CLUSTERS = "clusters"
_BASE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LONGEST_BASE = 32  # characters of <project>-<stack>: a bucket's name has 63, and carries account and purpose too


def stack_from(project: str, name: str, region: str, data: Mapping[str, Plain]) -> Stack:
    """`data` is what stands under the project's name, by key; a RefusedError names everything that is wrong."""
    problems: list[ValidationIssue] = []
    if not region:
        problems.append(problem("aws:region", None, "is missing", "pulumi config set aws:region <region>"))
    config, broken = _sections(data, problems)
    names = Names(project=project, stack=name, extra=config.tags)
    if len(names.base) > LONGEST_BASE or not _BASE.fullmatch(names.base):
        right = f"lower-case letters, digits and dashes, {LONGEST_BASE} at most: choose another stack name"
        problems.append(problem("(stack)", names.base, "makes names that AWS does not take", right))
    problems += _alone(config, broken, region)
    clusters = _clusters(data.get(CLUSTERS), config, names, problems)
    if problems:
        raise ValidationError(_once(problems))
    return Stack(project=project, name=name, region=region, config=config, clusters=clusters)


def _sections(data: Mapping[str, Plain], problems: list[ValidationIssue]) -> tuple[StackConfig, set[str]]:
    """What can be used, with defaults for the rest, so that one slip does not hide the next."""
    known = {each.name: hint for each, hint in fields_of(StackConfig)}
    sound: dict[str, Any] = {}
    broken: set[str] = set()
    for key, value in data.items():
        if key not in known:
            problems.append(problem(key, value, "is an unknown key", nearest(key, list(known))))
        elif key != CLUSTERS:
            before = len(problems)
            read = decode(known[key], value, problems, ((), key))
            if len(problems) == before:
                sound[key] = read
            else:
                broken.add(key)
    return replace(StackConfig(), **sound), broken


def _alone(config: StackConfig, broken: set[str], region: str) -> Iterator[ValidationIssue]:
    if region and "network" not in broken:
        yield from checks.network(config.network, region)
    if "autoscaler" not in broken:
        yield from checks.autoscaler(config.autoscaler)
    if "messages" not in broken:
        yield from checks.messages(config.messages)
    if not {"budget", "messages"} & broken:
        yield from checks.budget(config.budget, config.messages)
    yield from checks.tags(config.tags)
    for name, price in config.prices.items():
        if price <= 0:
            yield problem(f"prices.{name}", price, "is not a price", "USD per hour, such as 0.0264")


# ── clusters ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _clusters(data: Plain, config: StackConfig, names: Names, problems: list[ValidationIssue]) -> tuple[Cluster, ...]:
    """Those that are well by themselves; what is wrong with the others is noted."""
    if not isinstance(data, list) or not data:
        problems.append(problem(CLUSTERS, data, "is not a list of clusters", "write one at least: [{name: shop}]"))
        return ()
    clusters: list[Cluster] = []
    named: list[tuple[str, tuple[str, ...]]] = []
    for index, each in enumerate(data):
        path = f"{CLUSTERS}[{index}]"
        before = len(problems)
        policy = _policy(each, path, problems)
        read = decode(ClusterConfig, each, problems, (((), CLUSTERS), index))
        if not isinstance(read, ClusterConfig):
            continue
        problems += checks.cluster(read, path, zones_of(config))
        problems += checks.ingress(read.ingress, config.network, f"{path}.ingress")
        named.append((read.name, tuple(pool.name for pool in policy.pools) if policy else ()))
        if policy:
            problems += checks.pools(policy, read, path)
            problems += checks.pace(policy, config.autoscaler.schedule, path)
        if policy and len(problems) == before:
            clusters.append(_cluster(read, policy, names))
    problems += _overlapping(named, names)
    return tuple(clusters)


def _policy(data: Plain, path: str, problems: list[ValidationIssue]) -> Policy | None:
    written = data.get("policy") if isinstance(data, dict) else None
    try:
        return load(written).policy
    except ValidationError as refused:
        problems += [replace(each, path=f"{path}.policy.{each.path}") for each in refused.problems]
        return None


def _cluster(config: ClusterConfig, policy: Policy, names: Names) -> Cluster:
    pools = []
    for pool in policy.pools:
        machines = config.machines.get(pool.name, Machines())
        types = pool.market.types
        pools.append(
            Pool(
                name=pool.name,
                arch=instance_types.arch_of(types[0]),
                types=types,
                labels=pool.labels,
                taints=pool.taints,
                disk_gb=machines.disk_gb,
                image=machines.image,
            )
        )
    return Cluster(
        id=names.cluster(config.name),
        name=config.name,
        master=config.master,
        master_arch=instance_types.arch_of(config.master.type),
        k3s=config.k3s,
        disk_key=config.disk_key,
        ingress=config.ingress,
        persistent_volumes=config.persistent_volumes,
        pools=tuple(pools),
        policy=policy,
        policy_data={} if config.policy is None else config.policy,  # an empty key in YAML
    )


def zones_of(config: StackConfig) -> tuple[str, ...]:
    existing = config.network.existing
    return tuple(existing.workers) if existing else config.network.zones


def _overlapping(named: list[tuple[str, tuple[str, ...]]], names: Names) -> Iterator[ValidationIssue]:
    """Names are joined with dashes, so `shop` with a pool `web-blue` and `shop-web` with a pool `blue` are the same."""
    taken: dict[str, str] = {}
    for cluster, pools in named:
        owned = [(names.master(cluster), f"cluster {cluster}"), (names.workers(cluster), f"cluster {cluster}")]
        owned += [(names.pool(cluster, pool), f"cluster {cluster}, pool {pool}") for pool in pools]
        for name, whose in owned:
            if name in taken:
                right = f"{taken[name]} has the same name: rename one of them"
                yield problem(CLUSTERS, whose, f"would be named {name}", right)
            taken.setdefault(name, whose)


def _once(problems: list[ValidationIssue]) -> list[ValidationIssue]:
    return list({(each.path, each.wrong, each.right): each for each in problems}.values())
