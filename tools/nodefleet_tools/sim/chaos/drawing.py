"""What is drawn by chance, repeatably."""

from random import Random


def chance(random: Random, share: float) -> bool:
    """True in this share of all cases."""
    return random.random() < share


def coin(random: Random) -> bool:
    return chance(random, 0.5)
