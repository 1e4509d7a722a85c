"""List prices of what a stack is made of, by region: for the bill of docs/deploy.md and the weekly report.

As commonly known and noted on the day below; they were not compared with AWS's own price pages. USD, without
taxes, discounts and free tiers. A region that is not here is not guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

NOTED = "2026-11-16"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPrices:
    hours: Mapping[str, float]  # On-Demand, by type
    address: float = 0.005  # a public IPv4 address, an hour
    disk: float  # a GB of gp3, a month
    nat: float  # a NAT gateway, an hour
    balancer: float  # a Network Load Balancer, an hour
    metric: float = 0.30  # a custom metric, a month
    alarm: float = 0.10  # a metric that is watched, a month
    dashboard: float = 3.00
    secret: float = 0.40
    secret_reads: float = 0.05  # 10,000
    key: float = 1.00
    compute: float = 0.0000133334  # a GB-second on arm64
    calls: float = 0.20  # a million
    writes: float  # a million units, on demand
    reads: float
    table: float  # a GB with recovery, a month
    stored: float  # a GB in S3, a month
    puts: float = 0.005  # 1,000
    logs: float  # a GB taken in


PRICES: Mapping[str, ListPrices] = {
    "us-east-1": ListPrices(
        hours={"t3.small": 0.0208, "t3a.small": 0.0188, "t3.medium": 0.0416, "t3.large": 0.0832},
        disk=0.08,
        nat=0.045,
        balancer=0.0225,
        writes=0.625,
        reads=0.125,
        table=0.45,
        stored=0.023,
        logs=0.50,
    ),
    "ap-southeast-1": ListPrices(
        hours={"t3.small": 0.0264, "t3a.small": 0.0236, "t3.medium": 0.0528, "t3.large": 0.1056},
        disk=0.096,
        nat=0.059,
        balancer=0.0252,
        writes=0.71,
        reads=0.1425,
        table=0.513,
        stored=0.025,
        logs=0.70,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeTier:
    """What AWS gives every account for good, once for everything in it."""

    metrics: int = 10
    alarms: int = 10
    dashboards: int = 3
    compute: float = 400_000  # GB-seconds
    calls: float = 1_000_000
    logs: float = 5.0  # GB


FREE = FreeTier()
