"""Demand sources: where the readings of a policy come from, one file each.

A new source touches four files: its entry in `policy/demand.py`, its adapter here, its line in `registry.py`, and
`docs/policy.md`. The schema (`make schema`) follows from the entry, and a test names what is missing.
"""
