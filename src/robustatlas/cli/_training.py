"""The options of commands that train, the same in every command that has them."""

from typing import Annotated

import typer

from robustatlas.cli._help import ATTACKS, TRAINING

Architecture = Annotated[
    str,
    typer.Argument(
        metavar="ARCH",
        help="Network to train: digits-cnn, small-cnn, trades-cnn, resnet18, resnet20, resnet32, resnet34, resnet50, "
        "resnet56, resnet101, preact18, wrn-28-10, `timm:NAME`, or `path/file.py:function`.",
    ),
]
RecipeSettings = Annotated[
    list[str] | None,
    TRAINING.option(
        "NAME=VALUE", "A setting of the recipe, such as `beta=6` or `warmup=0.5`. May be given several times.", "--set"
    ),
]
TrainerSettings = Annotated[
    list[str] | None,
    TRAINING.option(
        "NAME=VALUE",
        "A setting of the trainer (optimizer, schedule, weight_decay, augmentation, ema, selection and others), such "
        "as `ema=0.995`. May be given several times.",
        "--with",
        hidden=True,
    ),
]
Features = Annotated[
    str | None,
    ATTACKS.option(
        "NET=FILE",
        "Network by whose activations lpips compares images: `alexnet=FILE`, `alexnet_cifar=FILE` or "
        "`vgg16=FILE`, with its file of weights. By default the trained network itself.",
        hidden=True,
    ),
]
