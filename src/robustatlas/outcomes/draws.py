"""Numbers of draws that decide if a randomised model misclassifies an input."""

LOOKS = (50, 200, 800)
"""Fresh draws after which it is asked whether a misclassification is certain; most are after the first."""
