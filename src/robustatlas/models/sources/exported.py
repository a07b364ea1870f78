"""``export:FILE``: a program that ``torch.export.save`` wrote."""

from __future__ import annotations

import io
import logging
import pickle
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from robustatlas.common.errors import UserError, first_line
from robustatlas.models.classifier import Classifier, Origin, Outputs


def exported_model(file: str, *, mean: Any = None, std: Any = None, outputs: Outputs = "logits") -> Classifier:
    """The program in ``file``: images in [0, 1] (less ``mean``, divided by ``std``) to what ``outputs`` says.

    A program exported with a fixed batch gets batches of that size. A ``.pt2`` file is a program: load only what you
    trust. Files that hold pickled objects are refused.
    """
    path = Path(file)
    if not path.is_file():
        raise UserError(f"There is no file {file} to load a program from.")
    _refuse_pickles(path)
    try:
        with _quiet():
            program = torch.export.load(path)
    except Exception as error:
        raise UserError(f"{file} cannot be read as a program of torch.export: {first_line(error)}.") from error
    inputs = [node.meta["val"] for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    if len(inputs) != 1 or not isinstance(inputs[0], torch.Tensor):
        raise UserError(f"The program in {file} has {len(inputs)} inputs; expected one, the images.")
    batch = inputs[0].shape[0]
    return Classifier(
        program.module(check_guards=False),
        mean,
        std,
        outputs=outputs,
        batch_size=batch if isinstance(batch, int) else None,
        origin=Origin(f"export:{file}", home=str(path.resolve()), library=f"torch {torch.__version__}"),
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """torch logs the traceback of what it then raises."""
    logger = logging.getLogger("torch.export")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _refuse_pickles(path: Path) -> None:
    """Raise unless all that torch would unpickle of an archive is tensors."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if any(name.endswith("/data.pkl") for name in names):
                raise UserError(
                    f"{path} is of torch.save, not of torch.export.save; give the function that builds the network, "
                    "and its state dict with --weights (in Python as the second argument)."
                )
            tensors = [name for name in names if name.endswith(".pt")]
            if objects := [name for name in names if "custom_obj" in name.rpartition("/")[2]]:
                raise UserError(
                    f"{path} holds pickled objects ({objects[0]}), which are not loaded; export a network of tensors."
                )
            for name in tensors:
                torch.load(io.BytesIO(archive.read(name)), "cpu", weights_only=True)
    except zipfile.BadZipFile as error:
        raise UserError(f"{path} is not a file of torch.export.save (not a zip archive).") from error
    except (pickle.UnpicklingError, RuntimeError) as error:
        raise UserError(
            f"{path} holds pickled objects besides tensors ({name}), which are not loaded; export a network of tensors."
        ) from error
