"""Places in the order in which the scheduler likes them: the emptiest first."""

from bisect import insort
from collections.abc import Iterable, Iterator

from nodefleet.decide.scheduling.places import Place


class Emptiest:
    def __init__(self, places: Iterable[Place]) -> None:
        self._ranked = sorted(places, key=_rank)

    def __iter__(self) -> Iterator[Place]:
        return iter(self._ranked)

    def rank_anew(self, place: Place) -> None:
        """What is taken there has changed."""
        self._ranked.remove(place)
        insort(self._ranked, place, key=_rank)


def _rank(place: Place) -> tuple[float, int]:
    return (place.taken, place.index)
