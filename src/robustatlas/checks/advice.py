"""Advice that several flags give: sentences without their end, and lines of code.

In a line of code ``net`` is the network, ``model`` the model, ``data`` the data set, ``result`` the result of an
evaluation, and ``step`` the function inside of the network that the flag is about.
"""

MISLEADING = (
    "Find the step whose backward pass misleads and give it another one (straight_through, surrogate), or add attacks "
    "that need no gradient (square-linf)"
)
"""Advice for a gradient that says little about the model."""
HONEST_GRADIENT = "model = ra.Classifier(net, prepare=ra.straight_through(step))"
"""Line of code for a step in front of the network whose own gradient is missing or misleads."""
WITHOUT_GRADIENTS = 'ra.evaluate(model, data, "square-linf")'
"""Line of code that attacks by outputs alone."""
MARGIN_OF_LOGITS = 'ra.evaluate(model, data, "linf")'
"""Line of code that attacks by margins of logits, which do not saturate."""
HIGH_EFFORT = 'ra.evaluate(model, data, effort="high")'
"""Line of code that searches with more steps and starts."""
AUDIT = "result = ra.audit(result, data, model=model)"
"""Line of code that searches some samples again by every kind of attack that fits."""
