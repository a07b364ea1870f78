"""Claims that the tables of the board answer (``docs/board``): intervals over trainings, or over images where there is
one training of each defense."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from claims import FAILS, HOLDS, OPEN, Claim, joint_training, of_several, over_seeds, said, verdict

import robustatlas as ra
from robustatlas.metrics import (
    AccuracyStatistics,
    Crossing,
    Interval,
    OutcomeTable,
    SampleStatistic,
    attack_correlation,
    bootstrap_replicates,
    share_statistic,
    unforeseen_attack_robustness,
)
from robustatlas.metrics.competitiveness import RatioKind
from robustatlas.metrics.references import Reference, load_reference

BOARD = Path(__file__).parents[2] / "docs" / "board"
NORMS = ("linf", "l2", "l1")
TRAINED = {"linf": 0.1, "l2": 1.25, "l1": 8.0}
"""What the defenses of the board are trained against."""
_REPLICATES = 2000


@dataclass(frozen=True)
class Replicate:
    """The tables of all defenses of one seed, and the reference of that seed."""

    tables: Mapping[str, OutcomeTable]
    reference: Reference


Replicates = Sequence[Replicate]
Pairs = Sequence[tuple[SampleStatistic, SampleStatistic]]


def load(board: Path = BOARD) -> list[Replicate]:
    """All seeds of a board."""
    runs = _runs(board)
    found = []
    for place in sorted(board.glob("reference-seed*.json")):
        end = place.stem.removeprefix("reference")
        tables = {path.name.removesuffix(end): ra.load_result(path) for path in sorted(runs.glob(f"*{end}"))}
        found.append(Replicate(tables, load_reference(place)))
    return found


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
    return {name.rpartition("-seed")[0]: said["trained_on"] for name, said in about.items()}


def claims(board: Path = BOARD) -> list[Claim]:
    """All of them."""
    seeds = load(board)
    tables = seeds[0].tables
    times = f", {len(seeds)} seeds" if len(seeds) > 1 else ""
    on = f"board, {len(tables)} defenses{times}, {next(iter(tables.values())).samples} images"
    return [
        *multirobustbench(seeds, on),
        *robustness_curves(seeds, on),
        *uar(seeds, on, trained_against(board)),
        *joint(seeds, on),
    ]


def multirobustbench(seeds: Replicates, on: str) -> list[Claim]:
    """Ranks depend on what is counted; the worst case is far below the average."""
    names, ranked = list(seeds[0].tables), seeds[0].reference.ranked
    others = [attack for attack in ranked if attack not in NORMS]
    statistics = {name: [AccuracyStatistics(seed.tables[name]) for seed in seeds] for name in names}

    def ratios(name: str, metric: RatioKind, attacks: Sequence[str] | None = None) -> list[SampleStatistic]:
        return [
            statistic.competitiveness(seed.reference, metric, attacks=attacks)
            for statistic, seed in zip(statistics[name], seeds, strict=True)
        ]

    by_norms = {name: ratios(name, "ind-avg", NORMS) for name in names}
    by_others = {name: ratios(name, "ind-avg", others) for name in names}
    reversed_pairs = []
    for one, other in combinations(names, 2):
        gaps = [_gap(_paired(by[one], by[other])) for by in (by_norms, by_others)]
        if {verdict(gap) for gap in gaps} == {HOLDS, FAILS}:
            reversed_pairs.append((one, other, gaps) if gaps[0].low > 0 else (other, one, gaps))
    pairs = len(names) * (len(names) - 1) // 2
    example = ""
    if reversed_pairs:
        ahead, behind, gaps = max(reversed_pairs, key=lambda pair: min(abs(gap.value) for gap in pair[2]))
        example = (
            f"; for instance {ahead} leads {behind} by {abs(gaps[0].value):.1f} points of CR over the norms and "
            f"trails by {abs(gaps[1].value):.1f} over the rest"
        )
    first, second = (max(names, key=lambda name: _mean(by[name])) for by in (by_norms, by_others))
    counted = Claim(
        "MultiRobustBench",
        "ranks of training schemes depend on the attacks that are counted",
        on,
        f"{len(reversed_pairs)} of {pairs} pairs change places with both 95 % intervals excluding 0, where chance "
        f"alone gives {2 * 0.025**2 * pairs:.1f} (CR over "
        f"{', '.join(NORMS)} against CR over {', '.join(others)}){example}; first by norms {first}, by the rest "
        f"{second}",
        HOLDS if reversed_pairs else OPEN,
    )
    worst, average = ({name: ratios(name, metric) for name in names} for metric in ("ind-worst", "ind-avg"))
    best_average, best_worst = (max(names, key=lambda name: _mean(by[name])) for by in (average, worst))
    gap = _gap(_paired(average[best_average], worst[best_worst]))
    case = Claim(
        "MultiRobustBench",
        "the best defense on average is far from robust in the worst case",
        on,
        f"best average CR {_mean(average[best_average]):.1f} ({best_average}), best worst-case CR "
        f"{_mean(worst[best_worst]):.1f} ({best_worst}), difference {said(gap)}",
        verdict(gap),
    )
    return [counted, case]


def robustness_curves(seeds: Replicates, on: str) -> list[Claim]:
    """Training in one norm does not carry to another; curves cross."""
    gaps = {}
    for norm in NORMS:
        own = _survival(seeds, f"pgd-{norm}", [norm])
        for trained in NORMS:
            if trained != norm:
                gaps[f"{norm} by {trained}"] = _gap(_paired(own, _survival(seeds, f"pgd-{trained}", [norm])))
    carried = Claim(
        "Robustness curves",
        "training against one norm does not carry to others",
        on,
        "lost by training in another norm, points at the trained strength: "
        + ", ".join(f"{name} {said(gap)}" for name, gap in gaps.items()),
        of_several(list(gaps.values())),
    )
    crossed = [[(norm, crossing) for norm in NORMS for crossing in _crossings(seed.tables, norm)] for seed in seeds]
    significant = [sum(crossing.significant for _, crossing in of_seed) for of_seed in crossed]
    largest = sorted((pair for each in crossed for pair in each), key=lambda pair: -_leads(pair[1]))[:3]
    shown = ", ".join(
        f"{norm} near {crossing.start:.3g} (leads of {crossing.gap_before:.1f} and {crossing.gap_after:.1f} points)"
        for norm, crossing in largest
    )
    crossing = Claim(
        "Robustness curves",
        "curves of a linf- and an l2-trained network cross",
        on,
        f"{', '.join(str(len(of_seed)) for of_seed in crossed)} crossings in {', '.join(NORMS)}, "
        f"{', '.join(map(str, significant))} significant by simultaneous bands"
        + (" (by seed)" if len(seeds) > 1 else "")
        + (f"; largest: {shown}" if shown else ""),
        HOLDS if all(significant) else OPEN,
    )
    return [carried, crossing]


def _crossings(tables: Mapping[str, OutcomeTable], norm: str) -> Sequence[Crossing]:
    one, other = (ra.metrics.RobustnessCurve.of(tables[f"pgd-{by}"].outcome(norm)) for by in ("linf", "l2"))
    return one.crossings(other)


def _leads(crossing: Crossing) -> float:
    return min(crossing.gap_before, crossing.gap_after)


def uar(seeds: Replicates, on: str, trained_on: Mapping[str, Mapping[str, float]]) -> list[Claim]:
    """Transfer is uneven; some attacks agree; joint training helps."""
    names, ranked = list(seeds[0].tables), seeds[0].reference.ranked

    def scores(name: str, attacks: Sequence[str] | None = None) -> list[SampleStatistic]:
        return [AccuracyStatistics(seed.tables[name]).uar(seed.reference, attacks) for seed in seeds]

    of_linf = {attack: scores("pgd-linf", [attack]) for attack in ranked}
    high, low = (choose(ranked, key=lambda attack: _mean(of_linf[attack])) for choose in (max, min))
    gap = _gap(_paired(of_linf[high], of_linf[low]))
    uneven = Claim(
        "UAR",
        "training against one attack transfers unevenly to others",
        on,
        "UAR of pgd-linf: "
        + ", ".join(f"{attack} {_mean(score):.0f}" for attack, score in of_linf.items())
        + f"; {high} - {low} {said(gap)}",
        verdict(gap),
    )
    matrix = np.mean(
        [
            [
                [unforeseen_attack_robustness(seed.tables[name].accuracies(), seed.reference, a) for a in ranked]
                for name in names
            ]
            for seed in seeds
        ],
        axis=0,
    )
    seen = np.array([[attack in trained_on[name] for attack in ranked] for name in names])
    correlation = attack_correlation(matrix, seen=seen)
    norms = [ranked.index(norm) for norm in NORMS]
    others = [i for i in range(len(ranked)) if i not in norms]
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
    singles, together = [f"pgd-{norm}" for norm in NORMS], ("avg", "max", "msd", "sat")
    mean = {name: scores(name) for name in (*singles, *together)}
    single = max(singles, key=lambda name: _mean(mean[name]))
    gained = {name: _gap(_paired(mean[name], mean[single])) for name in together}
    gains = Claim(
        "UAR",
        "joint training against several attacks raises the mean UAR over the best single one (asked here; the paper "
        "finds it hard at large strengths)",
        on,
        f"mUAR of {single} {_mean(mean[single]):.1f}; gain of "
        + ", ".join(f"{name} {said(gain)}" for name, gain in gained.items()),
        of_several(list(gained.values())),
    )
    return [uneven, agree, gains]


def joint(seeds: Replicates, on: str) -> list[Claim]:
    """The union of three norms."""
    names = ("standard", "pgd-linf", "pgd-l2", "pgd-l1", "avg", "max", "msd")
    alive = {name: _survival(seeds, name, NORMS) for name in names}
    union = {name: _mean(each) for name, each in alive.items()}
    singles = [f"pgd-{norm}" for norm in NORMS]
    return joint_training(union, singles, lambda one, other: _gap(_paired(alive[one], alive[other])), on)


def _survival(seeds: Replicates, name: str, norms: Sequence[str]) -> list[SampleStatistic]:
    """Accuracy under the union of some norms, as strong as was trained against."""
    strengths = {norm: TRAINED[norm] for norm in norms}
    return [share_statistic(seed.tables[name].survivors(strengths)) for seed in seeds]


def _mean(each: Sequence[SampleStatistic]) -> float:
    return float(np.mean([statistic.value for statistic in each]))


def _paired(one: Sequence[SampleStatistic], other: Sequence[SampleStatistic]) -> Pairs:
    """By seed."""
    return list(zip(one, other, strict=True))


def _gap(pairs: Pairs) -> Interval:
    """Of one - other: the mean over seeds and its interval for another training; with one seed the interval for other
    images, the same for both."""
    if len(pairs) > 1:
        return over_seeds([one.value - other.value for one, other in pairs])
    [(one, other)] = pairs
    replicates = bootstrap_replicates([one, other], _REPLICATES)
    return _percentile(one.value - other.value, replicates[0] - replicates[1])


def _percentile(value: float, draws: np.ndarray) -> Interval:
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return Interval(value, float(low), float(high), 0.95)
