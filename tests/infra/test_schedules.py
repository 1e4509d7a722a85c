"""When functions are started: expressions that EventBridge takes, and no minute without its tick."""

import json
from datetime import datetime, timedelta
from fnmatch import fnmatch

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodefleet import settings
from nodefleet.adapters.aws.triggers import NO_EVENTS, read_events, triggers_in
from nodefleet.notifications.approvals import READ_APPROVALS
from nodefleet_infra.config import Night, ScheduleConfig
from nodefleet_infra.functions import INTERRUPTION
from nodefleet_infra.schedules import EC2_EVENTS, ticks, weekly
from nodefleet_tools.sim.event_queue import RECEIVES, VISIBLE_AFTER, WINDOW
from support.infra_mocks import ACCOUNT, DEV, PRODUCTION, ROOT, declared, deployed_stack, unusual_stack
from support.schedule_grammar import Cron, Every, GrammarError, parsed

MONDAY = datetime(2026, 11, 16)  # noqa: DTZ001  # in the schedule's own zone
DIVISORS = [minutes for minutes in range(1, 31) if 60 % minutes == 0]


def matching(cron, start=MONDAY, **duration):
    minutes = timedelta(**duration) // timedelta(minutes=1)
    return [at for at in (start + timedelta(minutes=each) for each in range(minutes)) if cron.matches(at)]


# ── the grammar itself ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "wrong",
    [
        "rate(2 minute)",
        "rate(1 minutes)",
        "rate(0 minutes)",
        "rate(2 seconds)",
        "rate(2minutes)",
        "cron(0 7 * * *)",
        "cron(0 7 * * * *)",
        "cron(0 7 ? * ? *)",
        "cron(60 7 ? * MON *)",
        "cron(0 24 ? * MON *)",
        "cron(0 22-6 ? * MON *)",
        "cron(0/0 7 ? * MON *)",
        "cron(? 7 ? * MON *)",
        "cron(0 7 ? * MUN *)",
        "every 2 minutes",
    ],
)
def test_what_eventbridge_refuses_is_refused_here_too(wrong):
    with pytest.raises(GrammarError):
        parsed(wrong)


def test_what_expressions_mean():
    assert parsed("rate(1 minute)") == Every(timedelta(minutes=1))
    assert parsed("rate(2 minutes)") == Every(timedelta(minutes=2))
    weekdays = parsed("cron(15 10 ? * MON-FRI 2026)")
    assert isinstance(weekdays, Cron)
    assert [at.day for at in matching(weekdays, days=7)] == [16, 17, 18, 19, 20]


# ── ours ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_default_is_every_two_minutes():
    assert ticks(ScheduleConfig()) == {"tick": "rate(2 minutes)"}
    assert ticks(ScheduleConfig(every=timedelta(minutes=1))) == {"tick": "rate(1 minute)"}


@given(
    day=st.sampled_from(DIVISORS),
    night=st.sampled_from(DIVISORS),
    begin=st.integers(0, 23),
    end=st.integers(0, 23),
)
def test_day_and_night_together_leave_no_gap_and_no_overlap(day, night, begin, end):
    if begin == end:
        return
    hours = Night(every=timedelta(minutes=night), from_hour=begin, until_hour=end)
    expressions = ticks(ScheduleConfig(every=timedelta(minutes=day), night=hours))
    by_day, by_night = parsed(expressions["day"]), parsed(expressions["night"])
    at_day, at_night = matching(by_day, days=1), matching(by_night, days=1)
    dark = {hour % 24 for hour in range(begin, end if end > begin else end + 24)}
    assert {at.hour for at in at_night} == dark
    assert {at.hour for at in at_day} == set(range(24)) - dark
    assert len(at_day) == (24 - len(dark)) * 60 // day
    assert len(at_night) == len(dark) * 60 // night


def test_the_report_comes_on_monday_morning():
    report = parsed(weekly(ScheduleConfig(report_hour=7)))
    assert isinstance(report, Cron)
    assert matching(report, days=14) == [MONDAY + timedelta(hours=7), MONDAY + timedelta(days=7, hours=7)]


