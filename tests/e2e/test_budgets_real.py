"""Our arithmetic of disruption budgets against the cluster's own controller, and against its Eviction API.

Each case has a namespace of its own, with real controllers and pods on nodes that KWOK keeps; all are set up at once.
Compared is what we work out ourselves from the pods that we see, without the figures that the cluster has written
down. Where we cannot know a controller's scale we have to say so, and go by the cluster's figure.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.budgets.cases import EVICTED, Case, Kind, Workload, all_cases
from e2e.budgets.objects import template
from e2e.budgets.staging import Counted, Outcome, Stage, counted, stage, until
from e2e.parts.running import running
from nodefleet.adapters.kubernetes.resources import BUDGETS, NAMESPACES, PODS, Resource
from nodefleet.eviction.budgets import BudgetTracker, EvictionPermitted, EvictionRefusal, EvictionRefused
from nodefleet.model.workload import BudgetStatus, PodPhase
from support.builders import allowance

SEEDS = 110
CASES = all_cases(SEEDS)
# No cluster would say so: whoever has figures of his own says less.
TOO_GOOD = BudgetStatus(disruptions_allowed=10**6, current_healthy=10**6, desired_healthy=0, expected_pods=10**6)
WENT, REFUSED, SEVERAL = 201, 429, 500
ANSWERS = {EvictionRefusal.NONE_LEFT: REFUSED, EvictionRefusal.SEVERAL_BUDGETS: SEVERAL}
LIMITS = ("minAvailable", "maxUnavailable")
WEB = {"app": "web"}


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A cluster of its own: hundreds of pods are in nobody's way, and need not be cleared away."""
    parts = running("controller-manager", "scheduler", "kwok", folder=tmp_path_factory.mktemp("budgets"))
    with parts as cluster, stage(str(cluster.kubeconfig)) as found:
        found.admin.do(DEFINITIONS.create(WIDGET_DEFINITION))  # controllers learn of it within half a minute
        yield found


@pytest.fixture(scope="module")
def outcomes(staged: Stage) -> dict[str, Outcome]:
    return staged.play(CASES)


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def outcome(request: pytest.FixtureRequest, outcomes: dict[str, Outcome]) -> Outcome:
    case: Case = request.param
    return outcomes[case.name]


def is_known(counted: Counted, outcome: Outcome) -> bool:
    """We have figures of our own for this budget."""
    return allowance(replace(counted.budget, status=TOO_GOOD), outcome.pods) != TOO_GOOD


def our_own(outcome: Outcome) -> BudgetTracker:
    """What we make of the pods alone."""
    return BudgetTracker([replace(each.budget, status=None) for each in outcome.budgets], outcome.pods)


def gone_by(outcome: Outcome) -> BudgetTracker:
    """What decisions go by."""
    return BudgetTracker([each.budget for each in outcome.budgets], outcome.pods)


# ── all cases ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_we_work_out_is_what_the_controller_says(outcome: Outcome) -> None:
    assert len(outcome.budgets) == len(outcome.case.budgets)
    for each in outcome.budgets:
        if is_known(each, outcome):
            assert not each.failed
            assert our_own(outcome).status(each.budget) == each.figures


def test_what_we_go_by_allows_as_much_as_the_controller(outcome: Outcome) -> None:
    for each in outcome.budgets:
        assert gone_by(outcome).status(each.budget).disruptions_allowed == each.figures.disruptions_allowed


def test_a_pod_may_go_if_the_eviction_api_lets_it(outcome: Outcome) -> None:
    verdicts = {pod.key: gone_by(outcome).verdict(pod) for pod in outcome.pods}
    ours = {key: WENT if isinstance(each, EvictionPermitted) else ANSWERS[each.why] for key, each in verdicts.items()}
    assert ours == outcome.answers


def test_what_we_cannot_know_is_said_and_by_itself_allows_nothing(outcome: Outcome) -> None:
    unknown = {each.budget.key for each in outcome.budgets if not is_known(each, outcome)}
    for pod in outcome.pods:
        verdict = our_own(outcome).verdict(pod)
        if (
            isinstance(verdict, EvictionRefused)
            and verdict.budgets[0] in unknown
            and verdict.why is EvictionRefusal.NONE_LEFT
        ):
            assert verdict.sentence.endswith("is not known")
        assert not (isinstance(verdict, EvictionPermitted) and verdict.budget in unknown)


AT_LEAST: dict[str | int, int] = {
    **dict.fromkeys((kind.value for kind in Kind), 5),
    **dict.fromkeys((f"{field} as {form}" for field in LIMITS for form in ("int", "str")), 20),
    **dict.fromkeys(("pods", "known"), 100),
    **dict.fromkeys(("going", "not ready", REFUSED), 50),
    **dict.fromkeys(("allows some", "allows none"), 35),
    **dict.fromkeys(("finished", SEVERAL), 20),
    **dict.fromkeys(("unknown",), 5),
    WENT: 200,
}


