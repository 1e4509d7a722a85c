"""A deployment that has been through everything that its functions do: the calls that they made, each in its role.

Nodes that never join are launched, marked and terminated; readings come from SQS and CloudWatch, and from a server that
wants a login; EC2 takes an instance; Slack is told, refuses, and is told again; the week is reported.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodefleet import settings
from nodefleet.adapters.dynamodb.records import deployment_item, operation_item
from nodefleet.handlers import report
from nodefleet.model.inventory import Market
from nodefleet.model.operations import Launch, Removal, RemovalReason
from nodefleet.model.snapshot import Deployment, LaunchTarget
from nodefleet.policy.loading import load
from nodefleet_infra.interfaces import ClusterArns, Facts, Place
from support.aws_calls import Call, Recorder
from support.deployed import POLICY, Deployed, cold, deployment, lukewarm
from support.deployed_site import IMAGE, Site, written
from support.ec2_fakes import REGION
from support.iam_requests import Template, World
from support.loopback_slack import Answer, loopback_slack

PLACE = Place(partition="aws", region=REGION, account="123456789012")  # moto's
GROUP, ROLE = "sg-workers", "workers"
QUEUE = f"https://sqs.{REGION}.amazonaws.com/{PLACE.account}/orders"
READINGS = {
    "waiting": {"kind": "sqs", "queue_url": QUEUE},
    "slow": {"kind": "cloud-watch", "namespace": "AWS/ApplicationELB", "metric": "TargetResponseTime"},
    "jobs": {"kind": "rabbitmq", "url": "http://127.0.0.1:1", "queue": "jobs", "secret": "rabbit"},  # nothing listens
}
RULES = [{"kind": "threshold", "name": name, "reading": name, "limit": 100} for name in READINGS]
HOOK = "node-fleet/hook"


@dataclass(frozen=True)
class Lived:
    calls: Sequence[Call]
    facts: Facts
    world: World
    clusters: tuple[str, str]

    def first(self, role: str, operation: str) -> Call:
        return next(call for call in self.calls if (call.role, call.operation) == (role, operation))


@contextmanager
def lived(recorder: Recorder, folder: Path) -> Iterator[Lived]:
    with pytest.MonkeyPatch.context() as patch, deployment(patch, folder, clusters=2) as made:
        patch.setenv(settings.SLACK, HOOK)
        lukewarm()
        shop, blog = made.sites.values()
        for site in (shop, blog):
            _deploy(made, site)
        made.declare(blog, {**POLICY, "readings": READINGS, "custom": RULES})
        made.put_secret(_login_of_rabbit(blog), {"username": "node-fleet", "password": "carrot"})
        recorder.take()
        _never_join(made, shop)
        _interrupted(made, blog)
        _kept_warm(made, shop, lambda: made.reconcile({"cluster": shop.name}))
        _kept_warm(made, blog, lambda: made.interruption(_stopping(made, min(blog.ids()))))
        _told(made, shop)
        report.handler({"cluster": shop.name}, made.context())
        calls = recorder.take()
        yield Lived(calls, _facts(made), _world(made), (shop.name, blog.name))


# ── what happens ─────────────────────────────────────────────────────────────────────────────────────────────────


def _never_join(made: Deployed, site: Site) -> None:
    for _ in range(4):
        made.reconcile({"cluster": site.name})
        made.clock.passes(seconds=400)
    made.reconcile({"cluster": site.name, "urgent": True})


def _interrupted(made: Deployed, site: Site) -> None:
    """It is the event's run that launches, marks and terminates."""
    made.reconcile({"cluster": site.name})
    cold()
    for _ in range(4):
        made.clock.passes(seconds=400)
        gone = min(site.ids())
        event = _stopping(made, gone)
        made.interruption(event)
    warned = {**event, "detail-type": "EC2 Spot Instance Interruption Warning", "time": written(made.clock())}
    made.interruption({**warned, "detail": {"instance-id": min(site.ids())}})


def _stopping(made: Deployed, instance: str) -> dict[str, Any]:
    return {
        "source": "aws.ec2",
        "detail-type": "EC2 Instance State-change Notification",
        "time": written(made.clock()),
        "detail": {"instance-id": instance, "state": "stopping"},
    }


