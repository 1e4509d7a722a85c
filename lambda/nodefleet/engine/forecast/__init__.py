"""The load that a pool will have when a node launched now would serve, and how sure that is.

Pure and deterministic. Everything can be learned again from the load of the last days, so it is safe to lose.
"""
