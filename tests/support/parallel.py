"""Tests on several cores (`pytest -n`): which of them stay in one process.

A file's tests do, for the fixtures of its module. So do the files that look at the same costly things, since every
process makes its own: days and seeds that are played, stacks that are declared.
"""

import re
from functools import cache

import pytest
from xdist.scheduler import LoadFileScheduling

COSTLY = re.compile(r"^from support\.(played_days|infra_mocks) import", re.MULTILINE)  # what they make they keep


class Together(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return group(self.config, nodeid.partition("::")[0])


@cache
def group(config: pytest.Config, file: str) -> str:
    """What a file's tests are together with: a helper's name, or only the file."""
    found = COSTLY.search((config.rootpath / file).read_text(encoding="utf-8"))
    return found[1] if found else file
