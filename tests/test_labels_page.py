"""docs/labels.md names every tag, label, annotation and taint that the code goes by, and none that it does not know."""

import re
from pathlib import Path

from nodefleet.model import inventory, names, workload
from nodefleet.scheduling import predicates, templates

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/labels.md").read_text()
_NAME = re.compile(r"`((?:[a-z.-]+\.(?:io|sh)/|node-fleet:|aws:)[A-Za-z0-9.:/-]*)…?`")
UNKNOWN = {"karpenter.sh/nodepool"}  # the page says that it means nothing here


def of_code() -> set[str]:
    """Constants by their kind, not by their file: a new one of these kinds must be documented."""
    tags = {value for name, value in vars(names).items() if name.startswith("TAG_")}
    ours = {
        value
        for module in (names, workload, templates)
        for name, value in vars(module).items()
        if isinstance(value, str) and name.endswith(("_LABEL", "_TAINT", "_ANNOTATION", "DAEMON_POD"))
    }
    groups = (*workload.SAFE_TO_EVICT, *workload.DO_NOT_DISRUPT, *workload.SCALE_DOWN_DISABLED)
    taints = {predicates.CORDON.key, *inventory._STARTUP_TAINTS, *inventory._STARTUP_PREFIXES}
    return {*tags, *ours, *groups, *taints, *names.CONTROL_PLANE_LABELS} - {"kubernetes.io/hostname"}


def test_the_page_names_everything_that_the_code_goes_by():
    assert of_code() - set(_NAME.findall(PAGE)) == set()


def test_the_page_names_nothing_that_the_code_does_not_know():
    known = of_code() | UNKNOWN
    text = "\n".join(path.read_text() for path in (ROOT / "lambda/nodefleet/model").glob("*.py"))
    assert {name for name in _NAME.findall(PAGE) if name not in known and f'"{name}"' not in text} == set()


def test_of_two_annotations_the_first_that_is_set_counts():
    assert workload.SAFE_TO_EVICT[0].startswith("node-fleet.io/")
    assert workload.DO_NOT_DISRUPT[0].startswith("node-fleet.io/")
    assert workload.SCALE_DOWN_DISABLED[0].startswith("node-fleet.io/")
