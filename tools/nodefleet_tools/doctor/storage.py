"""The table: whether it is what we think it is, and whether runs happen in it."""

from collections.abc import Iterator
from datetime import UTC, datetime

from nodefleet.adapters.aws.errors import calling
from nodefleet.adapters.dynamodb import codec
from nodefleet.adapters.dynamodb.codec import Item, number, text
from nodefleet.adapters.dynamodb.records import record_key
from nodefleet.model.names import pluralize
from nodefleet.policy.cluster import Policy
from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint, wrong
from nodefleet_tools.durations import ago

_KEYS = {"HASH": codec.PARTITION, "RANGE": codec.SORT}
_IMAGES = ("NEW_IMAGE", "NEW_AND_OLD_IMAGES")
_QUIET = 3  # intervals without a decision
_SCHEDULE = "See that the schedule is on, and look at its log"


def table(ctx: DoctorContext) -> Iterator[Finding]:
    name, client = ctx.parts.table, ctx.client("dynamodb")
    with calling("DynamoDB"):
        about = client.describe_table(TableName=name)["Table"]
    found = {each["KeyType"]: each["AttributeName"] for each in about["KeySchema"]}
    kinds = {each["AttributeName"]: each["AttributeType"] for each in about["AttributeDefinitions"]}
    if found != _KEYS or {kinds[key] for key in found.values()} != {"S"}:
        said = ", ".join(f"{key} ({kinds[key]})" for key in found.values())
        fix = f"Make it with partition key {codec.PARTITION} and sort key {codec.SORT}, both strings (docs/state.md)"
        yield wrong(f"{name} has the keys {said}", fix)
        return
    yield fine(f"{name} is there, with the right keys")
    if about.get("StreamSpecification", {}).get("StreamViewType") not in _IMAGES:
        yield hint("it has no stream of new records, so no events are sent", "Turn on its stream (new images)")


def upkeep(ctx: DoctorContext) -> Iterator[Finding]:
    """What the autoscaler runs without, and an operator wants to have."""
    name, client = ctx.parts.table, ctx.client("dynamodb")
    with calling("DynamoDB"):
        expiry = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    if expiry.get("TimeToLiveStatus") in ("ENABLED", "ENABLING") and expiry.get("AttributeName") == codec.TTL:
        yield fine("old records are deleted")
    else:
        yield hint("old decisions and events are never deleted", f"Turn on TTL for the attribute {codec.TTL}")
    with calling("DynamoDB"):
        backups = client.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    if backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus") == "ENABLED":
        yield fine("point-in-time recovery is on")
    else:
        yield hint("what is deleted by mistake is lost", "Turn on point-in-time recovery")


def lease(ctx: DoctorContext) -> Iterator[Finding]:
    """Whether a run holds the lease for longer than any run may."""
    parts = ctx.parts
    ctx.state.needed()
    with calling("DynamoDB"):
        key = record_key(parts.cluster, codec.LEASE)
        answer = ctx.client("dynamodb").get_item(TableName=parts.table, Key=key, ConsistentRead=True)
    yield held(answer.get("Item", {}), parts.now(), ctx.policy.or_else(Policy()))


def held(item: Item, now: datetime, policy: Policy) -> Finding:
    owner, expires = text(item, "owner"), number(item, "expires_ms")
    if not owner:
        return fine("no run holds it")
    until = datetime.fromtimestamp(expires / 1000, UTC)
    if until > now + policy.lease + policy.trust.clock_skew:
        fix = "A clock was wrong when it was taken: see docs/state.md on records that cannot be read, point 6"
        return wrong(f"{owner} holds it until {until:%Y-%m-%d %H:%M:%S} UTC, which is longer than any run may", fix)
    if until + policy.trust.clock_skew + policy.interval < now:
        return hint(f"{owner} died with it, {ago(now - until)}, and no run has taken it over since", _SCHEDULE)
    return fine(f"{owner} holds it until {until:%H:%M:%S} UTC")


def runs(ctx: DoctorContext) -> Iterator[Finding]:
    state, now = ctx.state.found(), ctx.parts.now()
    latest = next(iter(ctx.parts.history().decisions(1)), None)
    if latest is None:
        yield hint("no decision was recorded so far", f"{_SCHEDULE}, or try: nodefleet run --once --dry-run")
        return
    made = f"the last decision was made {ago(now - latest.at)}"
    if now - latest.at > _QUIET * ctx.policy.or_else(Policy()).interval:
        yield hint(made, _SCHEDULE)
    else:
        yield fine(f"{made}; {pluralize(len(state.operations), 'operation is', 'operations are')} under way")
