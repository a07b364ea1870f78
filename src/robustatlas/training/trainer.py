"""The one trainer: any recipe, from any checkpoint of its own, to the same weights."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.common.host import check_default_device
from robustatlas.data import Dataset
from robustatlas.models.card import Card
from robustatlas.outcomes.strengths import strengths_as_typed
from robustatlas.training.against import Against, check_opponents, unreached_strengths
from robustatlas.training.devices import find_workers
from robustatlas.training.display import TrainingDisplay, open_display
from robustatlas.training.epoch import close_epoch, measure_held_out, warn_once
from robustatlas.training.folder import claim_folder, training_identity
from robustatlas.training.given import (
    bind_threats,
    check_apart,
    check_images,
    check_net,
    check_options,
    check_weights,
    choose_held_out,
    output_warnings,
    parse_recipe,
    parse_settings,
)
from robustatlas.training.recipes import Recipe
from robustatlas.training.run import Events, TrainingRun, begin, restore, save
from robustatlas.training.settings import Settings
from robustatlas.training.snapshots import EPOCHS, CardFacts, make_card, write_network
from robustatlas.training.update import keep_generators, logits_alone, step

_CHECKPOINT_SECONDS = 120.0


@dataclass(frozen=True)
class Trained:
    """A finished training: the network in eval mode, its card, and a record of each epoch.

    Attributes:
        net: in eval mode.
        card: what was trained, and how accurate it is on images that were held out.
        history: for each epoch its numbers, such as the loss.

    Example:
        >>> import robustatlas as ra
        >>> net, data = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), ra.load_dataset("digits", "train").take(64)
        >>> trained = train(net, data, epochs=2, progress=False)
        >>> len(trained.history), trained.net.training
        (2, False)
    """

    net: nn.Module
    card: Card
    history: tuple[Mapping[str, Any], ...]


@torch.inference_mode(False)
@torch.enable_grad()
def train(
    net: nn.Module,
    data: Dataset,
    recipe: str | Recipe = "standard",
    against: Against | None = None,
    *,
    settings: Settings | None = None,
    epochs: int | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    architecture: str | None = None,
    device: str | torch.device | None = None,
    progress: bool | TrainingDisplay | None = None,
    extra: Dataset | None = None,
    keep: int | None = None,
    notes: Sequence[str] = (),
) -> Trained:
    """Train ``net`` in place by a recipe.

    Random numbers belong to (seed, epoch, sample): the weights depend neither on interruptions nor on what else runs.

    Args:
        net: images in [0, 1] to logits; with its initial weights.
        data: training images; those on disk are read batch by batch.
        recipe: a name (:data:`robustatlas.training.RECIPES`), or a recipe with settings of its own from
            :func:`robustatlas.training.recipe_named`.
        against: for a name: attack -> strength in the unit of the catalogue.
        settings: optimizer, schedule, augmentation and so on.
        epochs, seed: in place of those of ``settings``.
        out: folder for checkpoint, log, weights and card. A training that was interrupted there goes on, to the very
            weights it would have reached; a finished one is read. None: nothing is written.
        architecture: what the card calls the network.
        device: where to train; default: a GPU if there is one.
        progress: show a bar or lines (default: a bar where standard error is a terminal), or a display of your own.
        extra: more images of the same classes, such as generated ones, of which each batch draws the share
            ``settings.ratio``; an epoch has as many batches as without them.
        keep: in ``out/epochs``, keep the weights after every so many epochs, each a folder like ``out`` itself.
        notes: what the card is to say besides.

    Returns:
        the network with its card and history.

    Raises:
        UserError: what was given does not fit, the loss is no number, files cannot be written; checkpoints stay.

    Example:
        >>> import robustatlas as ra
        >>> _ = torch.manual_seed(0)
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> data = ra.load_dataset("digits", "train").take(300)
        >>> trained = train(net, data, "pgd", {"linf": 0.05}, epochs=10, settings=Settings(learning_rate=0.05))
        >>> trained.card.trained_on, trained.card.accuracies["clean"] > 80
        ({'linf': 0.05}, True)
    """
    for value, kind, what in ((net, nn.Module, "net"), (data, Dataset, "data")):
        if not isinstance(value, kind):
            raise UserError(f"{what} is a {type(value).__name__}; expected {kind.__module__}.{kind.__name__}.")
    given = parse_settings(settings, epochs, seed)
    plan = parse_recipe(recipe, against)
    check_default_device()
    check_images(data)
    check_weights(net)
    team = find_workers(device)
    net.to(team.device)
    plan_here = bind_threats(plan, net)
    check_opponents(plan_here.against, data.rows[:1].to(team.device))
    with logits_alone(net):
        classes = check_net(net, data, team.device)
        concerns = output_warnings(net, data, team.device)
    check_options(plan, given, data, extra, keep, out)
    held = choose_held_out(data, given)
    if extra is not None and bool(held.any()):
        kept = data.subset(held.nonzero()[:, 0])
        check_apart(kept, extra, "give other extra images, or hold none out (held_out=0)")
    identity = training_identity(net, data, plan, given, held, team, extra, architecture or "")
    folder = None if out is None else parse_path(out, "the folder of a training")
    name = architecture or type(net).__name__
    if folder is not None:
        snapshots = list(range(keep, given.epochs + 1, keep)) if keep else []
        finished = claim_folder(folder, identity, net, team, snapshots)
        if finished is not None:
            return Trained(net.eval(), *finished)
    run = begin(net, data, plan_here, given, team, held, classes, extra)
    if folder is not None:
        restore(run, folder)
    facts = CardFacts(
        identity, name, strengths_as_typed({opponent.name: opponent.epsilon for opponent in plan.against}), tuple(notes)
    )
    shown = open_display(progress if team.is_main else False)
    with shown as display, keep_generators(team.device), logits_alone(net):
        display.begin(plan.name, run.steps, run.position.step)
        for sentence in [*concerns, *unreached_strengths(plan.against)]:
            warn_once(run, display, sentence)
        _run_updates(run, display, folder if team.is_main else None, facts, keep)
        return _finish_training(run, facts, folder)


def _run_updates(
    run: TrainingRun, display: TrainingDisplay, folder: Path | None, facts: CardFacts, keep: int | None
) -> None:
    """Run all remaining updates, with checkpoints, a log and snapshots in ``folder``."""
    events = Events(folder) if folder is not None else None
    begun = time.perf_counter() - run.position.seconds
    saved = time.perf_counter()
    while run.position.step < run.steps:
        step(run, display)
        run.position.seconds = time.perf_counter() - begun
        is_epoch_end = run.position.step % run.steps_per_epoch == 0
        if is_epoch_end:
            record = close_epoch(run, display)
            if events is not None:
                events.add(record)
            if folder is not None and keep and record["epoch"] % keep == 0:
                write_network(
                    folder / EPOCHS / f"{record['epoch']:04d}",
                    run,
                    facts,
                    record["epoch"],
                    _extract_accuracies(record),
                )
        is_late = time.perf_counter() - saved > _CHECKPOINT_SECONDS and run.workers.count == 1
        if folder is not None and (is_epoch_end or is_late):
            save(run, folder)
            saved = time.perf_counter()


def _extract_accuracies(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the accuracies on held-out images from the record of an epoch, as a card lists them."""
    robust = {name.removeprefix("robust/"): v for name, v in record.items() if name.startswith("robust/")}
    union = {"union": record["robust"]} if record.get("robust") is not None else {}
    return ({"clean": record["clean"]} if record.get("clean") is not None else {}) | robust | union


def _finish_training(run: TrainingRun, facts: CardFacts, folder: Path | None) -> Trained:
    """Choose the weights, measure them on all held-out images, and write them and their card."""
    final_weights = run.best or run.ema
    if final_weights:
        run.net.load_state_dict(final_weights)
    reached = measure_held_out(run, None) if len(run.held) else {}
    epoch = run.position.best[0] if run.position.best else run.settings.epochs
    card = make_card(run, facts, epoch, reached, run.net.state_dict())
    if folder is not None and run.workers.is_main:
        write_network(folder, run, facts, epoch, reached, card)
    run.workers.wait()
    return Trained(run.net.eval(), card, tuple(run.position.history))
