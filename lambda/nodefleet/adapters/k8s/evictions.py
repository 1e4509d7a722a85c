"""Pods on their way out: evicted as their budgets allow, or deleted by force. Only the pod with this uid is meant.

The Eviction API speaks in codes that mean several things: 429 is a budget's refusal or a busy server, 403 a namespace
that is being deleted, a budget in disorder, or a missing permission, 409 another pod of that name or a mere race.
"""

from http import HTTPStatus

import msgspec

from nodefleet.adapters.k8s.calls import Answer, Api
from nodefleet.adapters.k8s.decoding import decoded
from nodefleet.adapters.k8s.refusals import Status, refusal, status_in
from nodefleet.adapters.k8s.resources import PODS
from nodefleet.adapters.k8s.shapes import Meta
from nodefleet.domain.operations import PodRef
from nodefleet.ports import Evicted, Eviction

_BUDGET_CAUSE = "DisruptionBudget"
_NAMESPACE_CAUSE = "NamespaceTerminating"
_BUDGET_KIND = "poddisruptionbudget"
_SEVERAL = "more than one PodDisruptionBudget"
_ADMISSION = ("admission webhook", "ValidatingAdmissionPolicy")  # how a rule of the cluster's own begins its refusal


class _Whose(msgspec.Struct):
    metadata: Meta


def evict(api: Api, pod: PodRef) -> Evicted:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    }
    request = PODS.create_under(pod.name, "eviction", body, pod.namespace)
    # A pod of that name with another uid would hold us up: the API server tries for ten seconds before it says so.
    if not _still_there(api, pod):
        return Evicted(result=Eviction.GONE)
    answer = api.ask(request)
    if answer.fine:
        return Evicted(result=Eviction.EVICTED)
    said = status_in(answer.body)
    result = _meant(answer, said)
    if result is None and answer.status == HTTPStatus.CONFLICT and not _still_there(api, pod):
        result = Eviction.GONE
    if result is None:
        raise refusal(request, answer.status, answer.body)
    return Evicted(result=result, detail=_words(said))


def delete_pod(api: Api, pod: PodRef) -> None:
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
    request = PODS.delete(pod.name, options, pod.namespace)
    answer = api.ask(request)
    if not answer.fine and answer.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
        raise refusal(request, answer.status, answer.body)


def _meant(answer: Answer, said: Status) -> Eviction | None:
    match answer.status:
        case HTTPStatus.NOT_FOUND:
            return Eviction.GONE
        case HTTPStatus.TOO_MANY_REQUESTS if said.cause(_BUDGET_CAUSE):
            return Eviction.REFUSED
        case HTTPStatus.FORBIDDEN if said.cause(_NAMESPACE_CAUSE):
            return Eviction.WAITS
        case HTTPStatus.FORBIDDEN if said.about.lower() == _BUDGET_KIND:
            return Eviction.REFUSED  # its figures are in disorder, and its controller mends them
        case HTTPStatus.INTERNAL_SERVER_ERROR if _SEVERAL in said.message:
            return Eviction.SEVERAL_BUDGETS
        case code if code in _CLIENT_ERRORS and any(word in said.message for word in _ADMISSION):
            return Eviction.REFUSED
        case _:
            return None


_CLIENT_ERRORS = range(400, 500)


def _still_there(api: Api, pod: PodRef) -> bool:
    """The very pod that was meant, not another one of its name."""
    request = PODS.get(pod.name, pod.namespace)
    answer = api.find(request)
    return answer is not None and decoded(request, answer.body, _Whose).metadata.uid == pod.uid


def _words(said: Status) -> str:
    """The budget's own words say more than the message above them."""
    cause = said.cause(_BUDGET_CAUSE)
    return (cause.message if cause else "") or said.message
