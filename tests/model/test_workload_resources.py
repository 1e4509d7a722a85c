"""Quantities as Kubernetes writes them, and their arithmetic."""

from decimal import Decimal

import pytest

from nodefleet.model.inventory import NOTHING, Resources, total
from nodefleet.model.workload import quantity
from support.wording import assert_wording

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", "0"),
        ("2", "2"),
        ("0.5", "0.5"),
        ("500m", "0.5"),
        ("100n", "1e-7"),
        ("7u", "7e-6"),
        ("3k", "3000"),
        ("2M", "2000000"),
        ("1G", "1e9"),
        ("1T", "1e12"),
        ("1P", "1e15"),
        ("1E", "1e18"),
        ("1Ki", "1024"),
        ("1Mi", "1048576"),
        ("1.5Gi", "1610612736"),
        ("1Ti", "1099511627776"),
        ("1Pi", "1125899906842624"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        (".5", "0.5"),
        ("2.", "2"),
        ("-1", "-1"),
    ],
)
def test_quantities(text, number):
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "x", "1Qi", "m", "1 Gi", "1Gim", "NaN", "Infinity", "1_0", " 1", "."])
def test_what_is_no_quantity_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="500m, 2 or 1Gi") as refused:
        quantity(text)
    assert_wording(str(refused.value))


ONE = Resources(cpu=100, memory=10, storage=1, pods=1, extended={GPU: 1})
TWO = Resources(cpu=50, memory=20, storage=3, pods=2, extended={GPU: 2, "x/y": 5})


def test_sums_and_differences():
    assert Resources(cpu=150, memory=30, storage=4, pods=3, extended={GPU: 3, "x/y": 5}) == ONE + TWO
    assert Resources(cpu=-50, memory=10, storage=2, pods=1, extended={GPU: 1, "x/y": 5}) == TWO - ONE
    assert Resources(cpu=50, memory=-10, storage=-2, pods=-1, extended={GPU: -1, "x/y": -5}) == ONE - TWO
    assert ONE + NOTHING == ONE == NOTHING + ONE


def test_the_larger_of_two_resource_by_resource():
    assert ONE.at_least(TWO) == Resources(cpu=100, memory=20, storage=3, pods=2, extended={GPU: 2, "x/y": 5})


def test_the_total_of_many():
    assert total([ONE, ONE, TWO]).cpu == 250
    assert total([]) == NOTHING
