"""Presets of the papers that train many networks: MultiRobustBench's acc*, UAR's ATA, those of robustness curves."""

from dataclasses import replace
from functools import partial
from typing import Any

from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.optimizers.lpa import FastLPA
from robustatlas.threats.base import ThreatModel
from robustatlas.training.preset import Fight, Preset
from robustatlas.training.settings import Settings

LINF = 8 / 255
SGD: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.9, "augmentation": "crop+flip"}
CHOSEN = "The paper chooses the epoch on test images; here it is chosen on held-out training images."
L1_LENGTHS = "In l1 crafting is by this package's inner attack, which finds its own lengths."

_MRB = Settings(**SGD, epochs=100, batch_size=256, schedule="piecewise", weight_decay=5e-4, selection="best")
_BY_ADAM = "Crafting is by steps of the sign; the public code's is by Adam, with a penalty on roughness."
_AS_KANG = "The paper refers to the settings of Kang et al. 2019; these are its public code's, untargeted."
_OWN_SETS = "Crafting is in this package's threat models; the published ones, which --protocol paper searches, differ."
_UAR_ATTACKS = ("elastic", "jpeg-linf", "jpeg-l1", "fog", "snow", "gabor")
_MRB_DIFFERS = {
    "l1": (L1_LENGTHS, "In l1 20 steps, of the public code's 100."),
    "stadv": (_BY_ADAM,),
    "recolor": (_BY_ADAM, _OWN_SETS),
    **dict.fromkeys(_UAR_ATTACKS, (_AS_KANG, _OWN_SETS)),
}
_MRB_STRENGTHS = {
    "linf": LINF, "l2": 0.5, "l1": 12.0, "stadv": 0.05, "recolor": 0.06, "elastic": 0.5, "jpeg-linf": 0.1,
    "jpeg-l1": 10.0, "lpips": 0.5, "fog": 25.0, "snow": 0.05, "gabor": 5.0, "affine": 0.05, "perspective": 0.001,
    "hue": 0.25, "saturation": 0.25, "brightness": 0.15, "contrast": 0.25,
}  # fmt: skip
"""Each is trained at 20 strengths; where no paper has one, this is the middle of them."""


