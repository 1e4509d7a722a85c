"""What happens around the runs, by the names that a plan has for it."""

from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

from nodefleet_tools.sim.chaos import cloud_faults, cluster_faults, operator_actions
from nodefleet_tools.sim.chaos.plan import Incident
from nodefleet_tools.sim.chaos.stage import Stage

# Says what exactly happened; nothing, if there was nothing that it could happen to.
Befalls: TypeAlias = Callable[[Stage, Random], str]

INCIDENTS: Mapping[str, Befalls] = {
    "an operator cordons a node": operator_actions.cordons,
    "an operator uncordons a node": operator_actions.uncordons,
    "an operator deletes a Node": operator_actions.deletes_node,
    "an operator terminates an instance": operator_actions.terminates,
    "an operator stops an instance": operator_actions.stops,
    "an operator launches an instance": operator_actions.launches,
    "an operator takes an instance's tags away": operator_actions.takes_tags,
    "an operator changes min and max": operator_actions.changes_limits,
    "an operator changes the pools": operator_actions.changes_pools,
    "an operator changes fleet.max": operator_actions.changes_fleet_max,
    "an operator declares a bad policy": operator_actions.declares_nonsense,
    "an operator deploys a new template": operator_actions.deploys_template,
    "an operator pauses": operator_actions.pauses,
    "an operator recycles a worker": operator_actions.recycles,
    "an operator drains a worker": operator_actions.drains,
    "an operator scales": operator_actions.scales,
    "an operator breaks the role": operator_actions.breaks_role,
    "an operator runs it on a laptop": operator_actions.runs_on_laptop,
    "EC2 takes a Spot instance": cloud_faults.takes_spot,
    "EC2 takes many Spot instances": cloud_faults.takes_many,
    "EC2 recommends to rebalance": cloud_faults.recommends,
    "EC2 schedules a change": cloud_faults.schedules,
    "an instance dies": cloud_faults.dies,
    "EC2 lacks capacity": cloud_faults.lacks_capacity,
    "EC2 has few left": cloud_faults.has_few,
    "the account's quota is reached": cloud_faults.quota_reached,
    "Spot gets dear": cloud_faults.gets_dear,
    "EC2 lists nothing": cloud_faults.lists_nothing,
    "a node falls silent": cluster_faults.falls_silent,
    "a node flaps": cluster_faults.flaps,
    "a workload is scaled": cluster_faults.scales_workload,
    "a workload's load changes": cluster_faults.changes_load,
    "a budget changes": cluster_faults.changes_budget,
    "the master is restored": cluster_faults.is_restored,
    "EC2 is away": cluster_faults.ec2_away,
    "Kubernetes is away": cluster_faults.kubernetes_away,
    "DynamoDB is away": cluster_faults.dynamodb_away,
    "Prometheus is away": cluster_faults.prometheus_away,
    "Prometheus stands still": cluster_faults.stands_still,
    "a reading is missing": cluster_faults.lacks_reading,
    "S3 is away": cluster_faults.s3_away,
    "an alert": cluster_faults.alert,
    "several runs at once": cluster_faults.at_once,
    "a pod cannot be evicted": cluster_faults.cannot_evict,
    "a node cannot be changed": cluster_faults.cannot_change_node,
    "a record cannot be read": cluster_faults.cannot_read_record,
    "EC2 schedules a change days ahead": cloud_faults.schedules_ahead,
    "a new release refuses the policy": operator_actions.refuses_policy,
    "an operator renames a pool": operator_actions.renames_pool,
    "an operator deletes a healthy Node": operator_actions.deletes_healthy_node,
    "an operator stops a healthy instance": operator_actions.stops_healthy,
    "the scheduler refuses a workload": cluster_faults.refuses_workload,
    "EC2 recommends to rebalance all": cloud_faults.recommends_all,
    "a node stays dead": cluster_faults.stays_dead,
    "an exporter falls silent": cluster_faults.loses_exporter,
    "a node can never be changed": cluster_faults.can_never_change_node,
    "a notice can never be read": cloud_faults.takes_spot_illegibly,
    "an operator removes a pool that grows": operator_actions.removes_growing_pool,
    "EC2 schedules changes of many days ahead": cloud_faults.schedules_many_ahead,
    "EC2 never tags what did not join": cloud_faults.never_tags,
}


def befall(stage: Stage, incident: Incident) -> None:
    detail = INCIDENTS[incident.kind](stage, stage.plan.random(f"incident/{incident.number}"))
    if detail:
        stage.figures["incidents"] += 1
        stage.world.guard.did("incident", f"{incident.kind}: {detail}")
