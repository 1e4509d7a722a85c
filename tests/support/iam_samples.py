"""Facts of a made-up stack, and what its roles are granted."""

from dataclasses import replace
from functools import cache

from nodefleet_infra import iam
from nodefleet_infra.interfaces import ClusterArns, Facts, Place
from nodefleet_infra.statements import Statement

PLACE = Place(partition="aws", region="eu-west-1", account="123456789012")
_AT = f"{PLACE.region}:{PLACE.account}"
FUNCTIONS = tuple(iam.FUNCTIONS)


def ec2(resource: str) -> str:
    return f"arn:aws:ec2:{_AT}:{resource}"


def cluster(
    name: str = "dev-shop", *, pools: int = 1, queues: tuple[str, ...] = (), metrics: bool = False
) -> ClusterArns:
    return ClusterArns(
        cluster=name,
        api_secret=f"arn:aws:secretsmanager:{_AT}:secret:node-fleet-dev/{name}/kubernetes-AbCdEf",
        templates=tuple(ec2(f"launch-template/lt-{name}-{pool}") for pool in range(pools)),
        worker_role=f"arn:aws:iam::{PLACE.account}:role/node-fleet-dev-{name}-worker",
        subnets=(ec2("subnet/subnet-a"), ec2("subnet/subnet-b")),
        groups=(ec2(f"security-group/sg-{name}"),),
        types=("t3.small", "t3a.small"),
        disk_gb=20,
        queues=queues,
        metrics=metrics,
    )


def facts(*clusters: ClusterArns) -> Facts:
    return Facts(
        place=PLACE,
        table=f"arn:aws:dynamodb:{_AT}:table/node-fleet-dev",
        stream=f"arn:aws:dynamodb:{_AT}:table/node-fleet-dev/stream/2026-11-16T00:00:00.000",
        looks="arn:aws:s3:::node-fleet-dev-looks",
        slack_secret=f"arn:aws:secretsmanager:{_AT}:secret:node-fleet-dev/slack-AbCdEf",
        queues=dict.fromkeys(FUNCTIONS, f"arn:aws:sqs:{_AT}:node-fleet-dev-failed-runs"),
        events=f"arn:aws:sqs:{_AT}:node-fleet-dev-ec2-events",
        log_groups={name: f"arn:aws:logs:{_AT}:log-group:/aws/lambda/node-fleet-dev-{name}" for name in FUNCTIONS},
        clusters=clusters or (cluster(),),
    )


def reading_everything() -> Facts:
    """With a policy that reads a queue and CloudWatch."""
    return facts(cluster(queues=(f"arn:aws:sqs:{_AT}:jobs",), metrics=True))


def function_arn(name: str) -> str:
    return f"arn:aws:lambda:{_AT}:function:node-fleet-dev-{name}"


_SECRET = f"arn:aws:secretsmanager:{_AT}:secret:node-fleet-dev/dev-shop"
PLAIN_MASTER = iam.MasterArns(
    place=PLACE,
    cluster="dev-shop",
    api_secret=f"{_SECRET}/kubernetes-AbCdEf",
    agent_token=f"{_SECRET}/agent-token-AbCdEf",
    server_token=f"{_SECRET}/server-token-AbCdEf",
    backups="arn:aws:s3:::node-fleet-dev-backups",
    manifests="manifests/dev-shop",
    programs="server/dev-shop",
    wake_topic=f"arn:aws:sns:{_AT}:node-fleet-dev-wake",
)
BUSY_MASTER = replace(  # Prometheus watches readings, Grafana shows CloudWatch
    PLAIN_MASTER,
    warning_topic=f"arn:aws:sns:{_AT}:node-fleet-dev-warning",
    critical_topic=f"arn:aws:sns:{_AT}:node-fleet-dev-critical",
    warning_key=f"arn:aws:kms:{_AT}:key/0f8fad5b-d9cb-469f-a165-70867728950e",
    reads_metrics=True,
)


def machines() -> dict[str, tuple[Statement, ...]]:
    return {
        "worker": iam.worker(iam.WorkerArns(place=PLACE, agent_token=f"{_SECRET}/agent-token-AbCdEf")),
        "master": iam.master(BUSY_MASTER),
        "scheduler": iam.scheduler(
            iam.SchedulerArns(
                functions=(f"{function_arn('reconcile')}:tick",), queue=f"arn:aws:sqs:{_AT}:node-fleet-dev-undelivered"
            )
        ),
    }


def everybody() -> dict[str, tuple[Statement, ...]]:
    """Every role, with the most that it can have."""
    functions = {
        name: (*made(reading_everything()), *(iam.in_vpc(PLACE, function_arn(name)) if name != "notify" else ()))
        for name, made in iam.FUNCTIONS.items()
    }
    return functions | machines()


def lean() -> Facts:
    """With Slack's webhook in Parameter Store."""
    return replace(facts(), slack_secret=f"arn:aws:ssm:{_AT}:parameter/node-fleet-dev/slack")


@cache
def granted_to(function: str, *, with_lean: bool = False) -> frozenset[str]:
    """The actions that a function's own code may take somewhere: what Lambda does with its role is not among them."""
    statements = iam.FUNCTIONS[function](lean() if with_lean else reading_everything())
    return frozenset(action for each in statements if each.effect == "Allow" for action in each.actions)
