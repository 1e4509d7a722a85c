"""What a pod asks for as a whole."""

import pytest

from nodefleet.model.inventory import NOTHING, Resources
from nodefleet.model.workload import Container, effective_requests, resources_from
from support.wording import assert_wording


def cpu(millicores):
    return Container(requests=Resources(cpu=millicores))


def sidecar(millicores):
    return Container(requests=Resources(cpu=millicores), sidecar=True)


@pytest.mark.parametrize(
    ("containers", "inits", "millicores"),
    [
        ([], [], 0),
        ([cpu(100), cpu(200)], [], 300),
        ([cpu(100)], [cpu(50), cpu(70)], 100),
        ([cpu(100)], [cpu(500), cpu(70)], 500),
        ([cpu(100)], [sidecar(50)], 150),
        ([cpu(100)], [sidecar(50), sidecar(60)], 210),
        ([cpu(100)], [sidecar(50), cpu(200)], 250),
        ([cpu(100)], [cpu(200), sidecar(50)], 200),
        ([cpu(100)], [sidecar(50), cpu(200), sidecar(300)], 450),
        ([cpu(10)], [sidecar(50), cpu(500), sidecar(300), cpu(210)], 560),
        ([], [sidecar(50)], 50),
    ],
)
def test_sidecars_add_up_and_of_ordinary_init_containers_the_largest_counts(containers, inits, millicores):
    assert effective_requests(containers, inits).cpu == millicores


def test_each_resource_is_counted_by_itself():
    main = Container(requests=Resources(cpu=100, memory=10, storage=5, extended={"gpu": 1}))
    init = Container(requests=Resources(cpu=50, memory=30, extended={"gpu": 2, "fpga": 1}))
    assert effective_requests([main], [init]) == Resources(
        cpu=100, memory=30, storage=5, extended={"gpu": 2, "fpga": 1}
    )


def test_the_overhead_comes_on_top():
    assert effective_requests([cpu(100)], [cpu(400)], overhead=Resources(cpu=20, memory=7)) == Resources(
        cpu=420, memory=7
    )


def test_pod_level_cpu_memory_and_huge_pages_stand_instead_of_the_containers():
    main = Container(requests=Resources(cpu=100, memory=10, storage=5, extended={"gpu": 1, "hugepages-2Mi": 4}))
    level = Resources(cpu=900, memory=90, storage=99, extended={"gpu": 8, "hugepages-2Mi": 6})
    assert effective_requests([main], overhead=Resources(cpu=1), pod_level=level) == Resources(
        cpu=901, memory=90, storage=5, extended={"gpu": 1, "hugepages-2Mi": 6}
    )


def test_what_is_not_said_for_the_pod_is_said_by_its_containers():
    main = Container(requests=Resources(cpu=100, memory=10))
    assert effective_requests([main], pod_level=Resources(cpu=300)) == Resources(cpu=300, memory=10)
    assert effective_requests([main], pod_level=Resources(memory=30)) == Resources(cpu=100, memory=30)


def test_quantities_become_whole_units_rounded_up():
    read = resources_from(
        {
            "cpu": "1500100u",
            "memory": "1.5Ki",
            "ephemeral-storage": "2G",
            "pods": "110",
            "nvidia.com/gpu": "2",
            "hugepages-2Mi": "4Mi",
        }
    )
    assert read == Resources(
        cpu=1501,
        memory=1536,
        storage=2 * 10**9,
        pods=110,
        extended={"hugepages-2Mi": 4 * 2**20, "nvidia.com/gpu": 2},
    )
    assert list(read.extended) == ["hugepages-2Mi", "nvidia.com/gpu"]


@pytest.mark.parametrize(("text", "millicores"), [("500m", 500), ("2", 2000), ("0.1", 100), ("1m", 1), ("1u", 1)])
def test_processor_time_is_counted_in_millicores(text, millicores):
    assert resources_from({"cpu": text}).cpu == millicores


def test_nothing_asked_for_is_nothing():
    assert resources_from({}) == NOTHING
    assert effective_requests([]) == NOTHING


def test_a_wrong_quantity_is_refused():
    with pytest.raises(ValueError, match="lots") as refused:
        resources_from({"memory": "lots"})
    assert_wording(str(refused.value))
