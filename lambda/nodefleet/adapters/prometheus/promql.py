"""The pool's name put into a query."""

import re

from nodefleet.domain.readings import Missing

_PLACE = re.compile(r"\$pool\b")
# Stands for itself in "…", '…' and `…`, and in a regular expression. Backticks know no escapes, so anything else is
# refused instead of quoted.
_HARMLESS = re.compile(r"[A-Za-z0-9_-]+")


def for_pool(query: str, pool: str) -> str | Missing:
    """The query with `$pool` replaced by the pool's name."""
    if not _PLACE.search(query):
        return query
    if not _HARMLESS.fullmatch(pool):
        return Missing(f"the pool's name {pool!r} cannot stand in a query: use letters, digits and dashes")
    return _PLACE.sub(pool, query)