def test_a_line_about_yesterday_comes_every_day_if_the_stack_wants_it():
    config = yaml.safe_load((ROOT / DEV).read_text())["config"]
    graph = declared({**config, "node-fleet:autoscaler": {"schedule": {"daily_hour": 8}}}, "dev")
    made = graph.one("scheduler/schedule:Schedule", "shop-daily").inputs
    found = parsed(made["scheduleExpression"])
    assert matching(found, days=2) == [MONDAY + timedelta(hours=8), MONDAY + timedelta(days=1, hours=8)]
    (trigger,) = triggers_in(json.loads(made["target"]["input"]), graph.exports["clusters"])
    assert trigger.daily
    assert made["target"]["arn"].endswith("node-fleet-dev-report:live")
    assert "shop-daily" not in {each.name for each in deployed_stack(DEV).of("scheduler/schedule:Schedule")}


def test_answers_in_slack_are_read_only_if_the_stack_names_approvers():
    config = yaml.safe_load((ROOT / DEV).read_text())["config"]
    graph = declared({**config, "node-fleet:messages": {"approvers": ["U0ANNA", "U0BEN"]}}, "dev")
    made = graph.one("scheduler/schedule:Schedule", "approvals").inputs
    assert parsed(made["scheduleExpression"])
    assert json.loads(made["target"]["input"]) == READ_APPROVALS
    notify = made["target"]["arn"]
    assert notify.endswith("node-fleet-dev-notify:live")
    assert notify in graph.one("iam/rolePolicy:RolePolicy", "scheduler").inputs["policy"]
    told = graph.one("lambda/function:Function", "notify").inputs["environment"]["variables"]
    assert told[settings.APPROVERS] == "U0ANNA,U0BEN"
    without = deployed_stack(DEV)
    assert "approvals" not in {each.name for each in without.of("scheduler/schedule:Schedule")}
    assert notify not in without.one("iam/rolePolicy:RolePolicy", "scheduler").inputs["policy"]
    assert (
        settings.APPROVERS not in without.one("lambda/function:Function", "notify").inputs["environment"]["variables"]
    )


@pytest.mark.parametrize("file", [DEV, PRODUCTION])
def test_every_expression_in_the_program_is_one_that_eventbridge_takes(file):
    graph = deployed_stack(file)
    expressions = [each.inputs["scheduleExpression"] for each in graph.of("scheduler/schedule:Schedule")]
    expressions += [
        rule["scheduleExpression"] for rule in graph.of("EventRule") if rule.inputs.get("scheduleExpression")
    ]
    assert expressions
    assert all(parsed(expression) for expression in expressions)


def test_at_night_production_looks_every_five_minutes_in_its_own_time_zone():
    graph = deployed_stack(PRODUCTION)
    schedules = {each.name: each.inputs for each in graph.of("scheduler/schedule:Schedule")}
    assert schedules["shop-day"]["scheduleExpression"] == "cron(0/2 6-21 * * ? *)"
    assert schedules["shop-night"]["scheduleExpression"] == "cron(0/5 22-23,0-5 * * ? *)"
    assert {each["scheduleExpressionTimezone"] for each in schedules.values()} == {"Asia/Singapore"}


# ── what a schedule starts ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file", [DEV, PRODUCTION])
def test_each_schedule_names_its_cluster_as_the_handlers_understand_it(file):
    graph = deployed_stack(file)
    clusters = graph.exports["clusters"]
    started = {}
    for each in graph.of("scheduler/schedule:Schedule"):
        (wakeup,) = triggers_in(json.loads(each.inputs["target"]["input"]), clusters)
        assert not wakeup.urgent
        started.setdefault(wakeup.cluster, set()).add(each.inputs["target"]["arn"].split(":function:")[1])
    base = "node-fleet-dev" if file == DEV else "node-fleet-production"
    assert started == {cluster: {f"{base}-reconcile:tick", f"{base}-report:live"} for cluster in clusters}


def test_a_late_tick_is_dropped_and_a_report_is_not():
    graph = deployed_stack(DEV)
    tick = graph.one("scheduler/schedule:Schedule", "shop-tick").inputs
    report = graph.one("scheduler/schedule:Schedule", "shop-report").inputs
    assert tick["target"]["retryPolicy"] == {"maximumEventAgeInSeconds": 60, "maximumRetryAttempts": 0}
    assert "deadLetterConfig" not in tick["target"]
    assert report["target"]["retryPolicy"]["maximumRetryAttempts"] > 0
    assert report["target"]["deadLetterConfig"]["arn"].endswith("node-fleet-dev-undelivered")
    assert tick["flexibleTimeWindow"] == {"mode": "OFF"}


