"""Figures over many ratios."""


def mean_error(ratios: list[float]) -> float:
    """Returns the mean absolute error of ratios to published figures."""
    return sum(abs(ratio - 1) for ratio in ratios) / len(ratios)


def rank_correlation(pairs: list[tuple[float, float]]) -> float:
    """Returns Spearman's correlation; equal figures have the mean of their ranks."""

    def ranks(values):
        return [
            sum(other < value for other in values) + (values.count(value) - 1) / 2
            for value in values
        ]

    first, second = (ranks(list(side)) for side in zip(*pairs, strict=True))
    middle = (len(pairs) - 1) / 2
    covariance = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    spread = [sum((a - middle) ** 2 for a in side) for side in (first, second)]
    return covariance / (spread[0] * spread[1]) ** 0.5 if all(spread) else 1.0
