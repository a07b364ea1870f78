"""What is written for a paper."""


def pvalue(value: float) -> str:
    """A p-value with three decimals, or that it is smaller.

    >>> pvalue(0.03125), pvalue(0.0002)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
