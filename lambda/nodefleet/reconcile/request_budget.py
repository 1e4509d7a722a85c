"""Requests to EC2 within the deployment's budget: counted before they are sent, and waited for when it is used up.

observed                                        action
the budget has a request left                   taken, and the request is sent
used up, and one comes back within `longest`    waits so long inside the run
used up for longer                              not sent: says so, and the next iteration tries again
EC2 answers RequestLimitExceeded                the budget counts as used up: every cluster waits for it to refill
the budget's own record cannot be read          sent: a broken budget must not stop a fleet from healing
"""

from datetime import timedelta

from nodefleet.errors import NodeFleetError, ThrottledError
from nodefleet.model.request_budget import BucketRules, RequestKind
from nodefleet.policy.cluster import Requests
from nodefleet.ports import Runtime


class OverBudgetError(ThrottledError):
    """The deployment's own budget is used up. Nothing was sent to EC2."""


def rules_for(kind: RequestKind, requests: Requests) -> BucketRules:
    if kind is RequestKind.DESCRIBE:
        return BucketRules(size=requests.describe_size, per_second=requests.describe_per_second)
    return BucketRules(size=requests.change_size, per_second=requests.change_per_second)


def reserve_request(runtime: Runtime, kind: RequestKind, requests: Requests) -> None:
    """Count one request. Waits for the budget if that is short; raises OverBudgetError otherwise."""
    if runtime.requests is None:
        return
    left = requests.longest
    while True:
        try:
            wait = runtime.requests.take(kind, rules_for(kind, requests), runtime.time.now())
        except NodeFleetError as error:
            runtime.telemetry.warn(f"The request budget cannot be read, the request is sent: {error}")
            return
        if not wait:
            return
        if wait > left:
            more = f"{wait.total_seconds():.1f} s more"
            raise OverBudgetError("EC2", f"the deployment's own budget of {kind.value} requests is used up for {more}")
        runtime.time.sleep(wait)
        left -= max(wait, timedelta(milliseconds=1))


def note_throttling(runtime: Runtime, kind: RequestKind, error: Exception | None) -> None:
    """EC2 itself refused: nobody of this deployment asks again before the budget has refilled."""
    refused = isinstance(error, ThrottledError) and error.part == "EC2" and not isinstance(error, OverBudgetError)
    if runtime.requests is None or not refused:
        return
    try:
        runtime.requests.drain(kind, runtime.time.now())
    except NodeFleetError as problem:
        runtime.telemetry.warn(f"The request budget cannot be written: {problem}")
