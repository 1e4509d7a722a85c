"""The deployment: what `pulumi up` makes. `program` puts the parts together.

written, stack, checks        what stands in Pulumi.<stack>.yaml, checked as a whole before anything is declared
config                        what may stand there, with defaults and reasons; machine_types: which types EC2 has
names                         every name and tag, derived from project and stack
facts, arns                   what one part tells another, and what IAM needs to know of all of them
network                       a VPC (vpc, addresses), who may talk to whom (groups), how AWS is reached (endpoints, …)
state, records                the table, the buckets, the secrets; the stack's own records in the table
messaging                     topics and dead-letter queues
iam, iam_ec2, statements      what each role may do
master, workers, instances    the K3s server, the launch template of each pool; userdata, manifests, k3s: what they run
functions, autoscaler         the four functions, as data and as resources; artefacts: what `make layers` built
schedules                     who starts them, and when
alarms, monitoring            what is watched, dashboards
watched_readings              … of a policy's own readings: by CloudWatch (reading_alarms) or Prometheus (reading_rules)
teardown, service_roles       what must happen before the network can go; roles of AWS itself
"""
