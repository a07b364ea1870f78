"""Draw the README's figure, docs/images/curves.png: robustness curves of the built-in models.

python examples/demo.py && python scripts/readme_figure.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt

import robustatlas as ra

RUNS = Path("runs/demo")
FIGURE = Path("docs/images/curves.png")
MODELS = ("digits-standard", "digits-linf", "digits-l2")


def main() -> None:
    """One panel per norm."""
    results = {name: ra.load_result(RUNS / name) for name in MODELS}
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="constrained")
    for attack, last, axes in zip(("linf", "l2", "l1"), (0.24, 1.2, 3.2), panels, strict=True):
        ra.plot_curves({name: result.curve(attack) for name, result in results.items()}, axes, up_to=last)
        axes.get_legend().remove()
    for axes in panels[1:]:
        axes.set_ylabel("")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=len(MODELS), frameon=False)
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
