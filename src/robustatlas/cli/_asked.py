"""Options of an evaluation or a certification, the same for one model and for many, and the attacks that they name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from robustatlas.cli._help import ATTACKS, COMPUTE, DATA, OUTPUT, SAMPLES
from robustatlas.cli._options import split_names

if TYPE_CHECKING:
    from robustatlas.attacks import definition
    from robustatlas.models.classifier import Classifier

Attacks = Annotated[
    list[str] | None,
    ATTACKS.option(
        "NAMES",
        "Attacks or suites of attacks, with commas between them; `robustatlas attacks` lists both. `file.py:ATTACK` is "
        "an attack of your own. By default linf,l2; of a model that can only be asked, those that its answers allow.",
        show_default=False,
    ),
]
Exclude = Annotated[
    list[str] | None, ATTACKS.option("NAMES", "Attacks to leave out of the suites, with commas between them.")
]
Search = Annotated[
    str | None,
    ATTACKS.option(
        "NAME",
        "How the strengths are searched. descent: whole curves at the lowest cost (the default where an "
        "attack allows it); bisection: as MultiRobustBench; every: each strength by itself; frontier: the lowest "
        "margin at each strength; minimum: the smallest size, without a list of strengths.",
        hidden=True,
    ),
]
Effort = Annotated[
    str,
    ATTACKS.option(
        "NAME",
        "How long the search tries: low (fewer forward and backward passes), default, or high (several times "
        "as many, for a number in a paper).",
        show_default=False,
    ),
]
Pixels = Annotated[
    str,
    ATTACKS.option(
        "KIND",
        "Which inputs count as found: any, or 8bit, those alone that an 8-bit file (PNG) can hold. Images have to "
        "be as in their files.",
        show_default=False,
        hidden=True,
    ),
]
Border = Annotated[
    str | None,
    ATTACKS.option(
        "KIND",
        "What stands beyond the edges of images that everyday changes move or blur: reflect (the default), black "
        "or grey.",
        hidden=True,
    ),
]
ProtocolName = Annotated[
    str,
    ATTACKS.option(
        "NAME",
        "default: sound threat models and a strong search; paper: each attack as its publication ran it.",
        show_default=False,
    ),
]
Strengths = Annotated[
    list[str] | None,
    ATTACKS.option(
        "NAME=VALUES",
        "Strengths to evaluate an attack at: a list, `linf=2/255,8/255`, or equal steps, `linf=0.1:20` (20 "
        "steps up to 0.1). May be given once for each attack.",
    ),
]
Features = Annotated[
    str | None,
    ATTACKS.option(
        "NET=FILE",
        "Network by whose activations the attack lpips compares images: `alexnet=FILE`, `alexnet_cifar=FILE` "
        "or `vgg16=FILE`, with its file of weights. By default the attacked model itself.",
        hidden=True,
    ),
]
Samples = Annotated[
    int | None,
    SAMPLES.option(
        "N",
        "Number of samples to evaluate: the first ones of the data set, or, where it is sorted by class, as "
        "`--stratified` draws them. By default all.",
        min=1,
    ),
]
Resize = Annotated[
    int | None,
    DATA.option(
        "PIXELS",
        "Length that the shorter side of each picture is resized to; for pictures in folders. By default "
        "what the model states.",
        min=1,
        hidden=True,
    ),
]
Crop = Annotated[
    int | None,
    DATA.option(
        "PIXELS",
        "Side of the square that is cut out of the middle of each picture; for pictures in folders. By "
        "default what the model states.",
        min=1,
        hidden=True,
    ),
]
Stratified = Annotated[
    bool | None,
    SAMPLES.flag(
        "--stratified/--first",
        "Draw the samples at random, with the classes in the proportions of the data set, or take the first ones. "
        "By default drawn where the data set is sorted by class, and the run was not begun with the first ones.",
        show_default=False,
        hidden=True,
    ),
]
Channels = Annotated[
    int | None,
    DATA.option(
        "N",
        "Channels of pictures in folders: 1 or 3. By default what the first layer of the model takes, or else "
        "what the pictures have.",
        hidden=True,
    ),
]
ShardSize = Annotated[
    int | None,
    OUTPUT.option(
        "N",
        "Number of samples in each file of the run; a stop loses at most the files that are not finished. By "
        "default what takes about 45 seconds.",
        min=1,
        hidden=True,
    ),
]
Threads = Annotated[
    int | None,
    COMPUTE.option(
        "N",
        "Threads of the processor that the model runs with. By default one thread or all of them, whichever "
        "is measured to be faster.",
        min=1,
        hidden=True,
    ),
]
DeviceThroughput = Annotated[
    str | None,
    COMPUTE.option(
        "NUMBER",
        "With `--dry-run`, forward or backward passes of one image a second, or a device with published speeds "
        "(`rtx3090`), instead of a trial here.",
        hidden=True,
    ),
]
Seed = Annotated[int, ATTACKS.option("N", "Seed of all random numbers.", hidden=True)]
BatchSize = Annotated[
    str | None,
    COMPUTE.option(
        "N",
        "Number of samples that are computed at once, or `auto`: the number that this device is fastest "
        "with. By default 256.",
    ),
]


def parse_batch_size(given: str | None) -> int | Literal["auto"] | None:
    if given in (None, "auto"):
        return "auto" if given else None
    if not given.isdecimal() or not int(given):
        raise typer.BadParameter(f"{given} is neither a number of at least 1 nor auto.", param_hint="--batch-size")
    return int(given)


def attack_names(given: Sequence[str] | None, model: Classifier) -> list[str]:
    """Return the names that are given, several times or with commas, or those of the attacks that suit the model."""
    from robustatlas.attacks.suites import default_attacks

    return list(default_attacks(model)) if given is None else split_names(given)


def requested_attacks(names: list[str], protocol: str, features: str | None) -> list[str | definition.Attack]:
    """Return the attacks of some names. The import is late because it brings torch, for which help need not wait."""
    from robustatlas.attacks.suites import requested_attacks as attacks_or_files

    # Typer gives a text; the request refuses one that is no protocol.
    return attacks_or_files(names, cast("definition.ProtocolName", protocol), features)
