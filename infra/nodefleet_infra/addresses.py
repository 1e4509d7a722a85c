"""How a network's addresses are divided. Pure, so that what a zone gets never depends on anything but its place.

eighth 0 … 5        workers and masters, a zone each
eighth 6            in eighths again: NAT gateways, a zone each, if workers are private
eighth 7            in eighths again: functions, a zone each
"""

from ipaddress import IPv4Network, IPv6Network

_WORKERS, _NAT, _FUNCTIONS = 0, 6, 7
_EIGHTHS = 3  # bits
_SUBNET6 = 64  # the only size that a subnet's IPv6 range has


def worker_block(cidr: str, zone: int) -> str:
    return str(_eighth(IPv4Network(cidr), _WORKERS + zone))


def nat_block(cidr: str, zone: int) -> str:
    return str(_eighth(_eighth(IPv4Network(cidr), _NAT), zone))


def function_block(cidr: str, zone: int) -> str:
    return str(_eighth(_eighth(IPv4Network(cidr), _FUNCTIONS), zone))


def ipv6_block(cidr: str, number: int) -> str:
    """One /64 of the /56 that AWS gives a VPC."""
    network = IPv6Network(cidr)
    size = 2 ** (network.max_prefixlen - _SUBNET6)
    return str(IPv6Network((int(network.network_address) + number * size, _SUBNET6)))


def _eighth(network: IPv4Network, index: int) -> IPv4Network:
    return list(network.subnets(prefixlen_diff=_EIGHTHS))[index]
