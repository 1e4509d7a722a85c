"""What `nodefleet doctor` asks: which server this is, what its clock shows, and what we may do there."""

from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime

import msgspec

from nodefleet.adapters.k8s.calls import Api
from nodefleet.adapters.k8s.decoding import decoded
from nodefleet.adapters.k8s.permissions import NEEDED, Permission
from nodefleet.adapters.k8s.refusals import PART
from nodefleet.adapters.k8s.resources import ACCESS_REVIEWS, VERSION
from nodefleet.errors import UnavailableError


class _Version(msgspec.Struct, rename="camel"):
    git_version: str


class _Verdict(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Verdict


def server_version(api: Api) -> str:
    """Such as v1.31.4+k3s1."""
    return decoded(VERSION, api.do(VERSION).body, _Version).git_version


def server_time(api: Api) -> datetime:
    """What the API server's clock shows, to the second."""
    date = api.do(VERSION).date
    try:
        return parsedate_to_datetime(date)
    except ValueError as error:
        raise UnavailableError(PART, f"{VERSION}: the answer says no time ({date!r})") from error


def allowed(api: Api, verb: str, resource: str, *, group: str = "", subresource: str = "", namespace: str = "") -> bool:
    """Whether our role lets us do this. Without a namespace: in all of them."""
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
    attributes = {key: value for key, value in asked.items() if value}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    request = ACCESS_REVIEWS.create(body)
    return decoded(request, api.do(request).body, _Review).status.allowed


def missing(api: Api) -> Iterator[tuple[Permission, str]]:
    """What our role lacks: the permission, and which of its verbs."""
    for permission in NEEDED:
        resource, _, subresource = permission.resource.partition("/")
        for verb in permission.verbs:
            if not allowed(api, verb, resource, group=permission.group, subresource=subresource):
                yield permission, verb
