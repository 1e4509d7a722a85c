from collections.abc import Callable, Iterator

import pytest
from botocore.stub import Stubber

from nodefleet.adapters.aws.instance_types import KEPT, SOON, Answers, Catalog, _offer
from nodefleet.adapters.aws.session import Session
from nodefleet.errors import DeniedError, UnavailableError
from nodefleet.model.inventory import LIST_PRICES_USD, list_prices
from nodefleet.model.snapshot import KnownPrices
from support.builders import NOON, after
from support.ec2_fakes import Clock, shared_session
from support.wording import assert_wording

__all__ = ["shared_session"]

SMALL = {"InstanceType": "t3.small", "VCpuInfo": {"DefaultVCpus": 2}, "MemoryInfo": {"SizeInMiB": 2048}}
LARGE = {"InstanceType": "x9.large", "VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 512}}


class Shelf:
    """A catalogue on stubbed answers."""

    def __init__(self, client: object, stub: Stubber) -> None:
        self.client, self.stub = client, stub
        self.clock = Clock()
        self.warnings: list[str] = []
        self.catalog = self.made()

    def made(self, known: KnownPrices | None = None, **prices: float) -> Catalog:
        named = {name.replace("_", "."): price for name, price in prices.items()}
        return Catalog(lambda: self.client, named, self.clock, self.warnings.append, known)

    def offers(self, *types, asked: list[str] | None = None, more: str | None = None):
        expected = {"Filters": [{"Name": "instance-type", "Values": asked}]} if asked else None
        answer = {"InstanceTypes": list(types)} | ({"NextToken": more} if more else {})
        self.stub.add_response("describe_instance_types", answer, expected)

    def spot(self, *prices: tuple[str, str, str, float]):
        history = [
            {"InstanceType": name, "AvailabilityZone": zone, "SpotPrice": price, "Timestamp": after(seconds)}
            for name, zone, price, seconds in prices
        ]
        self.stub.add_response("describe_spot_price_history", {"SpotPriceHistory": history})

    def fails(self, call: str = "describe_instance_types", code: str = "RequestLimitExceeded"):
        self.stub.add_client_error(call, code, "slow down")


@pytest.fixture
def shelf(shared_session: Session) -> Iterator[Shelf]:
    client = shared_session.client("ec2")
    with Stubber(client) as stub:
        yield Shelf(client, stub)
        stub.assert_no_pending_responses()


def small_price(shelf: Shelf, catalog: Catalog | None = None) -> float | None:
    return (catalog or shelf.catalog).of(("t3.small",))[0].hourly_usd


# ── what types offer ─────────────────────────────────────────────────────────────────────────────────────────────


def test_cores_and_memory_are_told_in_the_units_of_kubernetes(shelf):
    shelf.offers(LARGE, SMALL)
    shelf.spot(("t3.small", "a", "0.01", 0))
    found = [(one.name, one.resources.cpu, one.resources.memory) for one in shelf.catalog.of(("x9.large", "t3.small"))]
    assert found == [("t3.small", 2000, 2 << 30), ("x9.large", 4000, 512 << 20)]


def kind(**parts):
    return {**SMALL, **parts}


@pytest.mark.parametrize(
    ("raw", "extended"),
    [
        (kind(GpuInfo={"Gpus": [{"Manufacturer": "NVIDIA", "Name": "T4", "Count": 4}]}), {"nvidia.com/gpu": 4}),
        (kind(GpuInfo={"Gpus": [{"Manufacturer": "AMD", "Name": "Radeon Pro V520", "Count": 2}]}), {"amd.com/gpu": 2}),
        (kind(GpuInfo={"Gpus": [{"Manufacturer": "Habana", "Count": 8}]}), {"habana.ai/gaudi": 8}),
        (kind(GpuInfo={"Gpus": [{"Manufacturer": "Xilinx", "Count": 1}]}), {}),
        (
            kind(NeuronInfo={"NeuronDevices": [{"Count": 6, "CoreInfo": {"Count": 2}, "Name": "Inferentia2"}]}),
            {"aws.amazon.com/neuron": 6, "aws.amazon.com/neuroncore": 12},
        ),
        (
            kind(GpuInfo={"Gpus": [{"Manufacturer": "NVIDIA", "Count": 4}, {"Manufacturer": "NVIDIA", "Count": 2}]}),
            {"nvidia.com/gpu": 6},
        ),
        (
            kind(
                NeuronInfo={"NeuronDevices": [{"Count": 1, "CoreInfo": None}, {"Count": 2, "CoreInfo": {"Count": 8}}]}
            ),
            {"aws.amazon.com/neuron": 3, "aws.amazon.com/neuroncore": 17},
        ),
        (kind(GpuInfo={"Gpus": None}, NeuronInfo={"NeuronDevices": None}), {}),
        (kind(), {}),
    ],
)
def test_devices_are_named_as_their_plugins_name_them(raw, extended):
    assert _offer(raw)[1].resources.extended == extended


def test_architecture_and_local_disks():
    graviton = kind(ProcessorInfo={"SupportedArchitectures": ["arm64"]}, InstanceStorageInfo={"TotalSizeInGB": 118})
    assert (_offer(graviton)[1].architecture, _offer(graviton)[1].local_disk_gb) == ("arm64", 118)
    both = kind(ProcessorInfo={"SupportedArchitectures": ["i386", "x86_64"]})
    assert (_offer(both)[1].architecture, _offer(both)[1].local_disk_gb) == ("amd64", 0)
    assert _offer(kind())[1].architecture == ""


def test_a_type_that_is_not_offered_is_left_out_and_said(shelf):
    shelf.offers(SMALL, asked=["t3.small", "t9.tiny"])
    shelf.spot(("t3.small", "a", "0.01", 0))
    assert [one.name for one in shelf.catalog.of(("t9.tiny", "t3.small"))] == ["t3.small"]
    assert_wording(shelf.warnings)


def test_nothing_is_asked_about_prices_when_nothing_is_offered(shelf):
    shelf.offers()
    assert shelf.catalog.of(("t9.tiny",)) == ()


def test_nothing_is_asked_for_no_types(shelf):
    assert shelf.catalog.of(()) == ()


def test_all_pages_are_read(shelf):
    shelf.offers(SMALL, more="2")
    shelf.offers(LARGE)
    shelf.spot(("t3.small", "a", "0.01", 0))
    assert len(shelf.catalog.of(("t3.small", "x9.large"))) == 2


def test_many_types_are_asked_for_in_portions_that_ec2_takes(shelf):
    names = [f"x{number:03}.large" for number in range(150)]
    shelf.offers(asked=names[:100])
    shelf.offers(asked=names[100:])
    assert shelf.catalog.of(names) == ()


def test_a_type_that_cannot_be_read_is_an_error(shelf):
    shelf.offers({"InstanceType": "t3.small"})
    with pytest.raises(UnavailableError) as caught:
        shelf.catalog.of(("t3.small",))
    assert_wording(str(caught.value))


# ── prices ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_deployments_price_comes_before_the_list_price(shelf):
    for _ in range(2):
        shelf.offers(SMALL)
        shelf.spot(("t3.small", "a", "0.01", 0))
    assert small_price(shelf) == LIST_PRICES_USD["t3.small"] == 0.0208
    assert small_price(shelf, shelf.made(t3_small=0.0264)) == 0.0264


def said_by_aws(region: str = "us-east-1") -> KnownPrices:
    return KnownPrices(region=region, at=NOON, on_demand={"t3.small": 0.0212}, spot={"t3.small": 0.0071})


@pytest.mark.parametrize(
    ("region", "own", "price"),
    [("us-east-1", {}, 0.0212), ("us-east-1", {"t3_small": 0.03}, 0.03), ("eu-west-1", {}, 0.0208)],
)
def test_what_aws_said_comes_before_the_list_and_after_the_deployment(shelf, region, own, price):
    shelf.offers(SMALL)
    shelf.spot()
    assert small_price(shelf, shelf.made(said_by_aws(region), **own)) == price


def test_the_spot_price_that_aws_said_last_counts_while_ec2_says_none(shelf):
    shelf.offers(SMALL)
    shelf.spot()
    (found,) = shelf.made(said_by_aws()).of(("t3.small",))
    assert found.spot_usd == 0.0071


def test_a_type_whose_price_nobody_knows_has_none(shelf):
    shelf.offers(LARGE)
    shelf.spot()
    (one,) = shelf.catalog.of(("x9.large",))
    assert (one.hourly_usd, one.spot_usd) == (None, None)


def test_no_other_region_is_guessed_from_the_list():
    assert list_prices("eu-central-1") == {}
    assert list_prices("us-east-1")["t3a.small"] == 0.0188


@pytest.mark.parametrize(("smaller", "larger"), [("small", "medium"), ("large", "xlarge"), ("xlarge", "2xlarge")])
def test_list_prices_double_from_size_to_size(smaller, larger):
    pairs = [
        (price, LIST_PRICES_USD[f"{family}.{larger}"])
        for name, price in LIST_PRICES_USD.items()
        for family, size in [name.split(".")]
        if size == smaller
    ]
    assert pairs
    for price, doubled in pairs:
        assert doubled == pytest.approx(2 * price, rel=0.01)


def test_the_spot_price_is_the_mean_over_zones_of_each_zones_latest(shelf):
    shelf.offers(SMALL)
    shelf.spot(
        ("t3.small", "a", "0.050", -7200),
        ("t3.small", "a", "0.010", -60),
        ("t3.small", "a", "0.070", -3600),
        ("t3.small", "b", "0.020", -60),
        ("m5.large", "b", "9", 0),
    )
    assert shelf.catalog.of(("t3.small",))[0].spot_usd == pytest.approx(0.015)


def test_a_price_without_a_time_is_the_oldest(shelf):
    shelf.offers(SMALL)
    entry = {"InstanceType": "t3.small", "AvailabilityZone": "a"}
    history = [
        {**entry, "SpotPrice": "0.03"},
        {**entry, "SpotPrice": "0.01", "Timestamp": NOON},
        {**entry, "SpotPrice": "0.02"},
    ]
    shelf.stub.add_response("describe_spot_price_history", {"SpotPriceHistory": history})
    assert shelf.catalog.of(("t3.small",))[0].spot_usd == 0.01


def test_the_price_now_is_asked_for_linux_only(shelf):
    shelf.offers(SMALL)
    expected = {"InstanceTypes": ["t3.small"], "ProductDescriptions": ["Linux/UNIX"], "StartTime": NOON}
    shelf.stub.add_response("describe_spot_price_history", {"SpotPriceHistory": []}, expected)
    shelf.catalog.of(("t3.small",))


def test_a_spot_price_that_cannot_be_read_is_not_known(shelf):
    shelf.offers(SMALL)
    shelf.spot(("t3.small", "a", "free", 0), ("t3.small", "b", "0.02", 0))
    shelf.stub.add_response("describe_instance_types", {"InstanceTypes": [LARGE]})
    shelf.stub.add_response("describe_spot_price_history", {"SpotPriceHistory": [{"InstanceType": "x9.large"}]})
    assert shelf.catalog.of(("t3.small",))[0].spot_usd == 0.02
    assert shelf.catalog.of(("x9.large",))[0].spot_usd is None


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "UnauthorizedOperation", "SomethingNew"])
def test_spot_prices_that_cannot_be_had_stop_nothing_and_are_asked_again_soon(shelf, code):
    shelf.offers(SMALL)
    shelf.fails("describe_spot_price_history", code)
    (one,) = shelf.catalog.of(("t3.small",))
    assert (one.hourly_usd, one.spot_usd) == (0.0208, None)
    assert len(shelf.warnings) == 1
    shelf.clock.now += SOON
    shelf.offers(SMALL)
    shelf.spot(("t3.small", "a", "0.01", 0))
    assert shelf.catalog.of(("t3.small",))[0].spot_usd == 0.01


