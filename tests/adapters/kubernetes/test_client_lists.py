"""Lists, page by page: complete or an error, never a short list."""

import pytest

from nodefleet.adapters.kubernetes import KubernetesCluster, client
from nodefleet.errors import UnavailableError
from support.fake_api_objects import Reply, failure
from support.fake_api_server import FakeApiServer
from support.k8s_objects import node
from support.wording import assert_wording

EXPIRED = failure(410, "Expired", "The provided continue parameter is too old")


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 2)


@pytest.fixture
def five(server: FakeApiServer) -> list[str]:
    names = [f"w{number}" for number in range(5)]
    for name in names:
        server.objects.put("nodes", node(name))
    return names


def seen(cluster: KubernetesCluster) -> list[str]:
    return [each.name for each in cluster.view().nodes]


def test_all_pages_make_one_list(server: FakeApiServer, cluster: KubernetesCluster, five: list[str]):
    assert seen(cluster) == five
    pages = [asked.query for asked in server.asked if asked.resource == "nodes"]
    assert pages == [{"limit": "2"}, {"limit": "2", "continue": "2"}, {"limit": "2", "continue": "4"}]


@pytest.mark.parametrize("page", [0, 1, 2])
@pytest.mark.parametrize("reply", [failure(500, "InternalError", "etcd is away"), Reply(200, b'{"items": [')])
def test_a_lost_page_is_an_error_not_a_short_list(
    server: FakeApiServer, cluster: KubernetesCluster, five: list[str], page: int, reply: Reply
):
    server.trouble("list", "nodes", reply=reply, after=page)
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))


def test_a_list_that_lost_its_place_is_read_anew(server: FakeApiServer, cluster: KubernetesCluster, five: list[str]):
    server.trouble("list", "nodes", reply=EXPIRED, after=2)
    assert seen(cluster) == five
    assert [asked.query.get("continue") for asked in server.asked if asked.resource == "nodes"] == [
        *(None, "2", "4"),
        *(None, "2", "4"),
    ]


def test_a_list_that_always_loses_its_place_is_given_up(
    server: FakeApiServer, cluster: KubernetesCluster, five: list[str]
):
    for start in range(9):
        server.trouble("list", "nodes", reply=EXPIRED, after=1 + start)
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))


def test_gone_on_the_first_page_is_no_lost_place(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("list", "nodes", reply=EXPIRED)
    with pytest.raises(UnavailableError, match="410"):
        cluster.view()
    assert len(server.asked) == 1


def test_a_list_without_an_end_is_given_up(
    server: FakeApiServer, cluster: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(client, "_MOST_PAGES", 4)
    page = {"metadata": {"continue": "more"}, "items": []}
    server.trouble("list", "nodes", reply=Reply(200, page), times=99)
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))
    assert len(server.asked) == 4


def test_an_empty_list_may_be_null(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("list", "nodes", reply=Reply(200, {"metadata": {}, "items": None}))
    assert seen(cluster) == []


def test_an_answer_without_items_is_no_empty_list(server: FakeApiServer, cluster: KubernetesCluster):
    server.trouble("list", "nodes", reply=Reply(200, {"metadata": {}}))
    with pytest.raises(UnavailableError) as caught:
        cluster.view()
    assert_wording(str(caught.value))
