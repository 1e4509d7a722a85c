"""A whole world behind the ports, in virtual time: EC2, K3s, Prometheus, the table, and the people around them.

The shipped loop runs in it unchanged. Nothing here reads a clock, starts a thread or draws a number that the seed does
not fix, so the same seed always plays the same.

clock         virtual time, and what happens when
hooks         every port call passes a gate: counted, delayed, failed before or after its effect, or interrupted
faults        what the world does to calls: parts away, slow, throttled
machines      one machine of EC2
ec2           all of them, and what becomes of them
shop          what EC2 has to sell: types, prices, capacity, quota
cloud         the Cloud port
kube          the API server's objects
kubelets      pods on their nodes: they start, end, and fall silent with the machine
nodes         nodes join, lose their heartbeat, and are cleared away
scheduler     which node a waiting pod gets
workloads     deployments, StatefulSets, daemonsets and jobs: the controllers that make pods again
budgets       disruption budgets and the Eviction API's rule
cluster       the Cluster port
load          requests, backlog and latency
metrics       what Prometheus scraped, and the Gauges port
table         the records, as a table would hold them
store         the Store and History ports
sinks         the archive and the log
people        what a person does by hand
invariants    what must never happen, checked at every effect
world         all of it together
"""
