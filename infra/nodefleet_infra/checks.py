"""Checks of the configuration. Each looks at one thing; the caller collects every issue.

A wrong configuration fails in `pulumi preview`, with every problem at its place: half an hour into `pulumi up` is late
to hear of the second one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from ipaddress import IPv4Network, ip_network
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from nodefleet.model.serialization import ValidationIssue, nearest
from nodefleet.policy.cluster import Policy
from nodefleet_infra import instance_types
from nodefleet_infra.config import (
    AutoscalerConfig,
    BudgetConfig,
    ClusterConfig,
    ExistingVpc,
    IngressConfig,
    K3s,
    MessagesConfig,
    NetworkConfig,
    ScheduleConfig,
)
from nodefleet_infra.functions import FUNCTIONS, RECONCILE

FEWEST_ZONES, MOST_ZONES = 2, 6
WIDEST, NARROWEST = 16, 22  # of the VPC: AWS takes no more than /16; below /22 the functions' subnets get too small
SMALLEST_DISK = 8  # GB: what Amazon Linux 2023 comes on
LAST_WORDS = timedelta(seconds=5)  # what a run needs to end in order
K3S_RANGES = tuple(map(IPv4Network, ("10.42.0.0/16", "10.43.0.0/16")))  # pods and services

_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")
_K3S = re.compile(r"v\d+\.\d+\.\d+(-rc\d+)?\+k3s\d+")
_SNAPSHOT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"arn:[\w-]+:kms:[a-z0-9-]+:\d{12}:key/[\w-]+")
_MAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_SLACK_USER = re.compile(r"[UW][A-Z0-9]{2,20}")
_LEAST_RESERVED = {"interruption": 2}  # Lambda polls a queue for two functions at least
_LOG_DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
_HOUR = 60  # minutes


def problem(path: str, value: object, wrong: str, right: str) -> ValidationIssue:
    return ValidationIssue(path=path, value=value, wrong=wrong, right=right)


# ── network ──────────────────────────────────────────────────────────────────────────────────────────────────────


def network(config: NetworkConfig, region: str) -> Iterator[ValidationIssue]:
    if config.existing:
        yield from _existing(config.existing, region)
        return
    yield from _zones("network.zones", config.zones, region)
    yield from _cidr(config.cidr)


def _zones(path: str, zones: tuple[str, ...], region: str) -> Iterator[ValidationIssue]:
    if len(set(zones)) < FEWEST_ZONES:
        right = f"name two or more, such as [{region}a, {region}b]: one zone may fail"
        yield problem(path, list(zones), f"are fewer than {FEWEST_ZONES} availability zones", right)
    if len(set(zones)) < len(zones):
        yield problem(path, list(zones), "names a zone twice", "name each once")
    if len(zones) > MOST_ZONES:
        yield problem(path, list(zones), f"are more than {MOST_ZONES} availability zones", "leave some out")
    for zone in zones:
        if not re.fullmatch(rf"{re.escape(region)}[a-z]", zone):
            yield problem(path, zone, f"is no availability zone of {region}", f"write for example {region}a")


def _cidr(text: str) -> Iterator[ValidationIssue]:
    path, right = "network.cidr", f"write a private network between /{WIDEST} and /{NARROWEST}, such as 10.20.0.0/16"
    try:
        cidr = ip_network(text)
    except ValueError as error:
        yield problem(path, text, f"is not a network ({error})", right)
        return
    if not isinstance(cidr, IPv4Network) or not any(cidr.subnet_of(each) for each in _PRIVATE):
        yield problem(path, text, "is not a private IPv4 network", right)
        return
    if not WIDEST <= cidr.prefixlen <= NARROWEST:
        yield problem(path, text, f"is not between /{WIDEST} and /{NARROWEST}", right)
    for taken in K3S_RANGES:
        if cidr.overlaps(taken):
            yield problem(path, text, f"overlaps {taken}, which K3s uses inside the cluster", right)


def _existing(existing: ExistingVpc, region: str) -> Iterator[ValidationIssue]:
    path = "network.existing"
    yield from _zones(f"{path}.workers", tuple(existing.workers), region)
    if len(set(existing.functions)) < FEWEST_ZONES:
        right = "name two or more, in different zones"
        yield problem(f"{path}.functions", list(existing.functions), "are fewer than 2 subnets", right)
    named = [(f"{path}.vpc", existing.vpc, "vpc")]
    named += [(f"{path}.workers.{zone}", subnet, "subnet") for zone, subnet in existing.workers.items()]
    named += [(f"{path}.functions[{index}]", subnet, "subnet") for index, subnet in enumerate(existing.functions)]
    named += [(f"{path}.route_tables[{index}]", table, "rtb") for index, table in enumerate(existing.route_tables)]
    for place, identity, kind in named:
        if not re.fullmatch(rf"{kind}-[0-9a-f]+", identity):
            yield problem(place, identity, "is not an id", f"write for example {kind}-0a1b2c3d4e5f67890")


# ── functions ────────────────────────────────────────────────────────────────────────────────────────────────────


def autoscaler(config: AutoscalerConfig) -> Iterator[ValidationIssue]:
    path = "autoscaler"
    for function in FUNCTIONS:
        size = config.memory.of(function.name)
        if not 128 <= size <= 10_240:  # noqa: PLR2004  # Lambda's limits
            yield problem(
                f"{path}.memory.{function.name}", size, "is beyond Lambda's limits", "write 128 to 10240 (MB)"
            )
    if config.log_days not in _LOG_DAYS:
        right = f"CloudWatch takes {', '.join(map(str, _LOG_DAYS))}"
        yield problem(f"{path}.log_days", config.log_days, "is not a number of days to keep logs", right)
    for function in FUNCTIONS:
        reserved, least = config.reserved_concurrency.of(function.name), _LEAST_RESERVED.get(function.name, 1)
        if reserved is not None and reserved < least:
            right = f"leave it out for none, or write {least} or more; set enabled: false to stop the autoscaler"
            wrong = "would stop it" if reserved < 1 else "is less than its queue needs"
            yield problem(f"{path}.reserved_concurrency.{function.name}", reserved, wrong, right)
    yield from _schedule(config.schedule, f"{path}.schedule")


def _schedule(schedule: ScheduleConfig, path: str) -> Iterator[ValidationIssue]:
    yield from _minutes(schedule.every, f"{path}.every")
    try:
        ZoneInfo(schedule.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        right = "write for example Asia/Singapore"
        yield problem(f"{path}.time_zone", schedule.time_zone, "is not a time zone", right)
    hours = {"report_hour": schedule.report_hour}
    hours |= {} if schedule.daily_hour is None else {"daily_hour": schedule.daily_hour}
    night = schedule.night
    if night:
        yield from _minutes(night.every, f"{path}.night.every")
        hours |= {"night.from_hour": night.from_hour, "night.until_hour": night.until_hour}
        if night.from_hour == night.until_hour:
            right = "the night must begin and end; leave it out to have none"
            yield problem(f"{path}.night.until_hour", night.until_hour, "is also where the night begins", right)
        if night.every <= schedule.every:
            right = f"longer than by day ({schedule.every}); leave the night out otherwise"
            yield problem(f"{path}.night.every", str(night.every), "is not less often than by day", right)
    for name, hour in hours.items():
        if not 0 <= hour <= 23:  # noqa: PLR2004  # of a day
            yield problem(f"{path}.{name}", hour, "is not an hour of the day", "write 0 to 23")


def _minutes(every: timedelta, path: str) -> Iterator[ValidationIssue]:
    """Whole minutes that an hour can be divided by, so that day and night meet at a full hour."""
    minutes = every / timedelta(minutes=1)
    if minutes < 1 or minutes > _HOUR / 2 or _HOUR % minutes:
        right = "write whole minutes that divide an hour, such as 2m or 5m"
        yield problem(path, str(every), "is not an interval that EventBridge can keep", right)


def messages(config: MessagesConfig) -> Iterator[ValidationIssue]:
    for index, address in enumerate(config.emails):
        if not _MAIL.fullmatch(address):
            yield problem(
                f"messages.emails[{index}]", address, "is not an address", "write for example ops@example.com"
            )
    for index, user in enumerate(config.approvers):
        if not _SLACK_USER.fullmatch(user):
            right = "write a member id such as U012AB3CD, from the user's profile in Slack"
            yield problem(f"messages.approvers[{index}]", user, "is not the id of a Slack user", right)
    if config.approvers and not config.slack:
        yield problem("messages.approvers", list(config.approvers), "needs Slack", "set messages.slack: true")


def budget(config: BudgetConfig | None, told: MessagesConfig) -> Iterator[ValidationIssue]:
    if config is None:
        return
    if config.monthly_usd <= 0:
        yield problem("budget.monthly_usd", config.monthly_usd, "is not an amount", "USD a month, such as 150")
    for index, address in enumerate(config.emails):
        if not _MAIL.fullmatch(address):
            yield problem(f"budget.emails[{index}]", address, "is not an address", "write for example ops@example.com")
    if not config.emails and not told.emails:
        yield problem("budget.emails", None, "is empty, and so is messages.emails", "name an address for the mail")


def tags(given: Mapping[str, str]) -> Iterator[ValidationIssue]:
    for key in given:
        if key.startswith(("aws:", "node-fleet:")) or key in ("Project", "Stack", "ManagedBy", "Name"):
            yield problem(f"tags.{key}", given[key], "is a tag that is set already", "choose another key")


def _is_cron(text: str) -> bool:
    try:
        CronSim(text, datetime(2026, 1, 1, tzinfo=UTC))
    except CronSimError:
        return False
    return True


# ── clusters ─────────────────────────────────────────────────────────────────────────────────────────────────────


def cluster(config: ClusterConfig, path: str, zones: tuple[str, ...]) -> Iterator[ValidationIssue]:
    if not _NAME.fullmatch(config.name):
        right = "write lower-case letters, digits and dashes, a letter first, 20 at most"
        yield problem(f"{path}.name", config.name, "cannot be part of names", right)
    yield from _known_type(config.master.type, f"{path}.master.type")
    if config.master.zone and config.master.zone not in zones:
        yield problem(
            f"{path}.master.zone", config.master.zone, "is not one of the zones", f"one of {', '.join(zones)}"
        )
    if config.disk_key and not _KEY.fullmatch(config.disk_key):
        right = "arn:aws:kms:<region>:<account>:key/<id>: an alias cannot be granted"
        yield problem(f"{path}.disk_key", config.disk_key, "is not the ARN of a key", right)
    if not _is_cron(config.master.snapshot_cron):
        right = "minute, hour, day, month and weekday, such as 0 */6 * * *"
        yield problem(f"{path}.master.snapshot_cron", config.master.snapshot_cron, "is not a schedule", right)
    if config.master.snapshots < 1:
        yield problem(f"{path}.master.snapshots", config.master.snapshots, "keeps no snapshot", "keep one at least")
    if not _SNAPSHOT.fullmatch(config.master.restore):
        right = "write newest, nothing, or a snapshot's name"
        yield problem(f"{path}.master.restore", config.master.restore, "is not the name of a snapshot", right)
    disks = {f"{path}.master.disk_gb": config.master.disk_gb}
    disks |= {f"{path}.machines.{pool}.disk_gb": each.disk_gb for pool, each in config.machines.items()}
    for place, size in disks.items():
        if size < SMALLEST_DISK:
            yield problem(place, size, "is too small", f"write {SMALLEST_DISK} (GB) or more")
    if config.k3s:
        yield from _release(config.k3s, f"{path}.k3s")
        yield from _checksums(config.k3s, [config.master.type], f"{path}.k3s")


def ingress(config: IngressConfig | None, where: NetworkConfig, path: str) -> Iterator[ValidationIssue]:
    if config is None:
        return
    if not config.cidrs:
        yield problem(f"{path}.cidrs", [], "lets no address in", "leave ingress out, or write for example 0.0.0.0/0")
    for index, cidr in enumerate(config.cidrs):
        try:
            ip_network(cidr)
        except ValueError as error:
            yield problem(f"{path}.cidrs[{index}]", cidr, f"is not a network ({error})", "write for example 0.0.0.0/0")
    if where.existing and not where.existing.public and not config.internal:
        right = "set internal: true, or name subnets with an internet gateway"
        yield problem(path, "internet-facing", "has no public subnet in the existing network", right)


def _release(k3s: K3s, path: str) -> Iterator[ValidationIssue]:
    if not _K3S.fullmatch(k3s.version):
        yield problem(f"{path}.version", k3s.version, "is not a release", "write it in full, such as v1.34.2+k3s1")
    if not k3s.sha256:
        right = "copy it from the release's sha256sum-<arch>.txt, by architecture: x86_64, arm64"
        yield problem(f"{path}.sha256", {}, "has no checksum", right)
    for arch, digest in k3s.sha256.items():
        if arch not in ("x86_64", "arm64"):
            yield problem(f"{path}.sha256.{arch}", digest, "is of no architecture", "write x86_64 or arm64")
        if not _SHA256.fullmatch(digest):
            yield problem(f"{path}.sha256.{arch}", digest, "is not a SHA-256", "64 hexadecimal digits")


def _known_type(name: str, path: str) -> Iterator[ValidationIssue]:
    if name not in instance_types.known():
        close = get_close_matches(name, instance_types.known(), n=1)
        right = f"did you mean {close[0]}?" if close else "write for example t3.small"
        yield problem(path, name, "is no instance type of EC2", right)


def pools(policy: Policy, config: ClusterConfig, path: str) -> Iterator[ValidationIssue]:
    """What a policy wants against what can be built."""
    several = len(policy.pools) > 1
    for index, pool in enumerate(policy.pools):
        at = f"{path}.policy.pools[{index}].market.types" if several else f"{path}.policy.market.types"
        for name in pool.market.types:
            yield from _known_type(name, at)
        kinds = {instance_types.arch_of(name) for name in pool.market.types}
        if len(kinds) > 1:
            right = "one image serves a pool: make two pools, or choose types of one architecture"
            yield problem(at, list(pool.market.types), f"are for {' and '.join(sorted(kinds))}", right)
    if config.k3s:
        types = [name for pool in policy.pools for name in pool.market.types]
        yield from _checksums(config.k3s, types, f"{path}.k3s")
    names = [pool.name for pool in policy.pools]
    for pool_name in config.machines:
        if pool_name not in names:
            yield problem(
                f"{path}.machines.{pool_name}", pool_name, "is no pool of the policy", nearest(pool_name, names)
            )


def _checksums(k3s: K3s, types: Iterable[str], path: str) -> Iterator[ValidationIssue]:
    """A pinned release needs one for every processor that the cluster has."""
    for arch in sorted({instance_types.arch_of(name) for name in types}):
        if k3s.sha256 and arch not in k3s.sha256:
            yield problem(f"{path}.sha256.{arch}", None, "is missing", f"add the release's SHA-256 for {arch}")


def pace(policy: Policy, schedule: ScheduleConfig, path: str) -> Iterator[ValidationIssue]:
    """Readings must come neither so often that they do not count nor so seldom that no streak ever lasts."""
    interval, trust = policy.interval, policy.trust
    slowest = {"every": schedule.every} | ({"night.every": schedule.night.every} if schedule.night else {})
    if schedule.every < interval * trust.spacing:
        right = f"{path}.policy.interval is {interval}: readings this close count once; set the two alike"
        yield problem(
            "autoscaler.schedule.every", str(schedule.every), "is more often than the policy's interval", right
        )
    for name, every in slowest.items():
        if every > interval * trust.gap:
            needed = every / interval
            right = f"set {path}.policy.trust.gap to {needed:g} or more, or look more often"
            wrong = (
                f"is more than {trust.gap:g} × the policy's interval ({interval}): no reading would ever be sustained"
            )
            yield problem(f"autoscaler.schedule.{name}", str(every), wrong, right)
    longest = timedelta(seconds=RECONCILE.timeout) - LAST_WORDS
    if policy.burst.budget > longest:
        right = f"{longest.total_seconds():g} s at most: the function is stopped after {RECONCILE.timeout} s"
        yield problem(f"{path}.policy.burst.budget", str(policy.burst.budget), "is longer than a run may last", right)
