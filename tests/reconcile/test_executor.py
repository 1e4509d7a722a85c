"""Each step is checked again right before it acts: the world changes between the iteration and the step."""

from dataclasses import replace

from nodefleet.errors import DeniedError, ThrottledError
from nodefleet.model.alerts import AlertKind
from nodefleet.model.inventory import InstanceState
from nodefleet.model.names import Metric
from nodefleet.model.operations import Removal, RemovalReason
from nodefleet.ports import Eviction, EvictionOutcome
from nodefleet_tools.sim.hooks import Call, Moment, raising, when
from support.wording import assert_wording
from support.worlds import Cluster, empty, shop


def idle(**policy: object) -> Cluster:
    """The next iteration is the fifth calm one: a node leaves."""
    cluster = shop(workers=3, replicas=4, cpu=200, **policy)
    cluster.calm(4)
    return cluster


def leaving(cluster: Cluster) -> str:
    (removal,) = [each for each in cluster.operations if isinstance(each, Removal)]
    return removal.node


def begun(**policy: object) -> Cluster:
    """A node is cordoned, and its pods are evicted at the next iteration."""
    cluster = idle(**policy)
    cluster.look()
    assert leaving(cluster)
    return cluster


def texts(cluster: Cluster, kind: AlertKind) -> list[str]:
    return [event.text for event in cluster.world.table.events if event.kind is kind]


def did(cluster: Cluster) -> list[str]:
    return [done for line in cluster.world.lines for done in line.fields.get("did", ())]


# ── cordon ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_a_person_cordons_just_before_us_stays_theirs():
    cluster = idle()

    def person() -> None:
        (removal,) = [each for each in cluster.operations if isinstance(each, Removal)]
        cluster.world.operator.cordon(removal.node)

    cluster.tick(when("cluster.cordon", Moment.BEFORE, person))
    cluster.calm(2)
    (held,) = [node for node in cluster.world.kube.nodes.values() if node.cordoned]
    assert held.removal == ""
    assert len(cluster.world.workers()) == 3
    assert (cluster.operations, cluster.world.violations) == ((), [])


def test_the_reason_and_the_deadline_stand_on_the_node():
    cluster = begun()
    node = cluster.world.kube.nodes[leaving(cluster)]
    assert node.cordoned
    assert "CPU" in node.annotations["node-fleet.io/reason"]
    assert any(note.reason == "NodeFleetLeaving" and note.node == node.name for note in notes(cluster))


def notes(cluster: Cluster) -> list:
    return list(cluster.world.kube.notes)


# ── evict ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_that_a_person_uncordons_is_not_drained():
    cluster = begun()
    node = leaving(cluster)
    before = {pod.uid for pod in cluster.world.kube.pods.values() if pod.node == node}
    cluster.look(when("cluster.node", Moment.BEFORE, lambda: cluster.world.operator.uncordon(node)))
    cluster.look()
    assert {pod.uid for pod in cluster.world.kube.pods.values() if pod.node == node} >= before
    assert len(cluster.world.workers()) == 3
    assert cluster.operations == ()


def test_a_budget_that_says_no_is_waited_for_and_said_on_the_node():
    cluster = begun()
    node = leaving(cluster)

    def refused(call: Call) -> None:
        if call.name == "cluster.evict" and call.moment is Moment.AFTER:
            call.result = EvictionOutcome(result=Eviction.REFUSED, detail="Cannot evict pod: budget web")

    cluster.look(refused)
    assert cluster.world.kube.nodes[node].cordoned
    said = [note for note in notes(cluster) if note.reason == "NodeFleetDrainWaits"]
    assert_wording([note.message for note in said])
    assert any("1 refused" in done for done in did(cluster))


def test_a_pod_under_several_budgets_stops_the_drain_and_people_are_told():
    """The API server says so although our own arithmetic did not see it."""
    cluster = begun()
    node = leaving(cluster)

    def impossible(call: Call) -> None:
        if call.name == "cluster.evict" and call.moment is Moment.BEFORE:
            call.arguments = (replace(call.arguments[0], uid="nobody"),)
        if call.name == "cluster.evict" and call.moment is Moment.AFTER:
            call.result = EvictionOutcome(result=Eviction.SEVERAL_BUDGETS, detail="more than one PodDisruptionBudget")

    cluster.look(impossible)
    cluster.look()
    assert not cluster.world.kube.nodes[node].cordoned
    (text,) = texts(cluster, AlertKind.DRAIN_BLOCKED)
    assert_wording(text)
    backoffs = cluster.world.parts("reader").store.state().journal.memory.pool("default").backoffs
    assert [backoff.node for backoff in backoffs] == [node]


# ── terminate ────────────────────────────────────────────────────────────────────────────────────────────────────


def drained(**policy: object) -> Cluster:
    """A node is about to be empty: its instance is terminated at the next iteration."""
    cluster = begun(**policy)
    cluster.look()
    return cluster


def test_a_node_on_which_a_pod_landed_is_not_terminated():
    cluster = drained()
    node = leaving(cluster)

    def landed() -> None:
        pod = next(pod for pod in cluster.world.kube.pods.values() if pod.node and pod.node != node)
        stray = replace(pod, name="stray", uid="stray", node=node)
        cluster.world.kube.put_pod(stray)

    cluster.look(when("cluster.pods_on", Moment.BEFORE, landed))
    assert len(cluster.world.workers()) == 3
    assert cluster.world.violations == []


