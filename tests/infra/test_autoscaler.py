"""The functions as they would be deployed: what runs, with which settings, and what becomes of an event that fails."""

import json
from importlib import import_module

import pytest

from nodefleet.adapters.aws.incoming import decode_stream
from nodefleet.model.names import METRIC_INFO, Metric
from nodefleet.settings import settings_in
from nodefleet_infra.functions import FUNCTIONS, NOTIFY, RECONCILE
from support.infra_mocks import DEV, PRODUCTION, deployed_stack, unusual_stack

BOTH = [DEV, PRODUCTION]
FUNCTION, ALIAS, RETRIES = "lambda/function:Function", "lambda/alias:Alias", "FunctionEventInvokeConfig"


def functions(graph):
    return {each.name: each.inputs for each in graph.of(FUNCTION)}


# ── what runs ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_every_handler_that_is_named_exists(file):
    for made in functions(deployed_stack(file)).values():
        module, _, name = made["handler"].rpartition(".")
        assert callable(getattr(import_module(module), name))


@pytest.mark.parametrize("file", BOTH)
def test_all_four_are_python_on_arm_with_the_same_code_and_libraries(file):
    made = functions(deployed_stack(file))
    assert set(made) == {"reconcile", "interruption", "notify", "report"}
    for each in made.values():
        assert (each["runtime"], each["architectures"]) == ("python3.13", ["arm64"])
        assert each["layers"] == [made["reconcile"]["layers"][0]]
        assert each["sourceCodeHash"] == "2" * 64
        assert each["publish"] is True
    assert {name: each["timeout"] for name, each in made.items()} == {
        "reconcile": 120,
        "interruption": 150,
        "notify": 90,
        "report": 120,
    }


def test_memory_is_what_the_configuration_says():
    assert functions(deployed_stack(DEV))["reconcile"]["memorySize"] == 512
    made = functions(deployed_stack(PRODUCTION))
    assert (made["reconcile"]["memorySize"], made["report"]["memorySize"]) == (1024, 512)


def test_no_concurrency_is_reserved_unless_somebody_wants_it():
    assert not [each for each in functions(deployed_stack(DEV)).values() if "reservedConcurrentExecutions" in each]
    unusual = functions(unusual_stack())
    reserved = {name: each.get("reservedConcurrentExecutions") for name, each in unusual.items()}
    assert reserved == {"reconcile": 2, "interruption": 4, "notify": None, "report": None}


@pytest.mark.parametrize("file", BOTH)
def test_only_the_messenger_is_outside_the_network(file):
    made = functions(deployed_stack(file))
    assert {name for name, each in made.items() if "vpcConfig" not in each} == {NOTIFY.name}
    for name in set(made) - {NOTIFY.name}:
        assert made[name]["replaceSecurityGroupsOnDestroy"] is True


@pytest.mark.parametrize("file", BOTH)
def test_logs_are_kept_as_long_as_configured_and_the_functions_write_there(file):
    graph = deployed_stack(file)
    days = {each.inputs["name"]: each.inputs["retentionInDays"] for each in graph.of("LogGroup")}
    assert set(days.values()) == {30 if file == DEV else 90}
    for each in functions(graph).values():
        assert each["loggingConfig"]["logGroup"] == f"/aws/lambda/{each['name']}"
        assert each["loggingConfig"]["logGroup"] in days


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_the_code_understands_the_environment(file):
    graph = deployed_stack(file)
    (table,) = graph.of("dynamodb/table:Table")
    secrets = {each.inputs["name"] for each in graph.of("secretsmanager/secret:Secret")}
    for name, each in functions(graph).items():
        settings = settings_in(each["environment"]["variables"])
        assert settings.table == table.inputs["name"]
        assert list(settings.clusters) == graph.exports["clusters"]
        assert {settings.api_secret(cluster) for cluster in settings.clusters} <= secrets
        assert Metric.AT_MAX in settings.opt_in
        if name == NOTIFY.name:
            assert settings.slack_secret in secrets
        else:
            assert settings.bucket == graph.one("s3/bucket:Bucket", "looks").inputs["bucket"]
            assert settings.slack_secret == ""


def test_metrics_that_cost_extra_are_on_if_wanted_or_needed():
    said = functions(deployed_stack(PRODUCTION))["reconcile"]["environment"]["variables"]
    alarmed = "AtMax,ScheduledRuns,ApiServerUnavailable,Ec2Unavailable"
    assert said["NODEFLEET_METRICS"] == f"{alarmed},HourlyCost,SpotShare"
    assert all(METRIC_INFO[Metric(name)].opt_in for name in said["NODEFLEET_METRICS"].split(","))


def test_several_clusters_share_the_functions():
    graph = unusual_stack()
    assert len(graph.of(FUNCTION)) == 4
    said = functions(graph)["reconcile"]["environment"]["variables"]
    assert said["NODEFLEET_CLUSTERS"] == "odd-shop,odd-blog"
    assert {each.name for each in graph.of("scheduler/schedule:Schedule")} == {
        f"{cluster}-{what}" for cluster in ("shop", "blog") for what in ("tick", "report")
    }


