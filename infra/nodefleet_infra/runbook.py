"""The runbook: every alarm and every message that asks for something, with the first commands.

make runbook      writes docs/runbook.md; a test fails while the page says anything else, or an alarm is missing
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from nodefleet.model.alerts import CATALOGUE, Severity
from nodefleet.notifications.alarm_catalog import MEANINGS

PAGE = Path(__file__).parents[2] / "docs" / "runbook.md"

_INTRODUCTION = """\
# Runbook

Written by `make runbook` from the catalogues of alarms and messages, so none is missing. *What to do* is the sentence
that the message itself carries; an example of each message is in [messages.md](messages.md).

Before anything else:

```sh
nodefleet doctor          # what does not answer, and what to fix
nodefleet explain         # the last decision: what was seen, who overruled whom, why nodes stay
nodefleet commands        # is a pause or a size in force?
```

The cluster does not depend on the autoscaler: with all of it away, what runs goes on running. `nodefleet pause` takes
it out of the way; then min is restored and interruptions are handled, no more. Commands on the master go through
`aws ssm start-session --target "$MASTER"` ([how to find it](deploy.md#5-see-that-it-is-well)); log groups are
`/aws/lambda/<project>-<stack>-<function>`, here those of the stack `dev`."""

_GROWTH = ("nodefleet explain", "nodefleet commands")
_MASTER = ("sudo systemctl status k3s", "sudo journalctl -u k3s -n 100", "df -h /")
_INSTANCE = (
    "nodefleet explain NODE",
    "aws ec2 get-console-output --latest --instance-id INSTANCE --output text",
)
_PODS = ("kubectl describe pod POD", "nodefleet explain")
_NODE = ("nodefleet explain NODE", "kubectl describe node NODE")

# The first commands. NODE, POD and INSTANCE are named by the message.
ALARM_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "scaling-failures": ("nodefleet explain", "nodefleet doctor"),
    "cpu-high": _GROWTH,
    "memory-high": (*_GROWTH, "kubectl top pods -A --sort-by=memory"),
    "at-max": ("nodefleet explain", "kubectl get pods -A --field-selector=status.phase=Pending"),
    "join-failure": _INSTANCE,
    "no-invocation": (
        "aws scheduler list-schedules --name-prefix node-fleet",
        "aws logs tail /aws/lambda/node-fleet-dev-reconcile --since 30m",
    ),
    "dead-letters": (
        "aws sqs receive-message --queue-url QUEUE --max-number-of-messages 10",
        "aws logs tail /aws/lambda/node-fleet-dev-reconcile --since 3h",
    ),
    "api-server-unavailable": _MASTER,
    "master-disk": ("df -h /", "sudo du -xh --max-depth=2 --threshold=500M /var/lib", "sudo k3s crictl rmi --prune"),
    "snapshots-late": ("sudo k3s etcd-snapshot save --name now", "sudo journalctl -u node-fleet-keep -n 50"),
    "keeping-late": ("sudo journalctl -u node-fleet-keep -n 50",),
    "login-expiring": ("sudo node-fleet-server keep",),
    "updates-late": ("sudo node-fleet-server updates",),
    "reboot-due": ("sudo reboot",),
    "scrape-refused": ('curl -s -u "$(sudo node-fleet-server metrics-login)" localhost:9090/api/v1/targets',),
    "ec2-unavailable": ("nodefleet doctor", "aws ec2 describe-instances --max-items 1"),
    "master-status-check": ('aws ec2 describe-instance-status --instance-ids "$MASTER"',),
    "prometheus-unavailable": ("sudo k3s kubectl -n node-fleet get pods", "df -h /"),
    "near-time-limit": ("aws logs tail /aws/lambda/node-fleet-dev-reconcile --since 1h",),
    "throttles": ("aws lambda get-account-settings --query AccountLimit",),
    "runs-late": (
        "nodefleet clusters list --troubled",
        "aws lambda get-account-settings --query AccountLimit",
        "aws sqs get-queue-attributes --queue-url QUEUE --attribute-names All",
    ),
    "pool-saturated": _GROWTH,
    "queue-growing": _GROWTH,
    "latency-high": _GROWTH,
}
_EXPLAIN = ("nodefleet explain",)  # of a kind that is not listed here: the last decision says the most
ALERT_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "at-max": ("nodefleet explain", "nodefleet policy show"),
    "join-failed": _INSTANCE,
    "join-backoff": (*_INSTANCE, "nodefleet doctor"),
    "drain-blocked": (*_NODE, "kubectl get pdb -A"),
    "forced": ("kubectl get pods -A -o wide",),
    "no-capacity": ("nodefleet explain", "nodefleet policy show"),
    "quota": ("aws service-quotas list-service-quotas --service-code ec2",),
    "permission": ("nodefleet doctor",),
    "launch-invalid": ("nodefleet explain", "nodefleet deployment show"),
    "many-sick": ("kubectl get nodes", "nodefleet explain"),
    "sick": _NODE,
    "cannot-hold": _PODS,
    "pods-refused": _PODS,
    "scale-down-blocked": ("nodefleet explain", "nodefleet doctor"),
    "node-in-doubt": _NODE,
    "cleanup-needs-person": ("nodefleet explain", "aws ec2 describe-instances --instance-ids INSTANCE"),
    "degraded": ("nodefleet doctor",),
    "resting-cost": ("nodefleet explain", "aws ec2 describe-instances --instance-ids INSTANCE"),
    "rotation-blocked": ("nodefleet explain", "kubectl get pdb -A"),
    "failover": ("nodefleet commands", "nodefleet failover FROM TO --back"),
    "standby-blind": ("nodefleet decide", "nodefleet policy show"),
    "policy-refused": ("nodefleet policy check FILE", "nodefleet policy versions"),
    "policy-unusable": ("nodefleet policy versions", "nodefleet policy rollback NUMBER"),
    "alarm": ("nodefleet doctor",),
}
_URGENCY = {Severity.CRITICAL: "act now", Severity.WARNING: "in working hours"}


def page() -> str:
    return "\n\n".join((_INTRODUCTION, "## Alarms", *_alarms(), "## Messages", *_alerts(), *_silent())) + "\n"


def _alarms() -> Iterator[str]:
    yield (
        "From CloudWatch, or from Prometheus on the master: they come although the autoscaler itself may not work."
        " Critical ones come by e-mail too (`messages.emails`)."
    )
    for key, meaning in MEANINGS.items():
        yield _entry(key, meaning.says, meaning.todo, ALARM_COMMANDS[key])


def _alerts() -> Iterator[str]:
    yield "From the autoscaler, in Slack."
    for kind, spec in CATALOGUE.items():
        if spec.severity in _URGENCY:
            says = f"*{spec.headline}*, {_URGENCY[spec.severity]}."
            yield _entry(kind.value, says, spec.todo, ALERT_COMMANDS.get(kind.value, _EXPLAIN))


def _silent() -> Iterator[str]:
    kinds = ", ".join(f"`{kind.value}`" for kind, spec in CATALOGUE.items() if spec.severity not in _URGENCY)
    yield f"Nothing to do for these: {kinds}."


def _entry(key: str, says: str, todo: str, commands: tuple[str, ...]) -> str:
    shown = "\n".join(commands)
    return f"### {key}\n\n{says}\n\n**What to do:** {todo}\n\n```sh\n{shown}\n```"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
