"""Policies on recorded load."""

BUDGET = 0.5  # percent of minutes that may be violations: what the costs of policies are compared at
