"""What our alarms mean, and what to do about them.

An alarm's name contains one of these keys: `node-fleet-dev-no-invocation`, `shop-at-max-web`. The code that makes the
alarms takes the keys from here. Any other alarm is told by its own description.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

REMINDER = "reminder"  # how the name of an alarm ends that only says again, by e-mail, that another one goes on


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmText:
    says: str
    todo: str


MEANINGS: Mapping[str, AlarmText] = {
    "scaling-failures": AlarmText(
        says="Launches, joins or drains fail again and again.",
        todo="Look at the messages before this one: each failure says what would fix it.",
    ),
    "cpu-high": AlarmText(
        says="The workers' CPU is nearly used up.",
        todo="See whether nodes are being added. If not, look for at max, quota or capacity messages.",
    ),
    "memory-high": AlarmText(
        says="The workers' memory is nearly used up: pods may be killed.",
        todo="See whether nodes are being added. If not, look for at max, quota or capacity messages.",
    ),
    "at-max": AlarmText(
        says="The fleet has stood at its limit for a while and more is wanted.",
        todo="Raise `limits.max`, or find out what asks for so much.",
    ),
    "join-failure": AlarmText(
        says="A launched instance did not become a node.",
        todo="Look at its console output, the join token, and the way to the master.",
    ),
    "no-invocation": AlarmText(
        says=(
            "The schedule does not start the autoscaler: nothing grows, shrinks or heals by itself. "
            "What runs in the cluster goes on running."
        ),
        todo="Act now: look at the schedule, and at the reconcile function's errors and throttles.",
    ),
    "dead-letters": AlarmText(
        says="Something was tried several times and given up: it lies in the dead-letter queue.",
        todo="Read what lies there and the function's log of that time. Delete it when it is settled.",
    ),
    "api-server-unavailable": AlarmText(
        says=(
            "The Kubernetes API server does not answer: no node is added, drained or healed. "
            "Pods that run go on running."
        ),
        todo=(
            "Act now: look at the master (is the instance running, does K3s run, is its disk full?), its address and "
            "certificate, and the security group. See docs/deploy.md, The master."
        ),
    ),
    "master-disk": AlarmText(
        says="The master's disk is nearly full. When it is, etcd stops, and with it the API server.",
        todo=(
            "Act now: on the master `sudo du -xh --max-depth=2 --threshold=500M /var/lib` says what takes it. Raise "
            "`master.disk_gb`, or prune images with `sudo k3s crictl rmi --prune`."
        ),
    ),
    "snapshots-late": AlarmText(
        says=(
            "No snapshot of etcd has reached S3 for twice as long as there should be between two: a master that is "
            "lost now comes back as it was then."
        ),
        todo=(
            "On the master `sudo k3s etcd-snapshot save --name now` says what is wrong: its role, the bucket, the "
            "disk. See docs/deploy.md, The master."
        ),
    ),
    "keeping-late": AlarmText(
        says=(
            "The master's own timer fails: its login is not renewed, new manifests do not arrive, and no one looks "
            "after its snapshots."
        ),
        todo="On the master: `sudo journalctl -u node-fleet-keep -n 50`. The login lasts a day at most.",
    ),
    "login-expiring": AlarmText(
        says=(
            "The autoscaler's login to Kubernetes ends in a few hours and was not renewed. Without it no node is "
            "added, drained or healed."
        ),
        todo="Act now: on the master `sudo node-fleet-server keep` renews it, or says why it cannot.",
    ),
    "updates-late": AlarmText(
        says="The master's security updates fail or do not run.",
        todo="On the master `sudo node-fleet-server updates` installs them, or says why it cannot.",
    ),
    "reboot-due": AlarmText(
        says="The master has run for a week on a kernel whose security updates are installed and not in use.",
        todo=(
            "Start it again at a quiet hour: `sudo reboot`. Pods go on running; nothing is scheduled or scaled for "
            "some minutes. `master.updates: security-and-reboot` does it by itself."
        ),
    ),
    "scrape-refused": AlarmText(
        says="A pod asks to be scraped and has more series than one pod may have: none of its figures are read.",
        todo=(
            "`localhost:9090/api/v1/targets` on the master names it (sample limit exceeded). Let it export "
            "less, or take its annotation away."
        ),
    ),
    "ec2-unavailable": AlarmText(
        says="EC2 does not answer: no node is added or removed.",
        todo="Look at the AWS Health Dashboard, and at the role and the way out of the functions' subnets.",
    ),
    "master-status-check": AlarmText(
        says="EC2 finds the master broken: its host or its operating system fails the status checks.",
        todo="Act now: reboot it, or stop and start it. If that does not help, replace it: docs/deploy.md, The master.",
    ),
    "prometheus-unavailable": AlarmText(
        says="Prometheus does not answer: the fleet grows by pods and requests only, and does not shrink.",
        todo="Look at the Prometheus pod and at the master's disk and memory.",
    ),
    "near-time-limit": AlarmText(
        says="A run took nearly all of its time without a reason to.",
        todo="Look at which part answers slowly in the log: EC2, Kubernetes or Prometheus.",
    ),
    "throttles": AlarmText(
        says="AWS throttles the functions: runs start late or not at all.",
        todo="Look at what else uses up the account's Lambda concurrency.",
    ),
    "runs-late": AlarmText(
        says=(
            "Runs wait in the queue of all clusters for longer than they count: ticks are dropped, and clusters that "
            "are well are looked at late or not at all."
        ),
        todo=(
            "Act now: raise `autoscaler.fleet.max_concurrency`, or the account's concurrent executions if the "
            "functions are throttled. `nodefleet clusters list --troubled` names the clusters whose runs are slow; "
            "`nodefleet clusters pause` takes one out."
        ),
    ),
    "pool-saturated": AlarmText(
        says="A pool is nearly full.",
        todo="See whether nodes are being added. If not, look for at max, quota or capacity messages.",
    ),
    "queue-growing": AlarmText(
        says="A queue grows faster than it is worked off.",
        todo="See whether nodes are being added, and whether the workers make use of them.",
    ),
    "latency-high": AlarmText(
        says="Answers are much slower than the target.",
        todo="See whether nodes are being added. If they do not help, look at what the application waits for.",
    ),
}


def is_reminder(alarm: str) -> bool:
    """One of ours. The autoscaler itself reminds in Slack."""
    return alarm.endswith(f"-{REMINDER}") and alarm_text(alarm) is not None


def alarm_text(alarm: str) -> AlarmText | None:
    """By the longest key that stands in the name as a word of its own."""
    words = re.sub(r"[^a-z0-9]+", "-", alarm.lower())
    found = [key for key in MEANINGS if f"-{key}-" in f"-{words}-"]
    return MEANINGS[max(found, key=len)] if found else None
