"""Who may run near whom."""

from dataclasses import replace

import pytest

from nodefleet.model.inventory import Resources, Taint
from nodefleet.model.workload import (
    HOST_LABEL,
    ZONE_LABEL,
    NodeTerm,
    Operator,
    Pod,
    PodTerm,
    Requirement,
    Rules,
    Selector,
    Spread,
    Toleration,
)
from nodefleet.scheduling.predicates import NodeModel
from nodefleet.scheduling.simulation import SchedulerSimulation
from support.builders import NOON
from support.wording import assert_wording

ROOMY = Resources(cpu=100, memory=100, pods=100)


def nodes(**zones):
    """w1="a" → a node w1 in zone a."""
    return [
        NodeModel(name=name, labels={HOST_LABEL: name, ZONE_LABEL: zone}, allocatable=ROOMY)
        for name, zone in zones.items()
    ]


THREE = nodes(w1="a", w2="a", w3="b")


def pod(name, app=None, on=None, namespace="default", deleted=False, **rules):
    """The app is the first part of the name."""
    return Pod(
        name=name,
        namespace=namespace,
        labels={"app": app or name.split("-")[0]},
        node=on,
        deleted_at=NOON if deleted else None,
        rules=Rules(**rules),
    )


def app(*names):
    if len(names) == 1:
        return Selector(labels={"app": names[0]})
    return Selector(expressions=(Requirement(key="app", operator=Operator.IN, values=names),))


def near(*names, by=ZONE_LABEL, **scope):
    return {"affinity": (PodTerm(topology=by, selector=app(*names), **scope),)}


def away(*names, by=HOST_LABEL, **scope):
    return {"anti_affinity": (PodTerm(topology=by, selector=app(*names), **scope),)}


def evenly(name, by=ZONE_LABEL, skew=1, domains=1, **policies):
    spread = Spread(topology=by, selector=app(name), max_skew=skew, min_domains=domains, **policies)
    return {"spread": (spread,)}


# ── affinity ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pod_goes_to_the_zone_of_the_pods_it_wants_near():
    room = SchedulerSimulation(THREE, [pod("db", on="w3")])
    assert room.place(pod("web", **near("db"))) == "w3"


def test_it_goes_to_the_very_host_if_that_is_what_it_wants():
    room = SchedulerSimulation(THREE, [pod("db", on="w2")])
    assert room.place(pod("web", **near("db", by=HOST_LABEL))) == "w2"


def test_it_goes_nowhere_while_nobody_is_there():
    room = SchedulerSimulation(THREE)
    web = pod("web", **near("db"))
    assert room.place(web) is None
    assert_wording(room.why_not(web, "w1"))
    assert room.place(pod("db")) == "w1"
    assert room.place(web) == "w1"


def test_the_first_of_a_group_that_keeps_together_may_go_anywhere_and_the_others_follow():
    room = SchedulerSimulation(nodes(w1="a", w2="b"), [pod("x", on="w1")])
    together = near("db", by=HOST_LABEL)
    room.take_out("w1")
    assert room.place(pod("db-1", **together)) == "w2"
    assert room.place(pod("db-2", **together)) == "w2"


def test_the_first_of_a_group_still_needs_a_node_that_has_a_domain():
    bare = NodeModel(name="w0", allocatable=ROOMY)
    room = SchedulerSimulation([bare, *THREE])
    first = pod("db-1", **near("db"))
    assert_wording(room.why_not(first, "w0"))
    assert room.place(first) == "w1"


def test_pods_on_a_node_without_the_label_are_near_nobody():
    bare = NodeModel(name="w0", allocatable=ROOMY)
    room = SchedulerSimulation([bare, *THREE], [pod("db", on="w0")])
    assert room.place(pod("web", **near("db"))) is None