def test_an_instance_that_is_no_worker_any_more_is_not_even_asked_to_end():
    """Somebody took its tag away after the iteration: it may be theirs by now."""
    cluster = drained()

    def retagged(call: Call) -> None:
        if call.name == "cloud.instance" and call.moment is Moment.AFTER:
            call.result = replace(call.result, worker=False)

    cluster.look(retagged)
    assert "cloud.instance" in cluster.calls
    assert "cloud.terminate" not in cluster.calls


def test_a_terminate_that_is_throttled_is_asked_again():
    cluster = drained()
    cluster.tick(when("cloud.terminate", Moment.BEFORE, raising(ThrottledError("EC2", "Rate exceeded"))))
    assert cluster.calls.count("cloud.terminate") == 2
    cluster.calm(2)
    assert len(cluster.world.workers()) == 2
    assert cluster.operations == ()


def test_a_sick_node_that_recovers_in_the_last_moment_stays():
    cluster = shop(workers=4, replicas=8, cpu=600, limits={"min": 2, "max": 5})
    cluster.calm(1)
    victim = cluster.world.node_of(cluster.world.workers()[-1]).name
    cluster.world.nodes.silence(victim)

    def recovers(call: Call) -> None:
        if call.name == "cloud.instance" and call.moment is Moment.BEFORE:
            cluster.world.nodes.revive(victim)

    cluster.until(lambda: any("let" in done for done in did(cluster)), recovers, ticks=8)
    assert victim in {node.name for node in cluster.world.ready_nodes()}
    assert cluster.operations == ()
    assert cluster.world.violations == []


# ── delete a Node ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_node_object_goes_when_its_machine_is_gone():
    cluster = idle()
    before = set(cluster.world.kube.nodes)
    cluster.tick()
    cluster.calm(2)
    gone = before - set(cluster.world.kube.nodes)
    assert len(gone) == 1
    machine = next(m for m in cluster.world.ec2.machines.values() if m.state is InstanceState.TERMINATED)
    assert machine.worker


# ── launch ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_launch_that_is_throttled_is_sent_again_with_the_same_token():
    cluster = empty(burst={"every": 30})
    tokens: list[str] = []

    def note_token(call: Call) -> None:
        if call.name == "cloud.launch" and call.moment is Moment.BEFORE:
            tokens.append(call.arguments[0].token)

    throttle = when("cloud.launch", Moment.BEFORE, raising(ThrottledError("EC2", "RequestLimitExceeded")), times=2)
    cluster.tick(note_token, throttle)
    cluster.tick(note_token)
    cluster.calm(2)
    assert len(tokens) == 4
    assert len(set(tokens)) == 2
    assert len(cluster.world.workers()) == 2


def test_a_missing_permission_is_told_once_with_what_to_do():
    cluster = empty()
    denied = DeniedError("EC2", "CreateFleet: UnauthorizedOperation", "Allow ec2:CreateFleet to the autoscaler's role")
    for _ in range(3):
        cluster.tick(when("cloud.launch", Moment.BEFORE, raising(denied), times=99))
    (text,) = texts(cluster, AlertKind.PERMISSION)
    assert_wording(text)


# ── what is said of a step does not make it fail ─────────────────────────────────────────────────────────────────


def test_an_event_on_a_node_that_cannot_be_written_holds_up_nothing_and_is_warned_of():
    cluster = idle()
    denied = DeniedError("Kubernetes", "events", "Allow create on events")
    cluster.tick(when("cluster.note", Moment.BEFORE, raising(denied), times=99))
    cluster.calm(2)
    assert len(cluster.world.workers()) == 2
    assert_wording([line.message for line in cluster.world.lines if line.warning])


def test_a_step_whose_event_cannot_be_written_is_done_and_counts_as_done():
    """A role without the right to write events drains and removes as quickly as any other, and rings no alarm."""
    cluster = idle()
    denied = when("cluster.note", Moment.BEFORE, raising(DeniedError("Kubernetes", "events", "Allow it")), times=999)
    cluster.tick(denied)
    assert cluster.calls.count("cluster.cordon") == 1
    assert cluster.calls.count("cloud.terminate") == 1
    failures = [value for metric, value in cluster.world.metrics if metric is Metric.FAILURES]
    assert set(failures) == {0}


def test_an_archive_that_is_away_holds_up_nothing_and_the_record_says_so():
    cluster = idle()
    cluster.world.away("archive")
    cluster.tick()
    cluster.calm(2)
    assert len(cluster.world.workers()) == 2
    assert {record.archived for record in cluster.world.table.decisions} == {""}
    assert_wording(sorted({line.message for line in cluster.world.lines if line.warning}))


# ── who leaves, and why ──────────────────────────────────────────────────────────────────────────────────────────


def test_why_a_node_cannot_leave_stands_on_the_node():
    cluster = shop(workers=3, replicas=4, cpu=200)
    cluster.world.deploy("db", replicas=3, cpu=100, annotations={"node-fleet.io/do-not-disrupt": "true"})
    cluster.calm(8)
    stays = [note for note in notes(cluster) if note.reason == "NodeFleetStays"]
    assert stays
    assert_wording([note.message for note in stays])
    assert len(stays) <= 3


def test_a_voluntary_removal_is_a_scale_down_when_it_is_over():
    cluster = idle()
    cluster.tick()
    cluster.calm(2)
    (event,) = [event for event in cluster.world.table.events if event.kind is AlertKind.SCALE_DOWN]
    assert (event.change, event.nodes) == (-1, 2)
    assert event.usd_per_day < 0
    assert_wording(event.text)
    assert RemovalReason.VOLUNTARY.value == "voluntary"
