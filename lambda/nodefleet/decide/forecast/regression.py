"""Linear regression with exponential forgetting, in plain Python.

Kept are the weighted sums of products (the normal equations), not the rows: 253 numbers for 22 features. Features are
standardised when the equations are solved, and a small ridge keeps those that say the same from fighting.

A model on the first features alone needs no sums of its own: they are a corner of the same matrix, and its Cholesky
factor is a corner of the same factor.
"""

from collections.abc import Sequence
from math import sqrt
from operator import mul

_LEAST_VARIANCE = 1e-10  # a feature that never changes says nothing


class Regression:
    """Of several targets on the same features. The first feature must be the constant 1."""

    __slots__ = ("moments", "products")

    def __init__(self, features: int, targets: int) -> None:
        self.products = [[0.0] * (row + 1) for row in range(features)]  # lower triangle of Σ w·x·xᵀ
        self.moments = [[0.0] * features for _ in range(targets)]  # Σ w·x·y of each target

    def learn(self, row: Sequence[float], targets: Sequence[float], keep: float) -> None:
        """One more row; all earlier ones weigh `keep` of what they did."""
        products = self.products
        for index, value in enumerate(row):
            products[index] = [old * keep + value * other for old, other in zip(products[index], row, strict=False)]
        self.moments = [
            [old * keep + target * value for old, value in zip(moments, row, strict=True)]
            for moments, target in zip(self.moments, targets, strict=True)
        ]

    def solve(self, ridge: float, sizes: Sequence[int]) -> list[list[list[float]]]:
        """Coefficients by size (a model on that many of the first features) and target."""
        total = self.products[0][0]
        means = [row[0] / total for row in self.products]
        spread = [self._spread(index, means[index], total) for index in range(len(means))]
        factor = self._factor(means, spread, total, ridge)
        return [
            [self._solution(moments, means, spread, factor[: size - 1], total) for moments in self.moments]
            for size in sizes
        ]

    def _spread(self, index: int, mean: float, total: float) -> float:
        variance = self.products[index][index] / total - mean * mean
        return sqrt(variance) if index and variance > _LEAST_VARIANCE else 0.0

    def _factor(self, means: Sequence[float], spread: Sequence[float], total: float, ridge: float) -> list[list[float]]:
        """The Cholesky factor of the correlations of all features but the constant, plus the ridge."""
        factor: list[list[float]] = []
        for row in range(1, len(means)):
            built: list[float] = []
            for column in range(1, row + 1):
                if row == column:
                    value = 1.0 + ridge - sum(map(mul, built, built))
                    built.append(sqrt(max(value, 1e-12)))
                    break
                scale = spread[row] * spread[column]
                value = (self.products[row][column] / total - means[row] * means[column]) / scale if scale else 0.0
                other = factor[column - 1]
                built.append((value - sum(map(mul, built, other))) / other[-1])
            factor.append(built)
        return factor

    def _solution(
        self,
        moments: Sequence[float],
        means: Sequence[float],
        spread: Sequence[float],
        factor: Sequence[Sequence[float]],
        total: float,
    ) -> list[float]:
        mean = moments[0] / total
        count = len(factor)
        forward: list[float] = []
        for index in range(count):
            scale = spread[index + 1]
            value = (moments[index + 1] / total - means[index + 1] * mean) / scale if scale else 0.0
            forward.append((value - sum(map(mul, forward, factor[index]))) / factor[index][-1])
        back = [0.0] * count
        for index in range(count - 1, -1, -1):
            rest = sum(factor[other][index] * back[other] for other in range(index + 1, count))
            back[index] = (forward[index] - rest) / factor[index][index]
        slopes = [value / spread[i + 1] if spread[i + 1] else 0.0 for i, value in enumerate(back)]
        return [mean - sum(map(mul, slopes, means[1:])), *slopes]


def predict(coefficients: Sequence[float], row: Sequence[float]) -> float:
    """A model on the first features takes as many of the row as it has coefficients."""
    return float(sum(map(mul, coefficients, row)))