def test_with_two_terms_one_pod_must_match_both():
    both = {
        "affinity": (
            PodTerm(topology=ZONE_LABEL, selector=app("db")),
            PodTerm(topology=HOST_LABEL, selector=Selector(labels={"tier": "1"})),
        )
    }
    db = Pod(name="db", labels={"app": "db"}, node="w1")
    tier = Pod(name="t", labels={"tier": "1"}, node="w1")
    db_tier = Pod(name="dt", labels={"app": "db", "tier": "1"}, node="w3")
    assert SchedulerSimulation(THREE, [db, tier]).place(pod("web", **both)) is None
    assert SchedulerSimulation(THREE, [db, tier, db_tier]).place(pod("web", **both)) == "w3"


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ({}, None),
        ({"namespaces": ("data",)}, "w3"),
        ({"namespaces": ("default", "other")}, None),
        ({"everywhere": True}, "w3"),
    ],
)
def test_a_term_speaks_of_its_own_namespace_unless_it_names_others(scope, found):
    room = SchedulerSimulation(THREE, [pod("db", on="w3", namespace="data")])
    assert room.place(pod("web", **near("db", **scope))) == found


def test_affinity_counts_pods_that_are_being_deleted():
    assert SchedulerSimulation(THREE, [pod("db", on="w3", deleted=True)]).place(pod("web", **near("db"))) == "w3"


# ── anti-affinity ────────────────────────────────────────────────────────────────────────────────────────────────


def test_replicas_that_keep_apart_take_a_host_each():
    room = SchedulerSimulation(THREE)
    replicas = [pod(f"web-{number}", **away("web")) for number in range(4)]
    assert [room.place(each) for each in replicas] == ["w1", "w2", "w3", None]
    assert_wording(room.why_not(replicas[3], "w1"))


def test_replicas_that_keep_apart_by_zone_take_a_zone_each():
    room = SchedulerSimulation(THREE)
    replicas = [pod(f"web-{number}", **away("web", by=ZONE_LABEL)) for number in range(3)]
    assert [room.place(each) for each in replicas] == ["w1", "w3", None]


def test_a_pod_stays_away_from_others_who_do_not_mind():
    room = SchedulerSimulation(THREE, [pod("noisy", on="w1")])
    quiet = pod("quiet", **away("noisy", "loud"))
    assert_wording(room.why_not(quiet, "w1"))
    assert room.place(quiet) == "w2"


def test_a_newcomer_without_rules_is_kept_off_by_those_who_are_there():
    room = SchedulerSimulation(THREE, [pod("quiet", on="w1", **away("noisy"))])
    assert room.place(pod("noisy")) == "w2"
    assert room.place(pod("other")) == "w1"


def test_one_who_was_placed_keeps_others_off_until_it_is_taken_back():
    room = SchedulerSimulation(THREE)
    mark = room.mark()
    room.place(pod("quiet", **away("noisy")))
    assert room.place(pod("noisy")) == "w2"
    room.roll_back(mark)
    assert room.place(pod("noisy")) == "w1"


@pytest.mark.parametrize(
    ("scope", "found"),
    [({}, "w1"), ({"namespaces": ("default",)}, "w2"), ({"everywhere": True}, "w2")],
)
def test_those_who_are_there_mean_their_own_namespace_unless_they_name_others(scope, found):
    quiet = pod("quiet", on="w1", namespace="data", **away("noisy", **scope))
    assert SchedulerSimulation(THREE, [quiet]).place(pod("noisy")) == found


def test_on_a_node_without_the_label_nobody_is_near():
    bare = NodeModel(name="w0", allocatable=ROOMY)
    room = SchedulerSimulation([bare], [pod("noisy", on="w0"), pod("shy", on="w0", **away("quiet"))])
    assert room.place(pod("quiet", **away("noisy"))) == "w0"


def test_a_pod_that_is_being_deleted_still_keeps_others_off():
    room = SchedulerSimulation(THREE, [pod("web-0", on="w1", deleted=True, **away("web"))])
    assert room.place(pod("web-1")) == "w2"
    assert room.place(pod("web-2", **away("web"))) == "w3"


def test_an_empty_selector_keeps_away_from_everyone():
    alone = {"anti_affinity": (PodTerm(topology=HOST_LABEL),)}
    room = SchedulerSimulation(THREE, [pod("x", on="w1"), pod("hermit", on="w2", **alone)])
    assert room.place(pod("y", **alone)) == "w3"
    assert_wording(SchedulerSimulation(THREE, [pod("hermit", on="w1", **alone)]).why_not(pod("y"), "w1"))


# ── spread ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_spread_pods_take_turns_between_zones():
    room = SchedulerSimulation(THREE)
    replicas = [pod(f"web-{number}", **evenly("web")) for number in range(4)]
    assert [room.place(each) for each in replicas] == ["w1", "w3", "w1", "w3"]


