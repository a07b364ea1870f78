"""Suites: named sets of attacks, each with the strengths and searches of its source, where it has one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path

from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import ALL_SEARCHES, Attack, AttackRun, ProtocolName, grid
from robustatlas.attacks.everyday import everyday_suite
from robustatlas.attacks.imagenet_ua import attacks_at_levels
from robustatlas.attacks.lp import attack_in_norm
from robustatlas.attacks.runs import FRONTIER, grid_runs, limit_to_searches
from robustatlas.common.documents import read_json
from robustatlas.common.errors import UserError
from robustatlas.metrics.references import load_reference
from robustatlas.metrics.references.imagenet_ua import CORE, EXTRA
from robustatlas.models.classifier import Classifier, Knowledge
from robustatlas.models.classifier.backward import Backward
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.carlini_wagner import CarliniWagner
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.optimizers.pgd import PGD
from robustatlas.optimizers.pgd_search import PGDSearch
from robustatlas.optimizers.square import Square
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.historical.elastic import HistoricalElasticOnPixels
from robustatlas.threats.lp import L1, L2, Linf

PAPER = "paper"

RANKED = ("linf", "l2", "l1", "stadv", "recolor", "elastic", "jpeg-linf", "jpeg-l1", "lpips")
UNRANKED = ("fog", "snow", "gabor", "affine", "perspective", "hue", "saturation", "brightness", "contrast")
UAR_CORE = ("linf", "l1", "elastic", "fog", "snow")
"""Kang et al. 2019, section 4: low UAR against each other, and low correlation between UAR scores."""
_LEVELS = {"linf": 8 / 255, "l2": 0.5}
"""Largest of the ten levels of the adversarial hypervolume."""
_CONSTANT_STEP = ("fog", "snow", "gabor")


@dataclass(frozen=True)
class Suite:
    """A named set of attacks, with the strengths and searches of its source."""

    name: str
    about: str
    build: Callable[[ProtocolName], list[Attack]]


def _attacks_named(*names: str) -> Callable[[ProtocolName], list[Attack]]:
    return lambda protocol: [attack_named(name, protocol) for name in names]


def _uar(reference: str, only: tuple[str, ...] = (), steps: int = 200) -> Callable[[ProtocolName], list[Attack]]:
    """The attacks of UAR at their calibrated strengths; as published: one random target, 200 steps, last iterate."""

    def build(protocol: ProtocolName) -> list[Attack]:
        table = load_reference(reference).accuracies
        names = [name for name in table.attacks if not only or name in only]
        return [uar_attack(name, tuple(map(float, table.distances(name))), protocol, steps) for name in names]

    return build


def _uar_core_cifar10(protocol: ProtocolName) -> list[Attack]:
    """Return the attacks of the core that UAR's authors calibrated on CIFAR-10, and the others as calibrated here."""
    found = read_json(Path(str(files("robustatlas.attacks"))) / "uar_core_cifar10.json")
    ours = [uar_attack(name, tuple(map(float, grid)), protocol) for name, grid in found["strengths"].items()]
    marked = [replace(attack, about=replace(attack.about, calibrated=found["calibrated"])) for attack in ours]
    return [*_uar("uar-cifar10", UAR_CORE)(protocol), *marked]


def uar_attack(name: str, strengths: tuple[float, ...], protocol: ProtocolName, steps: int = 200) -> Attack:
    """An attack at UAR's strengths; as published it takes 200 ``steps`` towards a random class, and 50 to see what they
    are worth (appendix D.2)."""
    attack = replace(attack_named(name, protocol), strengths=strengths)
    if protocol != PAPER:
        return attack
    optimizer: Optimizer  # type: ignore[type-arg]
    if name in ("l1", "jpeg-l1"):
        optimizer = FrankWolfe(steps)
    else:
        optimizer = PGD(steps, rate=steps**-0.5, length=0.002236 if name in _CONSTANT_STEP else None)
    threats: dict[str, ThreatModel] = {
        "linf": Linf(starts="volume"),
        "l2": L2(starts="volume"),
        "l1": L1(starts="volume"),
        "elastic": HistoricalElasticOnPixels(),
    }
    return replace(
        attack,
        threat=threats.get(name, attack.threat),
        runs=(AttackRun(optimizer, "cross-entropy", targets="random", judge="last"),),
        rules=(),
        search_order=("every", "bisection") if attack.nested else ("every",),
        about=replace(attack.about, source="Kang et al. 2019 (UAR)"),
        repairs=True,
    )


