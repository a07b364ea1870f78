"""Draw the README's figures: robustness curves of the built-in models, side by side and, for narrow screens, stacked;
and the card of one of them.

python examples/demo.py && python scripts/readme_figure.py
"""

from pathlib import Path

import matplotlib.pyplot as plt

import robustatlas as ra

RUNS = Path("runs/demo")
FIGURES = Path("docs/images")
MODELS = ("digits-standard", "digits-linf", "digits-l2")


def draw(results: dict[str, ra.Result], rows: int, columns: int, size: tuple[float, float], path: Path) -> None:
    """One panel per norm."""
    figure, panels = plt.subplots(rows, columns, figsize=size, sharey=True, layout="constrained")
    for attack, last, axes in zip(("linf", "l2", "l1"), (0.24, 1.2, 3.2), panels, strict=True):
        ra.plot_curves({name: result.curve(attack) for name, result in results.items()}, axes, up_to=last)
        axes.get_legend().remove()
    for axes in panels[1:] if rows == 1 else ():
        axes.set_ylabel("")
    names = [name.removeprefix("digits-") for name in results] if rows > 1 else list(results)
    lines, _ = panels[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=len(MODELS), frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """All figures, of the runs of the demo."""
    results = {name: ra.load_result(RUNS / name) for name in MODELS}
    draw(results, 1, 3, (10, 3.2), FIGURES / "curves.png")
    draw(results, 3, 1, (4.2, 7.5), FIGURES / "curves-narrow.png")
    ra.card(results["digits-linf"]).save(FIGURES / "card.svg")


if __name__ == "__main__":
    main()
