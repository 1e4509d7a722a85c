"""The scaling policy: every number that a rule uses, with its unit, its default and the reason for it."""
