"""How often a randomised model was asked of one input, to tell whether it is misclassified."""

LOOKS = (50, 200, 800)
"""Fresh draws after which it is asked whether a misclassification is certain; most are after the first."""
