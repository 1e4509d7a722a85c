"""Disruption budgets on a real cluster, many at once: what to set up, how it gets there, and what came out.

cases      workloads and budgets by seed, and some by name
objects    the same as the API server takes them
staging    puts all cases into namespaces of their own, and waits until nothing moves any more
"""
