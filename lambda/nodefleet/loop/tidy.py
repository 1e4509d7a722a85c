"""What is over is let go of: notices of machines that are gone, and commands that have ended."""

from dataclasses import replace

from nodefleet.domain.fleet import in_force, is_false_alarm
from nodefleet.domain.machines import InstanceState, Notice
from nodefleet.domain.observation import Adopt, Command, Drain, Observation, Recycle
from nodefleet.domain.operations import Removal
from nodefleet.domain.policy import Policy, Pool
from nodefleet.domain.readings import Missing
from nodefleet.loop.book import Book


def tidy(book: Book, seen: Observation, policy: Policy) -> None:
    """Let go of notices that are over and of commands that have ended."""
    open_on = {each.instance for each in book.operations.values() if isinstance(each, Removal)}
    # A withdrawal is kept until the time it speaks of: the word that it takes back may come once more.
    kept = {*in_force(seen.notices), *(notice for notice in seen.notices if notice.withdrawn)}
    book.retire(n for n in seen.notices if n.instance not in open_on and (n not in kept or _is_over(n, seen, policy)))
    book.expire(command for command in seen.commands if _has_ended(command, seen, policy))


def _has_ended(command: Command, seen: Observation, policy: Policy) -> bool:
    """Its time is over, or what it asked for is done."""
    if command.until is not None and command.until <= seen.at:
        return True
    if not isinstance(command, Adopt | Drain | Recycle) or isinstance(seen.instances, Missing):
        return False
    instance = next((each for each in seen.instances if each.id == command.instance), None)
    if instance is None:
        return False  # EC2's list may be behind
    owned = policy.pool(instance.pool) is not None
    return instance.state is InstanceState.TERMINATED or (owned and not isinstance(command, Recycle))


def _is_over(notice: Notice, seen: Observation, policy: Policy) -> bool:
    """Its machine is gone, or by no pool's rules it means anything any more."""
    if all(is_false_alarm(notice, rules, seen.at) for rules in (*policy.pools, Pool())):
        return True
    instances = () if isinstance(seen.instances, Missing) else seen.instances
    ended = (each.id for each in instances if each.state is InstanceState.TERMINATED)
    return notice.instance in ended


def without_retired(seen: Observation, book: Book) -> Observation:
    """What is over is not seen any more, though its node may still say it."""
    return replace(seen, notices=tuple(notice for notice in seen.notices if notice not in book.retired))