def test_there_are_enough_cases_of_each_sort(outcomes: dict[str, Outcome]) -> None:
    seen: Counter[str | int] = Counter()
    for outcome in outcomes.values():
        case, pods = outcome.case, outcome.pods
        seen.update(each.kind.value for each in case.workloads)
        seen.update(f"{field} as {type(size).__name__}" for each in case.budgets for field, size in each.limit.items())
        seen.update(outcome.answers.values())
        seen["pods"] += len(pods)
        seen["going"] += sum(pod.deleted_at is not None for pod in pods)
        seen["not ready"] += sum(pod.phase is PodPhase.RUNNING and not pod.ready for pod in pods)
        seen["finished"] += sum(pod.finished for pod in pods)
        seen.update("known" if is_known(each, outcome) else "unknown" for each in outcome.budgets)
        seen.update(f"allows {'some' if each.figures.disruptions_allowed else 'none'}" for each in outcome.budgets)
    assert {sort: seen[sort] for sort, least in AT_LEAST.items() if seen[sort] < least} == {}


# ── what only the cluster knows ──────────────────────────────────────────────────────────────────────────────────


def test_an_eviction_whose_pod_is_still_there_is_in_the_clusters_figure_only(
    staged: Stage, outcomes: dict[str, Outcome]
) -> None:
    """The Eviction API writes the pod's name into the budget before it deletes the pod. We do not read those names."""
    before = outcomes[EVICTED.name]
    assert before.budgets[0].figures.disruptions_allowed == 2
    key = before.budgets[0].budget.key
    path = f"/apis/policy/v1/namespaces/{EVICTED.name}/poddisruptionbudgets/{before.budgets[0].budget.name}"
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    staged.admin.set_status(path, {"disruptedPods": {before.pods[0].name: now}})
    until(lambda: staged.counted()[key]["status"]["currentHealthy"] == 3, "the controller no longer counts it")
    (after,) = staged.outcomes([EVICTED])
    assert after.budgets[0].figures.disruptions_allowed == 1
    assert gone_by(after).status(after.budgets[0].budget) == after.budgets[0].figures
    assert our_own(after).status(after.budgets[0].budget).disruptions_allowed == 2


DEFINITIONS = Resource(group="apiextensions.k8s.io", plural="customresourcedefinitions")
WIDGETS = Resource(group="fleet.test", plural="widgets")
_SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
_ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
WIDGET_DEFINITION: dict[str, Any] = {
    "metadata": {"name": "widgets.fleet.test"},
    "spec": {
        "group": "fleet.test",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": _ANYTHING, "subresources": {"scale": _SCALE}}
        ],
    },
}


def test_the_scale_of_a_custom_resource_is_known_to_the_cluster_only(staged: Stage) -> None:
    admin, namespace = staged.admin, "custom-resource"
    admin.do(NAMESPACES.create({"metadata": {"name": namespace}}))
    kind = {"apiVersion": "fleet.test/v1", "kind": "Widget"}
    widget = admin.do(WIDGETS.create({**kind, "metadata": {"name": "w"}, "spec": {"replicas": 4}}, namespace))
    owner = {**kind, "name": "w", "uid": widget["metadata"]["uid"], "controller": True}
    for number in range(4):
        pod = template(Workload(name="w", kind=Kind.BARE, replicas=4, labels=WEB))
        pod["metadata"] |= {"name": f"w-{number}", "ownerReferences": [owner]}
        admin.do(PODS.create(pod, namespace))
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": WEB}}
    admin.do(BUDGETS.create({"metadata": {"name": "b"}, "spec": spec}, namespace))

    def allowed() -> int:
        """Touched each time: after a failure the controller does not try again by itself."""
        admin.do(BUDGETS.patch("b", {"metadata": {"annotations": {"touched": str(datetime.now(UTC))}}}, namespace))
        return int(admin.do(BUDGETS.get("b", namespace))["status"]["disruptionsAllowed"])

    until(lambda: allowed() == 1, "the controller finds the scale of a Widget")
    view = staged.cluster.view()
    (budget,) = (each for each in view.budgets if each.namespace == namespace)
    pods = [pod for pod in view.pods or () if pod.namespace == namespace]
    assert allowance(budget, pods) == counted(budget, admin.do(BUDGETS.get("b", namespace))).figures
    refused = BudgetTracker([replace(budget, status=None)], pods).verdict(pods[0])
    assert isinstance(refused, EvictionRefused)
    assert refused.sentence == (
        f"budget {namespace}/b allows 0 disruptions: the scale of Widget w, which owns pod {pods[0].key}, is not known"
    )
