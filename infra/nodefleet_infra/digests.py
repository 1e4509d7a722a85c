"""What the registries say of the images that the manifests name: `make digests`, on a machine that reaches them.

One line for each image. The status is 1 if one of them has another digest than the pinned one, or none is pinned.
"""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from nodefleet_infra.manifests import IMAGES

_KINDS = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
_HOSTS = {"docker.io": "registry-1.docker.io"}  # where the name is not the address
_REFERENCE = re.compile(r"(?P<host>[^/]+)/(?P<name>[^:@]+):(?P<tag>[^@]+)(@(?P<digest>sha256:[0-9a-f]{64}))?")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    host: str
    name: str
    tag: str
    digest: str = ""  # empty: not pinned

    def __str__(self) -> str:
        return f"{self.host}/{self.name}:{self.tag}"


def image(reference: str) -> Image:
    found = _REFERENCE.fullmatch(reference)
    if found is None:
        raise ValueError(f"{reference} is not of the form host/name:tag@sha256:…")
    return Image(**{key: value or "" for key, value in found.groupdict().items()})


def digest_of(wanted: Image) -> str:
    """As the registry gives it for the tag: of the index, which names every platform's manifest."""
    url = f"https://{_HOSTS.get(wanted.host, wanted.host)}/v2/{wanted.name}/manifests/{wanted.tag}"
    try:
        return _head(url, "")
    except HTTPError as refused:
        with refused:
            if refused.code != HTTPStatus.UNAUTHORIZED:
                raise
            asked = dict(_CHALLENGE.findall(refused.headers.get("WWW-Authenticate", "")))
    realm = asked.pop("realm", "")
    if not realm.startswith("https://"):
        raise URLError(f"{wanted.host} wants a login and does not say where")
    with urlopen(f"{realm}?{urlencode(asked)}", timeout=_SECONDS) as answer:  # noqa: S310
        token = json.load(answer)
    return _head(url, token.get("token") or token["access_token"])


def _head(url: str, token: str) -> str:
    headers = {"Accept": _KINDS} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = Request(url, method="HEAD", headers=headers)  # noqa: S310
    with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
        return str(answer.headers["Docker-Content-Digest"])


def main(ask: Callable[[Image], str] = digest_of) -> int:
    wrong = 0
    for reference in IMAGES.values():
        wanted = image(reference)
        try:
            found = ask(wanted)
        except (OSError, KeyError, ValueError) as problem:
            sys.stdout.write(f"! {wanted}: the registry could not be asked: {problem}\n")
            wrong = 1
            continue
        if found == wanted.digest:
            sys.stdout.write(f"✓ {wanted} is {found}\n")
        else:
            sys.stdout.write(f"✗ {wanted} is {found}, and {wanted.digest or 'nothing'} is pinned\n")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