def _hypervolume(protocol: ProtocolName, levels: Mapping[str, float] = _LEVELS, ending: str = "") -> list[Attack]:
    """Margins at ten levels; as published, APGD-MAR: APGD of 20 steps on the margin of probabilities at each level."""
    published = AttackRun(APGD(steps=20), "probability-margin")
    attacks = [attack_named(norm + ending) for norm in levels]
    if protocol == PAPER:
        made = [replace(attack, runs=(published,), search_order=("every",)) for attack in attacks]
    else:
        made = [
            replace(
                attack,
                runs=(*limit_to_searches(FRONTIER, *attack.plan("frontier").runs), *grid_runs(published)),
                search_order=("frontier", "bisection", "every"),
            )
            for attack in attacks
        ]
    return [_with_ten_levels(attack, most) for attack, most in zip(made, levels.values(), strict=True)]


def _robustness_curves(protocol: ProtocolName) -> list[Attack]:
    """Smallest sizes as foolbox 2.4 finds them: PGD with its search over epsilon in linf, Carlini and Wagner's attack
    with ten rounds in place of five in l2."""
    runs = {
        "linf": AttackRun(PGDSearch(), "cross-entropy", "bound"),
        "l2": AttackRun(CarliniWagner(inner_steps=1000, rounds=10, rate=5e-3), "margin", "bound"),
    }
    source = "Risse et al. 2021 (robustness curves), section C.2, with the settings of foolbox 2.4"
    return [
        replace(attack_in_norm(norm, norm, (run,), source, search_order=("minimum",)), usual_rules=False)
        for norm, run in runs.items()
    ]


def _transformed_hypervolume(protocol: ProtocolName) -> list[Attack]:
    """Return the same levels behind a transformation: margins by every gradient of it."""
    attacks = (replace(_transformed_attack(norm), search_order=("frontier", "every", "bisection")) for norm in _LEVELS)
    return [_with_ten_levels(attack, _LEVELS[attack.name]) for attack in attacks]


def _with_ten_levels(attack: Attack, most: float) -> Attack:
    return replace(attack, strengths=grid(most, 10))


WAYS_BACK: tuple[Backward, ...] = ("identity", "surrogate", "bare")
"""Gradients of an input transformation that mean something (``"true"`` is zero for rounding)."""


def _input_transformation(protocol: ProtocolName) -> list[Attack]:
    return [_transformed_attack(norm) for norm in ("linf", "l2")]


def _transformed_attack(norm: str) -> Attack:
    """Return the strong attack with each gradient of the transformation, and random search at the end.

    Ascents run untargeted first, then towards three classes.
    """
    attack = attack_named(norm)
    descent, frontier = attack.plan("descent"), attack.plan("frontier")
    untargeted = [replace(run, count=1, targets=None) for run in descent.runs_in("ascend")]
    targeted = [replace(run, count=3) for run in descent.runs_in("ascend")]
    ascents = [run for ascent in (*untargeted, *targeted) for run in _runs_each_way(ascent)]
    refines = [run for refine in descent.runs_in("refine") for run in _runs_each_way(refine)]
    bounds = _runs_each_way(descent.first("bound"))
    sweeps = [replace(sweep, backward=way) for way in WAYS_BACK for sweep in frontier.runs_in("sweep")]
    spread = replace(frontier.first("ascend"), backward=WAYS_BACK[0])
    about = replace(
        attack.about,
        source="Athalye et al. 2018 (BPDA), by several stand-ins, and Square (Andriushchenko et al. 2020)",
        note="The union of four kinds of attack on a transformed input, each scored with the real transformation.",
    )
    random_search = AttackRun(Square(steps=1000), "margin")
    runs = (*bounds, *ascents, random_search, *refines)
    pressing = [replace(run, role="press") for run in (*ascents, random_search)]
    swept = limit_to_searches(FRONTIER, *bounds, *pressing, spread, *sweeps)
    return replace(attack, runs=(*runs, *swept), rules=(), search_order=ALL_SEARCHES, about=about)


def _runs_each_way(run: AttackRun) -> list[AttackRun]:
    """Return the run with each gradient of the transformation; it serves every search of its role."""
    return [replace(run, backward=way, searches=()) for way in WAYS_BACK]


