"""A flood becomes a few letters, in the order in which things happened.

    news                                                       letter
    older than some hours                                      one for each cluster: counted
    more of one kind and cluster than a person reads singly    one for the kind: counted, the first few in their words
    more letters of one cluster than a person reads            one for the rest; what stands out is never in it
    everything else                                            one each
What was really done and what a dry run would have done are never in one letter, unless it only counts.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from nodefleet.domain.alerts import STANDS_OUT
from nodefleet.notifying.limits import Limits
from nodefleet.notifying.news import News, Told


class Form(Enum):
    SINGLE = "single"
    MANY = "many"  # of one kind
    MIXED = "mixed"  # of several kinds
    OLD = "old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What one message tells of: news of one cluster, in its order."""

    form: Form
    news: tuple[News, ...]

    @property
    def told(self) -> tuple[Told, ...]:
        return tuple(each.told for each in self.news)

    @property
    def first(self) -> Told:
        return self.news[0].told

    @property
    def stands_out(self) -> bool:
        return any(told.kind in STANDS_OUT for told in self.told)

    def only(self, news: Sequence[News]) -> "Letter":
        """The letter with just these of its news: the others have been told."""
        form = Form.SINGLE if len(news) == 1 and self.form is not Form.OLD else self.form
        return replace(self, form=form, news=tuple(news))


def folded(news: Iterable[News], now: datetime, limits: Limits) -> tuple[Letter, ...]:
    distinct = list({each.told.id: each for each in reversed(list(news))}.values())[::-1]  # the first one of each id
    places = {each.told.id: place for place, each in enumerate(distinct)}
    letters = [*_old(distinct, now, limits), *_fresh(distinct, now, limits)]
    by_cluster: defaultdict[str, list[Letter]] = defaultdict(list)
    for letter in sorted(letters, key=lambda letter: places[letter.first.id]):
        by_cluster[letter.first.cluster].append(letter)
    quiet = [letter for crowd in by_cluster.values() for letter in _uncrowded(crowd, limits)]
    return tuple(sorted(quiet, key=lambda letter: places[letter.first.id]))


def _is_old(each: News, now: datetime, limits: Limits) -> bool:
    return now - each.told.at > limits.old_after


def _old(news: Sequence[News], now: datetime, limits: Limits) -> Iterable[Letter]:
    by_cluster: defaultdict[str, list[News]] = defaultdict(list)
    for each in news:
        if _is_old(each, now, limits):
            by_cluster[each.told.cluster].append(each)
    return [Letter(form=Form.OLD, news=tuple(members)) for members in by_cluster.values()]


def _fresh(news: Sequence[News], now: datetime, limits: Limits) -> Iterable[Letter]:
    alike: defaultdict[object, list[News]] = defaultdict(list)
    for each in news:
        if not _is_old(each, now, limits):
            alike[each.told.cluster, each.told.kind, each.told.dry].append(each)
    for members in alike.values():
        if len(members) > limits.alone:
            yield Letter(form=Form.MANY, news=tuple(members))
        else:
            yield from (Letter(form=Form.SINGLE, news=(each,)) for each in members)


def _uncrowded(letters: Sequence[Letter], limits: Limits) -> list[Letter]:
    """At most so many letters, except for what stands out."""
    if len(letters) <= limits.letters:
        return list(letters)
    plain = [letter for letter in letters if not letter.stands_out and letter.form is not Form.OLD]
    room = max(0, limits.letters - 1 - (len(letters) - len(plain)))
    rest = plain[room:]
    if len(rest) < 2:  # noqa: PLR2004  # one alone is no crowd
        return list(letters)
    merged = Letter(form=Form.MIXED, news=tuple(each for letter in rest for each in letter.news))
    return [letter for letter in letters if letter not in rest] + [merged]
