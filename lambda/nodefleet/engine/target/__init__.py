"""Bounds from every source, and the one target that their ranks leave."""
