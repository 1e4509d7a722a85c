"""Prometheus and the other sources: whether every reading that the policy names gives a value, and the right one."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from nodefleet.model.inventory import Node
from nodefleet.model.names import pluralize, some
from nodefleet.model.snapshot import NOTHING_READ, Missing, Reading, Sample
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import Pool
from nodefleet_tools.doctor.context import READ_WITHIN, DoctorContext
from nodefleet_tools.doctor.findings import Finding, UnknownError, fine, hint, wrong
from nodefleet_tools.durations import lasting

LABELS = ("role", "pool", "node")
LABELLED = f'count by ({", ".join(LABELS)}) (node_cpu_seconds_total{{mode="idle"}})'

_NEW = timedelta(minutes=2)  # a node that is ready for no longer
_CUSTOM = "Fix it in the policy, or its source; until then the fleet does not shrink"
_SCRAPING = "Fix the scrape configuration (docs/explaining.md names the labels), or the policy's queries"


def prometheus(ctx: DoctorContext) -> Iterator[Finding]:
    """Whether it answers, and whether what it scrapes carries the labels that the default queries go by."""
    found = ctx.parts.prometheus()
    if found is None:
        fix = "Give its address in the deployment, or in PROMETHEUS_URL"
        yield wrong("its address is not configured: without readings the fleet never shrinks", fix)
        return
    got = found.ask("vector(1)", READ_WITHIN)
    if isinstance(got, Missing):
        yield wrong(got.cause, "See that it runs and is reachable from here")
        return
    yield fine("it answers")
    series = found.ask(LABELLED, READ_WITHIN)
    if isinstance(series, Missing):
        yield hint(f"the labels of what it scrapes cannot be read: {series.cause}")
        return
    if not series.series:
        yield wrong("it has no node_cpu_seconds_total", "Run node_exporter on every node, and scrape it")
        return
    lacking = {
        label: sum(not each.labels.get(label) for each in series.series if label != "pool" or _is_worker(each.labels))
        for label in LABELS
    }
    without = [f"{label} ({pluralize(number, 'node', 'nodes')})" for label, number in lacking.items() if number]
    if without:
        yield wrong(f"some of what it scrapes lacks labels: {some(without)}", _SCRAPING)
    else:
        yield fine(f"what it scrapes carries {', '.join(LABELS)}")


def _is_worker(labels: Mapping[str, str]) -> bool:
    return labels.get("role", "worker") == "worker"


def readings(ctx: DoctorContext) -> Iterator[Finding]:
    policy, now = ctx.policy.needed(), ctx.parts.now()
    workers = ctx.workers()
    for pool in policy.pools:
        found = ctx.readings.found().get(pool.name, NOTHING_READ)
        if workers and not workers[pool.name]:
            yield hint(f"pool {pool.name} has no worker, so its CPU and memory cannot be measured yet")
            yield from _read(pool, found.custom, policy, now)
            continue
        samples = {"cpu": found.cpu, "memory": found.memory, "nodes": found.nodes, **found.custom}
        yield from _read(pool, samples, policy, now)
        if isinstance(found.cpu, Reading) and not found.idle:
            yield hint(f"pool {pool.name}: how idle each node is cannot be read, so any may leave first", _SCRAPING)
        if pool.strategy == "adaptive" and isinstance(found.cpu, Reading) and not found.load:
            said = (
                f"pool {pool.name}: the load of past minutes cannot be read, so the forecast learns from what runs see"
            )
            yield hint(said, "Try queries.load of the policy in Prometheus's own page: it must give one series")


def _read(pool: Pool, samples: Mapping[str, Sample], policy: Policy, now: datetime) -> Iterator[Finding]:
    good = []
    for name, sample in samples.items():
        fix = _CUSTOM if name in pool.readings else _SCRAPING
        match sample:
            case Missing(cause):
                yield wrong(f"pool {pool.name}: {name}: {cause}", fix)
            case Reading(value, at) if now - at > policy.trust.stale_after:
                yield wrong(f"pool {pool.name}: {name} is {value:.4g}, but {lasting(now - at)} old", fix)
            case Reading(value):
                good.append(f"{name} {value:.4g}")
    if good:
        yield fine(f"pool {pool.name}: {', '.join(good)}")


def counts(ctx: DoctorContext) -> Iterator[Finding]:
    """Where Prometheus counts other workers than Kubernetes has, the fleet does not shrink."""
    policy, found = ctx.policy.needed(), ctx.readings.needed()
    workers = ctx.workers()
    if not workers:
        raise UnknownError("what Kubernetes holds cannot be read")
    for pool in policy.pools:
        yield from _counted(pool.name, found.get(pool.name, NOTHING_READ).nodes, workers[pool.name], policy)


def _counted(pool: str, seen: Sample, workers: Sequence[Node], policy: Policy) -> Iterator[Finding]:
    if isinstance(seen, Missing):
        if workers:
            yield hint(f"not checked: how many workers of pool {pool} Prometheus sees is not known")
        return
    # The newest may not have been scraped when the others were.
    new = sum(node.ready_changed_at is not None and node.ready_changed_at > seen.at - _NEW for node in workers)
    tolerance = policy.trust.count_tolerance
    if len(workers) - new - tolerance <= seen.value <= len(workers) + tolerance:
        yield fine(f"pool {pool}: Prometheus sees {seen.value:g}, Kubernetes has {len(workers)}")
        return
    said = f"pool {pool}: Prometheus sees {pluralize(round(seen.value), 'worker', 'workers')}"
    yield wrong(f"{said}, Kubernetes has {len(workers)} that are ready: the fleet does not shrink", _SCRAPING)
