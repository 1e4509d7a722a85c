"""Where a pod may run, computed as the Kubernetes scheduler does.

predicates     whether one pod may run on one node, and the first reason why not; what is free on a node
topology       affinity, anti-affinity and spread, as counts of pods by topology domain
index          the first of many nodes with enough room, without visiting each
simulation     all nodes together: place a pod, drain a node, roll both back
templates      what a new node of a pool offers, which new nodes hold a pod, and which pool it goes to
bin_packing    plans of new nodes for pods that depend on nothing but CPU and memory
pool_packing   what the pending pods of one pool need
packing        the new nodes that pending pods need, by pool, beside all that exist or are expected
"""
