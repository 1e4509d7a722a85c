"""What happens around the runs, by the names that a plan has for it."""

from collections.abc import Callable, Mapping
from random import Random
from typing import TypeAlias

from nodefleet_tools.sim.chaos import of_cloud, of_cluster, of_people
from nodefleet_tools.sim.chaos.plan import Incident
from nodefleet_tools.sim.chaos.stage import Stage

# Says what exactly happened; nothing, if there was nothing that it could happen to.
Befalls: TypeAlias = Callable[[Stage, Random], str]

INCIDENTS: Mapping[str, Befalls] = {
    "a person cordons a node": of_people.cordons,
    "a person uncordons a node": of_people.uncordons,
    "a person deletes a Node": of_people.deletes_node,
    "a person terminates a machine": of_people.terminates,
    "a person stops a machine": of_people.stops,
    "a person launches a machine": of_people.launches,
    "a person takes a machine's tags away": of_people.takes_tags,
    "a person changes min and max": of_people.changes_limits,
    "a person changes the pools": of_people.changes_pools,
    "a person changes fleet.max": of_people.changes_fleet_max,
    "a person declares a bad policy": of_people.declares_nonsense,
    "a person deploys a new template": of_people.deploys_template,
    "a person pauses": of_people.pauses,
    "a person recycles a worker": of_people.recycles,
    "a person scales": of_people.scales,
    "a person breaks the role": of_people.breaks_role,
    "a person runs it on a laptop": of_people.runs_on_laptop,
    "EC2 takes a Spot machine": of_cloud.takes_spot,
    "EC2 takes many Spot machines": of_cloud.takes_many,
    "EC2 recommends to rebalance": of_cloud.recommends,
    "EC2 schedules a change": of_cloud.schedules,
    "a machine dies": of_cloud.dies,
    "EC2 lacks capacity": of_cloud.lacks_capacity,
    "EC2 has few left": of_cloud.has_few,
    "the account's quota is reached": of_cloud.quota_reached,
    "Spot gets dear": of_cloud.gets_dear,
    "EC2 lists nothing": of_cloud.lists_nothing,
    "a node falls silent": of_cluster.falls_silent,
    "a node flaps": of_cluster.flaps,
    "a workload is scaled": of_cluster.scales_workload,
    "a workload's load changes": of_cluster.changes_load,
    "a budget changes": of_cluster.changes_budget,
    "the master is restored": of_cluster.is_restored,
    "EC2 is away": of_cluster.ec2_away,
    "Kubernetes is away": of_cluster.kubernetes_away,
    "DynamoDB is away": of_cluster.dynamodb_away,
    "Prometheus is away": of_cluster.prometheus_away,
    "Prometheus stands still": of_cluster.stands_still,
    "a reading is missing": of_cluster.lacks_reading,
    "S3 is away": of_cluster.s3_away,
    "an alert": of_cluster.alert,
    "several runs at once": of_cluster.at_once,
    "a pod cannot be evicted": of_cluster.cannot_evict,
    "a node cannot be changed": of_cluster.cannot_change_node,
    "a record cannot be read": of_cluster.cannot_read_record,
    "EC2 schedules a change days ahead": of_cloud.schedules_ahead,
    "a new release refuses the policy": of_people.refuses_policy,
    "a person renames a pool": of_people.renames_pool,
    "a person deletes a healthy Node": of_people.deletes_healthy_node,
    "a person stops a healthy machine": of_people.stops_healthy,
    "the scheduler refuses a workload": of_cluster.refuses_workload,
    "EC2 recommends to rebalance all": of_cloud.recommends_all,
    "a node stays dead": of_cluster.stays_dead,
    "an exporter falls silent": of_cluster.loses_exporter,
    "a node can never be changed": of_cluster.can_never_change_node,
    "a notice can never be read": of_cloud.takes_spot_illegibly,
    "a person removes a pool that grows": of_people.removes_growing_pool,
    "EC2 schedules changes of many days ahead": of_cloud.schedules_many_ahead,
    "EC2 never tags what did not join": of_cloud.never_tags,
}


def befall(stage: Stage, incident: Incident) -> None:
    detail = INCIDENTS[incident.kind](stage, stage.plan.random(f"incident/{incident.number}"))
    if detail:
        stage.figures["incidents"] += 1
        stage.world.guard.did("incident", f"{incident.kind}: {detail}")
