"""What makes a policy impossible, all of it at once.

Two kinds: a single value beyond what its field allows (written beside the field, see settings), and values that are
fine alone but not together (clashes). Cron and time zones need their libraries and are checked at the edge.
"""

from datetime import timedelta

from nodefleet.domain.plain import to_plain
from nodefleet.domain.policy.clashes import Clash, clashes
from nodefleet.domain.policy.cluster import Policy
from nodefleet.domain.policy.settings import About
from nodefleet.domain.policy.shape import Leaf, leaves, path_of
from nodefleet.domain.problems import IssueCode, Problem, shown


def check(policy: Policy) -> tuple[Problem, ...]:
    """Everything that is wrong with a policy, by its own paths. A policy that was loaded has been through this."""
    alone = [problem for leaf in leaves(policy, Policy) if (problem := _alone(leaf))]
    # Values beyond their limits would make the rest guesswork, and an interval of 0 a division by zero.
    return tuple(alone or map(_together, clashes(policy)))


def out_of_limits(value: object, about: About) -> tuple[IssueCode, str, str] | None:
    """What is wrong with a single value and what would be right, or none."""
    if isinstance(value, str):
        return None if value.strip() else (IssueCode.EMPTY, "is empty", _advice(f"write it: {about.why}", about))
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not isinstance(number, int | float):
        return None
    if about.above is not None and number <= about.above:
        return (IssueCode.OUT_OF_RANGE, f"is not more than {about.above:g}", _advice(_range(about), about))
    if about.at_least is not None and number < about.at_least:
        return (IssueCode.OUT_OF_RANGE, f"is less than {about.at_least:g}", _advice(_range(about), about))
    if about.at_most is not None and number > about.at_most:
        return (IssueCode.OUT_OF_RANGE, f"is more than {about.at_most:g}", _advice(_range(about), about))
    return None


def _range(about: About) -> str:
    low = f"at least {about.at_least:g}" if about.at_least is not None else ""
    low = f"more than {about.above:g}" if about.above is not None else low
    high = f"at most {about.at_most:g}" if about.at_most is not None else ""
    unit = f" ({about.unit})" if about.unit else ""
    return f"write {' and '.join(filter(None, (low, high)))}{unit}"


def _advice(what: str, about: About) -> str:
    return f"{what}; {about.hint}" if about.hint else what


def _alone(leaf: Leaf) -> Problem | None:
    found = out_of_limits(leaf.value, leaf.about) if leaf.about else None
    if found is None:
        return None
    code, wrong, right = found
    return Problem(path=path_of(leaf.keys), value=to_plain(leaf.value), wrong=wrong, right=right, code=code)


def _together(clash: Clash) -> Problem:
    return clash.told(path_of(clash.keys), to_plain(clash.value), _other(clash))


def _other(clash: Clash) -> str:
    return f"{path_of(clash.other)} ({shown(to_plain(clash.other_value))})" if clash.other else ""
