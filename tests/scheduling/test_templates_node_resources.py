"""What the scheduler's own table says about resources, in our words.

Left out: resources that a scheduler is configured to ignore and those that come from dynamic resource allocation (we
know neither), a node that is not there, and clusters old enough not to know sidecars.

A row: what runs there already | containers | init containers (* is a sidecar) | overhead | pod level | what is lacking.
"""

import pytest

from nodefleet.model.workload import Container, Pod, effective_requests, resources_from
from nodefleet.scheduling.predicates import NodeModel, NodeState, shortage
from support.wording import assert_wording

WORDS = {"mem": "memory", "disk": "ephemeral-storage", "huge": "hugepages-2Mi", "aaa": "example.com/aaa"}
USUAL = "cpu 10m, mem 20, pods 32, aaa 5, disk 20, huge 5"
ONE_POD = "cpu 10m, mem 20, pods 1"
TINY = "cpu 2m, pods 1"

FITS: list[str] = []
TABLE = [
    (USUAL, "cpu 10m, mem 20", "", "", "", "", FITS),
    (USUAL, "cpu 10m, mem 20", "cpu 1m, mem 1", "", "", "", ["CPU", "memory"]),
    (USUAL, "cpu 8m, mem 19", "cpu 1m, mem 1", "cpu 3m, mem 1", "", "", ["CPU"]),
    (USUAL, "cpu 8m, mem 19", "cpu 1m, mem 1", "cpu 3m, mem 1; cpu 2m, mem 1", "", "", ["CPU"]),
    (USUAL, "cpu 9m, mem 19", "cpu 1m, mem 1", "cpu 1m, mem 3", "", "", ["memory"]),
    (USUAL, "cpu 9m, mem 19", "cpu 1m, mem 1", "cpu 1m, mem 3; cpu 1m, mem 2", "", "", ["memory"]),
    (USUAL, "cpu 9m, mem 19", "cpu 1m, mem 1", "cpu 1m, mem 1", "", "", FITS),
    (USUAL, "cpu 9m, mem 19", "cpu 1m, mem 1", "cpu 1m, mem 1; cpu 1m, mem 1", "", "", FITS),
    (USUAL, "cpu 5m, mem 5", "cpu 1m, mem 1", "", "", "", FITS),
    (USUAL, "cpu 9m, mem 5", "cpu 2m, mem 1", "", "", "", ["CPU"]),
    (USUAL, "cpu 5m, mem 19", "cpu 1m, mem 2", "", "", "", ["memory"]),
    (USUAL, "cpu 5m, mem 19", "cpu 5m, mem 1", "", "", "", FITS),
    (USUAL, "cpu 5m, mem 19", "cpu 4m, mem 1", "cpu 5m, mem 1", "", "", FITS),
    (USUAL, "", "aaa 1", "", "", "", FITS),
    (USUAL, "", "", "aaa 1", "", "", FITS),
    (USUAL, "", "cpu 1m, aaa 10, mem 1", "", "", "", ["example.com/aaa"]),
    (USUAL, "", "", "cpu 1m, aaa 10, mem 1", "", "", ["example.com/aaa"]),
    (USUAL, "aaa 5", "cpu 1m, aaa 1, mem 1", "", "", "", ["example.com/aaa"]),
    (USUAL, "aaa 5", "", "cpu 1m, aaa 1, mem 1", "", "", ["example.com/aaa"]),
    (USUAL, "aaa 2", "cpu 1m, aaa 3, mem 1; cpu 1m, aaa 3, mem 1", "", "", "", ["example.com/aaa"]),
    (USUAL, "aaa 2", "", "cpu 1m, aaa 3, mem 1; cpu 1m, aaa 3, mem 1", "", "", FITS),
    (USUAL, "aaa 2", "", "cpu 1m, aaa 6, mem 1; cpu 1m, aaa 3, mem 1", "", "", ["example.com/aaa"]),
    (USUAL, "", "cpu 1m, example.com/bbb 1, mem 1", "", "", "", ["example.com/bbb"]),
    (USUAL, "", "", "cpu 1m, example.com/bbb 1, mem 1", "", "", ["example.com/bbb"]),
    (USUAL, "", "cpu 1m, kubernetes.io/something 10, mem 1", "", "", "", ["kubernetes.io/something"]),
    (USUAL, "", "", "cpu 1m, x.kubernetes.io/something 10, mem 1", "", "", ["x.kubernetes.io/something"]),
    (USUAL, "", "cpu 1m, huge 10, mem 1", "", "", "", ["hugepages-2Mi"]),
    (USUAL, "", "", "cpu 1m, huge 10, mem 1", "", "", ["hugepages-2Mi"]),
    (USUAL, "huge 2", "cpu 1m, huge 3, mem 1; cpu 1m, huge 3, mem 1", "", "", "", ["hugepages-2Mi"]),
    (USUAL, "cpu 5m, mem 5", "cpu 1m, mem 1", "", "cpu 3m, mem 13", "", FITS),
    (USUAL, "cpu 5m, mem 5", "cpu 1m, mem 1", "", "cpu 1m, mem 15", "", ["memory"]),
    (USUAL, "aaa 6", "cpu 1m, mem 1", "", "", "", FITS),
    (USUAL, "cpu 20m, aaa 1, mem 30", "aaa 1", "", "", "", FITS),
    (USUAL, "cpu 5m, mem 5", "cpu 1m, mem 1", "", "", "cpu 1m, mem 2", FITS),
    (USUAL, "cpu 5m, mem 5", "cpu 1m, mem 1", "", "", "cpu 7m, mem 2", ["CPU"]),
    (USUAL, "cpu 5m, mem 19", "cpu 1m, mem 1", "", "", "cpu 3m, mem 2", ["memory"]),
    (USUAL, "", "", "", "", "cpu 3m, huge 5, mem 2", FITS),
    (USUAL, "", "cpu 1m, huge 3, mem 1", "", "", "cpu 3m, huge 5, mem 2", FITS),
    (USUAL, "", "", "", "", "cpu 3m, huge 10, mem 2", ["hugepages-2Mi"]),
    (USUAL, "cpu 5m, mem 19", "cpu 1m, mem 1", "cpu 1m, mem 1", "", "cpu 3m, mem 2", ["memory"]),
    (ONE_POD, "cpu 10m, mem 20", "", "", "", "", ["pods"]),
    (ONE_POD, "cpu 5m, mem 5", "cpu 1m, mem 1", "", "", "", ["pods"]),
    (ONE_POD, "cpu 5m, mem 19", "cpu 5m, mem 1", "", "", "", ["pods"]),
    (ONE_POD, "cpu 5m, mem 19", "cpu 5m, mem 1", "cpu 5m, mem 1", "", "", ["pods"]),
    (USUAL, "cpu 2m, mem 10", "cpu 1m, mem 1", "", "", "", FITS),
    (USUAL, "cpu 2m, mem 2", "disk 25", "", "", "", ["ephemeral storage"]),
    (USUAL, "cpu 2m, disk 10, mem 2", "disk 5", "", "", "", FITS),
    (USUAL, "cpu 2m, mem 2", "disk 10", "", "", "", FITS),
    (TINY, None, "", "", "", "", FITS),
    (TINY, None, "", "*", "", "", FITS),
    (TINY, None, "cpu 1m", "*cpu 1m", "", "", FITS),
    (TINY, None, "cpu 1m", "*cpu 2m", "", "", ["CPU"]),
    ("cpu 2, pods 32", None, "cpu 1", "", "", "", FITS),
    ("cpu 1, pods 32", None, "cpu 2", "", "", "", ["CPU"]),
    ("cpu 1, pods 32", None, "", "", "", "cpu 2", ["CPU"]),
    ("cpu 2, pods 32", None, "", "", "", "cpu 2", FITS),
    ("huge 2Mi, pods 32", None, "", "", "", "huge 2Mi", FITS),
    ("huge 2Mi, pods 32", None, "", "", "", "huge 4Mi", ["hugepages-2Mi"]),
]


