"""One example of each message, as docs/messages.md shows it. The texts are as decide/, operations/ and loop/ say."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from nodefleet.adapters.slack.sheets import Links
from nodefleet.domain.events import Event, EventKind
from nodefleet.domain.memory import Level
from nodefleet.notifying.folding import Form, Letter
from nodefleet.notifying.news import Alarm, AlarmState, News, Told

AT = datetime(2026, 11, 16, 3, 12, 5, tzinfo=UTC)
LINKS = Links(
    dashboard="https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#dashboards/dashboard/shop",
    logs="https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#logsV2:log-groups",
)


def event(kind: EventKind = EventKind.SCALE_UP, text: str = "Growing 3 → 4", **changes: object) -> Event:
    values: dict = {"id": kind.value, "at": AT, "cluster": "shop", "pool": "default", "kind": kind, "text": text}
    return Event(**{**values, **changes})


def alarm(name: str = "node-fleet-prod-no-invocation", **changes: object) -> Alarm:
    values: dict = {
        "id": f"alarm-{name}",
        "at": AT,
        "cluster": "shop",
        "name": name,
        "state": AlarmState.ALARM,
        "reason": "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoint was treated as"
        " [Breaching].",
        "rule": "Sum of AutoscalerInvocations < 1 within 10 min",
        "console": "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#alarmsV2:alarm/" + name,
    }
    return Alarm(**{**values, **changes})


def news(*told: Told) -> tuple[News, ...]:
    return tuple(News(receipt=f"r-{each.id}", told=each) for each in told)


def single(told: Told) -> Letter:
    return Letter(form=Form.SINGLE, news=news(told))


def several(form: Form, *told: Told) -> Letter:
    return Letter(form=form, news=news(*told))


def later(minutes: float) -> datetime:
    return AT + timedelta(minutes=minutes)


OF_A_KIND: Mapping[EventKind, Event] = {
    each.kind: each
    for each in (
        event(
            EventKind.SCALE_UP,
            "Growing 3 → 4: CPU 85.0 % > 70 %, 2 of 2 readings",
            nodes=4,
            change=1,
            usd_per_day=0.4992,
            details=(
                "cpu: floor, CPU 85.0 % > 70 %, 2 of 2 readings",
                "memory: quiet, memory 58.0 % ≤ 75 %",
                "pods: quiet, no pod waits for a node",
            ),
        ),
        event(
            EventKind.SCALE_DOWN,
            "ip-10-0-2-17 was drained and removed. Shrinking 4 → 3: CPU 21.0 % < 30 % and memory 38.0 % < 50 %,"
            " 5 of 5 readings; ip-10-0-2-17 leaves",
            change=-1,
            usd_per_day=-0.1512,
        ),
        event(
            EventKind.AT_MAX,
            "At max: 6 unschedulable pods need 2 more nodes (asks for 12), but max is 10."
            " Consider a higher limits.max.",
        ),
        event(
            EventKind.JOIN_FAILED,
            "i-0b7d4f5a1c2e3d4f5 in us-east-1a did not join within 300 s. It is marked: look at its console output and"
            " the K3s agent's log",
        ),
        event(
            EventKind.JOIN_BACKOFF,
            "Failed joins without a success: 2. From now on one probe at a time, 60 s apart. Look at the console output"
            " of a failed one, the join token, and the way to the master",
        ),
        event(
            EventKind.DRAIN_BLOCKED,
            "ip-10-0-1-40 could not be drained: budget shop/web allows no disruption (2 of 2 pods are needed), so pod"
            " shop/web-6d9f is still there after 300 s. It takes pods again. Give the workload one more replica, or let"
            " the budget allow a disruption",
        ),
        event(
            EventKind.FORCED,
            "EC2 takes ip-10-0-2-17 at 03:14:05: 2 pods are deleted by force, first shop/checkout-7c5d",
        ),
        event(
            EventKind.INTERRUPTED,
            "ip-10-0-2-17 (us-east-1b): EC2 takes it: spot-interruption at 03:12:05. It is drained now and replaced.",
        ),
        event(
            EventKind.NO_CAPACITY,
            "EC2 gave 0 of 2 spot nodes in us-east-1a: no capacity for t3.small, t3a.small"
            " (InsufficientInstanceCapacity). If it stays so, give the pool more types or zones",
        ),
        event(
            EventKind.QUOTA,
            "EC2 gave 1 of 3 on-demand nodes in us-east-1a: the account's quota is reached for t3.small"
            " (VcpuLimitExceeded). Ask AWS for a higher quota, or lower limits.max",
        ),
        event(
            EventKind.PERMISSION,
            "EC2 gave 0 of 1 spot nodes in us-east-1a: the autoscaler may not launch t3.small (UnauthorizedOperation)."
            " Mend the autoscaler's role; `nodefleet doctor` names what it lacks",
        ),
        event(
            EventKind.LAUNCH_INVALID,
            "EC2 gave 0 of 1 on-demand nodes in us-east-1b: the request is invalid for t3.small"
            " (InvalidSubnetID.NotFound). Look at the launch template, its subnet and the pool's types",
        ),
        event(
            EventKind.MANY_SICK,
            "3 of 6 workers are not ready (ip-10-0-1-40, ip-10-0-1-77, ip-10-0-2-17). None is replaced: look at the"
            " master and the network first.",
        ),
        event(EventKind.SICK, "ip-10-0-1-77 is not ready for 300 s or more; it is removed."),
        event(
            EventKind.CANNOT_HOLD,
            "1 pods fit on no node that could be launched; ml/train-0: it asks for 16 CPUs, the largest type has 2."
            " Change them or the pool.",
        ),
        event(
            EventKind.NO_BENEFIT,
            "latency: p95 1,900 ms > 500 ms was given 2 nodes and read 1,950 ms after them: it has no vote until it"
            " clears",
        ),
        event(
            EventKind.CLEANUP_NEEDS_PERSON,
            "4 workers look left behind (i-0a1, i-0a2, i-0a3, i-0a4), more than the 1 that are cleaned up unasked."
            " Look at them and remove them by hand.",
        ),
        event(
            EventKind.DEGRADED,
            "Level degraded: CPU unknown: Prometheus did not answer within 5 s. Nothing is removed until it is back.",
            pool="",
            level=Level.DEGRADED,
        ),
        event(
            EventKind.RECOVERED,
            "Everything is readable again; shrinking waits a while.",
            pool="",
            level=Level.RECOVERY,
        ),
        event(
            EventKind.READMITTED,
            "A person uncordoned ip-10-0-1-40 while it was drained (CPU 21.0 % < 30 %): it stays",
        ),
        event(EventKind.PAUSED, "Paused by anna until 2026-11-16 06:00: database migration", pool=""),
        event(EventKind.RESUMED, "Resumed by anna", pool=""),
        event(EventKind.SCALED_BY_PERSON, "anna wants 8 nodes until 2026-11-16 05:12: load test"),
        event(EventKind.POLICY_CHANGED, "Policy version 7, declared by the stack, is in force.", pool=""),
        event(
            EventKind.POLICY_REFUSED,
            "Refused: the policy that the stack declares. pools[0].limits.min is above max: make it at most 10 (and 1"
            " more). The last good policy stays in force. Check the file with `nodefleet policy check`.",
            pool="",
        ),
        event(
            EventKind.POLICY_UNUSABLE,
            "The fleet is held: this release refuses policy version 7, which is in force. limits.most is an unknown"
            " key: did you mean max. Nothing is removed and nothing grows beyond min. Check a file with `nodefleet"
            " policy check FILE` and put it in force with `nodefleet policy apply FILE`.",
            pool="",
        ),
        event(EventKind.ALARM, "An alarm that was recorded by somebody else", pool=""),
        event(
            EventKind.REPORT,
            "9–15 November: 612 node-hours for $8.42, $9.05 (52 %) less than a fixed fleet as large as the peak."
            " 1 recommendation, worth about $4.10 a month.",
            pool="",
            details=(
                "Watched: all 168 h",
                "Nodes: 2 to 7, 3.6 on average",
                "Spot: 68 % of the node-hours, 2 interruptions",
                "Failures: drains that were blocked: 3",
                "Recommendation 1: take t3a.small first: it costs 10 % less and was always to be had",
            ),
        ),
    )
}

SPECIAL: Mapping[str, Letter] = {
    "alarm": single(alarm()),
    "alarm over": single(
        alarm(
            state=AlarmState.OK,
            reason="Threshold Crossed: 1 datapoint [5.0 (16/11/26 03:20:00)] was not less than the threshold (1.0).",
            at=later(14),
        )
    ),
    "an alarm of Prometheus": single(
        alarm(
            "node-fleet-prod-shop-web-0-queue-growing",
            pool="web",
            source="Prometheus",
            reason="growth of orders in a second: 31.4",
            rule="growth of orders in a second > 5 within 2 min",
            console="",
        )
    ),
    "an alarm of your own": single(
        alarm(
            "checkout-errors",
            cluster="",
            description="More than 2 % of the checkouts fail. Runbook: https://wiki.example.com/checkout",
            reason="Threshold Crossed: 2 out of the last 2 datapoints [3.1 (16/11/26 03:10:00), 2.7 (16/11/26"
            " 03:05:00)] were greater than the threshold (2.0).",
            rule="Average of CheckoutErrors > 2 within 10 min",
        )
    ),
    "dry run": single(
        event(
            EventKind.SCALE_DOWN,
            "Shrinking 4 → 3: CPU 21.0 % < 30 % and memory 38.0 % < 50 %, 5 of 5 readings; ip-10-0-2-17 leaves",
            nodes=3,
            change=-1,
            dry=True,
        )
    ),
    "many of a kind": several(
        Form.MANY,
        *(
            event(
                EventKind.JOIN_FAILED,
                f"i-0b{number} in us-east-1a did not join within 300 s. It is marked: look at its console output"
                " and the K3s agent's log",
                id=f"join-{number}",
                at=later(number / 10),
            )
            for number in range(1, 6)
        ),
    ),
    "much at once": several(
        Form.MIXED,
        *(event(EventKind.SCALE_UP, id=f"up-{number}", at=later(number / 10)) for number in range(3)),
        *(event(EventKind.NO_CAPACITY, id=f"capacity-{number}", at=later(number / 10)) for number in range(3, 8)),
    ),
    "older events": several(
        Form.OLD,
        *(event(EventKind.SCALE_UP, id=f"old-{number}", at=later(number)) for number in range(4)),
        event(
            EventKind.INTERRUPTED,
            "ip-10-0-2-17 (us-east-1b): EC2 takes it: spot-interruption at 03:40:00. It is drained now and replaced.",
            at=later(28),
        ),
    ),
}
