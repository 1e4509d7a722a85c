"""What is over is let go of: notices of machines that are gone, and commands that have ended."""

from dataclasses import replace
from datetime import timedelta

from nodefleet.domain.machines import InstanceState, Notice
from nodefleet.domain.observation import Observation
from nodefleet.domain.operations import Removal
from nodefleet.domain.readings import Missing
from nodefleet.loop.book import Book

_FORGET_NOTICE = timedelta(days=1)
_FORGET_UNKNOWN = timedelta(hours=1)  # of a machine that EC2 does not list


def tidy(book: Book, seen: Observation) -> None:
    """Let go of notices that are over and of commands that have ended."""
    open_on = {each.instance for each in book.operations.values() if isinstance(each, Removal)}
    book.retire(notice for notice in seen.notices if _is_over(notice, seen, open_on))
    book.expire(command for command in seen.commands if command.until is not None and command.until <= seen.at)


def _is_over(notice: Notice, seen: Observation, open_on: set[str]) -> bool:
    age = seen.at - notice.at
    if isinstance(seen.instances, Missing) or notice.instance in open_on:
        return False
    instance = next((it for it in seen.instances if it.id == notice.instance), None)
    if instance is None:
        return age >= _FORGET_UNKNOWN
    return instance.state is InstanceState.TERMINATED or age >= _FORGET_NOTICE


def without_retired(seen: Observation, book: Book) -> Observation:
    """What is over is not seen any more, though its node may still say it."""
    over = {notice.instance for notice in book.retired}
    return replace(seen, notices=tuple(notice for notice in seen.notices if notice.instance not in over))
