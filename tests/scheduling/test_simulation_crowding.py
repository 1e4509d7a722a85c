"""Whether the others may take every place that a pod has."""

import pytest

from nodefleet.model.inventory import Resources
from nodefleet.model.workload import HostPort, Pod, Rules
from nodefleet.scheduling.predicates import NodeModel, NodeState
from nodefleet.scheduling.simulation import crowded_out


def places(*free, **changes):
    """Places of ten cores and ten bytes with so many cores free."""
    found = []
    for index, cores in enumerate(free):
        place = NodeState(
            NodeModel(name=f"w{index}", allocatable=Resources(cpu=10, memory=10, pods=10), **changes), index
        )
        place.put(pod("there", 10 - cores))
        found.append(place)
    return found


def pod(name="pod", cpu=1, **changes):
    return Pod(name=name, requests=Resources(cpu=cpu, memory=changes.pop("memory", 0)), rules=Rules(**changes))


def others(*sizes):
    return [pod(f"other-{number}", cpu) for number, cpu in enumerate(sizes)]


@pytest.mark.parametrize(
    ("free", "coming", "out"),
    [
        ((5,), (), False),
        ((5,), (1,), True),  # one core less is one too few
        ((6,), (1,), False),
        ((6,), (1, 1), True),  # two together
        ((6,), (6,), True),
        ((6,), (7,), False),  # it does not fit there itself
        ((6,), (7, 2), True),
        ((5, 5), (1,), False),  # it can be in one place only
        ((5, 5), (1, 1), True),
        ((5, 7), (1, 2), False),  # the second is not big enough for the larger place
        ((5, 7), (1, 3), True),
        ((5, 7), (3, 1), True),
        ((7, 7), (1, 2, 3), True),  # the big one here, the two small ones there
        ((7, 7), (1, 1, 3), False),
        ((), (), True),
    ],
)
def test_who_comes_first_may_leave_no_place_for_five_cores(free, coming, out):
    assert crowded_out(pod(cpu=5), places(*free), others(*coming)) is out


def test_memory_counts_like_cpu():
    big, small = pod(cpu=0, memory=8), pod("small", cpu=0, memory=3)
    assert crowded_out(big, places(10), [small])
    assert not crowded_out(big, places(10), [pod("tiny", cpu=0, memory=2)])


def test_a_host_port_is_a_place_too():
    port = (HostPort(port=80),)
    assert crowded_out(pod(host_ports=port), places(10), [pod("other", host_ports=port)])
    assert not crowded_out(pod(host_ports=port), places(10), [pod("other")])


def test_who_may_not_go_there_is_not_in_the_way():
    elsewhere = pod("other", 6, node_selector={"disk": "ssd"})
    assert not crowded_out(pod(cpu=5), places(10), [elsewhere])
    assert crowded_out(pod(cpu=5), places(10, labels={"disk": "ssd"}), [elsewhere])


def test_nothing_is_left_behind_in_the_places():
    (place,) = places(6)
    crowded_out(pod(cpu=5), [place], others(1, 1))
    assert (place.cpu, place.memory, len(place.pods)) == (6, 10, 1)
