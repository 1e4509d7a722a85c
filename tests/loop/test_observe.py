"""What one look takes for an answer, and what not."""

import pytest

from nodefleet.domain.events import EventKind
from nodefleet.domain.readings import Missing
from nodefleet.loop.observe import observe
from worlds import Cluster, shop


def look(cluster: Cluster):
    parts = cluster.world.parts("looker")
    policy = cluster.world.policy
    return observe(parts, parts.store.state(), policy, "1", within=policy.burst.every)


def hide(cluster: Cluster) -> None:
    """EC2 answers with an empty list, and without an error."""
    cluster.world.ec2.hidden_since = cluster.world.now


def test_an_empty_list_is_no_answer_while_ready_workers_name_their_machines():
    cluster = shop(workers=2)
    hide(cluster)
    assert look(cluster).instances == Missing(
        "it lists no instance of this cluster, but 2 ready workers run on some."
        " Look at the region, the cluster's tag, the role"
    )


def test_one_ready_worker_is_enough_to_say_so():
    cluster = shop(workers=2)
    cluster.world.nodes.silence(cluster.world.ready_nodes()[0].name)
    cluster.world.advance(60)
    hide(cluster)
    assert "a ready worker runs on one" in look(cluster).instances.cause


def test_an_empty_list_may_be_true_where_no_worker_is_ready():
    cluster = shop(workers=0)
    hide(cluster)
    assert look(cluster).instances == ()


def test_without_kubernetes_nothing_speaks_against_an_empty_list():
    cluster = shop(workers=2)
    hide(cluster)
    cluster.world.away("cluster")
    assert look(cluster).instances == ()


@pytest.mark.parametrize("ticks", [1, 5])
def test_while_ec2_lists_nothing_nothing_is_bought_or_removed_and_people_are_told(ticks):
    cluster = shop(workers=2, replicas=8, cpu=900)
    hide(cluster)
    silent = cluster.world.ready_nodes()[0]
    cluster.world.nodes.silence(silent.name)
    cluster.calm(ticks)
    assert len(cluster.world.workers()) == 2
    assert silent.name in cluster.world.kube.nodes
    told = [event for event in cluster.world.table.events if event.kind is EventKind.DEGRADED]
    assert "Look at the region" in told[0].text
    assert cluster.world.violations == []
