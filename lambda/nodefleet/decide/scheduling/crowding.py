"""Whether pods that look for a place at the same time may take every place that one of them has.

The scheduler takes pods as they come and puts each where it likes. So it is not enough that all of them fit when they
are packed well: each must still find a place when the others came first and stand in its way.
"""

from collections.abc import Iterable, Sequence

from nodefleet.decide.scheduling.fits import shortage, why_not
from nodefleet.decide.scheduling.places import Place
from nodefleet.domain.workload import Pod


def crowded_out(pod: Pod, places: Iterable[Place], others: Iterable[Pod]) -> bool:
    """Whether the others can leave none of these places, which are all that the pod has, for it."""
    coming = sorted(others, key=_size)
    for place in sorted(places, key=lambda place: (_slack(pod, place), place.index)):
        in_the_way = _in_the_way(pod, place, coming)
        if not in_the_way:
            return False
        for each in in_the_way:
            coming.remove(each)
    return True


def _in_the_way(pod: Pod, place: Place, coming: Sequence[Pod]) -> list[Pod]:
    """The smallest of those who come that would do, or as few of them as together would; none if they cannot."""
    able = [each for each in coming if why_not(each, place.node) is None]
    for one in able:
        if alone := _until_too_little(pod, place, [one]):
            return alone
    return _until_too_little(pod, place, able[::-1])


def _until_too_little(pod: Pod, place: Place, coming: Iterable[Pod]) -> list[Pod]:
    """Those who go there, one after the other, until the place has too little for the pod; none if it never has."""
    there: list[Pod] = []
    for each in coming:
        if shortage(each, place) is None:
            place.put(each)
            there.append(each)
            if shortage(pod, place) is not None:
                break
    enough = shortage(pod, place) is None
    for _ in there:
        place.take_last()
    return [] if enough else there


def _slack(pod: Pod, place: Place) -> float:
    """How much more the place has than the pod asks for, as a share of the node: what has little is taken soonest."""
    offered, asked = place.node.allocatable, pod.requests
    cpu = (place.cpu - asked.cpu) / max(offered.cpu, 1)
    return min(cpu, (place.memory - asked.memory) / max(offered.memory, 1))


def _size(pod: Pod) -> tuple[int, int, str]:
    return (pod.requests.cpu, pod.requests.memory, pod.key)
