"""List prices stand in for a deployment that says none, in their own region only."""

import pytest

from nodefleet.model.inventory import list_prices


def test_prices_are_known_in_their_region():
    assert list_prices("us-east-1")["t3.small"] == 0.0208
    assert all(0.004 < price < 0.5 for price in list_prices("us-east-1").values())


@pytest.mark.parametrize("region", ["eu-west-1", "us-east-2", ""])
def test_no_other_region_is_guessed(region):
    assert list_prices(region) == {}
