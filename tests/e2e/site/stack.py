"""The Pulumi program's graph, deployed at this site: the real calls, against moto and DynamoDB Local.

Three things are not as in AWS. The master's address leads to the API server and the Prometheus that run here. Topics
reach functions by way of a queue, because moto cannot start ours. And what DynamoDB Local does not have (backups,
encryption) is left out of the table.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import yaml

from e2e.site.aws import Aws
from nodefleet.adapters.aws.session import DUALSTACK_VARIABLE
from nodefleet_infra import manifests
from support.infra_mocks import DEV, ROOT, Graph, Made, declared
from support.infra_on_moto import Answer, Inputs, MotoCloud, as_request

STACK = "dev"
_API, _PROMETHEUS = ":6443", ":9090"  # the master's ports


@dataclass
class SiteCloud(MotoCloud):
    aws: Aws | None = None
    api_server: str = ""  # where the master's address leads
    prometheus: str = ""
    subscribed: dict[str, str] = field(default_factory=dict)  # topic → the function and alias that it starts
    queue: str = ""  # its URL: the way from the topics to their functions

    def client(self, service: str) -> Any:
        assert self.aws is not None
        return self.aws.client(service)

    def _Table(self, inputs: Inputs) -> Answer:  # noqa: N802  # these methods have the resources' names
        keys = {"HASH": inputs["hashKey"], "RANGE": inputs["rangeKey"]}
        made = self.client("dynamodb").create_table(
            TableName=inputs["name"],
            BillingMode=inputs["billingMode"],
            KeySchema=[{"AttributeName": key, "KeyType": kind} for kind, key in keys.items()],
            AttributeDefinitions=[
                {"AttributeName": each["name"], "AttributeType": each["type"]} for each in inputs["attributes"]
            ],
            StreamSpecification={"StreamEnabled": inputs["streamEnabled"], "StreamViewType": inputs["streamViewType"]},
        )["TableDescription"]
        forgetting = {"tableName": inputs["name"], "timeToLiveSpecification": inputs["ttl"]}
        self.client("dynamodb").update_time_to_live(**as_request("dynamodb", "UpdateTimeToLive", forgetting))
        return inputs["name"], {"arn": made["TableArn"], "streamArn": made["LatestStreamArn"]}

    def _TableItem(self, inputs: Inputs) -> Answer:  # noqa: N802
        return super()._TableItem({**inputs, "item": self.led(inputs["item"])})

    def led(self, item: str) -> str:
        """The same record, with the master's addresses leading here."""
        told = json.loads(item)
        server = told.get("api_server", {}).get("S", "")
        if not server:
            return item
        master = str(urlsplit(server).hostname)
        here = item.replace(f"https://{master}{_API}", self.api_server)
        return here.replace(f"http://{master}{_PROMETHEUS}", self.prometheus)

    def _Instance(self, inputs: Inputs) -> Answer:  # noqa: N802
        """The master."""
        tags = [{"Key": key, "Value": value} for key, value in inputs["tags"].items()]
        (made,) = self.client("ec2").run_instances(
            ImageId=inputs["ami"],
            InstanceType=inputs["instanceType"],
            MinCount=1,
            MaxCount=1,
            UserData=inputs["userData"],
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )["Instances"]
        return made["InstanceId"], {}

    def _TopicSubscription(self, inputs: Inputs) -> Answer:  # noqa: N802
        assert inputs["protocol"] == "lambda"
        sqs, topic = self.client("sqs"), inputs["topic"]
        self.queue = sqs.create_queue(QueueName="site-topics")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=self.queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        assert topic not in self.subscribed, "one function for each topic"
        self.subscribed[topic] = ":".join(inputs["endpoint"].split(":")[-2:])
        return self.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)["SubscriptionArn"], {}


