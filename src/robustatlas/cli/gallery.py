"""``robustatlas gallery``: a picture of what attacks do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def gallery(
    model: Annotated[str, typer.Argument(help="`path/file.py:function`, `package.module:function` or `builtin:NAME`.")],
    data: Annotated[str, typer.Option(help="digits, mnist, fashion-mnist, cifar10, or a file.npz (images, labels).")],
    attacks: Annotated[str, typer.Option(help="Attacks or suites, with commas.")] = "linf,l2,l1,l0",
    sample: Annotated[
        int | None, typer.Option(min=0, help="Position in the data; default: the first one classified correctly.")
    ] = None,
    columns: Annotated[int, typer.Option(min=1, max=10, help="Strengths per attack.")] = 4,
    weights: Annotated[Path | None, typer.Option(help="Weights: .safetensors, or .pt of plain tensors.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG, PDF or SVG.")] = Path("gallery.png"),
) -> None:
    """Draw clean image, adversarial image and amplified difference: a row per attack, a column per strength.

    robustatlas gallery builtin:digits-linf --data digits --attacks linf,elastic,stadv -o gallery.png
    """
    import robustatlas as ra
    from robustatlas.report.sheet import plot_gallery

    classifier = ra.load_model(model, weights)
    names = [name.strip() for name in attacks.split(",") if name.strip()]
    figure = plot_gallery(classifier, ra.load_dataset(data), names, sample, columns)
    try:
        figure.savefig(output)
    except (OSError, ValueError) as error:
        raise ra.UserError(
            f"{output} cannot be written ({error}); give a .png, .pdf or .svg in a folder that exists."
        ) from error
    typer.echo(f"Gallery: {output}")
