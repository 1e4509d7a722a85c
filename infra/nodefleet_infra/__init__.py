"""The deployment: the resources of `pulumi up`. `program` puts the components together.

raw_config, stack, checks     the configuration of Pulumi.<stack>.yaml, validated as a whole before anything is declared
config                        its keys, with defaults and reasons; instance_types: the types that EC2 has
names                         every name and tag, derived from project and stack
interfaces, arns, role_arns   what the components need of each other, and the ARNs that IAM statements are made of
sources                       the services that a policy's readings come from
network                       a VPC (vpc, addresses), security_groups, the endpoints of AWS (endpoints, …), ingress
state, records                the table, the buckets, the secrets; the stack's own records in the table
messaging                     topics and dead-letter queues
iam, iam_ec2, statements      the statements of each role; volumes and disk_keys: those of EBS and KMS
master, workers, instances    the K3s server, the launch template of each pool; userdata, manifests, k3s: what they run
functions, autoscaler         the four functions, as data and as resources; artefacts: the archives of `make layers`
schedules                     schedules and event rules
alarms, monitoring            alarms as data, alarms and dashboards as resources
watched_readings              alarms on a policy's own readings: reading_alarms (CloudWatch), reading_rules (Prometheus)
budget, bill, own_prices      an AWS Budget; the bill of docs/deploy.md
runbook, digests              docs/runbook.md; the registries' digests of the pinned images
teardown, service_roles       what must happen before the network can go; roles of AWS itself
"""
