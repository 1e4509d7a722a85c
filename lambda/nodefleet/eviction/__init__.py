"""What becomes of pods when a node leaves: drain rules, disruption budgets, protection. Pure."""
