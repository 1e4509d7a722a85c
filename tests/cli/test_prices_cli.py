"""`nodefleet prices`: what AWS says is kept in the table, and every run goes by it."""

import json

import pytest
from typer.testing import CliRunner

from nodefleet.errors import UnavailableError
from nodefleet_tools.cli import main
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.pricing import ask_on_demand
from support.deployed import account, deployed
from support.wording import assert_wording

__all__ = ["account", "deployed"]

TYPES = ("t2.small", "t3.small", "t3a.small")


def product(usd: str, unit: str = "Hrs") -> str:
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    return json.dumps({"terms": {"OnDemand": {"one": {"priceDimensions": {"one": dimension}}}}})


class PriceList:
    """The API as far as it is asked."""

    def __init__(self, **products: list[str]) -> None:
        self.products = {name.replace("_", "."): listed for name, listed in products.items()}
        self.asked: list[dict[str, str]] = []

    def get_products(self, *, ServiceCode: str, Filters: list[dict[str, str]]) -> dict[str, object]:  # noqa: N803
        assert ServiceCode == "AmazonEC2"
        self.asked.append({each["Field"]: each["Value"] for each in Filters})
        return {"PriceList": self.products.get(self.asked[-1]["instanceType"], [])}


@pytest.fixture
def api(monkeypatch):
    made = PriceList(t3_small=[product("0.0264")], t3a_small=[product("0.0236")])
    monkeypatch.setattr(Connection, "pricing_client", lambda _: made)
    return made


def answer(*arguments: str) -> list[dict]:
    done = CliRunner().invoke(main.app, ["prices", "--json", *arguments])
    assert done.exit_code == 0, done.stdout
    return json.loads(done.stdout)


def test_before_aws_is_asked_prices_are_those_of_the_deployment_and_the_bundled_list(deployed):
    sources = {each["type"]: each["source"] for each in answer()}
    assert set(sources) >= set(TYPES)
    assert {"AWS" in source for source in sources.values()} == {False}


def test_what_aws_says_is_kept_and_shown_with_its_day(deployed, api):
    rows = {each["type"]: each for each in answer("--refresh")}
    assert rows["t3.small"]["on_demand_usd"] == 0.0208
    assert_wording(rows["t3.small"]["source"])
    assert rows["t3a.small"]["on_demand_usd"] == 0.0236
    assert rows["t3a.small"]["source"].startswith("AWS on ")
    kept = deployed.store().state().prices
    assert (kept.region, kept.on_demand) == ("us-east-1", {"t3.small": 0.0264, "t3a.small": 0.0236})
    assert {(each["regionCode"], each["operatingSystem"], each["tenancy"]) for each in api.asked} == {
        ("us-east-1", "Linux", "Shared")
    }


def test_a_price_that_was_known_stays_when_aws_does_not_list_the_type_any_more(deployed, api):
    answer("--refresh")
    api.products.pop("t3.small")
    answer("--refresh")
    assert deployed.store().state().prices.on_demand["t3.small"] == 0.0264


def test_a_refused_call_is_an_error_and_keeps_what_was_known(deployed, api, monkeypatch):
    answer("--refresh")
    before = deployed.store().state().prices

    def refuse(**_: object) -> None:
        raise UnavailableError("AWS Price List", "it does not answer")

    monkeypatch.setattr(api, "get_products", refuse)
    done = CliRunner().invoke(main.app, ["prices", "--refresh", "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stdout)["error"]["status"] == 1
    assert deployed.store().state().prices == before


@pytest.mark.parametrize(
    ("listed", "price"),
    [
        ([product("0.02"), product("0.03")], {"t3.small": 0.02}),
        ([product("0.0000000000")], {}),
        ([product("9", unit="Quantity")], {}),
        (["{", json.dumps({"terms": {}}), product("0.02")], {"t3.small": 0.02}),
        ([], {}),
    ],
)
def test_only_an_hourly_price_that_can_be_read_counts(listed, price):
    assert ask_on_demand(PriceList(t3_small=listed), "eu-west-1", ["t3.small"]) == price