def test_a_larger_skew_lets_one_zone_run_ahead():
    room = SchedulerSimulation(THREE)
    replicas = [pod(f"web-{number}", **evenly("web", skew=2)) for number in range(4)]
    assert [room.place(each) for each in replicas] == ["w1", "w1", "w3", "w1"]


def test_a_full_zone_holds_the_others_back():
    full = NodeModel(name="w3", labels={HOST_LABEL: "w3", ZONE_LABEL: "b"}, allocatable=Resources(pods=0))
    room = SchedulerSimulation([*nodes(w1="a"), full])
    assert room.place(pod("web-0", **evenly("web"))) == "w1"
    waiting = pod("web-1", **evenly("web"))
    assert room.place(waiting) is None
    assert_wording(room.why_not(waiting, "w1"))


def test_a_tainted_node_counts_as_a_domain_but_one_that_the_pod_does_not_want_does_not():
    tainted = NodeModel(
        name="w9", labels={HOST_LABEL: "w9", ZONE_LABEL: "z"}, allocatable=ROOMY, taints=(Taint(key="dedicated"),)
    )
    there = [pod("web-0", on="w1")]
    assert SchedulerSimulation([*nodes(w1="a"), tainted], there).place(pod("web-1", **evenly("web"))) is None
    in_a = NodeTerm(labels=(Requirement(key=ZONE_LABEL, values=("a",)),))
    wanting_a = pod("web-1", node_terms=(in_a,), **evenly("web"))
    assert SchedulerSimulation([*nodes(w1="a"), tainted], there).place(wanting_a) == "w1"


def test_pods_on_nodes_that_the_pod_does_not_want_are_not_counted():
    there = [pod("web-0", on="w1"), pod("web-1", on="w1"), pod("web-2", on="w3")]
    only_hosts = NodeTerm(labels=(Requirement(key=HOST_LABEL, values=("w2", "w3")),))
    room = SchedulerSimulation(THREE, there)
    assert room.place(pod("web-3", node_terms=(only_hosts,), **evenly("web"))) == "w2"


CONTROL_PLANE = NodeModel(
    name="cp",
    labels={HOST_LABEL: "cp", ZONE_LABEL: "c"},
    taints=(Taint(key="node-role.kubernetes.io/control-plane"),),
    allocatable=ROOMY,
)


@pytest.mark.parametrize(("honors", "on_one_node"), [(True, 8), (False, 1)])
def test_a_tainted_control_plane_is_an_empty_domain_unless_taints_are_honoured(honors, on_one_node):
    room = SchedulerSimulation([CONTROL_PLANE, *nodes(w1="a")])
    replicas = [pod(f"web-{number}", **evenly("web", by=HOST_LABEL, honors_taints=honors)) for number in range(8)]
    assert [room.place(each) for each in replicas].count("w1") == on_one_node


def test_a_tainted_node_is_a_domain_for_a_pod_that_tolerates_it():
    everything = (Toleration(operator="Exists"),)
    full = replace(CONTROL_PLANE, allocatable=Resources())
    room = SchedulerSimulation([full, *nodes(w1="a")], [pod("web-0", on="w1")])
    assert room.place(pod("web-1", tolerations=everything, **evenly("web", honors_taints=True))) is None
    assert room.place(pod("web-2", **evenly("web", honors_taints=True))) == "w1"


def test_a_cordon_is_a_taint_to_those_who_honour_taints():
    cordoned = replace(CONTROL_PLANE, taints=(), cordoned=True)
    room = SchedulerSimulation([cordoned, *nodes(w1="a")], [pod("web-0", on="w1")])
    assert room.place(pod("web-1", **evenly("web", honors_taints=True))) == "w1"
    assert room.place(pod("web-2", **evenly("web"))) is None


def test_a_node_that_the_affinity_rules_out_is_a_domain_if_affinity_is_ignored():
    there, only_a = [pod("web-0", on="w1")], {"node_selector": {ZONE_LABEL: "a"}}
    room = SchedulerSimulation(THREE, there)
    assert room.place(pod("web-1", **only_a, **evenly("web", honors_affinity=False))) is None
    assert room.place(pod("web-2", **only_a, **evenly("web"))) == "w1"


