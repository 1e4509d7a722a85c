"""The contract of ports.Cluster for the adapter: on a fake API server, and on a real one if there is one."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.cluster_contract import ClusterContract
from nodefleet.adapters.kubernetes import KubernetesCluster
from support.fake_api_certificates import authority
from support.fake_api_server import TOKEN, serving
from support.fake_cluster_world import FakeWorld
from support.real_cluster_world import RealWorld

KUBECONFIG = os.environ.get("NODEFLEET_API_SERVER_KUBECONFIG", "")


class TestOnFakeServer(ClusterContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[FakeWorld]:
        with serving(tmp_path) as server:
            cluster = KubernetesCluster.at(server.url, TOKEN, authority().ca)
            yield FakeWorld(server, cluster)
            cluster.close()


@pytest.mark.skipif(
    not KUBECONFIG,
    reason="NOT RUN on a real API server: set NODEFLEET_API_SERVER_KUBECONFIG to the kubeconfig of an empty one",
)
class TestOnRealServer(ClusterContract):
    @pytest.fixture
    def world(self) -> Iterator[RealWorld]:
        world = RealWorld(KUBECONFIG)
        yield world
        world.close()
