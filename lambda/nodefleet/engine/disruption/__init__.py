"""Reasons to remove a node, one module each."""
