"""What is written for a paper."""

_IN_LATEX = {**{sign: f"\\{sign}" for sign in "&%$#_{}"}, "†": r"$^\dagger$", "∞": r"$\infty$"}


def in_latex(text: str) -> str:
    """``text`` with what LaTeX reads as commands made plain.

    >>> in_latex("wide_net 50 %")
    'wide\\\\_net 50 \\\\%'
    """
    return "".join(_IN_LATEX.get(sign, sign) for sign in text)


def pvalue(value: float) -> str:
    """A p-value with three decimals, or that it is smaller.

    >>> pvalue(0.03125), pvalue(0.0002)
    ('0.031', '< 0.001')
    """
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