# ── events that fail ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_tick_is_not_repeated_and_not_kept():
    made = deployed_stack(DEV).one(RETRIES, "reconcile-tick").inputs
    assert (made["qualifier"], made["maximumRetryAttempts"], made["maximumEventAgeInSeconds"]) == ("tick", 0, 60)
    assert "destinationConfig" not in made


def test_urgent_events_are_repeated_and_what_fails_is_kept():
    graph = deployed_stack(DEV)
    for name in ("reconcile-urgent", "interruption-urgent", "report-live", "notify-live"):
        made = graph.one(RETRIES, name).inputs
        assert made["maximumRetryAttempts"] == 2
        assert made["maximumEventAgeInSeconds"] > 60
        queue = made["destinationConfig"]["onFailure"]["destination"].rpartition(":")[2]
        assert queue == (
            "node-fleet-dev-failed-messages" if name.startswith("notify") else "node-fleet-dev-failed-runs"
        )


@pytest.mark.parametrize("file", BOTH)
def test_nothing_starts_a_function_but_through_an_alias_of_a_version(file):
    graph = deployed_stack(file)
    aliases = {each.outputs["arn"] for each in graph.of(ALIAS)}
    assert len(aliases) == sum(len(function.aliases) for function in FUNCTIONS)
    assert {each.inputs["functionVersion"] for each in graph.of(ALIAS)} == {"1"}
    started = [each.inputs["target"]["arn"] for each in graph.of("scheduler/schedule:Schedule")]
    started += [
        each.inputs["endpoint"] for each in graph.of("TopicSubscription") if each.inputs["protocol"] == "lambda"
    ]
    started += [each.inputs["functionName"] for each in graph.of("EventSourceMapping")]
    assert set(started) <= aliases
    assert all(each.inputs["qualifier"] for each in graph.of("lambda/permission:Permission"))


@pytest.mark.parametrize("file", BOTH)
def test_whoever_may_start_a_function_is_named(file):
    for each in deployed_stack(file).of("lambda/permission:Permission"):
        assert each.inputs["action"] == "lambda:InvokeFunction"
        assert each.inputs["sourceArn"].startswith("arn:aws:")
        assert each.inputs["principal"] in ("sns.amazonaws.com", "events.amazonaws.com")


# ── news ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_notify_hears_of_new_events_in_the_table_and_of_nothing_else():
    graph = deployed_stack(DEV)
    made = graph.one("EventSourceMapping", "notify-stream").inputs
    assert made["eventSourceArn"] == graph.of("dynamodb/table:Table")[0].outputs["streamArn"]
    assert (made["batchSize"], made["maximumBatchingWindowInSeconds"]) == (100, 5)
    assert made["maximumRecordAgeInSeconds"] == 24 * 3600
    assert made["bisectBatchOnFunctionError"] is True
    assert made["functionResponseTypes"] == ["ReportBatchItemFailures"]
    assert made["destinationConfig"]["onFailure"]["destinationArn"].endswith("failed-messages")
    (pattern,) = [json.loads(each["pattern"]) for each in made["filterCriteria"]["filters"]]
    assert pattern == {"eventName": ["INSERT"], "dynamodb": {"Keys": {"record": {"S": [{"prefix": "event#"}]}}}}
    change = {"SequenceNumber": "1", "Keys": {"record": {"S": "event#1"}, "cluster_id": {"S": "c"}}, "NewImage": {}}
    assert decode_stream([{"eventName": "INSERT", "dynamodb": change}], lambda image: image).news


def test_alarms_reach_slack_and_critical_ones_people_too():
    graph = deployed_stack(PRODUCTION)
    told = {
        (each.inputs["topic"].rpartition("-")[2], each.inputs["protocol"]) for each in graph.of("TopicSubscription")
    }
    assert told == {("critical", "lambda"), ("warning", "lambda"), ("wake", "lambda"), ("critical", "email")}
    for each in graph.of("TopicSubscription"):
        if each.inputs["protocol"] == "lambda":
            target = json.loads(each.inputs["redrivePolicy"])["deadLetterTargetArn"]
            assert target.endswith("node-fleet-production-undelivered")


def test_without_slack_nothing_is_sent_there():
    graph = unusual_stack()
    assert "notify-stream" not in {each.name for each in graph.of("EventSourceMapping")}
    assert graph.of("TopicSubscription") == []  # this one is switched off too: nobody can wake it


def test_a_wake_up_starts_the_urgent_alias():
    wake = deployed_stack(DEV).one("TopicSubscription", "reconcile-wake").inputs
    assert wake["endpoint"].endswith(f":function:node-fleet-dev-{RECONCILE.name}:urgent")


# ── topics and queues ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_topics_and_queues_are_encrypted(file):
    graph = deployed_stack(file)
    assert all(each.inputs["kmsMasterKeyId"] for each in graph.of("sns/topic:Topic"))
    assert all(each.inputs["sqsManagedSseEnabled"] for each in graph.of("sqs/queue:Queue"))
    (key,) = graph.of("kms/key:Key")
    assert key.inputs["enableKeyRotation"] is True
    assert {each.inputs["kmsMasterKeyId"] for each in graph.of("sns/topic:Topic")} == {
        "alias/aws/sns",
        key.outputs["arn"],
    }