@pytest.mark.parametrize("asked_before", [False, True])
def test_a_leaving_node_pins_spread_pods_only_if_its_taints_are_ignored(asked_before):
    for honors, goes in ((True, True), (False, False)):
        spread = evenly("web", by=HOST_LABEL, honors_taints=honors)
        room = SchedulerSimulation(THREE, [pod(f"web-{name}", on=name, **spread) for name in ("w1", "w2", "w3")])
        if asked_before:
            assert room.why_not(pod("web-9", **spread), "w1") is None
        mark = room.mark()
        assert (room.try_drain("w3") is None) is goes
        room.roll_back(mark)
        assert room.why_not(pod("web-9", **spread), "w3") is None


def test_a_node_without_the_label_is_no_domain_and_takes_no_spread_pod():
    bare = NodeModel(name="w0", allocatable=ROOMY)
    room = SchedulerSimulation([bare, *THREE], [pod("web-0", on="w0")])
    assert room.place(pod("web-1", **evenly("web"))) == "w1"
    assert room.place(pod("web-2", **evenly("web"))) == "w3"


def test_fewer_domains_than_wanted_count_as_if_one_were_empty():
    room = SchedulerSimulation(THREE)
    replicas = [pod(f"web-{number}", **evenly("web", domains=3)) for number in range(3)]
    assert [room.place(each) for each in replicas] == ["w1", "w3", None]
    enough = SchedulerSimulation(THREE)
    replicas = [pod(f"web-{number}", **evenly("web", domains=2)) for number in range(3)]
    assert [enough.place(each) for each in replicas] == ["w1", "w3", "w1"]


def test_a_pod_that_its_own_selector_does_not_match_adds_nothing():
    there = [pod("web-0", on="w1")]
    assert SchedulerSimulation(THREE, there).place(pod("other", **evenly("web"))) == "w1"
    there.append(pod("web-1", on="w1"))
    assert SchedulerSimulation(THREE, there).place(pod("other", **evenly("web"))) == "w3"


def test_only_pods_of_its_own_namespace_that_stay_are_counted():
    there = [pod("web-0", on="w1", namespace="other"), pod("web-1", on="w1", deleted=True)]
    assert SchedulerSimulation(THREE, there).place(pod("web-2", **evenly("web"))) == "w1"


def test_two_constraints_must_both_hold():
    by_zone, by_host = evenly("web")["spread"], evenly("web", by=HOST_LABEL)["spread"]
    room = SchedulerSimulation(THREE)
    replicas = [pod(f"web-{number}", spread=by_zone + by_host) for number in range(5)]
    assert [room.place(each) for each in replicas] == ["w1", "w3", "w2", "w3", "w1"]


def test_a_new_node_opens_a_domain_until_it_is_taken_back():
    room = SchedulerSimulation(nodes(w1="a"), [pod("web-0", on="w1")])
    replica = pod("web-1", **evenly("web", by=HOST_LABEL))
    mark = room.mark()
    room.place(replica)
    room.add(*nodes(w2="a"))
    assert room.why_not(replica, "w1") is not None
    assert room.place(replica) == "w2"
    room.roll_back(mark)
    assert room.place(replica) == "w1"


def test_a_new_node_that_the_pod_does_not_want_opens_no_domain_and_leaves_without_a_trace():
    in_a = NodeTerm(labels=(Requirement(key=ZONE_LABEL, values=("a",)),))
    room = SchedulerSimulation(nodes(w1="a"), [pod("web-0", on="w1")])
    replicas = [pod(f"web-{number}", node_terms=(in_a,), **evenly("web")) for number in (1, 2)]
    assert room.place(replicas[0]) == "w1"
    mark = room.mark()
    room.add(*nodes(w9="b"))
    assert room.place(replicas[1]) == "w1"
    room.roll_back(mark)
    assert room.place(replicas[1]) == "w1"


def test_everything_counts_that_was_placed_before_anyone_asked():
    room = SchedulerSimulation(THREE)
    assert room.place(pod("web-0")) == "w1"
    assert room.place(pod("web-1", **away("web"))) == "w2"
    assert room.place(pod("web-2", **evenly("web"))) == "w3"