@dataclass(frozen=True)
class Stack:
    """What was deployed, asked by what it is for."""

    graph: Graph
    cloud: SiteCloud

    @property
    def cluster(self) -> str:
        (only,) = self.graph.exports["clusters"]
        return str(only)

    @property
    def table(self) -> str:
        return str(self.graph.exports["table"])

    @property
    def manifests_site(self) -> manifests.Site:
        topic = str(self.graph.exports["wakeTopic"])
        return manifests.Site(cluster=self.cluster, region=self.cloud.region, wake_topic=topic, grafana=False)

    def function(self, full: str) -> str:
        """Its name in the program, by its name in AWS."""
        names: Mapping[str, str] = self.graph.exports["functions"]
        return next(name for name, known in names.items() if known == full)

    def environment(self, function: str) -> dict[str, str]:
        """What the program tells a function. moto has no dual-stack addresses."""
        made = self.graph.one("lambda/function:Function", function)
        told = {"AWS_LAMBDA_FUNCTION_NAME": made.inputs["name"], DUALSTACK_VARIABLE: "none"}
        return {**made.inputs["environment"]["variables"], **told}

    def timeout(self, function: str) -> float:
        return float(self.graph.one("lambda/function:Function", function).inputs["timeout"])

    def retries(self, function: str, alias: str) -> int:
        return int(self.graph.one("FunctionEventInvokeConfig", f"{function}-{alias}").inputs["maximumRetryAttempts"])

    @property
    def tick(self) -> Any:
        """The schedule's constant input."""
        ticks = [each for each in self.graph.of("scheduler/schedule:Schedule") if each.name.endswith("-tick")]
        return json.loads(ticks[0].inputs["target"]["input"])

    @property
    def rules(self) -> list[tuple[Mapping[str, Any], str]]:
        """EventBridge's patterns, each with its target: a queue that a function listens to."""
        targets = {each.inputs["rule"]: each.inputs["arn"] for each in self.graph.of("EventTarget")}
        return [
            (json.loads(rule.inputs["eventPattern"]), targets[rule.inputs["name"]])
            for rule in self.graph.of("EventRule")
        ]

    def listener(self, queue: str) -> str:
        """The function and alias that get the messages of a queue, by its ARN."""
        (mapping,) = [each for each in self._mappings if each.inputs["eventSourceArn"] == queue]
        return ":".join(mapping.inputs["functionName"].split(":")[-2:])

    def receives(self, queue: str) -> int:
        """How often a message of this queue is tried before it is set aside."""
        (found,) = [each for each in self.graph.of("sqs/queue:Queue") if each.outputs["arn"] == queue]
        return int(json.loads(found.inputs["redrivePolicy"])["maxReceiveCount"])

    @property
    def mapping(self) -> Made:
        """From the table's stream to `notify`."""
        (only,) = [each for each in self._mappings if ":dynamodb:" in each.inputs["eventSourceArn"]]
        return only

    @property
    def _mappings(self) -> list[Made]:
        return self.graph.of("EventSourceMapping")

    @property
    def records(self) -> list[dict[str, Any]]:
        """What the stack keeps in the table: where the parts are, and the policy that it declares."""
        return [json.loads(self.cloud.led(each.inputs["item"])) for each in self.graph.of("TableItem")]

    @property
    def server_program(self) -> str:
        """What the master's user data fetches and runs."""
        objects = [each.inputs for each in self.graph.of("BucketObjectv2")]
        (program,) = [str(each["content"]) for each in objects if each.get("contentType") == "text/x-shellscript"]
        return program

    def user_data_of(self, role: str, pool: str) -> Made:
        """The resource whose user data an instance with these tags has got."""
        if role == "server":
            (master,) = self.graph.of("ec2/instance:Instance")
            return master
        return next(each for each in self.graph.of("LaunchTemplate") if each.name.endswith(f"-{pool}"))


def deployed(aws: Aws, *, api_server: str, prometheus: str) -> Stack:
    """The example of a small cluster, with an ordinary policy: infra refuses one that its schedule is too slow for."""
    config = yaml.safe_load((ROOT / DEV).read_text())["config"]
    cloud = SiteCloud(region=aws.region, aws=aws, api_server=api_server, prometheus=prometheus)
    return Stack(declared(config, STACK, cloud=cloud), cloud)
