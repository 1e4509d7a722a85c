"""Nodes of one size that no packing of the pods can do without."""

import math
from collections.abc import Sequence


def lower_bound(sizes: Sequence[tuple[int, int]], cpu: int, memory: int) -> int:
    """The larger of what CPU and memory add up to, with pods that exclude each other counted (Martello and Toth's L2).
    Pods as (CPU, memory), in the units of the node."""
    return max(_l2([each for each, _ in sizes], cpu), _l2([each for _, each in sizes], memory))


def _l2(amounts: Sequence[int], size: int) -> int:
    """Pods above `size - small` have a node for themselves, those above half of it one each; the smaller ones, without
    the smallest, fill what is left."""
    best = math.ceil(sum(amounts) / size)
    for small in {0, *(each for each in amounts if each <= size / 2)}:
        alone = sum(each > size - small for each in amounts)
        halves = [each for each in amounts if size / 2 < each <= size - small]
        rest = sum(each for each in amounts if small <= each <= size / 2)
        best = max(best, alone + len(halves) + max(0, math.ceil((rest + sum(halves)) / size - len(halves))))
    return best
