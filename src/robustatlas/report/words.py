"""The summary of one or several runs in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from robustatlas.common.wording import counted, listed, ordinal, shortened, size, strength, wording
from robustatlas.metrics.intervals import Interval
from robustatlas.report.facts.breaking import BreakingPoint
from robustatlas.report.facts.comparison import Standings
from robustatlas.report.facts.run import AttackFacts, ReferenceFacts, RunFacts
from robustatlas.report.facts.standard import STANDARD

UNEQUAL = "Strengths of different attacks are not equally difficult; the comparison with a reference corrects for that."
OTHER_SETS = "Searched in other sets than the reference's: what is said beside it holds about."
UPPER_BOUNDS = "Robust accuracies are upper bounds: an attack can miss adversarial examples."


def percent(interval: Interval) -> str:
    """An interval in percent.

    >>> percent(Interval(61.25, 58.0, 64.4, 0.95))
    '61.2% (58.0 to 64.4)'
    """
    return f"{interval.value:.1f}% ({interval.low:.1f} to {interval.high:.1f})"


def headline(facts: RunFacts) -> str:
    """How robust, in one sentence: average and union with their intervals, the number of images, and clean."""
    images = f"{counted(facts.samples, 'image')} of {facts.data}"
    verb = "is" if facts.samples == 1 else "are"
    if facts.average is None:
        return (
            f"{percent(facts.clean)} of {images} {verb} classified correctly; no attack was searched at every strength."
        )
    stays = "stays" if facts.samples == 1 else "stay"
    union = f"{percent(facts.union)} under {_at_once(facts.union_at)}; " if facts.union else ""
    average = f"On average over {_attacks_and_strengths(facts)}, {percent(facts.average)} of {images} {stays} correct"
    return f"{average}; {union}{percent(facts.clean)} without any."


def _attacks_and_strengths(facts: RunFacts) -> str:
    judged = [len(attack.strengths) for attack in facts.attacks if attack.average is not None]
    strengths = counted(sum(judged), "strength")
    if len(judged) == 1:
        return f"the {strengths} of one attack" if judged[0] > 1 else "the one strength of one attack"
    return f"{len(judged)} attacks and their {strengths}"


def _at_once(union_at: Mapping[str, float]) -> str:
    """The attacks of the union: "all 9 at once, each up to the middle of its strengths"."""
    if len(union_at) == 1:
        return " ".join(f"{wording(attack).label} up to {strength(most, 3)}" for attack, most in union_at.items())
    return f"{'both' if len(union_at) == 2 else f'all {len(union_at)}'} at once, each up to the strength named below"


def line_in_words(run: RunFacts, item: AttackFacts, named: bool) -> str:
    """The values of an accuracy over strength: without attack, at the standard or middle strength, at the largest."""
    accuracy = item.accuracy or ()
    standard = STANDARD.get(item.attack, (float("nan"), ""))[0]
    near = np.flatnonzero(np.isclose(item.strengths, standard, rtol=1e-5))
    middle = int(near[0]) if len(near) else (len(item.strengths) - 1) // 2
    held = run.certified_under(item.attack)
    said = [
        f"{percent(accuracy[k])}{f' (certified: at least {percent(held.accuracy[k])})' if held else ''} "
        f"at {strength(item.strengths[k])}"
        for k in dict.fromkeys((middle, len(item.strengths) - 1))
    ]
    return f"{f'{run.name}: ' if named else ''}{percent(run.clean)} without attack, {', '.join(said)}."


def certified(facts: RunFacts) -> list[str]:
    """What is certain of a run from below, and what attacks left of it from above: a sentence for each attack."""
    return [wording(held.row).label + held.sentence.removeprefix(held.row) for held in facts.certified]


def findings(facts: RunFacts, distances: Mapping[str, float] | None = None) -> list[tuple[str, str, str]]:
    """The three findings that matter: pairs of what they are about, the number, and the sentence around it.

    Args:
        facts: of the run.
        distances: attack -> smallest distance between images of different classes, where it is known.
    """
    found = [_breaking_point(facts, distances or {})]
    if facts.reference:
        found.append(_place(facts.reference))
    if facts.union:
        limits = [f"{wording(attack).label} {strength(most, 3)}" for attack, most in facts.union_at.items()]
        several = (
            limits[0] if len(limits) == 1 else "both attacks" if len(limits) == 2 else f"all {len(limits)} attacks"
        )
        text = f"withstand {several} at once, each up to the middle of its strengths ({', '.join(limits)})."
        found.append(("All attacks at once", percent(facts.union), text))
    else:
        found.append(("Without any attack", percent(facts.clean), "are classified correctly."))
    return found


def breaking(point: BreakingPoint) -> str:
    """The attack and the size from which on half of the images are wrong.

    >>> breaking(BreakingPoint("linf", 6 / 255)), breaking(BreakingPoint("l2", 0.25))
    ('L∞ 0.0235 = 6/255', 'L2 0.25')
    """
    in_levels = f" = {255 * point.half:.2g}/255" if point.attack == "linf" else ""
    return f"{wording(point.attack).label} {size(point.half)}{in_levels}"


def half_words(attack: str, half: float) -> str:
    """From where on half of the images are wrong under an attack, in a sentence.

    >>> half_words("l2", 0.25)
    'Half of the images are wrong from L2 0.25 on.'
    """
    if math.isinf(half):
        return f"More than half of the images withstand every attack that counts, even {wording(attack).label}."
    if half == 0:
        return "Half of the images are wrong before any attack."
    return f"Half of the images are wrong from {breaking(BreakingPoint(attack, half))} on."


def _breaking_point(facts: RunFacts, distances: Mapping[str, float]) -> tuple[str, str, str]:
    """Where half of the images are wrong, under the attack that leaves fewest of them."""
    about, point = "Where it breaks", facts.breaking
    if point is None:
        return about, "Not known", "No attack was run."
    weakest = next(attack for attack in facts.attacks if attack.attack == point.attack)
    label = wording(point.attack).label
    left = f" Averaged over its strengths, {percent(weakest.average)} stay correct." if weakest.average else ""
    if math.isinf(point.half):
        return about, label, f"is its weakest side, but more than half of the images withstand it.{left}"
    if point.half == 0:
        return about, "At once", f"Half of the images are wrong before any attack; {label} leaves fewest.{left}"
    distance = distances.get(point.attack)
    share = f", {100 * point.half / distance:.0f}% of the smallest distance between classes" if distance else ""
    unit = f" Unit: {weakest.unit}." if weakest.unit else ""
    return about, breaking(point), f"Half of the images are wrong from here on{share}.{left}{unit}"


def _best_known(attack: AttackFacts) -> str:
    """What verified examples of others change under an attack."""
    assert attack.best_known is not None
    known, label = attack.best_known, wording(attack.attack).label
    if known.searched is None or known.known is None or not known.names:
        return known.sentence(label)
    most = int(np.argmax(known.searched - known.known))
    if known.searched[most] == known.known[most]:
        return f"{known.sentence(label)} No accuracy changes."
    return (
        f"{known.sentence(label)} At {size(attack.strengths[most])} they lower the accuracy from "
        f"{known.searched[most]:.1f} % to {known.known[most]:.1f} %."
    )


def _place(reference: ReferenceFacts) -> tuple[str, str, str]:
    """The rank among the published defenses, or the number that the reference gives."""
    place = reference.place
    if place is None:
        key = "CR ind-avg" if "CR ind-avg" in reference.numbers else "mUAR"
        what = "of the accuracy of specialists, on average (CR ind-avg)" if key == "CR ind-avg" else "mUAR"
        missing = (
            ""
            if reference.complete
            else (
                f" On {reference.held.points} of {reference.held.ranked_points} ranked cells: incomplete, so no rank."
            )
        )
        return "Against specialists", percent(reference.numbers[key]), f"{what}.{missing}"
    alone = f"; {ordinal(place.rank)} by the number alone" if place.best < place.worst else ""
    other = (
        f" About, as its sets of {listed([wording(attack).label for attack in reference.held.own_sets])} are not those "
        "of the reference."
        if reference.held.approximate
        else ""
    )
    ratio = percent(reference.numbers["CR ind-avg"])
    text = f"by its CR ind-avg of {ratio}, among the published defenses{alone}.{other}"
    return "Rank", place.words(about=reference.held.approximate), text


def summary(facts: RunFacts, alone: bool = True) -> list[tuple[str, str]]:
    """Pairs of a question and its answer: how robust, against what, where it breaks, what to trust.

    Next to other runs (not `alone`) it leaves out what holds for all of them, which `trust_together` says once.
    """
    answers = [("How robust?", _how_robust(facts))]
    if judged := [attack for attack in facts.attacks if attack.average]:
        answers.append(("Against what?", _against_what(judged) + (f" {UNEQUAL}" if alone and len(judged) > 1 else "")))
    answers.append(("Where does it break?", _where(facts.attacks)))
    if handed := [attack for attack in facts.attacks if attack.best_known]:
        answers.append(("Best known, and by whom?", " ".join(map(_best_known, handed))))
    if advice := [attack.advice for attack in facts.attacks if attack.advice]:
        answers.append(("Do the strengths tell enough?", " ".join(one.sentence for one in advice)))
    if facts.reference:
        answers.append(("Compared with specialists?", _compared(facts.reference)))
    if alone:
        answers.append(("What to trust?", " ".join([_intervals(facts), UPPER_BOUNDS, _checks(facts)])))
    elif facts.warnings or facts.missing:
        answers.append(("What to trust?", _checks(facts)))
    return answers


def verdict(contests: Standings) -> list[str]:
    """Sentences that say which of several models is more robust against what; differences within chance are no lead."""
    degree = "more" if len(contests.names) == 2 else "most"
    sentences = []
    if contests.together:
        over = f"Over {'both' if len(contests.attacks) == 2 else f'all {len(contests.attacks)}'} attacks together"
        if len(contests.together.leaders) == 1:
            leader = contests.together.leaders[0]
            kept = percent(contests.together.values[leader])
            sentences.append(
                f"{over}, {shortened(contests.names[leader])} is the {degree} robust: {kept} stay correct."
            )
        else:
            sentences.append(f"{over}, {_tied(contests, contests.together.leaders)}.")
    by_leaders: dict[tuple[int, ...], list[str]] = {}
    for contest in contests.attacks:
        by_leaders.setdefault(contest.leaders, []).append(contest.label)
    for leaders, attacks in by_leaders.items():
        sentences.append(f"Against {listed(attacks)}, {_lead(contests, leaders, f'{degree} robust')}.")
    sentences.append(f"On clean images, {_lead(contests, contests.clean.leaders, f'{degree} accurate')}.")
    return sentences


def _lead(contests: Standings, leaders: Sequence[int], what: str) -> str:
    return f"{shortened(contests.names[leaders[0]])} is the {what}" if len(leaders) == 1 else _tied(contests, leaders)


def _tied(contests: Standings, leaders: Sequence[int]) -> str:
    if len(leaders) == len(contests.names):
        return "no clear difference shows"
    if not leaders:
        return "no model leads all others"
    names = listed([shortened(contests.names[run]) for run in leaders])
    return f"{names} are ahead of the {'other' if len(contests.names) - len(leaders) == 1 else 'others'} and tied"


def trust_together(facts: Sequence[RunFacts], contests: Standings | None) -> str:
    """What to trust, said once for several runs."""
    widest = max(facts, key=lambda run: run.clean.high - run.clean.low)
    parts = [_intervals(widest)]
    if contests:
        parts.append(
            "A model is called ahead only where the same images show it, with 95% confidence for all pairs of models."
        )
    parts.append(UPPER_BOUNDS)
    if any(len(run.attacks) > 1 for run in facts):
        parts.append(UNEQUAL)
    return " ".join(parts)


def _how_robust(facts: RunFacts) -> str:
    text = f"Of {counted(facts.samples, 'image')}, {percent(facts.clean)} are classified correctly as they are."
    if facts.average is None:
        return text
    return f"{text} On average over {_attacks_and_strengths(facts)}, {percent(facts.average)} stay correct."


def _against_what(attacks: Sequence[AttackFacts]) -> str:
    ranked = sorted(attacks, key=lambda attack: -attack.average.value if attack.average else 0.0)
    best, worst = ranked[0], ranked[-1]
    if best.average is None or worst.average is None or best is worst:
        return f"{wording(best.attack).label} is the only attack whose every strength was searched."
    return (
        f"It holds best against {wording(best.attack).label}, where {percent(best.average)} stay correct on average "
        f"over the strengths, and worst against {wording(worst.attack).label}, with {percent(worst.average)}."
    )


def _where(attacks: Sequence[AttackFacts]) -> str:
    broken = [f"{wording(a.attack).label} {size(a.quartiles[1])}" for a in attacks if math.isfinite(a.quartiles[1])]
    holding = [wording(a.attack).label for a in attacks if math.isinf(a.quartiles[1])]
    parts = []
    if broken:
        parts.append(f"Half of all images are misclassified from these sizes on: {listed(broken)}.")
    if holding:
        parts.append(f"More than half withstand {listed(holding)} as far as it was searched.")
    return " ".join(parts)


def _compared(reference: ReferenceFacts) -> str:
    ranked = f"{reference.held.ranked_points} ranked cells"
    some = f"{reference.held.points} of the {ranked}, which is incomplete and has no rank"
    scope = f"all {ranked}" if reference.complete else some
    if "CR ind-avg" not in reference.numbers:
        return f"mUAR {percent(reference.numbers['mUAR'])}. Reference: {reference.name}, {scope}."
    return (
        f"It reaches {percent(reference.numbers['CR ind-avg'])} of the accuracy of the reference on average (CR "
        f"ind-avg), and {percent(reference.numbers['CR ind-worst'])} at its worst cell (CR ind-worst). Reference: "
        f"{reference.name}, {scope}."
    )


def _intervals(facts: RunFacts) -> str:
    return (
        f"Ranges in brackets are 95% intervals for the draw of the {counted(facts.samples, 'image')}: the clean "
        f"accuracy is known to lie between {facts.clean.low:.1f} and {facts.clean.high:.1f}%."
    )


def _checks(facts: RunFacts) -> str:
    parts = [] if facts.diagnosis is None else [facts.diagnosis.sentence]
    parts += ["The run is not finished: some samples lack some attacks."] if facts.missing else []
    warnings = len(facts.warnings)
    if warnings == 1:
        parts.append("The sanity checks gave a warning; read it at the top before the numbers.")
    elif warnings:
        parts.append(f"The sanity checks gave {warnings} warnings; read them at the top before the numbers.")
    else:
        parts.append("The sanity checks gave no warning.")
    return " ".join(parts)
