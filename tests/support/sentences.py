"""The form of texts for operators. Tests ask for the form and the figures of a text; golden files hold the words."""

import re

from nodefleet.errors import DeniedError, NodeFleetError, UnavailableError

PROPER_NAMES = ("DynamoDB",)


def is_sentence(text: str) -> bool:
    """It begins like one and ends like one, and it does not shout."""
    return _is_tidy(text) and (text[0].isupper() or text[0].isdigit()) and text[-1] in ".?!)"


def is_phrase(text: str) -> bool:
    """Words that stand after a colon or inside a sentence."""
    return _is_tidy(text) and not text[0].isupper() and text[-1] not in ".,:;" and _ends_as_a_word(text)


def is_advice(text: str) -> bool:
    """What to do, as an error ends with it: a sentence without its full stop."""
    return _is_tidy(text) and text[0].isupper() and text[-1] not in ".,:;" and _ends_as_a_word(text)


def is_readable(text: str) -> bool:
    """Nothing is missing in it, and its first and its last word are words; whatever it quotes is not looked at."""
    return (
        bool(text.strip())
        and not text.isupper()
        and not re.match("[A-Z]{2,}[a-z]", text)
        and not text.startswith("None")
        and _ends_as_a_word(text)
    )


def is_explained(error: NodeFleetError, part: str) -> bool:
    """It names the part that it came from, nothing in it is missing, and it says what to do where somebody can."""
    if " None" in f" {error}" or not str(error).startswith(f"{part}: "):
        return False
    match error:
        case DeniedError():
            return error.part == part and bool(error.cause) and is_advice(error.remedy)
        case UnavailableError():
            return error.part == part and bool(error.cause)
        case _:
            return True


def _is_tidy(text: str) -> bool:
    return bool(text) and text == " ".join(text.split()) and not text.isupper()


def _ends_as_a_word(text: str) -> bool:
    """An abbreviation may stand at the end, but capitals do not end a word of small letters."""
    last = text.rsplit(maxsplit=1)[-1]
    return last in PROPER_NAMES or last.isupper() or not last[-2:].isupper()
