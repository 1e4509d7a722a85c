"""Whether Prometheus would understand a query, found out without one.

The parser is that of the `promql-parser` package, which follows Prometheus's own grammar. Where it is not installed,
only the structure is checked: quotes and brackets. Prometheus has the last word: `nodefleet doctor` asks it.
"""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

_PARSER = "promql_parser"
_PAIRS = {")": "(", "]": "[", "}": "{"}
_QUOTES = "\"'`"
_NEWER = "unknown function"  # Prometheus may have it already


def has_parser() -> bool:
    return find_spec(_PARSER) is not None


def problem_in(query: str) -> str | None:
    """What is wrong with a query; none if nothing is."""
    return _in_structure(query) or (_in_grammar(query) if has_parser() else None)


def doubt_about(query: str) -> str | None:
    """What the parser does not know, and a newer Prometheus may."""
    found = _said(query) if has_parser() and _in_structure(query) is None else None
    return found if found and found.startswith(_NEWER) else None


def _in_grammar(query: str) -> str | None:
    found = _said(query)
    return None if found is None or found.startswith(_NEWER) else found


def _said(query: str) -> str | None:
    if "`" in query and "\\" in query:
        return None  # the parser takes a backslash between backticks for an escape, which it is not
    try:
        import_module(_PARSER).parse(query)
    except ValueError as error:
        return " ".join(str(error).split())
    return None


def _in_structure(query: str) -> str | None:
    """What an operator sees at once: nothing there, a quote or a bracket that is not closed."""
    if not query.strip():
        return "is empty"
    opened: list[str] = []
    rest = iter(query)
    for sign in rest:
        if sign in _QUOTES:
            if not _ends(sign, rest):
                return f"has a {sign} that is not closed"
        elif sign == "#":  # a comment, to the end of the line
            next((each for each in rest if each == "\n"), None)
        elif sign in _PAIRS.values():
            opened.append(sign)
        elif sign in _PAIRS and (not opened or opened.pop() != _PAIRS[sign]):
            return f"has a {sign} that nothing opened"
    return f"has a {opened[-1]} that is not closed" if opened else None


def _ends(quote: str, rest: Iterator[str]) -> bool:
    """Past the end of a quoted text. Backticks know no escapes."""
    for sign in rest:
        if sign == "\\" and quote != "`":
            next(rest, None)
        elif sign == quote:
            return True
    return False
