"""Whole courses in a tiny world, with runs that die at any step and sources that fall silent: all of them end."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from nodefleet.model.inventory import Instance, InstanceState, Node
from nodefleet.model.operations import (
    Close,
    Cordon,
    DeleteNode,
    Evict,
    ForceDelete,
    MarkFailed,
    OrphanKind,
    Outcome,
    RemovalReason,
    Save,
    SendAlert,
    SendLaunch,
    Terminate,
    Uncordon,
)
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.operations.advance import advance
from nodefleet.operations.launch import record_answer
from nodefleet.policy.pool import Health, RemovalRules
from support.builders import NOON, after
from support.operation_builders import AWAY, POLICY, budget, cleanup, instance, interrupted, launch, node, pod, removal

TICK = timedelta(seconds=30)
CLEAN_TICKS = 80  # longer than every deadline, margin and false alarm together
ALIVE = (InstanceState.PENDING, InstanceState.RUNNING)


class World:
    """EC2 and Kubernetes for one operation. Answers may get lost; what was asked for happens all the same."""

    def __init__(self, operation, instances=(), nodes=(), pods=(), budgets=(), *, joins=True, takes_at=None):
        self.now = NOON
        self.operation = operation
        self.instances = {each.id: each for each in instances}
        self.nodes = {each.name: each for each in nodes}
        self.pods = {each.uid: each for each in pods}
        self.budgets = tuple(budgets)
        self.joins, self.takes_at = joins, takes_at
        self.close = None
        self.answers = True  # EC2's answer to a launch arrives
        self.launched = 0  # instances that EC2 made

    def look(self, *, ec2=True, kubernetes=True):
        return Observation(
            at=self.now,
            instances=tuple(self.instances.values()) if ec2 else AWAY,
            kubernetes=ClusterView(
                nodes=tuple(self.nodes.values()), pods=tuple(self.pods.values()), budgets=self.budgets
            )
            if kubernetes
            else AWAY,
            operations=(self.operation,),
        )

    def run(self, *, dies_after=None, answers=True, **sources):
        """One iteration, and as many of its steps as the run lives for."""
        self.answers = answers
        for step in advance(self.operation, self.look(**sources), POLICY).steps[:dies_after]:
            self.take(step)
        self.pass_time()

    def take(self, step):
        match step:
            case Save(operation):
                self.operation = operation
            case Close():
                self.close = step
            case SendLaunch(sent):
                made = self.made(sent)
                if self.answers:
                    self.operation = record_answer(sent, made, (), self.now)
            case Cordon():
                self.nodes[step.node] = replace(self.nodes[step.node], cordoned=True, removal=step.removal)
            case Uncordon():
                if self.nodes[step.node].removal == step.removal:
                    self.nodes[step.node] = replace(self.nodes[step.node], cordoned=False, removal="")
            case Evict():
                for each in step.pods:
                    self.pods[each.uid] = replace(self.pods[each.uid], deleted_at=self.now)
            case ForceDelete():
                for each in step.pods:
                    del self.pods[each.uid]
            case Terminate():
                self.becomes(step.instance, InstanceState.SHUTTING_DOWN)
            case DeleteNode():
                del self.nodes[step.node]
                self.pods = {uid: each for uid, each in self.pods.items() if each.node != step.node}
            case MarkFailed():
                self.instances[step.instance] = replace(self.instances[step.instance], failed=True)
            case SendAlert():
                pass

    def take_stale_cordons_off(self):
        """As every iteration does, when no removal is open any more."""
        for name, each in self.nodes.items():
            if each.removal:
                self.nodes[name] = replace(each, cordoned=False, removal="")

    def made(self, sent):
        """The same token makes nothing twice."""
        known = [each for each in self.instances.values() if each.operation == sent.id]
        for number in range(0 if known else sent.count):
            self.launched += 1
            identity = f"i-{number}"
            self.instances[identity] = Instance(id=identity, zone="a", launched_at=self.now, operation=sent.id)
        return [each.id for each in self.instances.values() if each.operation == sent.id]

    def becomes(self, identity, state):
        self.instances[identity] = replace(self.instances[identity], state=state)

    def pass_time(self):
        self.now += TICK
        for each in list(self.instances.values()):
            if each.state is InstanceState.SHUTTING_DOWN:
                self.becomes(each.id, InstanceState.TERMINATED)
            elif self.takes_at and self.now >= self.takes_at and each.state in ALIVE:
                self.becomes(each.id, InstanceState.SHUTTING_DOWN)
            elif self.joins and each.operation and each.state in ALIVE and self.now - each.launched_at >= 3 * TICK:
                name = f"n-{each.id}"
                self.nodes.setdefault(name, Node(name=name, instance=each.id, ready_changed_at=self.now))
        healthy = {name for name, each in self.nodes.items() if each.ready}
        self.pods = {
            uid: each for uid, each in self.pods.items() if each.deleted_at is None or each.node not in healthy
        }


chances = st.lists(
    st.fixed_dictionaries(
        {
            "dies_after": st.sampled_from([None, 0, 1, 2]),
            "answers": st.booleans(),
            "ec2": st.sampled_from([True, True, True, False]),
            "kubernetes": st.sampled_from([True, True, True, False]),
        }
    ),
    max_size=25,
)


def end_of(world, rough):
    for chance in (*rough, *[{}] * CLEAN_TICKS):
        world.run(**chance)
        if world.close:
            world.take_stale_cordons_off()
            return world.close
    raise AssertionError(world.operation)


def leaves(operation, pods, budgets=(), *, ready=True, takes_at=None):
    return World(operation, [instance()], [node(ready=ready)], pods, budgets, takes_at=takes_at)


PODS = [pod("web-1"), pod("web-2")]


def assert_node_deleted(world):
    """Unless that was due for as long as it may be tried: then the Node is an orphan, and a cleanup deletes it."""
    since = world.operation.undeleted_since
    if since is None or world.now - TICK - since < RemovalRules().drain_timeout:
        assert world.nodes == {}


@given(chances, st.booleans())
@settings(deadline=None)
def test_a_launch_ends_with_every_instance_joined_or_given_up(rough, joins):
    world = World(launch(), joins=joins)
    close = end_of(world, rough)
    assert world.launched in (0, 2)
    if world.launched and joins:
        assert len(world.nodes) == 2
    if close.outcome is Outcome.DONE:
        assert len(world.nodes) == 2
    if not joins:
        assert close.outcome is Outcome.FAILED
        # What could not be marked for as long as a join may take is left unmarked.
        tried = 2 * Health().join_limit
        assert all(each.failed or world.now - each.launched_at > tried for each in world.instances.values())


@given(chances, st.sampled_from([[], PODS]))
@settings(deadline=None)
def test_a_voluntary_removal_ends_with_the_node_gone_or_back_in_full(rough, pods):
    world = leaves(removal(), pods)
    close = end_of(world, rough)
    if close.outcome is Outcome.DONE:
        assert_node_deleted(world)
        assert world.instances["i-1"].state is InstanceState.TERMINATED
    else:
        assert world.nodes["w1"] == node()
        assert world.instances["i-1"].state is InstanceState.RUNNING


def test_a_removal_whose_node_could_not_be_deleted_for_long_ends_and_leaves_it_to_a_cleanup():
    world = leaves(removal(), [])
    while world.instances["i-1"].state is not InstanceState.TERMINATED:
        world.run()
    world.run(dies_after=1)
    assert end_of(world, [{"kubernetes": False}] * 12).outcome is Outcome.DONE
    assert world.instances["i-1"].state is InstanceState.TERMINATED
    assert list(world.nodes) == ["w1"]


@given(chances)
@settings(deadline=None)
def test_a_removal_that_a_budget_blocks_lets_the_node_back_in(rough):
    world = leaves(removal(), PODS, [budget()])
    assert end_of(world, rough).outcome is Outcome.FAILED
    assert world.nodes["w1"] == node()
    assert len(world.pods) == 2


@given(chances, st.sampled_from([0, 2]))
@settings(deadline=None)
def test_a_removal_called_back_ends_with_the_node_back_in_or_gone(rough, after_ticks):
    world = leaves(removal(), PODS)
    for _ in range(after_ticks):
        world.run()
    world.operation = replace(world.operation, cancelled="pods wait")
    close = end_of(world, rough)
    if world.instances["i-1"].state is InstanceState.RUNNING:
        if close.outcome is Outcome.FAILED:  # and not while runs, for want of the API server, could not try
            tried = world.operation.readmitting_since
            assert tried is not None
            assert world.now - tried > RemovalRules().drain_timeout
        else:
            assert close.outcome is Outcome.CANCELLED
        assert world.nodes["w1"] == node()
    else:
        assert close.outcome is Outcome.DONE


@given(chances, st.sampled_from([None, after(120)]))
@settings(deadline=None)
def test_an_interrupted_removal_ends_whether_ec2_takes_the_node_or_not(rough, takes_at):
    world = leaves(interrupted(), PODS, [budget()], takes_at=takes_at)
    close = end_of(world, rough)
    if close.outcome is Outcome.DONE:
        assert_node_deleted(world)
    else:
        assert world.nodes["w1"] == node()


@given(chances, st.sampled_from([(), (budget(),)]))
@settings(deadline=None)
def test_a_sick_node_ends_though_its_pods_cannot(rough, budgets):
    world = leaves(removal(RemovalReason.UNHEALTHY), PODS, budgets, ready=False)
    close = end_of(world, rough)
    if close.outcome is Outcome.FAILED:  # runs died before they could ask EC2: another removal will
        assert close.detail == "EC2 was asked to terminate i-1 and has not done so"
        assert world.nodes["w1"] == node(ready=False)
        return
    assert close.outcome is Outcome.DONE
    assert world.nodes == {}
    assert world.pods == {}


@given(chances)
@settings(deadline=None)
def test_debris_is_gone_or_a_person_was_told(rough):
    world = World(cleanup(), nodes=[node(ready=False)])
    assert (end_of(world, rough).outcome is Outcome.DONE) is (world.nodes == {})
    world = World(cleanup(OrphanKind.INSTANCE), [instance(failed=True)])
    gone = end_of(world, rough).outcome is Outcome.DONE
    assert (world.instances["i-1"].state is InstanceState.TERMINATED) is gone
