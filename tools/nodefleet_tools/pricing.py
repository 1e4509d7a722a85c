"""On-Demand prices from the AWS Price List API, with the operator's own credentials (pricing:GetProducts).

The functions do not ask it: their subnets do not reach it, and prices change over months. What was asked is kept in the
table (`KnownPrices`), where every run reads it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from nodefleet.adapters.aws.errors import calling
from nodefleet.errors import NodeFleetError
from nodefleet.model.inventory import InstanceType
from nodefleet.model.snapshot import KnownPrices
from nodefleet_tools.cli.connections import Connection

ENDPOINT_REGION = "us-east-1"  # the API has a few endpoints; this one knows the prices of every commercial region
_SERVICE = "AmazonEC2"
_PLAIN_LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}


def refresh(connection: Connection, types: Sequence[str]) -> KnownPrices:
    """Ask for On-Demand and Spot prices of these types, and keep them in the table; those known before stay."""
    before = connection.store.state().prices
    region = connection.session.client("ec2").meta.region_name
    known = before if before is not None and before.region == region else None
    on_demand = ask_on_demand(connection.pricing_client(), region, types)
    spot = {each.name: each.spot_usd for each in _offers(connection, types) if each.spot_usd is not None}
    found = KnownPrices(
        region=region,
        at=connection.clock(),
        on_demand={**(known.on_demand if known else {}), **on_demand},
        spot={**(known.spot if known else {}), **spot},
    )
    connection.put_prices(found)
    return found


def _offers(connection: Connection, types: Sequence[str]) -> tuple[InstanceType, ...]:
    try:
        return connection.cloud.catalog(types)
    except NodeFleetError as error:
        connection.warn(f"Spot prices stay as they were: {error}")
        return ()


def ask_on_demand(client: Any, region: str, types: Iterable[str]) -> dict[str, float]:
    """USD an hour by type, Linux with shared tenancy; a type that is not listed is left out."""
    found = {}
    for name in sorted(set(types)):
        asked = {**_PLAIN_LINUX, "regionCode": region, "instanceType": name}
        filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in asked.items()]
        with calling("AWS Price List"):
            answer = client.get_products(ServiceCode=_SERVICE, Filters=filters)
        prices = [price for product in answer.get("PriceList") or () for price in _hourly(product)]
        if prices:
            found[name] = min(prices)
    return found


def _hourly(product: str) -> list[float]:
    """The hourly prices in one product of the list. One that cannot be read is not known."""
    try:
        terms = json.loads(product)["terms"]["OnDemand"]
        dimensions = [each for term in terms.values() for each in term["priceDimensions"].values()]
        prices = [float(each["pricePerUnit"]["USD"]) for each in dimensions if each["unit"] == "Hrs"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []
    return [price for price in prices if price > 0]
