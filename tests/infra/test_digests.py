"""Images are pinned by digest, and `make digests` compares them with what registries say."""

import json
import re
from email.message import Message
from io import BytesIO
from typing import ClassVar
from urllib.error import HTTPError, URLError

import pytest

from nodefleet_infra import digests, manifests
from nodefleet_infra.digests import Image, digest_of, image
from support.shipped_metrics import SITE

OTHER = f"sha256:{'0' * 64}"


@pytest.mark.parametrize("name", manifests.IMAGES)
def test_every_image_is_pinned_by_its_digest(name):
    assert image(manifests.IMAGES[name]).digest


def test_what_runs_in_the_cluster_is_what_is_pinned():
    named = {each for text in manifests.rendered(SITE).values() for each in re.findall(r"image: \"?([^\"\s]+)", text)}
    assert named <= {*manifests.IMAGES.values()}


def test_a_reference_without_a_tag_is_refused():
    with pytest.raises(ValueError, match="is not of the form"):
        image("quay.io/prometheus/prometheus")


def pinned(wanted: Image) -> str:
    return wanted.digest


def test_all_as_pinned_is_well(capsys):
    assert digests.main(pinned) == 0
    assert capsys.readouterr().out.count("✓") == len(manifests.IMAGES)


def test_a_tag_that_was_moved_is_told(capsys):
    assert digests.main(lambda wanted: OTHER if "grafana" in wanted.name else wanted.digest) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("✗")]
    assert line.startswith(f"✗ docker.io/grafana/grafana:12.0.2 is {OTHER}, and sha256:")


def test_a_registry_that_cannot_be_asked_is_not_well(capsys):
    def away(_: Image) -> str:
        raise URLError("no route")

    assert digests.main(away) == 1
    assert "could not be asked" in capsys.readouterr().out


class Answer(BytesIO):
    headers: ClassVar = {"Docker-Content-Digest": OTHER}


def test_a_registry_that_wants_a_token_gets_one_from_where_it_says(monkeypatch):
    asked: list[tuple[str, str | None]] = []

    def refuse() -> None:
        challenge = Message()
        realm = "https://auth.example/token"
        challenge["WWW-Authenticate"] = f'Bearer realm="{realm}",service="here",scope="repository:a/b:pull"'
        raise HTTPError("", 401, "", challenge, BytesIO())

    def opened(request: object, timeout: float) -> Answer:
        url = getattr(request, "full_url", request)
        header = getattr(request, "get_header", lambda _: None)("Authorization")
        asked.append((str(url), header))
        if "auth.example" in str(url):
            return Answer(json.dumps({"token": "t0ken"}).encode())
        if header is None:
            refuse()
        return Answer()

    monkeypatch.setattr(digests, "urlopen", opened)
    assert digest_of(Image(host="docker.io", name="a/b", tag="v1")) == OTHER
    manifest = "https://registry-1.docker.io/v2/a/b/manifests/v1"
    realm = "https://auth.example/token?service=here&scope=repository%3Aa%2Fb%3Apull"
    assert asked == [(manifest, None), (realm, None), (manifest, "Bearer t0ken")]