def _events(pattern):
    """Every event that a pattern lets through, as far as the function reads it."""
    details = {
        "taken": [{"instance-id": "i-1"}],
        "state": [{"instance-id": "i-1", "state": state} for state in pattern.get("detail", {}).get("state", [])],
        "maintenance": [
            {
                "service": "EC2",
                "eventTypeCategory": "scheduledChange",
                "affectedEntities": [{"entityValue": "i-0123"}],
            }
        ],
    }
    name = next(name for name, each in EC2_EVENTS.items() if each.items() <= pattern.items())
    for kind in pattern["detail-type"]:
        for detail in details[name]:
            yield {"source": pattern["source"][0], "detail-type": kind, "detail": detail}


def test_events_of_other_accounts_and_regions_stay_away_and_nothing_is_said_twice():
    """Whose an instance is, no event says: those of this account and region start the function, ours or not."""
    rules = {each.name: json.loads(each.inputs["eventPattern"]) for each in deployed_stack(DEV).of("EventRule")}
    assert {(*each["account"], *each["region"]) for each in rules.values()} == {(ACCOUNT, "ap-southeast-1")}
    assert rules["ec2-state"]["detail"]["state"] == ["shutting-down", "stopping"]


def test_the_function_understands_every_event_that_the_rules_pass_on():
    graph = deployed_stack(DEV)
    patterns = [json.loads(each.inputs["eventPattern"]) for each in graph.of("EventRule")]
    events = [event for pattern in patterns for event in _events(pattern)]
    assert len(events) == 5
    for event in events:
        told = read_events(event, datetime.fromisoformat("2026-11-16T12:00:00Z"))
        assert told != NO_EVENTS
        assert told.urgent, event


def test_what_ec2_says_goes_through_the_queue_and_what_cannot_be_delivered_is_kept():
    graph = deployed_stack(DEV)
    (queue,) = [each for each in graph.of("sqs/queue:Queue") if each.inputs["name"] == "node-fleet-dev-ec2-events"]
    targets = graph.of("EventTarget")
    assert len(targets) == len(graph.of("EventRule")) == 3
    for target in targets:
        assert target.inputs["arn"] == queue.outputs["arn"]
        assert target.inputs["deadLetterConfig"]["arn"].endswith("undelivered")
    (policy,) = [each for each in graph.of("QueuePolicy") if each.name == "ec2-events"]
    (allowed,) = [each for each in json.loads(policy.inputs["policy"])["Statement"] if each["Effect"] == "Allow"]
    assert (allowed["Principal"], allowed["Action"]) == ({"Service": "events.amazonaws.com"}, "sqs:SendMessage")
    for rule in graph.of("EventRule"):
        assert fnmatch(rule.outputs["arn"], allowed["Condition"]["ArnLike"]["aws:SourceArn"])


@pytest.mark.parametrize(("graph", "most"), [(deployed_stack, 10), (unusual_stack, 4)])
def test_one_function_takes_all_messages_of_a_moment(graph, most):
    made = graph(DEV) if graph is deployed_stack else graph()
    (mapping,) = [each.inputs for each in made.of("EventSourceMapping") if each.name == "ec2-events"]
    (queue,) = [each.inputs for each in made.of("sqs/queue:Queue") if each.name == "ec2-events"]
    assert mapping["functionName"].endswith("-interruption:urgent")
    assert mapping["functionResponseTypes"] == ["ReportBatchItemFailures"]
    assert (mapping["batchSize"], mapping["maximumBatchingWindowInSeconds"]) == (100, WINDOW)
    assert mapping["scalingConfig"] == {"maximumConcurrency": most}
    assert queue["visibilityTimeoutSeconds"] == VISIBLE_AFTER > INTERRUPTION.timeout
    redrive = json.loads(queue["redrivePolicy"])
    assert redrive["maxReceiveCount"] == RECEIVES
    assert redrive["deadLetterTargetArn"].endswith("failed-runs")


def test_switched_off_nothing_starts_by_itself():
    for graph, state in ((deployed_stack(DEV), "ENABLED"), (unusual_stack(), "DISABLED")):
        assert {each.inputs["state"] for each in graph.of("scheduler/schedule:Schedule")} == {state}
        assert {each.inputs["state"] for each in graph.of("EventRule")} == {state}
