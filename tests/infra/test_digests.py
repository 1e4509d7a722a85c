"""Images are pinned by digest, and `make digests` compares them with what a registry says, whatever it answers."""

import re
from email.message import Message
from io import BytesIO
from urllib.error import HTTPError

import pytest

from nodefleet_infra import manifests
from nodefleet_infra.digests import Image, RegistryError, digest_of, image, main
from support.loopback_registry import TOKEN, loopback_registry
from support.shipped_metrics import SITE
from support.wording import assert_wording

PINNED, OTHER = f"sha256:{'a' * 64}", f"sha256:{'0' * 64}"
NAME, TAG = "prometheus/prometheus", "v3.5.0"


@pytest.mark.parametrize("name", manifests.IMAGES)
def test_every_image_is_pinned_by_its_digest(name):
    assert image(manifests.IMAGES[name]).digest


def test_what_runs_in_the_cluster_is_what_is_pinned():
    named = {each for text in manifests.rendered(SITE).values() for each in re.findall(r"image: \"?([^\"\s]+)", text)}
    assert named <= {*manifests.IMAGES.values()}


def test_a_reference_without_a_tag_is_refused():
    with pytest.raises(ValueError, match=r"quay\.io") as refused:
        image("quay.io/prometheus/prometheus")
    assert_wording(str(refused.value))


def compared(capsys, registry, digest=PINNED):
    """The exit status, and the line of one image."""
    status = main([registry.reference(NAME, TAG, digest)], seconds=0.5)
    (line,) = capsys.readouterr().out.splitlines()
    return status, line


# ── what it says of a digest ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("has", "status", "mark"), [(PINNED, 0, "✓"), (OTHER, 1, "✗")])
def test_the_registrys_digest_is_compared_with_the_pinned_one(capsys, has, status, mark):
    with loopback_registry(digests={f"{NAME}:{TAG}": has}) as registry:
        found, line = compared(capsys, registry)
    assert (found, line[0]) == (status, mark)
    assert has in line


def test_an_image_that_is_not_pinned_is_said_with_what_to_pin(capsys):
    with loopback_registry(digests={f"{NAME}:{TAG}": OTHER}) as registry:
        assert main([f"{registry.host}/{NAME}:{TAG}"]) == 1
    assert_wording(capsys.readouterr().out, REGISTRY=registry.host)


def test_the_index_of_all_platforms_is_asked_for_without_fetching_it():
    with loopback_registry(digests={f"{NAME}:{TAG}": PINNED}) as registry:
        digest_of(Image(host=registry.host, name=NAME, tag=TAG))
        ((method, path, headers),) = registry.requests
    assert (method, path) == ("HEAD", f"/v2/{NAME}/manifests/{TAG}")
    assert "application/vnd.oci.image.index.v1+json" in headers["Accept"]


def test_a_registry_that_wants_a_token_gets_one_from_where_it_says():
    with loopback_registry(digests={f"{NAME}:{TAG}": PINNED}, wants_token=True) as registry:
        assert digest_of(Image(host=registry.host, name=NAME, tag=TAG)) == PINNED
        first, token, second = registry.requests
    assert "Authorization" not in first[2]
    assert token[:2] == ("GET", "/token?service=here&scope=repository%3Aa%2Fb%3Apull")
    assert second[2]["Authorization"] == f"Bearer {TOKEN}"


def test_the_name_of_docker_hub_is_not_its_address(monkeypatch):
    asked = []

    def noted(request, timeout):
        asked.append(request.full_url)
        raise OSError("no route")

    monkeypatch.setattr("nodefleet_infra.digests.urlopen", noted)
    with pytest.raises(RegistryError, match="no route"):
        digest_of(Image(host="docker.io", name="grafana/grafana", tag="12"))
    assert asked == ["https://registry-1.docker.io/v2/grafana/grafana/manifests/12"]


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ({}, "it has no such image or tag"),
        ({"status": 403}, "it refuses anonymous requests for this image"),
        ({"status": 429}, "it allows no more requests from this address for now"),
        ({"status": 503}, "it answers HTTP 503"),
        ({"digests": {f"{NAME}:{TAG}": ""}}, "its answer names no digest"),
        ({"digests": {f"{NAME}:{TAG}": "md5:1"}}, "its answer names no digest"),
        ({"wants_token": True, "realm": "ftp://elsewhere"}, "it wants a login and does not say where"),
        ({"wants_token": True, "token_answer": b"<html>"}, "its login service gave no token"),
        ({"wants_token": True, "token_answer": b"[]"}, "its login service gave no token"),
        ({"wants_token": True, "token_answer": b"{}"}, "its login service gave no token"),
        ({"wants_token": True, "accepts_token": False}, "it refuses the token that it gave"),
        ({"hangs": True}, "no answer"),
    ],
)
def test_a_registry_that_cannot_be_asked_is_said_with_the_cause(capsys, settings, cause):
    with loopback_registry(**settings) as registry:
        status, line = compared(capsys, registry)
    assert status == 1
    assert_wording(line.partition(" (")[0], REGISTRY=registry.host)


def test_a_registry_that_is_not_there_is_said(capsys):
    with loopback_registry() as registry:
        gone = registry
    status, line = compared(capsys, gone)
    assert status == 1
    assert_wording(line.partition(" (")[0].partition(": [")[0], REGISTRY=registry.host)


def test_a_registry_elsewhere_whose_login_service_has_no_tls_is_not_asked(monkeypatch):
    challenge = Message()
    challenge["WWW-Authenticate"] = 'Bearer realm="http://auth.example/token"'
    asked = []

    def refused(request, timeout):
        asked.append(getattr(request, "full_url", request))
        raise HTTPError("", 401, "", challenge, BytesIO())

    monkeypatch.setattr("nodefleet_infra.digests.urlopen", refused)
    with pytest.raises(RegistryError) as refused:
        digest_of(Image(host="registry.example", name=NAME, tag=TAG))
    assert_wording(str(refused.value))
    assert asked == [f"https://registry.example/v2/{NAME}/manifests/{TAG}"]


def test_one_registry_that_fails_keeps_none_of_the_others_from_being_asked(capsys):
    with loopback_registry(status=500) as broken, loopback_registry(digests={f"{NAME}:{TAG}": PINNED}) as well:
        assert main([broken.reference(NAME, TAG, PINNED), well.reference(NAME, TAG, PINNED)]) == 1
    assert [line[0] for line in capsys.readouterr().out.splitlines()] == ["!", "✓"]