# ── keeping ──────────────────────────────────────────────────────────────────────────────────────────────────────


def answered(shelf: Shelf, price: str) -> None:
    shelf.offers(SMALL)
    shelf.spot(("t3.small", "a", price, 0))


def spot_price(shelf: Shelf) -> Callable[[], float | None]:
    return lambda: shelf.catalog.of(("t3.small",))[0].spot_usd


def test_a_catalogue_is_kept_for_hours_and_then_asked_again(shelf):
    price = spot_price(shelf)
    answered(shelf, "0.01")
    assert price() == 0.01
    shelf.clock.now += KEPT - SOON
    assert price() == 0.01
    shelf.clock.now += SOON
    answered(shelf, "0.02")
    assert price() == 0.02


def test_each_set_of_types_is_kept_whatever_its_order(shelf):
    shelf.offers(SMALL, LARGE)
    shelf.spot(("t3.small", "a", "0.01", 0))
    assert shelf.catalog.of(("t3.small", "x9.large")) == shelf.catalog.of(("x9.large", "t3.small", "t3.small"))
    answered(shelf, "0.02")
    assert len(shelf.catalog.of(("t3.small",))) == 1


def test_a_refresh_that_fails_serves_the_old_copy_and_is_tried_again_soon(shelf):
    price = spot_price(shelf)
    answered(shelf, "0.01")
    price()
    shelf.clock.now += KEPT
    shelf.fails()
    assert price() == 0.01
    assert_wording(shelf.warnings[0])
    assert price() == 0.01  # not asked again at every iteration
    shelf.clock.now += SOON
    answered(shelf, "0.03")
    assert price() == 0.03


def test_clusters_of_a_region_share_what_ec2_said_and_not_the_prices_they_pay(shelf):
    shared: Answers = {}
    catalogs = [
        Catalog(lambda: shelf.client, own, shelf.clock, shelf.warnings.append, answers=shared)
        for own in ({}, {"t3.small": 0.03})
    ]
    answered(shelf, "0.01")
    found = [(one.hourly_usd, one.spot_usd) for each in catalogs for one in each.of(("t3.small",))]
    assert found == [(0.0208, 0.01), (0.03, 0.01)]
    shelf.clock.now += KEPT
    answered(shelf, "0.02")
    assert [each.of(("t3.small",))[0].spot_usd for each in catalogs] == [0.02, 0.02]


def test_without_a_copy_a_failure_is_an_error(shelf):
    shelf.fails(code="UnauthorizedOperation")
    with pytest.raises(DeniedError) as caught:
        shelf.catalog.of(("t3.small",))
    assert_wording(str(caught.value))
    answered(shelf, "0.01")
    assert spot_price(shelf)() == 0.01
