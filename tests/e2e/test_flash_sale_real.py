"""The flash sale of the first description, with real pods that are really unschedulable, two minutes in four seconds.

The rows are those of its table, with the corrections that the design lists: three workers, memory at 40 %, and a sale
that is over at 20:12. One pod fills a node; what the sale needs it gets by the Deployment's replicas.
"""

from datetime import UTC, datetime

from e2e.site.policy import compressed
from e2e.site.site import Site
from e2e.site.waiting import until
from nodefleet.model.decision import Action

# As long as rows 20:04 to 20:10 may take here, on a busy instance too.
POLICY = compressed(limits={"min": 2, "max": 10}, cooldown={"up": 60, "down": 40})
SHOP = "shop"


def play(site: Site, *, cpu: float, replicas: int, waiting: int) -> datetime:
    """A row: the load, and so many pods of which so many find no node. From then on decisions are about it."""
    site.load.cpu(cpu)
    until(lambda: abs((site.cpu() or 0) - cpu) < 1.5, f"Prometheus reads {cpu} %")
    site.workloads.scale(SHOP, replicas)
    until(lambda: len(site.workloads.pods(SHOP)) == replicas, f"{replicas} pods are there", every=0.1)
    began = datetime.now(UTC)
    until(lambda: len(site.workloads.unschedulable(SHOP)) == waiting, f"{waiting} pods find no node", every=0.1)
    return began


def test_the_flash_sale_on_real_parts(site: Site) -> None:
    site.load.memory(40)
    site.begin(compressed(limits={"min": 3, "max": 10}))
    site.declare(POLICY)
    site.workloads.deploy(SHOP, 3)
    until(lambda: len(site.workloads.running(SHOP)) == 3, "a pod runs on each worker")

    with site.schedule.going_on():
        then = play(site, cpu=35, replicas=3, waiting=0)  # 20:00
        row = site.decided(lambda it: "CPU 3" in it.reason, "35 % is within the limits", since=then)
        assert row.action is Action.HOLD

        then = play(site, cpu=65, replicas=3, waiting=0)  # 20:02
        row = site.decided(lambda it: "CPU 6" in it.reason, "65 % is within the limits", since=then)
        assert row.action is Action.HOLD

        then = play(site, cpu=82, replicas=6, waiting=3)  # 20:04
        row = site.decided(lambda it: it.action is Action.GROW, "it grows", since=then)
        assert (row.count.capacity, row.target) == (3, 5)
        assert "3 pods unschedulable while CPU 8" in row.reason
        until(lambda: len(site.hardware.instances()) == 5, "two are bought")

        until(lambda: len(site.ready()) == 5, "the new workers are there")
        then = play(site, cpu=85, replicas=13, waiting=8)  # 20:06
        row = site.decided(lambda it: "8 pods unschedulable" in it.reason, "eight pods wait", since=then)
        assert (row.action, row.target) == (Action.HOLD, 5)
        assert "(asks for 7), but cooldown: grew" in row.reason

        then = play(site, cpu=78, replicas=7, waiting=2)  # 20:08
        row = site.decided(lambda it: "2 pods unschedulable" in it.reason, "two pods wait", since=then)
        assert (row.action, row.target) == (Action.HOLD, 5)
        assert "(asks for 7), but cooldown: grew" in row.reason

        then = play(site, cpu=68, replicas=5, waiting=0)  # 20:10
        row = site.decided(lambda it: "CPU 6" in it.reason, "the new workers carry it", since=then)
        assert (row.action, row.count.ready) == (Action.HOLD, 5)
        assert len(site.workloads.running(SHOP)) == 5

        then = play(site, cpu=40, replicas=3, waiting=0)  # 20:12 to 20:30
        row = site.decided(lambda it: "CPU 4" in it.reason, "not below 30 % yet", since=then)
        assert row.action is Action.HOLD

        then = play(site, cpu=28, replicas=3, waiting=0)  # from 20:32
        row = site.decided(lambda it: it.action is Action.SHRINK, "one worker leaves", since=then)
        assert (row.count.capacity, row.target) == (5, 4)
        assert "5 of 5 readings" in row.reason
        until(lambda: len(site.hardware.instances()) == 4, "its instance is gone")
        until(lambda: len(site.nodes()) == 4, "its node is gone")
        until(lambda: any("Scale-down: 1 node fewer" in said for said in site.told()), "Slack hears of the end")

    assert len(site.workloads.running(SHOP)) == 3
    assert any("Scale-up: 2 nodes more" in said for said in site.told())
    assert [each.error for each in site.functions.made if each.error] == []