def frank_wolfe(threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
    """Return UAR's optimizer for threat models with a linear oracle, which chooses its own lengths."""
    return FrankWolfe(steps)


def _mrb(attack: str, strength: float) -> Preset:
    length = strength / (20**0.5 if attack in _UAR_ATTACKS else 18)
    fight = Fight(strength, 20, length, optimizer=frank_wolfe if attack == "jpeg-l1" else None)
    return Preset(
        "Dai et al. 2023 (MultiRobustBench), the networks of acc*",
        "cifar10",
        "resnet18",
        "pat" if attack == "lpips" else "pgd",
        {attack: fight},
        _MRB,
        differs=(CHOSEN, *_MRB_DIFFERS.get(attack, ())),
        features="AlexNet" if attack == "lpips" else "",
    )


def fast_lpa(threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
    """Return the inner attack of perceptual adversarial training, which has lengths of its own."""
    return FastLPA(steps)


_MRB_JOINT = Preset(
    "Dai et al. 2023 (MultiRobustBench), joint training against lpips and elastic (figure 11)",
    "cifar10",
    "resnet18",
    "max",
    {"lpips": Fight(0.5, 20, 0.5 / 18, optimizer=fast_lpa), "elastic": Fight(0.7, 20, 0.7 / 18)},
    _MRB,
    differs=(
        CHOSEN,
        _OWN_SETS,
        "Fast-LPA goes over all images, also those that the network gets wrong already.",
    ),
    features="AlexNet",
)

MULTIROBUSTBENCH = {
    **{f"multirobustbench-{attack}": _mrb(attack, strength) for attack, strength in _MRB_STRENGTHS.items()},
    "multirobustbench-lpips-elastic": _MRB_JOINT,
}
"""Name to preset: the nine ranked attacks and the nine unranked ones, and joint training against lpips and elastic."""


_CIFAR = Settings(**SGD, epochs=200, batch_size=32, schedule="step:100,150", weight_decay=1e-4, held_out=0)
_IMAGENET = Settings(
    **{**SGD, "augmentation": "resized-crop+flip"},
    epochs=90,
    batch_size=256,
    schedule="step:30,60,80",
    warmup_epochs=5,
    weight_decay=1e-4,
    held_out=0,
)
_WARMUP = "The learning rate rises from 0, and not from .0125."
_LENGTHS = "Steps are scaled with the strength; the public code's have a length of their own."


def _fight(attack: str, strength: float) -> Fight:
    """Return 30 steps for elastic and 10 for all others, of length strength / sqrt(steps)."""
    steps = 30 if attack == "elastic" else 10
    return Fight(strength, steps, strength / steps**0.5)


def _uar(data: str, network: str, settings: Settings, **strengths: float) -> dict[str, Preset]:
    prefix = "uar-imagenet100" if data == "imagenet100" else "uar"
    more = (_WARMUP,) if data == "imagenet100" else ()
    named = {attack.replace("_", "-"): strength for attack, strength in strengths.items()}
    return {
        f"{prefix}-{attack}": Preset(
            "Kang et al. 2019 (UAR), the networks of ATA",
            data,
            network,
            "uniform",
            {attack: _fight(attack, strength)},
            settings,
            differs=(*more, *((_LENGTHS,) if attack in ("fog", "snow", "gabor") else ())),
        )
        for attack, strength in named.items()
    }


def _joint(data: str, network: str, settings: Settings, elastic: float, *more: str) -> Preset:
    fights = {"linf": _fight("linf", LINF), "elastic": _fight("elastic", elastic)}
    source = "Kang et al. 2019 (UAR), joint training against linf and elastic"
    return Preset(source, data, network, "uniform", fights, replace(settings, held_out=None), differs=more)


_IMAGENET_UAR = partial(_uar, "imagenet100", "timm:resnet50", _IMAGENET)
UAR = {
    **_uar(
        "cifar10", "resnet56", _CIFAR,
        linf=LINF, l2=320 / 255, l1=1560 / 255, jpeg_linf=0.25, jpeg_l1=256.0, elastic=2.0,
    ),
    "uar-joint": _joint("imagenet100", "timm:resnet50", _IMAGENET, 4.0, _WARMUP),
    "uar-joint-cifar10": _joint(
        "cifar10", "resnet56", _CIFAR, 1.0, "The paper trains jointly on ImageNet-100; this is its recipe for CIFAR-10."
    ),
    **_IMAGENET_UAR(
        linf=LINF, l2=1200 / 255, l1=600.0, jpeg_linf=0.5, jpeg_l2=64.0, jpeg_l1=16384.0, elastic=4.0, fog=2048.0,
        snow=2.0, gabor=400.0,
    ),
}  # fmt: skip
"""Name to preset: ATA on CIFAR-10 (`uar-ATTACK`) and ImageNet-100 (`uar-imagenet100-ATTACK`), and joint training."""


_CURVES = Settings(optimizer="adam", learning_rate=1e-3, epochs=100, schedule="step:90", held_out=0)
_PUBLIC = "The paper takes published networks; steps, their lengths and the fall of the rate are those of their code."
_WEIGHT = "Where not given, the weight is the code's default and gamma the strength; the authors choose both."


def _curve(kind: str, differs: tuple[str, ...] = (), against: tuple[str, ...] = ("linf",), **options: Any) -> Preset:
    strengths = {"linf": 0.1, "l1": 1.0}
    fights = {attack: Fight(strengths[attack], 40, strengths[attack] / 20) for attack in against}
    source = "Risse et al. 2021 (robustness curves): networks of Croce et al. 2019, Croce and Hein 2020, MNIST"
    return Preset(source, "mnist", "small-cnn", kind, fights, _CURVES, options, (_PUBLIC, *differs))


CURVES = {
    "robustness-curves": _curve("pgd", attacked=0.5),
    "robustness-curves-kw": _curve("kw", ("Wong and Kolter raise the strength over the first epochs (--set warmup).",)),
    "robustness-curves-mmr": _curve("mmr", (_WEIGHT,)),
    "robustness-curves-mmr-at": _curve("mmr", (_WEIGHT,), attacked=0.5),
    "robustness-curves-mmr-universal": _curve(
        "mmr", (_WEIGHT,), ("linf", "l1"), weight=(12.0, 3.0), first=0.2, last=0.05
    ),
}
"""Name to preset: AT, KW, MMR, MMR + AT and MMR-UNIV. Other data sets by --data and --against: linf .1 on MNIST and
Fashion-MNIST, 4/255 on GTS, 2/255 on CIFAR-10 (with 7 steps); l2 .3, .3, .2 and .1."""
