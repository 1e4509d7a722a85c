"""The form of texts for people. Tests ask for the form and the figures of a text; golden files hold the words."""


def is_sentence(text: str) -> bool:
    """It begins like one and ends like one, and it does not shout."""
    return _is_tidy(text) and (text[0].isupper() or text[0].isdigit()) and text[-1] in ".?!)"


def is_phrase(text: str) -> bool:
    """Words that stand after a colon or inside a sentence."""
    return _is_tidy(text) and not text[0].isupper() and text[-1] not in ".,:;" and not text[-2:].isupper()


def _is_tidy(text: str) -> bool:
    return bool(text) and text == " ".join(text.split()) and not text.isupper()