def _kept_warm(made: Deployed, site: Site, run: Callable[[], object]) -> None:
    """A run carries on with a removal that keeps its instance, and then with a launch that starts it again."""
    kept, now = site.machine(), made.clock()
    common = {"pool": "default", "reason": "one node less", "started": now, "deadline": now + timedelta(hours=1)}
    leaves = Removal(id="kept", instance=kept, why=RemovalReason.VOLUNTARY, keeps=True, **common)
    made._write(operation_item(site.name, leaves))
    run()
    zone = min(site.subnets)
    comes = Launch(
        id="started",
        zone=zone,
        market=Market.ON_DEMAND,
        types=("t3.small",),
        count=1,
        template=site.template,
        template_version="1",
        subnet=site.subnets[zone],
        starts=(kept,),
        **common,
    )
    made._write(operation_item(site.name, comes))
    run()


def _told(made: Deployed, site: Site) -> None:
    alarm = {
        "AlarmName": "somebody-s-own",
        "NewStateValue": "ALARM",
        "OldStateValue": "OK",
        "StateChangeTime": made.clock().isoformat(),
    }
    with loopback_slack(Answer(status=500), Answer(status=500), Answer(status=500), Answer(status=500)) as slack:
        made.put_secret(HOOK, {"url": slack.hook.url})
        made.notify(made.stream(site.name))
        slack.answers.clear()
        made.notify(made.stream(site.name))
        made.notify({"Records": [{"EventSource": "aws:sns", "Sns": {"Message": json.dumps(alarm)}}]})
    assert slack.messages


def _deploy(made: Deployed, site: Site) -> None:
    """As the stack does: its Prometheus asks for no login."""
    deployed = Deployment(
        cluster=site.name,
        api_server=site.server.url,
        prometheus=site.prometheus.address,
        targets=(LaunchTarget(template=site.template, template_version="1", subnets=site.subnets),),
    )
    made._write(deployment_item(site.name, deployed))


# ── what IAM knows of it ─────────────────────────────────────────────────────────────────────────────────────────


def _arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{PLACE.region}:{PLACE.account}:{resource}"


def _secrets(made: Deployed) -> dict[str, str]:
    listed: list[dict[str, Any]] = made.client("secretsmanager").list_secrets(MaxResults=100)["SecretList"]
    return {secret["Name"]: secret["ARN"] for secret in listed}


def _login_of_rabbit(site: Site) -> str:
    return f"node-fleet/{site.name}/sources/rabbit"


def _facts(made: Deployed) -> Facts:
    secrets = _secrets(made)
    return Facts(
        place=PLACE,
        table=_arn("dynamodb", f"table/{made.table}"),
        stream=_arn("dynamodb", f"table/{made.table}/stream/1"),
        looks=f"arn:aws:s3:::{made.bucket}",
        slack_secret=secrets[HOOK],
        queues={},
        events=_arn("sqs", "node-fleet-dev-ec2-events"),
        log_groups={
            name: _arn("logs", f"log-group:{name}") for name in ("reconcile", "interruption", "notify", "report")
        },
        clusters=tuple(
            ClusterArns(
                cluster=site.name,
                api_secret=secrets[f"node-fleet/{site.name}/kubernetes"],
                templates=(_arn("ec2", f"launch-template/{site.template}"),),
                worker_role=f"arn:aws:iam::{PLACE.account}:role/{ROLE}",
                subnets=tuple(_arn("ec2", f"subnet/{subnet}") for subnet in site.subnets.values()),
                groups=(_arn("ec2", f"security-group/{GROUP}"),),
                types=tuple(name for pool in load(POLICY).policy.pools for name in pool.market.types),
                disk_gb=20,
                queues=(_arn("sqs", "orders"),),
                metrics=True,
                source_secrets=tuple(arn for name, arn in secrets.items() if name == _login_of_rabbit(site)),
            )
            for site in made.sites.values()
        ),
    )


def _world(made: Deployed) -> World:
    pages = made.client("ec2").get_paginator("describe_instances").paginate()
    found = [machine for page in pages for each in page["Reservations"] for machine in each["Instances"]]
    tags = {machine["InstanceId"]: {tag["Key"]: tag["Value"] for tag in machine["Tags"]} for machine in found}
    templates = {site.template: Template(image=IMAGE, groups=(GROUP,), role=ROLE) for site in made.sites.values()}
    return World(place=PLACE, templates=templates, instances=tags, secrets=_secrets(made))
