"""Keeps secrets out of everything that is written for operators.

Two nets. Values that are known to be secret are replaced wherever they turn up. What merely looks like a secret is
replaced by its shape: an Authorization header, a token, a webhook's address, a login inside an address.
"""

import json
import logging
import re
from urllib.parse import quote

HIDDEN = "***"
_SHORTEST = 4  # a shorter one would make every line unreadable
_WORD = r"[^\s\"'\\,;&<>{}()]+"  # ends before whatever could end it in a header, an address, JSON or a sentence

_SHAPES = tuple(
    (re.compile(shape), f"{kept}{HIDDEN}")
    for shape, kept in (
        (rf"(?i)(\bauthorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:basic|bearer|token)\s+)?){_WORD}", r"\1"),
        (rf"(?i)(\bbearer\s+)(?=\S{{16}}){_WORD}", r"\1"),
        (rf"(https://hooks\.slack(?:-gov)?\.com/){_WORD}", r"\1"),
        (r"\bxox[a-z]-[\w-]{6,}", ""),  # Slack: a token
        (r"(://)[^/\s:@\"'\\]+:[^/\s@\"'\\]+(?=@)", r"\1"),
        (rf"\bK10[0-9a-f]{{16,}}::{_WORD}", ""),  # K3s: the token of a server or agent
        (r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*", ""),  # a JSON web token, such as a ServiceAccount's
        (rf"(?i)(\bx-amz-(?:signature|security-token|credential)=){_WORD}", r"\1"),
        (rf"(?i)(\b(?:password|passwd|token|secret|api_?key)=){_WORD}", r"\1"),
        (r"(?i)(\\?\"(?:password|passwd|token|secret|api_?key)\\?\"\s*:\s*\\?\")[^\"\\]+", r"\1"),
    )
)


class Redactor:
    """Call it with a text. It is also a filter for the log handlers of others."""

    def __init__(self, *known: str) -> None:
        self._known: frozenset[str] = frozenset()
        self.learn(*known)

    def learn(self, *values: str) -> None:
        """These are secret from now on, also as they stand in JSON and in addresses."""
        long_enough = [value for value in values if len(value) >= _SHORTEST]
        forms = {form for value in long_enough for form in (value, json.dumps(value)[1:-1], quote(value, safe=""))}
        forms |= {json.dumps(value, ensure_ascii=False)[1:-1] for value in long_enough}
        self._known |= forms

    def __call__(self, text: str) -> str:
        for known in sorted(self._known, key=len, reverse=True):  # one secret may begin with another
            text = text.replace(known, HIDDEN)
        for shape, replacement in _SHAPES:
            text = shape.sub(replacement, text)
        return text

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrites what a library logs, such as the address it could not reach."""
        record.msg, record.args = self(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = self(record.exc_text)
        return True
