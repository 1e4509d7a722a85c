"""Prometheus, all queries of a look at once."""
