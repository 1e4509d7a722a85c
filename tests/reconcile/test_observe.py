"""What one iteration takes for an answer, and what not."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from nodefleet.errors import UnavailableError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import Notice, NoticeKind
from nodefleet.model.snapshot import ClusterView, Deployment, Missing, Observation, Pause, emergency
from nodefleet.policy.cluster import Policy
from nodefleet.policy.pool import MarketMix, Pool
from nodefleet.ports import State
from nodefleet.reconcile.observe import observe
from support.builders import CATALOG, NOON, TARGET, after, instance, node
from support.operation_builders import removal
from support.sentences import is_phrase
from support.wording import assert_wording
from support.worlds import Cluster, shop


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
    assert_wording(look(cluster).instances.cause)


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
    told = [event for event in cluster.world.table.events if event.kind is AlertKind.DEGRADED]
    assert_wording(told[0].text)
    assert cluster.world.violations == []


# ── every part at once ───────────────────────────────────────────────────────────────────────────────────────────

AWAY = UnavailableError("EC2", "no answer")
POLICY = Policy(
    pools=(
        Pool(name="web", market=MarketMix(types=("t3.small", "t3a.small"))),
        Pool(name="jobs", market=MarketMix(types=("t3a.small", "m7g.large"))),
    )
)
WINDOWS, READINGS = object(), object()
NOTICE = Notice(instance="i-001", kind=NoticeKind.SPOT_INTERRUPTION, at=NOON)


def observed(state=None, **answers):
    """What is seen, what the parts were asked, and the warnings."""
    asked, warnings = [], []

    def call(name, answer):
        def ask(*arguments):
            asked.append((name, *arguments))
            found = answers.get(name, answer)
            if isinstance(found, Exception):
                raise found
            return found

        return ask

    def together(*calls):
        results = []
        for each in calls:
            try:
                results.append(each())
            except Exception as error:  # noqa: BLE001  # as the real one: it gives what was raised
                results.append(error)
        return results

    parts = SimpleNamespace(
        cluster_id="shop",
        time=SimpleNamespace(now=lambda: NOON),
        cloud=SimpleNamespace(instances=call("instances", (instance(1),)), catalog=call("catalog", CATALOG)),
        cluster=SimpleNamespace(view=call("view", ClusterView(nodes=(node(1),)))),
        gauges=SimpleNamespace(read=call("read", READINGS)),
        policies=SimpleNamespace(windows=call("windows", WINDOWS), utc_offset=call("utc_offset", timedelta(hours=1))),
        telemetry=SimpleNamespace(warn=warnings.append),
        together=together,
        requests=None,
    )
    return observe(parts, state or State(), POLICY, "7.1", timedelta(seconds=10)), asked, warnings


def test_everything_that_answers_is_seen():
    state = State(
        operations=(removal(),),
        notices=(NOTICE,),
        commands=(Pause(),),
        deployment=Deployment(cluster="shop", targets=(TARGET,)),
    )
    seen, asked, warnings = observed(state)
    assert seen == Observation(
        at=NOON,
        cluster="shop",
        run="7.1",
        instances=(instance(1),),
        kubernetes=ClusterView(nodes=(node(1),)),
        readings=READINGS,
        operations=(removal(),),
        notices=(NOTICE,),
        commands=(Pause(),),
        windows=WINDOWS,
        targets=(TARGET,),
        catalog=CATALOG,
        utc_offset=timedelta(hours=1),
    )
    assert asked == [
        ("instances",),
        ("catalog", ("t3.small", "t3a.small", "m7g.large")),
        ("view",),
        ("read", POLICY, NOON, timedelta(seconds=10), {}),
        ("windows", POLICY, NOON),
        ("utc_offset", POLICY, NOON),
    ]
    assert warnings == []


def test_without_a_deployment_there_are_no_targets():
    assert observed()[0].targets == ()


@pytest.mark.parametrize(("part", "field"), [("instances", "instances"), ("view", "kubernetes")])
def test_what_does_not_answer_is_missing_with_its_cause(part, field):
    seen, _, _ = observed(**{part: AWAY})
    assert getattr(seen, field) == Missing(str(AWAY))
    other = "kubernetes" if field == "instances" else "instances"
    assert not isinstance(getattr(seen, other), Missing)


def test_without_the_catalogue_nothing_is_known_of_types_and_it_is_warned_of():
    seen, _, warnings = observed(catalog=AWAY)
    assert seen.catalog == ()
    assert len(warnings) == 1
    assert str(AWAY) in warnings[0]


@pytest.mark.parametrize("part", ["instances", "catalog", "view", "read"])
def test_a_fault_of_ours_is_raised(part):
    with pytest.raises(ZeroDivisionError):
        observed(**{part: ZeroDivisionError()})


def test_readings_that_are_refused_are_a_fault_of_ours():
    with pytest.raises(UnavailableError):
        observed(read=AWAY)


def test_a_node_that_was_drained_without_the_table_tells_of_its_notice_once_and_in_order():
    other = replace(NOTICE, instance="i-000")
    later = replace(NOTICE, at=after(5))
    change = replace(NOTICE, kind=NoticeKind.SCHEDULED_CHANGE)
    view = ClusterView(nodes=(node(1, removal=emergency(NOTICE)), node(2, removal="r1")))
    seen, _, _ = observed(State(notices=(later, NOTICE, change, other)), view=view)
    assert seen.notices == (other, change, NOTICE, later)
    assert observed(view=view)[0].notices == (NOTICE,)
    assert observed(State(notices=(NOTICE,)), view=AWAY)[0].notices == (NOTICE,)


def test_what_is_recorded_says_more_than_the_node_and_may_withdraw_it():
    change = Notice(
        instance="i-001", kind=NoticeKind.SCHEDULED_CHANGE, at=after(3000), told_at=NOON, event="arn:1", withdrawn=False
    )
    called_off = replace(change, told_at=after(60), withdrawn=True)
    view = ClusterView(nodes=(node(1, removal=emergency(change)),))
    for recorded in ((change,), (called_off,), (called_off, change)):
        seen, _, _ = observed(State(notices=recorded), view=view)
        assert seen.notices == tuple(sorted(recorded, key=lambda notice: notice.told_at))


@pytest.mark.parametrize(
    ("shown", "plausible"),
    [
        (node(1), False),
        (node(1, ready=False), True),
        (node(1, instance=""), True),
        (node(1, pool=None), True),
    ],
    ids=["a ready worker", "not ready", "no instance", "no worker"],
)
def test_an_empty_list_is_believed_unless_a_ready_worker_names_its_machine(shown, plausible):
    seen, _, _ = observed(instances=(), view=ClusterView(nodes=(shown,)))
    assert isinstance(seen.instances, Missing) is not plausible
    if plausible:
        assert seen.instances == ()
    else:
        assert is_phrase(seen.instances.cause)
        assert_wording(seen.instances.cause)


def test_a_list_that_is_not_believed_says_how_many_workers_are_missing():
    seen, _, _ = observed(instances=(), view=ClusterView(nodes=(node(1), node(2), node(3, ready=False))))
    assert_wording(seen.instances.cause)
