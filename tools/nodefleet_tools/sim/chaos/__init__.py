"""Thousands of evil days: the shipped loop in a world where everything fails, and what must hold all the same.

plan             what a seed stands for: a scene, how often calls fail, what happens when
widening         what is drawn beyond that, each kind on its own
scene            the cluster at the beginning: policy, workers, workloads, budgets
fault_injection  faults at single calls: before and after the effect, slow, throttled, stale, fatal
incidents        what happens around the runs: operator_actions, cloud_faults, cluster_faults
invocations      how runs are started: by the schedule, by alerts, by EC2's events, by hand; again when they fail
play             one seed from beginning to end: an hour of trouble, then calm
quiescence       what must be so when everything is well again
kept             plans as files: a regression outlives every change of the draws
shortening       the smallest plan that still goes wrong, and its trace
planted          bugs put into the shipped code, to show that they are found
hunting          which seed finds which of them first
seeds            many seeds, by several processes
"""
