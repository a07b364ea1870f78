"""Folder of a training: the training that it belongs to, and its finished parts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from robustatlas.attacks.description import to_plain_data
from robustatlas.common.errors import UserError
from robustatlas.common.files import remove_stale_temporaries, write_text
from robustatlas.data import Dataset
from robustatlas.models.card import WEIGHTS, Card, TrainingData, TrainingIdentity, read_card
from robustatlas.models.sources.local_files import hashes_of_files, source_files
from robustatlas.models.weights import load_weights
from robustatlas.outcomes import sha256_of_array, sha256_of_tensors
from robustatlas.training.checkpoint import CHECKPOINT, read_checkpoint
from robustatlas.training.devices import Workers
from robustatlas.training.recipes import Recipe
from robustatlas.training.settings import Settings
from robustatlas.training.snapshots import EPOCHS

_IDENTITY = "training.json"


def training_identity(
    net: nn.Module,
    data: Dataset,
    recipe: Recipe,
    settings: Settings,
    held: Tensor,
    team: Workers,
    extra: Dataset | None = None,
    architecture: str = "",
) -> TrainingIdentity:
    """Return the record of everything that determines the weights."""
    identity = TrainingIdentity(
        recipe={"name": recipe.name} | to_plain_data(recipe),
        settings=asdict(settings),
        data=_describe_data(data, int(held.sum())),
        extra=None if extra is None else _describe_data(extra),
        initial_sha256=sha256_of_tensors(net.state_dict()),
        code=hashes_of_files([file for file in source_files(architecture) if file.is_file()]),
        processes=team.count,
    )
    return TrainingIdentity.model_validate_json(
        identity.model_dump_json()
    )  # as it is read from a file, where infinity is text


def _describe_data(data: Dataset, held: int = 0) -> TrainingData:
    return TrainingData(
        name=data.name,
        images_sha256=data.rows.sha256(),
        labels_sha256=sha256_of_array(data.labels.numpy()),
        images=len(data),
        held_out=held,
        shape=data.shape,
        classes=data.classes,
    )


def claim_folder(
    folder: Path, identity: TrainingIdentity, net: nn.Module, team: Workers, kept: Sequence[int] = ()
) -> tuple[Card, tuple[Mapping[str, Any], ...]] | None:
    """Claim ``folder`` for this training, or load the finished training in it into ``net``.

    Returns:
        the card and a record of each epoch of the finished training; None: it is not finished.

    Raises:
        UserError: the folder contains another training, or lacks the weights of epochs that are to be ``kept``.
    """
    path = folder / _IDENTITY
    if path.is_file():
        try:
            there = TrainingIdentity.model_validate_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise UserError(f"{path} does not describe a training; give another folder.") from error
        different = there.differences(identity)
        if different:
            raise UserError(
                f"{folder} holds another training ({'; '.join(different[:3])}); give another folder, or the same "
                "settings to go on."
            )
        if (folder / "card.json").is_file():
            card = read_card(folder)
            lacking = [epoch for epoch in kept if not (folder / EPOCHS / f"{epoch:04d}" / WEIGHTS).is_file()]
            if lacking:
                raise UserError(
                    f"The training in {folder} is finished and did not keep the weights of epoch {lacking[0]}; give "
                    "another folder, or keep= (--keep) as it was."
                )
            load_weights(net, folder / WEIGHTS)
            done = read_checkpoint(folder)
            return card, tuple(done[1].history if done else ())
    elif (folder / CHECKPOINT).is_file():
        raise UserError(f"{folder} holds a checkpoint, but no {_IDENTITY} that says of what; give another folder.")
    elif team.is_main:
        text = identity.model_dump_json(indent=2) + "\n"
        write_text(path, text)
    if team.is_main:
        remove_stale_temporaries(folder)
    return None
