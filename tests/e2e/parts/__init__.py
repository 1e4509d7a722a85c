"""Real components on this machine: a Kubernetes control plane, KWOK, kube-state-metrics and DynamoDB Local.

A double agrees with whoever wrote it. Here the scheduler, the Eviction API and conditional writes are the real ones.
Each part is built or downloaded once into a cache outside the tree (`recipes`), runs on loopback with ports of its own
(`part`), and ends with whoever started it, however that one ends (`guard`).
"""
