"""Which instance types there are, and for which processor each is.

The list is botocore's own: what it does not know, its client could not ask for either.
"""

import re
from functools import cache

from nodefleet_infra.config import Arch

# t4g, m7gd, c6gn, im4gn, hpc7g: a `g` behind the generation is Graviton. g5 is not, but g5g is; a1 was the first.
_ARM = re.compile(r"(a1|[a-z]+\d+[a-z]*g[a-z]*)\.")


@cache
def known() -> frozenset[str]:
    import botocore.session  # type: ignore[import-untyped]  # noqa: PLC0415  # reading EC2's model takes a moment

    model = botocore.session.Session().get_service_model("ec2")
    return frozenset(model.shape_for("InstanceType").enum)


def arch_of(instance_type: str) -> Arch:
    return "arm64" if _ARM.match(instance_type) else "x86_64"