def resources(text):
    """ "cpu 10m, mem 20" → what it stands for."""
    pairs = [part.split() for part in text.split(",") if part]
    return resources_from({WORDS.get(name, name): amount for name, amount in pairs})


def containers(text):
    parts = [part.strip() for part in text.split(";") if part]
    return [Container(requests=resources(part.lstrip("*")), sidecar=part.startswith("*")) for part in parts]


@pytest.mark.parametrize(("node", "running", "mains", "inits", "overhead", "pod_level", "lacking"), TABLE)
def test_a_pod_fits_where_everything_that_it_asks_for_is_free(
    node, running, mains, inits, overhead, pod_level, lacking
):
    place = NodeState(NodeModel(name="w", allocatable=resources(node)), 0)
    if running is not None:
        place.put(Pod(name="there", requests=resources(running)))
    asked = effective_requests(containers(mains), containers(inits), resources(overhead), resources(pod_level))

    reason = shortage(Pod(name="new", requests=asked), place)

    assert (reason is None) == (lacking == FITS)
    if lacking == ["pods"]:
        assert_wording(reason)
    elif lacking:
        assert_wording(reason)
        listed = reason.removeprefix("it asks for more than is free: ").split(", ")
        assert [part.rsplit(" of ")[0].rsplit(" ", 1)[0] for part in listed] == lacking
