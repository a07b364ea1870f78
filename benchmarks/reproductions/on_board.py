"""Claims that the tables of the board answer (``docs/board``): one training of each defense, intervals over images."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from claims import FAILS, HOLDS, OPEN, Claim, joint_training, of_several, said, verdict

import robustatlas as ra
from robustatlas.metrics import (
    AccuracyStatistics,
    Interval,
    OutcomeTable,
    SampleStatistic,
    attack_correlation,
    bootstrap_replicates,
    paired_differences,
    share_statistic,
    unforeseen_attack_robustness,
)
from robustatlas.references import Reference, load_reference

BOARD = Path(__file__).parents[2] / "docs" / "board"
NORMS = ("linf", "l2", "l1")
TRAINED = {"linf": 0.1, "l2": 1.25, "l1": 8.0}
"""What the defenses of the board are trained against."""
_REPLICATES = 2000
_FIRST = "-seed0"
Tables = Mapping[str, OutcomeTable]


def load(board: Path = BOARD) -> tuple[Tables, Reference]:
    """The tables by defense, and the reference; of a board of several trainings those of the first."""
    runs = {path.name.removesuffix(_FIRST): path for path in sorted(_runs(board).iterdir()) if path.is_dir()}
    several = (board / f"reference{_FIRST}.json").is_file()
    chosen = {name: path for name, path in runs.items() if not several or path.name.endswith(_FIRST)}
    reference = board / (f"reference{_FIRST}.json" if several else "reference.json")
    return {name: ra.load_result(path) for name, path in chosen.items()}, load_reference(reference)


def _runs(board: Path) -> Path:
    """The folder of the runs, which are shipped as an archive."""
    archive = board / "runs.tar.xz"
    return Path(_unpacked(archive).name, "runs") if archive.is_file() else board / "runs"


@cache
def _unpacked(archive: Path) -> TemporaryDirectory[str]:
    place = TemporaryDirectory()
    shutil.unpack_archive(archive, place.name, filter="data")
    return place


def trained_against(board: Path = BOARD) -> Mapping[str, Mapping[str, float]]:
    """Defense -> the attacks of the board that it was trained against."""
    about = json.loads((board / "about.json").read_text(encoding="utf-8"))
    return {name.removesuffix(_FIRST): said["trained_on"] for name, said in about.items()}


def claims(board: Path = BOARD) -> list[Claim]:
    """All of them."""
    tables, reference = load(board)
    any_table = next(iter(tables.values()))
    on = f"board, {len(tables)} defenses, {any_table.samples} images"
    return [
        *multirobustbench(tables, reference, on),
        *robustness_curves(tables, on),
        *uar(tables, reference, on, trained_against(board)),
        *joint(tables, on),
    ]


def multirobustbench(tables: Tables, reference: Reference, on: str) -> list[Claim]:
    """Ranks depend on what is counted; the worst case is far below the average."""
    others = [attack for attack in reference.ranked if attack not in NORMS]
    statistics = {name: AccuracyStatistics(table) for name, table in tables.items()}
    by_norms = {name: s.competitiveness(reference, attacks=NORMS) for name, s in statistics.items()}
    by_others = {name: s.competitiveness(reference, attacks=others) for name, s in statistics.items()}
    reversed_pairs = []
    for one, other in combinations(tables, 2):
        gap = paired_differences(
            {"norms": by_norms[one], "others": by_others[one]},
            {"norms": by_norms[other], "others": by_others[other]},
            replicates=_REPLICATES,
        )
        signs = {verdict(gap["norms"]), verdict(gap["others"])}
        if signs == {HOLDS, FAILS}:
            first = one if gap["norms"].low > 0 else other
            reversed_pairs.append((first, other if first == one else one, gap))
    pairs = len(tables) * (len(tables) - 1) // 2
    example = ""
    if reversed_pairs:
        ahead, behind, gap = max(reversed_pairs, key=lambda pair: min(abs(i.value) for i in pair[2].values()))
        example = (
            f"; for instance {ahead} leads {behind} by {abs(gap['norms'].value):.1f} points of CR over the norms and "
            f"trails by {abs(gap['others'].value):.1f} over the rest"
        )
    order = {
        kind: sorted(tables, key=lambda name: -ratios[name].value)
        for kind, ratios in (("norms", by_norms), ("others", by_others))
    }
    counted = Claim(
        "MultiRobustBench",
        "ranks of training schemes depend on the attacks that are counted",
        on,
        f"{len(reversed_pairs)} of {pairs} pairs change places with both 95 % intervals excluding 0, where chance "
        f"alone gives {2 * 0.025**2 * pairs:.1f} (CR over "
        f"{', '.join(NORMS)} against CR over {', '.join(others)}){example}; first by norms {order['norms'][0]}, by the "
        f"rest {order['others'][0]}",
        HOLDS if reversed_pairs else OPEN,
    )
    worst = {name: s.competitiveness(reference, "ind-worst") for name, s in statistics.items()}
    average = {name: s.competitiveness(reference) for name, s in statistics.items()}
    best_average = max(average, key=lambda name: average[name].value)
    best_worst = max(worst, key=lambda name: worst[name].value)
    gap = _gap(average[best_average], worst[best_worst])
    case = Claim(
        "MultiRobustBench",
        "the best defense on average is far from robust in the worst case",
        on,
        f"best average CR {average[best_average].value:.1f} ({best_average}), best worst-case CR "
        f"{worst[best_worst].value:.1f} ({best_worst}), difference {said(gap)}",
        verdict(gap),
    )
    return [counted, case]


def robustness_curves(tables: Tables, on: str) -> list[Claim]:
    """Training in one norm does not carry to another; curves cross."""
    gaps = {}
    for norm in NORMS:
        for trained in NORMS:
            if trained != norm:
                own, foreign = (
                    share_statistic(tables[f"pgd-{name}"].survivors({norm: TRAINED[norm]})) for name in (norm, trained)
                )
                gaps[f"{norm} by {trained}"] = _gap(own, foreign)
    carried = Claim(
        "Robustness curves",
        "training against one norm does not carry to others",
        on,
        "lost by training in another norm, points at the trained strength: "
        + ", ".join(f"{name} {said(gap)}" for name, gap in gaps.items()),
        of_several(list(gaps.values())),
    )
    crossed = []
    for norm in NORMS:
        one, other = tables["pgd-linf"].outcome(norm), tables["pgd-l2"].outcome(norm)
        curves = [ra.metrics.RobustnessCurve.of(outcome) for outcome in (one, other)]
        crossed += [(norm, crossing) for crossing in curves[0].crossings(curves[1])]
    significant = [pair for pair in crossed if pair[1].significant]
    shown = ", ".join(
        f"{norm} near {crossing.start:.3g} (leads of {crossing.gap_before:.1f} and {crossing.gap_after:.1f} points)"
        for norm, crossing in sorted(crossed, key=lambda pair: -min(pair[1].gap_before, pair[1].gap_after))[:3]
    )
    crossing = Claim(
        "Robustness curves",
        "curves of a linf- and an l2-trained network cross",
        on,
        f"{len(crossed)} crossings in {', '.join(NORMS)}, {len(significant)} significant by simultaneous bands"
        + (f"; largest: {shown}" if shown else ""),
        HOLDS if significant else OPEN,
    )
    return [carried, crossing]


def uar(tables: Tables, reference: Reference, on: str, trained_on: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    """Transfer is uneven; some attacks agree; joint training helps."""
    statistics = AccuracyStatistics(tables["pgd-linf"])
    scores = {attack: statistics.uar(reference, [attack]) for attack in reference.ranked}
    high, low = (choose(scores, key=lambda attack: scores[attack].value) for choose in (max, min))
    replicates = bootstrap_replicates([scores[high], scores[low]], _REPLICATES)
    gap = _percentile(scores[high].value - scores[low].value, replicates[0] - replicates[1])
    uneven = Claim(
        "UAR",
        "training against one attack transfers unevenly to others",
        on,
        "UAR of pgd-linf: "
        + ", ".join(f"{attack} {score.value:.0f}" for attack, score in scores.items())
        + f"; {high} - {low} {said(gap)}",
        verdict(gap),
    )
    matrix = np.array(
        [
            [unforeseen_attack_robustness(table.accuracies(), reference, attack) for attack in reference.ranked]
            for table in tables.values()
        ]
    )
    seen = np.array([[attack in trained_on[name] for attack in reference.ranked] for name in tables])
    correlation = attack_correlation(matrix, seen=seen)
    norms = [reference.ranked.index(norm) for norm in NORMS]
    others = [i for i in range(len(reference.ranked)) if i not in norms]
    within = float(np.mean([correlation[a, b] for a, b in combinations(norms, 2)]))
    across = float(correlation[np.ix_(norms, others)].mean())
    draws = np.random.default_rng(0).integers(len(matrix), size=(_REPLICATES, len(matrix)))
    gaps = []
    for rows in draws:
        again = attack_correlation(matrix[rows], seen=seen[rows])
        gaps.append(
            np.nanmean([again[a, b] for a, b in combinations(norms, 2)]) - np.nanmean(again[np.ix_(norms, others)])
        )
    difference = _percentile(within - across, np.array(gaps))
    agree = Claim(
        "UAR",
        "attacks in norms agree on defenses more than with attacks of other kinds",
        on,
        f"mean correlation of UAR over defenses: {within:.2f} among {', '.join(NORMS)}, {across:.2f} of these with the "
        f"rest, each pair over the defenses trained against neither; difference {difference.value:+.2f} "
        f"[{difference.low:.2f}, {difference.high:.2f}] over defenses drawn",
        verdict(difference),
    )
    mean = {name: AccuracyStatistics(tables[name]).uar(reference) for name in tables}
    single = max((f"pgd-{norm}" for norm in NORMS), key=lambda name: mean[name].value)
    gained = {name: _gap(mean[name], mean[single]) for name in ("avg", "max", "msd", "sat")}
    gains = Claim(
        "UAR",
        "joint training against several attacks raises the mean UAR over the best single one",
        on,
        f"mUAR of {single} {mean[single].value:.1f}; gain of "
        + ", ".join(f"{name} {said(gain)}" for name, gain in gained.items()),
        of_several(list(gained.values())),
    )
    return [uneven, agree, gains]


def joint(tables: Tables, on: str) -> list[Claim]:
    """The union of three norms."""
    alive = {
        name: share_statistic(tables[name].survivors(TRAINED))
        for name in ("standard", "pgd-linf", "pgd-l2", "pgd-l1", "avg", "max", "msd")
    }
    union = {name: statistic.value for name, statistic in alive.items()}
    singles = [f"pgd-{norm}" for norm in NORMS]
    return joint_training(union, singles, lambda one, other: _gap(alive[one], alive[other]), on)


def _gap(one: SampleStatistic, other: SampleStatistic) -> Interval:
    """Of one - other on the same samples."""
    return paired_differences({"gap": one}, {"gap": other}, replicates=_REPLICATES)["gap"]


def _percentile(value: float, draws: np.ndarray) -> Interval:
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return Interval(value, float(low), float(high), 0.95)
