"""One pod: where it runs, or why it waits and what will happen.

The answer comes from the engine itself: it decides on the cluster as it is now, and on the same cluster where this pod
is the only one that waits. Nothing is written.
"""

from dataclasses import dataclass, replace

from rich.text import Text

from nodefleet.engine.decide import decide
from nodefleet.model.decision import Action, Decision
from nodefleet.model.operations import Create, Launch, SendAlert
from nodefleet.model.snapshot import ClusterView, Observation
from nodefleet.model.workload import Pod
from nodefleet_tools.cli.connections import Connection
from nodefleet_tools.cli.outcome import Status, fail, print_json
from nodefleet_tools.cli.plan_words import sentence
from nodefleet_tools.cli.show_record import page_console
from nodefleet_tools.dashboard.seen import Seen, observe_cluster
from nodefleet_tools.dashboard.source import runtime_of
from nodefleet_tools.durations import lasting


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStory:
    pod: str
    state: str  # running, pending, gated, starting, finished
    node: str
    scheduler: str  # its own words
    why: tuple[str, ...]
    will: tuple[str, ...]


def explain_pod(connection: Connection, name: str, *, as_json: bool) -> bool:
    """Whether there is such a pod; if so it has been explained."""
    seen = observe_cluster(runtime_of(connection))
    view = seen.observation.kubernetes
    if not isinstance(view, ClusterView):
        asked = "No recent decision, operation or event names a node of that name, and pods cannot be asked for"
        fail(connection.redact(f"{asked}: {view.cause}. See that KUBECONFIG's server can be reached"), Status.FAILED)
    found = [pod for pod in view.pods or () if name in (pod.key, pod.name)]
    if len(found) > 1:
        fail(f"several pods are called {name}: {', '.join(pod.key for pod in found)}", Status.REFUSED)
    for pod in found:
        story = story_of_pod(pod, seen)
        if as_json:
            print_json({each: getattr(story, each) for each in PodStory.__slots__})
        else:
            _show(story)
    return bool(found)


def story_of_pod(pod: Pod, seen: Seen) -> PodStory:
    state = _state(pod)
    why: list[str] = []
    will: list[str] = []
    if pod.unschedulable_since is not None:
        why.append(f"no node has had room for it for {lasting(seen.at - pod.unschedulable_since)}")
        will += _future(pod, seen)
    elif pod.gated:
        why.append(
            "it has scheduling gates: the controller that set them removes them, and no node is launched for it before"
        )
    elif state == "starting":
        why.append(f"it is on {pod.node} and starts: its image is pulled, or its containers are not ready yet")
    return PodStory(
        pod=pod.key,
        state=state,
        node=pod.node or "",
        scheduler=pod.unschedulable_message,
        why=tuple(why),
        will=tuple(will),
    )


def _state(pod: Pod) -> str:
    if pod.finished:
        return "finished"
    if pod.node:
        return "running" if pod.ready else "starting"
    return "gated" if pod.gated else "pending"


def _future(pod: Pod, seen: Seen) -> list[str]:
    memory, policy = seen.state.journal.memory, seen.policy
    now = decide(seen.observation, memory, policy)
    alone = decide(_without_others(seen.observation, pod), memory, policy)
    said = [each.text for each in _alerts(now) if pod.key in each.text or pod.key in each.subjects]
    launches = [sentence(step) for step in _launches(now)]
    pending = [each for each in seen.state.operations if isinstance(each, Launch)]
    if launches:
        return [f"the next run will {each}" for each in launches] + said
    if pending and not _launches(alone):
        count = sum(each.count for each in pending)
        return [f"{count} node(s) that were launched are booting; it is expected to fit there", *said]
    held = [f"pool {each.pool}: {each.reason}" for each in now.pools if each.action is not Action.GROW]
    if _launches(alone):
        return [*(f"alone it would have the next run {sentence(step)}" for step in _launches(alone)), *held, *said]
    return [*(said or ["no node is launched for it"]), *held]


def _launches(decision: Decision) -> list[Create]:
    steps = [step for pool in decision.pools for step in pool.plan]
    return [step for step in steps if isinstance(step, Create) and isinstance(step.operation, Launch)]


def _alerts(decision: Decision) -> list[SendAlert]:
    steps = [*decision.tells, *(step for pool in decision.pools for step in pool.plan)]
    return [step for step in steps if isinstance(step, SendAlert)]


def _without_others(observation: Observation, pod: Pod) -> Observation:
    """The same cluster, in which no other pod waits."""
    view = observation.kubernetes
    if not isinstance(view, ClusterView):
        return observation
    kept = tuple(each for each in view.pods or () if each.unschedulable_since is None or each.key == pod.key)
    return replace(observation, kubernetes=replace(view, pods=kept))


def _show(story: PodStory) -> None:
    console = page_console()
    where = f" on {story.node}" if story.node else ""
    console.print(Text.assemble((f"{story.pod}: ", "bold"), f"{story.state}{where}"))
    for heading, lines in (("why", story.why), ("scheduler", filter(None, (story.scheduler,))), ("next", story.will)):
        for each in lines:
            console.print(Text(f"  {heading}: {each}"))
