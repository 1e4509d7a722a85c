"""What the functions need in order to ask a policy's demand sources: logins and a way out."""

from collections.abc import Iterator
from urllib.parse import urlparse

from nodefleet.policy.cluster import Policy
from nodefleet.policy.sources import DEFAULT_PORTS, Source, server_of
from nodefleet_infra.interfaces import Place


def source_secrets(policy: Policy, place: Place, folder: str) -> tuple[str, ...]:
    """ARNs of the logins that a policy's readings name. Secrets Manager ends each with six characters of its own."""
    names = (getattr(source, "secret", None) for source in _sources(policy))
    prefix = f"arn:{place.partition}:secretsmanager:{place.region}:{place.account}:secret:{folder}/sources"
    return tuple(f"{prefix}/{name}-??????" for name in dict.fromkeys(filter(None, names)))


def source_ports(policy: Policy) -> frozenset[int]:
    """Ports, besides HTTPS, at which a policy's readings are asked for."""
    return frozenset(_ports(policy)) - {DEFAULT_PORTS["https"]}


def _ports(policy: Policy) -> Iterator[int]:
    for server in filter(None, map(server_of, _sources(policy))):
        url = urlparse(server)
        yield url.port or DEFAULT_PORTS[url.scheme]


def _sources(policy: Policy) -> list[Source]:
    return [source for pool in policy.pools for source in pool.readings.values()]
