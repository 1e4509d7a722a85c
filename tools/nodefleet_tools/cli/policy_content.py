"""A policy file both ways: as its author wrote it, which is what the table keeps, and as the policy it stands for."""

import json
from dataclasses import dataclass
from pathlib import Path

from nodefleet.model.serialization import Plain, ValidationError
from nodefleet.policy.loading import Loaded, load
from nodefleet_tools.cli.input_file import name_of, read_or_exit
from nodefleet_tools.cli.policy_file import parsed, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyContent:
    name: str  # of the file
    data: Plain  # as written, as far as JSON can hold it
    loaded: Loaded


def content_or_exit(path: Path) -> PolicyContent:
    """The policy in a file; everything that is wrong goes to stderr, and the status is 2."""
    return read_or_exit(path, _content)


def _content(path: Path) -> PolicyContent:
    content = parsed(text_of(path), is_json=path.suffix == ".json")
    data = {} if content.data is None else content.data
    try:
        loaded = load(data)
    except ValidationError as error:
        raise ValidationError([*content.problems, *error.problems]) from None
    if content.problems:
        raise ValidationError(content.problems)
    # YAML has keys that are no text, such as 1; the table's JSON has not.
    return PolicyContent(name=name_of(path), data=json.loads(json.dumps(data)), loaded=loaded)
