"""A whole world behind the ports, in virtual time: EC2, K3s, Prometheus, the table, and the operators around them.

The shipped loop runs in it unchanged. Nothing here reads a clock or draws a number that the seed does not fix, and of
all threads only one goes on at a time, so the same seed always plays the same.

clock                  virtual time, and what happens when
cooperative_scheduler  runs that go on side by side, one at a time
hooks                  every port call passes a gate: counted, delayed, failed before or after its effect
faults                 what the world does to calls: parts away, slow, throttled
instances              one instance of EC2
ec2                    all of them, and what becomes of them
shop                   what EC2 has to sell: types, prices, capacity, quota
cloud                  the Cloud port
kube                   the API server's objects
kubelets               pods on their nodes: they start, end, and fall silent with the instance
nodes                  nodes join, lose their heartbeat, and are cleared away
scheduler              which node a waiting pod gets
workloads              deployments, StatefulSets, daemonsets and jobs: the controllers that make pods again
budgets                disruption budgets and the Eviction API's rule
cluster                the Cluster port
load                   requests, backlog and latency
metrics                what Prometheus scraped, and the Gauges port
table                  the records, as a table would hold them
store                  the Store and History ports
sinks                  the archive and the log
operators              changes that an operator makes by hand
rules                  what must never happen, and what must happen in time
liveness               … the second, polled
invariants             … the first, checked at every effect; accounts: writes, orphan_checks: cleanups
world                  all of it together
chaos                  thousands of evil days in it

shapes                 what the load of a day looks like; traces and times_of_day help it
scenarios              days of a cluster as files: read, staged, acted and checked
playing                plays one, with the shipped loop and with fixed fleets
recording              watches it: time_series holds the moments, commit_log what the runs wrote
scenario_result        what came of it; figures and summary say it in numbers and words
"""
