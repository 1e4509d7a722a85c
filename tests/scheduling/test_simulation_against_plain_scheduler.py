"""The room with its trees and counts answers as a scheduler would that looks at every pod on every node."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from nodefleet.model.inventory import Resources, Taint
from nodefleet.model.workload import (
    HOST_LABEL,
    ZONE_LABEL,
    HostPort,
    NodeTerm,
    Operator,
    Pod,
    PodTerm,
    Requirement,
    Rules,
    Selector,
    Spread,
    Toleration,
    Volume,
    VolumeKind,
)
from nodefleet.scheduling.predicates import CORDON, LEAVING, NodeModel, admits, matches, tolerates, unmet_predicate
from nodefleet.scheduling.simulation import SchedulerSimulation
from support.builders import NOON


@dataclass
class PlainScheduler:
    """Every rule written down as it is told, at whatever cost."""

    nodes: list[NodeModel]
    there: dict[str, list[Pod]]
    leaving: set[str] = field(default_factory=set)

    def place(self, pod):
        for node in self.nodes:
            if node.name not in self.leaving and self.fits(pod, node):
                self.there[node.name].append(pod)
                return node.name
        return None

    def place_on_emptiest(self, pod):
        for node in sorted(self.nodes, key=self.taken):
            if node.name not in self.leaving and self.fits(pod, node):
                self.there[node.name].append(pod)
                return node.name
        return None

    def taken(self, node):
        """In floating point as in the room, where shares that are equal on paper may differ."""
        offered, present = node.allocatable, self.there[node.name]
        cpu = (offered.cpu - sum(pod.requests.cpu for pod in present)) / offered.cpu
        return 1 - (cpu + (offered.memory - sum(pod.requests.memory for pod in present)) / offered.memory) / 2

    def fits(self, pod, node):
        return (
            unmet_predicate(pod, node) is None
            and self.has_room(pod, node)
            and self.likes_its_neighbours(pod, node)
            and self.is_liked(pod, node)
            and all(self.is_even(pod, node, spread) for spread in pod.rules.spread)
        )

    def has_room(self, pod, node):
        present = self.there[node.name]
        if len(present) >= node.allocatable.pods:
            return False
        for resource in ("cpu", "memory", "storage"):
            asked = getattr(pod.requests, resource)
            used = sum(getattr(other.requests, resource) for other in present)
            if asked and asked + used > getattr(node.allocatable, resource):
                return False
        gpus = sum(other.requests.extended.get("gpu", 0) for other in present)
        wanted = pod.requests.extended.get("gpu", 0)
        if wanted and wanted + gpus > node.allocatable.extended.get("gpu", 0):
            return False
        taken = {port.port for other in present for port in other.rules.host_ports}
        return not taken & {port.port for port in pod.rules.host_ports}

    def pods_near(self, node, topology):
        if topology not in node.labels:
            return []
        near = [each for each in self.nodes if each.labels.get(topology) == node.labels[topology]]
        return [pod for each in near for pod in self.there[each.name]]

    def likes_its_neighbours(self, pod, node):
        if any(
            speaks_of(term, pod, other)
            for term in pod.rules.anti_affinity
            for other in self.pods_near(node, term.topology)
        ):
            return False
        terms = pod.rules.affinity
        if any(term.topology not in node.labels for term in terms):
            return False
        if all(any(of_all(terms, pod, other) for other in self.pods_near(node, term.topology)) for term in terms):
            return True
        nobody_yet = not any(
            of_all(terms, pod, other)
            for term in terms
            for each in self.nodes
            for other in self.pods_near(each, term.topology)
        )
        return nobody_yet and of_all(terms, pod, pod)

    def is_liked(self, pod, node):
        return not any(
            speaks_of(term, other, pod)
            for each in self.nodes
            for other in self.there[each.name]
            for term in other.rules.anti_affinity
            if term.topology in node.labels and each.labels.get(term.topology) == node.labels[term.topology]
        )

    def is_even(self, pod, node, spread):
        topologies = [each.topology for each in pod.rules.spread]
        terrain = [
            each
            for each in self.nodes
            if self.is_counted(pod.rules, each, spread) and all(key in each.labels for key in topologies)
        ]
        if spread.topology not in node.labels:
            return False
        counts = dict.fromkeys((each.labels[spread.topology] for each in terrain), 0)
        for each in terrain:
            for other in self.there[each.name]:
                same = other.namespace == pod.namespace and other.deleted_at is None
                counts[each.labels[spread.topology]] += same and matches(spread.selector, other.labels)
        fewest = min(counts.values(), default=0) if len(counts) >= spread.min_domains else 0
        here = counts.get(node.labels[spread.topology], 0) + matches(spread.selector, pod.labels)
        return here - fewest <= spread.max_skew

    def is_counted(self, rules, node, spread):
        if spread.honors_affinity and not admits(rules, node.name, node.labels):
            return False
        taints = list(node.taints)
        if node.cordoned or node.closed or node.name in self.leaving:
            taints.append(CORDON)
        if node.closed or node.name in self.leaving:
            taints.append(LEAVING)
        return not spread.honors_taints or all(
            any(tolerates(toleration, taint) for toleration in rules.tolerations) for taint in taints
        )


def speaks_of(term, carrier, other):
    namespaces = term.namespaces or (carrier.namespace,)
    return (term.everywhere or other.namespace in namespaces) and matches(term.selector, other.labels)


def of_all(terms, carrier, other):
    return all(speaks_of(term, carrier, other) for term in terms)


# ── small clusters of every kind ─────────────────────────────────────────────────────────────────────────────────

topologies = st.sampled_from([HOST_LABEL, ZONE_LABEL, "rack"])
some_labels = st.fixed_dictionaries({}, optional={"app": st.sampled_from("xy"), "tier": st.sampled_from("12")})
selectors = st.one_of(
    st.builds(lambda labels: Selector(labels=labels), some_labels),
    st.sampled_from(
        [
            Selector(expressions=(Requirement(key="app", operator=Operator.IN, values=("x", "z")),)),
            Selector(expressions=(Requirement(key="tier", operator=Operator.DOES_NOT_EXIST),)),
        ]
    ),
)
pod_terms = st.builds(
    PodTerm,
    topology=topologies,
    selector=selectors,
    namespaces=st.sampled_from([(), ("other",), ("default", "other")]),
    everywhere=st.booleans(),
)
spreads = st.builds(
    Spread,
    topology=topologies,
    selector=selectors,
    max_skew=st.integers(1, 2),
    min_domains=st.integers(1, 3),
    honors_affinity=st.sampled_from([True, True, False]),
    honors_taints=st.booleans(),
)
node_terms = st.sampled_from(
    [
        None,
        None,
        None,
        (NodeTerm(labels=(Requirement(key="disk", values=("ssd",)),)),),
        (NodeTerm(labels=(Requirement(key=HOST_LABEL, operator=Operator.NOT_IN, values=("w0",)),)),),
        (NodeTerm(fields=(Requirement(key="metadata.name", values=("w1",)),)),),
    ]
)


def few(strategy):
    return st.one_of(st.just(()), st.just(()), st.lists(strategy, min_size=1, max_size=2).map(tuple))


rules = st.one_of(
    st.just(Rules()),
    st.builds(
        Rules,
        node_selector=st.sampled_from([{}, {}, {}, {"disk": "ssd"}, {ZONE_LABEL: "a"}]),
        node_terms=node_terms,
        tolerations=st.sampled_from(
            [(), (), (Toleration(operator="Exists"),), (Toleration(key=CORDON.key, operator="Exists"),)]
        ),
        host_ports=st.sampled_from([(), (), (HostPort(port=80),), (HostPort(port=80), HostPort(port=443))]),
        affinity=few(pod_terms),
        anti_affinity=few(pod_terms),
        spread=few(spreads),
    ),
)
volumes = st.sampled_from(
    [
        (),
        (),
        (),
        (Volume(kind=VolumeKind.CLAIM, zones=("a",)),),
        (Volume(kind=VolumeKind.LOCAL, node="w1"),),
    ]
)
pods = st.builds(
    Pod,
    namespace=st.sampled_from(["default", "other"]),
    name=st.just("unnamed"),
    labels=some_labels,
    rules=rules,
    volumes=volumes,
    requests=st.builds(
        Resources,
        cpu=st.integers(0, 3),
        memory=st.integers(0, 3),
        storage=st.sampled_from([0, 0, 1]),
        extended=st.sampled_from([{}, {}, {"gpu": 1}]),
    ),
)


def some_pods(prefix, least, most):
    made = st.lists(pods, min_size=least, max_size=most)
    return made.map(lambda each: [replace(pod, name=f"{prefix}{number}") for number, pod in enumerate(each)])


@st.composite
def nodes(draw, most=5, prefix="w"):
    made = []
    for number in range(draw(st.integers(1, most))):
        name = f"{prefix}{number}"
        labels = {
            HOST_LABEL: name,
            **draw(
                st.fixed_dictionaries(
                    {},
                    optional={
                        ZONE_LABEL: st.sampled_from("ab"),
                        "rack": st.sampled_from("12"),
                        "disk": st.just("ssd"),
                    },
                )
            ),
        }
        made.append(
            NodeModel(
                name=name,
                labels=labels,
                taints=draw(st.sampled_from([(), (), (), (Taint(key="dedicated"),)])),
                cordoned=draw(st.sampled_from([False, False, False, True])),
                closed=draw(st.sampled_from(["", "", "", "the node is unhealthy"])),
                allocatable=Resources(
                    cpu=draw(st.integers(2, 8)),
                    memory=draw(st.integers(2, 8)),
                    storage=2,
                    pods=draw(st.integers(1, 6)),
                    extended=draw(st.sampled_from([{}, {"gpu": 1}])),
                ),
            )
        )
    return made


@st.composite
def clusters(draw, least=0):
    """Nodes, and the pods that sit on each; nobody asked whether they fit."""
    standing = draw(nodes())
    there = {node.name: [] for node in standing}
    for pod in draw(some_pods("there", least, 7)):
        name = draw(st.sampled_from(standing)).name
        there[name].append(replace(pod, node=name, deleted_at=draw(st.sampled_from([None, None, NOON]))))
    return standing, there


def room_of(standing, there):
    return SchedulerSimulation(standing, [pod for sitting in there.values() for pod in sitting])


def plain_of(standing, there):
    return PlainScheduler(list(standing), {name: list(sitting) for name, sitting in there.items()})


@settings(max_examples=80, deadline=None)
@given(cluster=clusters(), coming=some_pods("p", 1, 8))
def test_the_same_pods_go_to_the_same_nodes(cluster, coming):
    room, plain = room_of(*cluster), plain_of(*cluster)
    for pod in coming:
        assert room.place(pod) == plain.place(pod)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), cluster=clusters(), extra=nodes(most=2, prefix="new"), coming=some_pods("p", 1, 5))
def test_after_a_try_that_was_undone_everything_is_as_before(data, cluster, extra, coming):
    tried = data.draw(some_pods("tried", 0, 5))
    room = room_of(*cluster)

    mark = room.mark()
    for pod in tried[:2]:
        room.place(pod)
    room.try_drain(data.draw(st.sampled_from(cluster[0])).name)
    for node in extra:
        room.add(node, tried[4:])
    for pod in tried[2:4]:
        room.place(pod)
    room.roll_back(mark)

    plain = plain_of(*cluster)
    for pod in coming:
        assert room.place(pod) == plain.place(pod)


@settings(max_examples=80, deadline=None)
@given(cluster=clusters(), extra=nodes(most=2, prefix="new"), first=some_pods("p", 0, 4), then=some_pods("q", 1, 4))
def test_a_node_that_is_added_counts_like_one_that_was_there(cluster, extra, first, then):
    room, plain = room_of(*cluster), plain_of(*cluster)
    for pod in first:
        assert room.place(pod) == plain.place(pod)
    daemon = Pod(name="daemon", requests=Resources(cpu=1), labels={"app": "x"})
    for node in extra:
        room.add(node, [daemon])
        plain.nodes.append(node)
        plain.there[node.name] = [daemon]
    for pod in then:
        assert room.place(pod) == plain.place(pod)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), cluster=clusters(least=1))
def test_a_node_can_go_only_if_a_plain_scheduler_settles_all_its_pods_elsewhere(data, cluster):
    standing, there = cluster
    gone = data.draw(st.sampled_from(standing)).name
    moving = [pod for pod in there[gone] if pod.deleted_at is None]

    def plain():
        staying = [pod for pod in there[gone] if pod.deleted_at is not None]
        left = plain_of(standing, {**there, gone: staying})
        left.leaving.add(gone)
        return left

    packing, spreading = plain(), plain()
    order = sorted(moving, key=lambda pod: (-pod.requests.cpu, -pod.requests.memory, pod.key))
    stuck = next((pod for pod in order if packing.place(pod) is None), None)
    unplaceable = room_of(*cluster).try_drain(gone)
    if stuck is not None:
        assert unplaceable.pod == stuck
    elif unplaceable is None:
        assert all(spreading.place_on_emptiest(pod) for pod in moving)
    else:
        assert len(moving) > 1  # another writer stands in its way
