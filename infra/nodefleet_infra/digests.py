"""Compares the pinned digests of the manifests' images with the registries: `make digests`, where they can be reached.

Prints one line per image. The exit status is 1 if a registry has another digest than the pinned one, if no digest is
pinned, or if a registry could not be asked.
"""

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from nodefleet_infra.manifests import IMAGES, VOLUME_IMAGES

_INDEXES = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json"
_HOSTS = {"docker.io": "registry-1.docker.io"}  # where the name is not the address
_REFERENCE = re.compile(r"(?P<host>[^/]+)/(?P<name>[^:@]+):(?P<tag>[^@]+)(@(?P<digest>sha256:[0-9a-f]{64}))?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost)(:\d+)?")  # a registry on this machine speaks plain HTTP
_SECONDS = 20.0


class RegistryError(Exception):
    """The registry could not be asked, or its answer is of no use."""


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


def digest_of(wanted: Image, seconds: float = _SECONDS) -> str:
    """The digest that the registry gives for the tag: that of the index, which names the manifest of every platform."""
    local = _LOOPBACK.fullmatch(wanted.host) is not None
    host = _HOSTS.get(wanted.host, wanted.host)
    url = f"{'http' if local else 'https'}://{host}/v2/{wanted.name}/manifests/{wanted.tag}"
    try:
        challenge = _head(url, "", seconds)
        if isinstance(challenge, str):
            return challenge
        found = _head(url, _token(challenge, seconds, local=local), seconds)
    except HTTPError as refused:
        with refused:
            raise RegistryError(_explain(refused.code)) from None
    except (OSError, HTTPException) as problem:
        raise RegistryError(f"no answer ({problem})") from None
    if isinstance(found, str):
        return found
    raise RegistryError("it refuses the token that it gave")


@dataclass(frozen=True, slots=True)
class _Challenge:
    """Where an anonymous token is to be had."""

    realm: str
    parameters: tuple[tuple[str, str], ...]


def _head(url: str, token: str, seconds: float) -> str | _Challenge:
    headers = {"Accept": _INDEXES} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = Request(url, method="HEAD", headers=headers)  # noqa: S310
    try:
        with urlopen(request, timeout=seconds) as answer:  # noqa: S310
            found = answer.headers.get("Docker-Content-Digest", "")
    except HTTPError as refused:
        if refused.code != HTTPStatus.UNAUTHORIZED:
            raise
        with refused:
            asked = dict(_CHALLENGE.findall(refused.headers.get("WWW-Authenticate", "")))
        return _Challenge(asked.pop("realm", ""), tuple(asked.items()))
    if not _DIGEST.fullmatch(found):
        raise RegistryError("its answer names no digest")
    return str(found)


def _token(challenge: _Challenge, seconds: float, *, local: bool) -> str:
    if not challenge.realm.startswith(("https://", "http://") if local else "https://"):
        raise RegistryError("it wants a login and does not say where")
    with urlopen(f"{challenge.realm}?{urlencode(challenge.parameters)}", timeout=seconds) as answer:  # noqa: S310
        text = answer.read()
    try:
        given = json.loads(text)
        token = given.get("token") or given["access_token"]
    except (ValueError, AttributeError, KeyError):
        raise RegistryError("its login service gave no token") from None
    return str(token)


def _explain(status: int) -> str:
    match status:
        case HTTPStatus.NOT_FOUND:
            return "it has no such image or tag"
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "it allows no more requests from this address for now"
        case HTTPStatus.FORBIDDEN:
            return "it refuses anonymous requests for this image"
        case _:
            return f"it answers HTTP {status}"


def main(references: Iterable[str] = (*IMAGES.values(), *VOLUME_IMAGES.values()), seconds: float = _SECONDS) -> int:
    status = 0
    for reference in references:
        wanted = image(reference)
        try:
            found = digest_of(wanted, seconds)
        except RegistryError as problem:
            line, status = f"! {wanted}: the registry could not be asked: {problem}", 1
        else:
            if found == wanted.digest:
                line = f"✓ {wanted} is {found}"
            else:
                line, status = f"✗ {wanted} is {found}, and {wanted.digest or 'nothing'} is pinned", 1
        sys.stdout.write(f"{line}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
