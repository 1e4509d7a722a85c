"""The rules that turn a user's own readings into nodes, one module each.

A rule is a formula: its readings and the fleet go in, what it found comes out. Nothing here remembers anything.
"""
