"""The release of K3s that instances run: one version, known by its checksum."""

from nodefleet_infra.config import Arch, K3s

# What a new cluster gets, if its configuration names none; one that is there keeps its own. The checksums stand in the
# release's sha256sum-amd64.txt and sha256sum-arm64.txt. An instance that downloads anything else does not start.
RELEASE = K3s(
    version="v1.36.4+k3s1",
    sha256={
        "x86_64": "835873f37245fc615f547a2fe2af9402a347875f13fa64a1f136de644955ea3f",
        "arm64": "c920706346d5ad4e5cd3c7bf1bb09ce71ebe07fec829e513e40f1caf98aed8bb",
    },
)
_ASSETS: dict[Arch, str] = {"x86_64": "k3s", "arm64": "k3s-arm64"}
_DOWNLOADS = "https://github.com/k3s-io/k3s/releases/download"


def binary_url(release: K3s, arch: Arch) -> str:
    return f"{_DOWNLOADS}/{release.version.replace('+', '%2B')}/{_ASSETS[arch]}"


def checksum(release: K3s, arch: Arch) -> str:
    """ValueError if the configuration pins a release for another architecture only."""
    if arch not in release.sha256:
        raise ValueError(f"K3s {release.version} has no checksum for {arch}: add k3s.sha256.{arch} to the cluster")
    return release.sha256[arch]
