"""The folder of a training: whose it is, and what of it is done."""

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


def identity_of(
    net: nn.Module,
    data: Dataset,
    recipe: Recipe,
    settings: Settings,
    held: Tensor,
    team: Workers,
    extra: Dataset | None = None,
    architecture: str = "",
) -> TrainingIdentity:
    """Return what determines the weights."""
    identity = TrainingIdentity(
        recipe={"name": recipe.name} | to_plain_data(recipe),
        settings=asdict(settings),
        data=_described(data, int(held.sum())),
        extra=None if extra is None else _described(extra),
        initial_sha256=sha256_of_tensors(net.state_dict()),
        code=hashes_of_files([file for file in source_files(architecture) if file.is_file()]),
        processes=team.count,
    )
    return TrainingIdentity.model_validate_json(identity.model_dump_json())  # as a file gives it back: infinity is text


def _described(data: Dataset, held: int = 0) -> TrainingData:
    return TrainingData(
        name=data.name,
        images_sha256=data.rows.sha256(),
        labels_sha256=sha256_of_array(data.labels.numpy()),
        images=len(data),
        held_out=held,
        shape=data.shape,
        classes=data.classes,
    )


def claimed(
    folder: Path, identity: TrainingIdentity, net: nn.Module, team: Workers, kept: Sequence[int] = ()
) -> tuple[Card, tuple[Mapping[str, Any], ...]] | None:
    """Claim ``folder`` for this training, or read the finished one in it into ``net``: its card, and a record of each
    epoch. Raises where it holds another, or lacks the weights of the epochs to be ``kept``."""
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
    elif team.main:
        text = identity.model_dump_json(indent=2) + "\n"
        write_text(path, text)
    if team.main:
        remove_stale_temporaries(folder)
    return None
