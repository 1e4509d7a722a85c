"""The API server: whether it answers, which version it is, and whether our role lets us do what we must."""

import re
from collections.abc import Iterator

from nodefleet_tools.doctor.context import DoctorContext
from nodefleet_tools.doctor.findings import Finding, fine, hint, wrong

LEAST = (1, 22)  # evictions by policy/v1
_BETTER = (1, 27)  # budgets that say what becomes of pods that are not ready
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def version(ctx: DoctorContext) -> Iterator[Finding]:
    said = ctx.kubernetes.found().server_version()
    written = _VERSION.match(said)
    known = (int(written[1]), int(written[2])) if written else None
    if known is None:
        yield hint(f"it answers, and calls its version {said!r}, which says nothing to us")
    elif known < LEAST:
        yield wrong(f"it is {said}", f"Upgrade it to {_number(LEAST)} or newer: older ones cannot evict as we do")
    elif known < _BETTER:
        fix = f"From {_number(_BETTER)} on budgets can let pods go that are not ready (unhealthyPodEvictionPolicy)"
        yield hint(f"it is {said}, which is supported", fix)
    else:
        yield fine(f"it answers, and is {said}")


def role(ctx: DoctorContext) -> Iterator[Finding]:
    lacking = ctx.kubernetes.needed().missing_permissions()
    for permission, verb in lacking:
        group = f" of API group {permission.group}" if permission.group else ""
        fix = f"Allow {verb} on {permission.resource}{group} in node-fleet's ClusterRole"
        yield wrong(f"the role may not {verb} {permission.resource}, which it needs to {permission.why}", fix)
    if not lacking:
        yield fine("the role allows everything that is needed")


def _number(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