# Each suite says in words whose attacks and numbers it has.
SUITES: dict[str, Suite] = {
    suite.name: suite
    for suite in (
        Suite("lp", "linf, l2, l1 and l0", _attacks_named("linf", "l2", "l1", "l0")),
        Suite("multirobustbench", "the nine ranked attacks at 20 strengths", _attacks_named(*RANKED)),
        Suite(
            "multirobustbench-all", "the nine ranked and the nine unranked attacks", _attacks_named(*RANKED, *UNRANKED)
        ),
        Suite(
            "corruptions",
            "the common corruptions at five severities",
            lambda p: [a for n, a in catalogue(p).items() if n.startswith("corruption-")],
        ),
        Suite(
            "everyday",
            "everyday changes in three sizes, slight, clear and strong, in units that people know",
            everyday_suite,
        ),
        Suite("uar-cifar10", "UAR's attacks at six strengths calibrated for CIFAR-10", _uar("uar-cifar10")),
        Suite("uar-imagenet100", "UAR's attacks at six strengths calibrated for ImageNet-100", _uar("uar-imagenet100")),
        Suite(
            "uar-cifar10-50-steps",
            "the same by 50 steps in place of 200 with --protocol paper, as UAR's appendix D.2 has it on ImageNet-100",
            _uar("uar-cifar10", steps=50),
        ),
        Suite(
            "uar-imagenet100-50-steps",
            "UAR's attacks for ImageNet-100, by 50 steps in place of 200 with --protocol paper (its appendix D.2)",
            _uar("uar-imagenet100", steps=50),
        ),
        Suite(
            "uar-core",
            "the five attacks that UAR suggests to start with, at six strengths calibrated for ImageNet-100",
            _uar("uar-imagenet100", UAR_CORE),
        ),
        Suite(
            "uar-core-cifar10",
            "the same five at six strengths calibrated for CIFAR-10: fog and snow here, not by the authors of UAR",
            _uar_core_cifar10,
        ),
        Suite(
            "imagenet-ua",
            "the eight core attacks of ImageNet-UA at three levels, for UA2; below 85 pixels those of CIFAR-10",
            partial(attacks_at_levels, CORE),
        ),
        Suite(
            "imagenet-ua-extra",
            "the eleven other attacks of ImageNet-UA at three levels",
            partial(attacks_at_levels, EXTRA),
        ),
        Suite(
            "hypervolume",
            "margins at ten levels of linf (8/255) and l2 (0.5) for the adversarial hypervolume",
            _hypervolume,
        ),
        Suite(
            "hypervolume-imagenet",
            "the same at ten levels of linf (4/255), as the paper has it on ImageNet",
            partial(_hypervolume, levels={"linf": 4 / 255}),
        ),
        Suite(
            "hypervolume-cross-entropy",
            "the normalised cross-entropy in place of the margin, at the levels of the suite hypervolume; what has no "
            "more than the probability of a guess is an error",
            partial(_hypervolume, ending=".improbable"),
        ),
        Suite(
            "robustness-curves",
            "curves in linf by PGD with a search over epsilon, in l2 by Carlini and Wagner's attack in ten rounds",
            _robustness_curves,
        ),
        Suite(
            "input-transformation",
            "linf and l2 through a defense that transforms the input: every stand-in for its gradient, transfer from "
            "the bare network, and random search, as one attack each",
            _input_transformation,
        ),
        Suite(
            "hypervolume-input-transformation",
            "the margins of the suite hypervolume through a defense that transforms the input",
            _transformed_hypervolume,
        ),
    )
}


_DEFAULTS: Mapping[Knowledge, tuple[str, ...]] = {
    "gradients": ("linf", "l2"),
    "scores": ("square-linf", "square-l2"),
    "labels": ("hop-skip-jump-l2",),
}


def default_attacks(model: Classifier) -> tuple[str, ...]:
    """The attacks of an evaluation that names none: by what can be learnt of the model.

    Example:
        >>> from robustatlas.models.frameworks import from_predictions
        >>> default_attacks(from_predictions(len, "labels", classes=10))
        ('hop-skip-jump-l2',)
    """
    return _DEFAULTS[model.knowledge]


def resolve_attacks(
    given: str | Attack | Sequence[str | Attack], protocol: ProtocolName = "default", sides: Sequence[int] = ()
) -> list[Attack]:
    """The attacks behind names of the catalogue, names of suites and :class:`Attack` objects.

    An attack that is given by itself counts instead of the one of its name in a suite. ``sides`` are height and width
    of the images, where they are known: some names mean other strengths on small ones (see :meth:`Attack.on_images`).

    Example:
        >>> [attack.name for attack in resolve_attacks(["lp", "linf"])]
        ['l2', 'l1', 'l0', 'linf']
    """
    if protocol not in ("default", PAPER):
        raise UserError(f"protocol={protocol!r} is not known; expected 'default' or 'paper'.")
    items = _items(given)
    single = {item if isinstance(item, str) else item.name for item in items if item not in SUITES}
    found: list[Attack] = []
    for item in items:
        if isinstance(item, Attack):
            found.append(item)
            continue
        if item in SUITES:
            named = [attack for attack in SUITES[item].build(protocol) if attack.name not in single]
        else:
            named = [attack_named(item, protocol, also=SUITES)]
        found += [attack.on_images(sides) for attack in named] if sides else named
    return found


def _items(given: str | Attack | Sequence[str | Attack]) -> list[str | Attack]:
    wrong: object = given
    if isinstance(given, (str, Attack)):
        return [given]
    if isinstance(given, Iterable) and not isinstance(given, (bytes, Mapping)):
        items = list(given)
        strange = [item for item in items if not isinstance(item, (str, Attack))]
        if items and not strange:
            return items
        wrong = strange[0] if strange else items
    raise UserError(
        f"attacks={wrong!r} is not understood; expected names of attacks or suites such as 'linf', or Attack objects."
    )