def test_cloudwatch_may_publish_alarms_and_nobody_else_may():
    graph = deployed_stack(DEV)
    for policy in graph.of("TopicPolicy"):
        (statement,) = json.loads(policy.inputs["policy"])["Statement"]
        assert statement["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
        (allowed,) = statement["Condition"]["ArnLike"].values()
        assert allowed == "arn:aws:cloudwatch:ap-southeast-1:123456789012:alarm:node-fleet-dev-*"
        assert all(each.outputs["arn"].startswith(allowed[:-1]) for each in graph.of("MetricAlarm"))
    (key,) = graph.of("kms/key:Key")
    services = [each for each in json.loads(key.inputs["policy"])["Statement"] if "Service" in each["Principal"]]
    assert [each["Principal"]["Service"] for each in services] == ["cloudwatch.amazonaws.com"]


def test_only_our_topics_and_rules_may_put_something_into_the_queue_of_the_undelivered():
    graph = deployed_stack(DEV)
    statements = json.loads(graph.one("QueuePolicy", "undelivered").inputs["policy"])["Statement"]
    allowed = {
        each["Principal"]["Service"]: each["Condition"]["ArnLike"]["aws:SourceArn"]
        for each in statements
        if each["Effect"] == "Allow"
    }
    at = "ap-southeast-1:123456789012"
    assert allowed == {
        "sns.amazonaws.com": f"arn:aws:sns:{at}:node-fleet-dev-*",
        "events.amazonaws.com": f"arn:aws:events:{at}:rule/node-fleet-dev-*",
    }


# ── roles ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", BOTH)
def test_each_function_has_a_role_of_its_own_that_only_lambda_takes(file):
    graph = deployed_stack(file)
    roles = {each.outputs["arn"]: each for each in graph.of("iam/role:Role")}
    used = [each["role"] for each in functions(graph).values()]
    assert len(set(used)) == 4
    for arn in used:
        (statement,) = json.loads(roles[arn].inputs["assumeRolePolicy"])["Statement"]
        assert statement["Principal"] == {"Service": "lambda.amazonaws.com"}


def _named_in(policy):
    """The ARNs that a policy names as resources, but for those that stand for many."""
    statements = json.loads(policy)["Statement"]
    resources = [each["Resource"] if isinstance(each["Resource"], list) else [each["Resource"]] for each in statements]
    return {arn for several in resources for arn in several if "*" not in arn}


@pytest.mark.parametrize("file", BOTH)
def test_roles_name_what_the_program_makes_and_nothing_else(file):
    graph = deployed_stack(file)
    at = "ap-southeast-1:123456789012"
    known = {each.outputs.get("arn") for each in graph.made} | {each.outputs.get("streamArn") for each in graph.made}
    known |= {f"arn:aws:ec2:{at}:subnet/{each.id}" for each in graph.of("ec2/subnet:Subnet")}
    known |= {f"arn:aws:ec2:{at}:security-group/{each.id}" for each in graph.of("ec2/securityGroup:SecurityGroup")}
    elsewhere = {f"arn:aws:sqs:{at}:orders"}  # a queue that a policy reads
    for role in (function.name for function in FUNCTIONS):
        named = _named_in(graph.one("iam/rolePolicy:RolePolicy", role).inputs["policy"])
        assert named - known <= elsewhere, role


def test_the_loop_may_use_every_template_subnet_and_secret_of_its_clusters():
    graph = deployed_stack(PRODUCTION)
    named = _named_in(graph.one("iam/rolePolicy:RolePolicy", "reconcile").inputs["policy"])
    assert {each.outputs["arn"] for each in graph.of("LaunchTemplate")} <= named
    workers = [each.id for each in graph.of("ec2/subnet:Subnet") if each.name.startswith("workers")]
    assert {f"arn:aws:ec2:ap-southeast-1:123456789012:subnet/{subnet}" for subnet in workers} <= named
    secrets = {each.name: each.outputs["arn"] for each in graph.of("secretsmanager/secret:Secret")}
    assert [name for name, arn in secrets.items() if arn in named] == ["production-shop-api"]
    assert graph.one("iam/role:Role", "shop-workers").outputs["arn"] in named
    assert "arn:aws:sqs:ap-southeast-1:123456789012:orders" in named


def test_only_a_policy_that_reads_cloudwatch_is_allowed_to():
    def granted(file):
        return deployed_stack(file).one("iam/rolePolicy:RolePolicy", "reconcile").inputs["policy"]

    assert "cloudwatch:GetMetricData" in granted(PRODUCTION)
    assert "cloudwatch:GetMetricData" not in granted(DEV)
    assert '"arn:aws:s3:::node-fleet-production-looks-123456789012/production-shop/*"' in granted(PRODUCTION)
