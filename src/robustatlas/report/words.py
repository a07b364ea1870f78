"""The summary of one or several runs in plain words."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, axis_label, format_size, format_strength
from robustatlas.common.wording import (
    MASKED,
    elide_middle,
    format_p_value,
    join_words,
    label_masked,
    list_names,
    ordinal,
    pluralise,
)
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts.ahead import Contest, Standings
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.breaking import BreakingPoint
from robustatlas.report.facts.headline import Headline
from robustatlas.report.facts.run import ReferenceFacts, RunFacts

UNEQUAL = "Strengths of different attacks are not equally difficult; the comparison with a reference corrects for that."
OTHER_THREAT = "Searched under another threat model than the reference's: what is said beside it holds about."
WITHOUT = "Without any attack"
UPPER_BOUNDS = "Robust accuracies are upper bounds: an attack can miss adversarial examples."


def percent(interval: Interval, why: Mapping[str, float] | None = None) -> str:
    """An interval in percent, and what the number is where it may not compete; ``why``: see `masked`.

    >>> percent(Interval(61.25, 58.0, 64.4, 0.95)), percent(Interval(61.25, 58.0, 64.4, 0.95), {"linf": 1.0})
    ('61.2% (58.0 to 64.4)', '61.2% (58.0 to 64.4; masked: upper bound only)')
    """
    mark = f"; {MASKED}" if why else ""
    return f"{interval.value:.1f}% ({interval.low:.1f} to {interval.high:.1f}{mark})"


def withstand(first: Headline, samples: int, data: str, why: Mapping[str, float] | None = None) -> str:
    """The headline of a run with its interval, and why it is that one; ``why``: see `masked`.

    >>> from robustatlas.report.facts.headline import Headline
    >>> withstand(Headline({"linf": 8 / 255}, Interval(45, 42, 48, 0.95), "as asked"), 1000, "cifar10")
    '45.0% (42.0 to 48.0) of 1000 images of cifar10 withstand L∞ at 8/255 (as asked)'
    """
    images = f"{pluralise(samples, 'image')} of {data}"
    verb = "withstands" if samples == 1 else "withstand"
    return f"{percent(first.accuracy, why)} of {images} {verb} {first.explained()}"


def headline(facts: RunFacts) -> str:
    """How robust: the headline with its interval and why it is that one, clean accuracy, then the average."""
    if facts.headline is None or facts.average is None:
        verb = "is" if facts.samples == 1 else "are"
        images = f"{pluralise(facts.samples, 'image')} of {facts.data}"
        return (
            f"{percent(facts.clean)} of {images} {verb} classified correctly; no attack was searched at every strength."
        )
    first = facts.headline
    said = withstand(first, facts.samples, facts.data, masked(facts, first.at))
    average = percent(facts.average, masked(facts, judged_of(facts)))
    return f"{said}. {percent(facts.clean)} without an attack. Mean over {attacks_and_strengths(facts)}: {average}."


def judged_of(facts: RunFacts) -> list[str]:
    """The attacks that the average accuracy goes over."""
    return [attack.attack for attack in facts.attacks if attack.average is not None]


def attacks_and_strengths(facts: RunFacts) -> str:
    """What the average accuracy goes over."""
    judged = [len(attack.strengths) for attack in facts.attacks if attack.average is not None]
    strengths = pluralise(sum(judged), "strength")
    if len(judged) == 1:
        return f"the {strengths} of one attack" if judged[0] > 1 else "the one strength of one attack"
    return f"{len(judged)} attacks and their {strengths}"


def line_in_words(run: RunFacts, item: AttackFacts, named: bool) -> str:
    """The values of an accuracy over strength: without attack, at the standard or middle strength, at the largest."""
    accuracy = item.accuracy or ()
    standard = STANDARD_STRENGTHS.get(item.attack, (float("nan"), ""))[0]
    near = np.flatnonzero(np.isclose(item.strengths, standard, rtol=1e-5))
    middle = int(near[0]) if len(near) else (len(item.strengths) - 1) // 2
    held, why = run.certified_under(item.attack), masked(run, [item.attack])
    said = [
        f"{percent(accuracy[k], why)}{f' (certified: at least {percent(held.accuracy[k])})' if held else ''} "
        f"at {format_strength(item.strengths[k], attack=item.attack)}"
        for k in dict.fromkeys((middle, len(item.strengths) - 1))
    ]
    return f"{f'{run.name}: ' if named else ''}{percent(run.clean)} without attack, {', '.join(said)}."


def certified(facts: RunFacts) -> list[str]:
    """What is certain of a run from below, and what attacks left of it from above: a sentence for each attack."""
    return [attack_label(held.row).label + held.sentence.removeprefix(held.row) for held in facts.certified]


def findings(facts: RunFacts, distances: Mapping[str, float] | None = None) -> list[tuple[str, str, str]]:
    """The three findings that matter: pairs of what they are about, the number, and the sentence around it.
    ``distances``: attack -> smallest distance between images of different classes, where it is known."""
    found = [_breaking_point(facts, distances or {})]
    if facts.reference:
        found.append(_place(facts.reference))
    first, worst = facts.headline, facts.worst
    if worst is not None and (first is None or worst.at != first.at):
        number = percent(worst.accuracy, masked(facts, worst.at))
        found.append(("Worst case over attacks", number, f"withstand {worst.explained(len(worst.at))}."))
    else:
        found.append((WITHOUT, percent(facts.clean), "are classified correctly."))
    return found


def breaking(point: BreakingPoint) -> str:
    """The attack and the size from which on half of the images are wrong.

    >>> breaking(BreakingPoint("linf", 6 / 255)), breaking(BreakingPoint("l2", 0.25))
    ('L∞ 0.0235 = 6/255', 'L2 0.25')
    """
    in_levels = f" = {255 * point.half:.2g}/255" if point.attack == "linf" else ""
    return f"{attack_label(point.attack).label} {format_size(point.half, attack=point.attack)}{in_levels}"


def half_words(attack: str, half: float, why: Mapping[str, float] | None = None) -> str:
    """From where on half of the images are wrong under an attack, in a sentence; ``why``: see `masked`.

    >>> half_words("l2", 0.25)
    'Half of the images are wrong from L2 0.25 on.'
    """
    if math.isinf(half):
        label = label_masked(attack_label(attack).label, why)
        return f"More than half of the images withstand every attack that counts, even {label}."
    if half == 0:
        return "Half of the images are wrong before any attack."
    return (
        f"Half of the images are wrong from {breaking(BreakingPoint(attack, half))} on{f' ({MASKED})' if why else ''}."
    )


def _breaking_point(facts: RunFacts, distances: Mapping[str, float]) -> tuple[str, str, str]:
    """Where half of the images are wrong, under the attack that leaves fewest of them."""
    about, point = "Where it breaks", facts.breaking
    if point is None:
        return about, "Not known", "No attack was run."
    weakest = next(attack for attack in facts.attacks if attack.attack == point.attack)
    label = attack_label(point.attack).label
    why = masked(facts, [point.attack])
    mark = f" ({MASKED})" if why else ""
    left = f" Averaged over its strengths, {percent(weakest.average, why)} stay correct." if weakest.average else ""
    if math.isinf(point.half):
        return about, label, f"is its weakest side, but more than half of the images withstand it{mark}.{left}"
    if point.half == 0:
        return about, "At once", f"Half of the images are wrong before any attack; {label} leaves fewest.{left}"
    distance = distances.get(point.attack)
    share = f", {100 * point.half / distance:.0f}% of the smallest distance between classes" if distance else ""
    unit = f" Unit: {axis_label(weakest.unit, attack=weakest.attack)}." if weakest.unit else ""
    return about, breaking(point), f"Half of the images are wrong from here on{share}{mark}.{left}{unit}"


def _best_known(attack: AttackFacts) -> str:
    assert attack.best_known is not None
    known, label = attack.best_known, attack_label(attack.attack).label
    if known.searched is None or known.known is None or not known.names:
        return known.sentence(label)
    most = int(np.argmax(known.searched - known.known))
    if known.searched[most] == known.known[most]:
        return f"{known.sentence(label)} No accuracy changes."
    return (
        f"{known.sentence(label)} At {format_size(attack.strengths[most], attack=attack.attack)} they lower the "
        "accuracy from "
        f"{known.searched[most]:.1f} % to {known.known[most]:.1f} %."
    )


def _place(reference: ReferenceFacts) -> tuple[str, str, str]:
    place, doubt = reference.place, " See the warnings on the reference." if reference.held.doubts else ""
    if place is None:
        key = "CR ind-avg" if "CR ind-avg" in reference.numbers else "mUAR"
        of = "of the accuracy of specialists" if held_to_specialists(reference) else f"relative to {reference.what}"
        what = f"{of}, on average (CR ind-avg)" if key == "CR ind-avg" else "mUAR"
        entries = f"On {reference.held.points} of {reference.held.ranked_points} ranked entries"
        missing = "" if reference.complete else f" {entries}: incomplete, so no rank."
        if reference.masked:
            missing = f" {MASKED.capitalize()}, so no rank."
        about = "Against specialists" if held_to_specialists(reference) else "Against a reference"
        return about, percent(reference.numbers[key], reference.masked), f"{what}.{missing}{doubt}"
    alone = f"; {ordinal(place.rank)} by the number alone" if place.best < place.worst else ""
    own = [attack_label(attack).label for attack in reference.held.own_threat]
    other = (
        f" About: other threat models than the reference's under {list_names(own, at_most=2)}."
        if reference.held.approximate
        else ""
    )
    ratio = percent(reference.numbers["CR ind-avg"])
    text = f"by its CR ind-avg of {ratio}, among the published defenses{alone}.{other}{doubt}"
    return "Rank", place.words(about=reference.held.approximate), text


def held_to_specialists(reference: ReferenceFacts) -> bool:
    """Whether the reference is of models that were trained against the very attack."""
    return not reference.held.reference.models


def summary(facts: RunFacts, alone: bool = True) -> list[tuple[str, str]]:
    """Pairs of a question and its answer: how robust, against what, where it breaks, what to trust.

    Next to other runs (not `alone`) it leaves out what holds for all of them, which `trust_together` says once.
    """
    answers = [("How robust?", _how_robust(facts))]
    judged = [attack for attack in facts.attacks if attack.average and not masked(facts, [attack.attack])]
    if judged and (len(judged) > 1 or len(judged_of(facts)) == 1):
        answers.append(("Against what?", _against_what(judged) + (f" {UNEQUAL}" if alone and len(judged) > 1 else "")))
    answers.append(("Where does it break?", _where(facts)))
    if handed := [attack for attack in facts.attacks if attack.best_known]:
        answers.append(("Best known, and by whom?", " ".join(map(_best_known, handed))))
    if advice := facts.advice:
        answers.append(
            ("Do the strengths tell enough?", f"{' '.join(one.why for one in advice)} Better: {facts.extended}.")
        )
    if facts.reference:
        whom = "specialists" if held_to_specialists(facts.reference) else facts.reference.what
        answers.append((f"Compared with {whom}?", _compared(facts.reference)))
    if alone:
        answers.append(("What to trust?", " ".join([_intervals(facts), UPPER_BOUNDS, _checks(facts)])))
    elif facts.warnings or facts.missing:
        answers.append(("What to trust?", _checks(facts)))
    return answers


def verdict(contests: Standings) -> list[str]:
    """Sentences that say which of several models is more robust: the first one at the headline, then which are masked,
    and why, then in means over strengths. Differences within chance are not a lead."""
    degree = "more" if len(contests.names) == 2 else "most"
    sentences = []
    if contests.headline:
        sentences.append((contests.headline, f"Under {contests.headline.label}", "withstand"))
    if contests.together:
        attacks = list_names(contest.label for contest in contests.attacks)
        over = f"In the mean over {attacks} and their {contests.together.strengths} strengths"
        sentences.append((contests.together, over, "stay correct"))
    said = [_answer(contests, *asked, degree) for asked in sentences if _contested(asked[0])]
    by_leaders: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Contest]] = {}
    first = contests.headline.values if contests.headline else ()
    others = (one for one in contests.attacks if one.strengths > 1 or one.values != first)
    for contest in filter(_contested, others):
        by_leaders.setdefault((contest.leaders, contest.masked), []).append(contest)
    for alike in by_leaders.values():
        said.append(f"Against {_each(alike)}, {_lead(contests, alike[0], f'{degree} robust')}.")
    behind = [f"{elide_middle(name)} is {MASKED}. {why}" for name, why in contests.why.items()]
    clean = f"On clean images, {_lead(contests, contests.clean, f'{degree} accurate')}."
    leading = int(_contested(contests.leading))
    return [*said[:leading], *behind, *said[leading:], clean]


def _answer(contests: Standings, contest: Contest, where: str, withstand: str, degree: str) -> str:
    if len(contest.leaders) != 1:
        return f"{where}, {_tied(contests, contest)}{_paired(contests, contest)}."
    (leader,) = contest.leaders
    said = (
        f"{elide_middle(contests.names[leader])} is the {degree} robust: {percent(contest.values[leader])} {withstand}"
    )
    return f"{where}, {said}{_paired(contests, contest)}."


def _each(contests: Sequence[Contest]) -> str:
    """The attacks, and over what the mean under each goes."""
    attacks = join_words([contest.label for contest in contests])
    if len(contests) > 1:
        return f"{attacks}, each in the mean over its strengths"
    return f"{attacks}, in the mean over {contests[0].strengths} strengths" if contests[0].strengths > 1 else attacks


def _paired(contests: Standings, contest: Contest) -> str:
    """What the best one has more than the next one on the same images, of two or where it leads all others."""
    gap, count = contest.difference, len(contest.values) - len(contest.masked)
    if gap is None or (count > 2 and len(contest.leaders) != 1):
        return ""
    doubt = f"{gap.low:.1f} to {gap.high:.1f}"
    if contest.p_value is not None:
        p = format_p_value(contest.p_value)
        doubt += f"; p {p if p.startswith('<') else f'= {p}'}"
        doubt += f", corrected for {count * (count - 1) // 2} pairs" if count > 2 else ""
    if not contest.told_apart:
        return f": {gap.value:.1f} points between them ({doubt}) on the same images"
    other = elide_middle(contests.names[contest.best[1]])
    return f"; {gap.value:.1f} points more than {other} ({doubt}) on the same images"


def _contested(contest: Contest) -> bool:
    return len(contest.values) - len(contest.masked) > 1


def _lead(contests: Standings, contest: Contest, what: str) -> str:
    leaders = contest.leaders
    return (
        f"{elide_middle(contests.names[leaders[0]])} is the {what}" if len(leaders) == 1 else _tied(contests, contest)
    )


def _tied(contests: Standings, contest: Contest) -> str:
    if not contest.leaders:
        return "no model leads all others"
    if not contest.told_apart:
        return "no clear difference shows"
    names = join_words([elide_middle(contests.names[run]) for run in contest.leaders])
    behind = len(contest.values) - len(contest.masked) - len(contest.leaders)
    return f"{names} are ahead of the {'other' if behind == 1 else 'others'} and tied"


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
    text = f"Of {pluralise(facts.samples, 'image')}, {percent(facts.clean)} are classified correctly as they are."
    if facts.average is None:
        return text
    average = percent(facts.average, masked(facts, judged_of(facts)))
    return f"{text} On average over {attacks_and_strengths(facts)}, {average} stay correct."


def _against_what(attacks: Sequence[AttackFacts]) -> str:
    ranked = sorted(attacks, key=lambda attack: -attack.average.value if attack.average else 0.0)
    best, worst = ranked[0], ranked[-1]
    if best.average is None or worst.average is None or best is worst:
        return f"{attack_label(best.attack).label} is the only attack whose every strength was searched."
    return (
        f"It holds best against {attack_label(best.attack).label}, where {percent(best.average)} stay correct on "
        "average "
        f"over the strengths, and worst against {attack_label(worst.attack).label}, with {percent(worst.average)}."
    )


def _where(facts: RunFacts) -> str:
    attacks, words = (
        facts.attacks,
        {a.attack: f" ({MASKED})" if masked(facts, [a.attack]) else "" for a in facts.attacks},
    )
    broken = [
        f"{attack_label(a.attack).label} {format_size(a.quartiles[1], attack=a.attack)}{words[a.attack]}"
        for a in attacks
        if math.isfinite(a.quartiles[1])
    ]
    holding = [f"{attack_label(a.attack).label}{words[a.attack]}" for a in attacks if math.isinf(a.quartiles[1])]
    parts = []
    if broken:
        parts.append(f"Half of all images are misclassified from these sizes on: {join_words(broken)}.")
    if holding:
        parts.append(f"More than half withstand {join_words(holding)} as far as it was searched.")
    return " ".join(parts)


def _compared(reference: ReferenceFacts) -> str:
    ranked = f"{reference.held.ranked_points} ranked entries"
    some = f"{reference.held.points} of the {ranked}, which is incomplete and has no rank"
    scope = f"all {ranked}" if reference.complete else some
    said = {name: percent(number, reference.masked) for name, number in reference.numbers.items()}
    if "CR ind-avg" not in said:
        return f"mUAR {said['mUAR']}. Reference: {reference.name}, {scope}."
    return (
        f"It reaches {said['CR ind-avg']} of the accuracy of the reference on average (CR ind-avg), and "
        f"{said['CR ind-worst']} at its worst entry (CR ind-worst). Reference: {reference.name}, {scope}."
    )


def _intervals(facts: RunFacts) -> str:
    return (
        f"Ranges in brackets are 95% intervals for the draw of the {pluralise(facts.samples, 'image')}: the clean "
        f"accuracy is known to lie between {facts.clean.low:.1f} and {facts.clean.high:.1f}%."
    )


def _checks(facts: RunFacts) -> str:
    parts = [] if facts.diagnosis is None else [facts.diagnosis.sentence]
    parts += ["The run is not finished: some samples lack some attacks."] if facts.missing else []
    doubts = facts.reference.held.doubts if facts.reference else ()
    warnings = len(facts.warnings) - len(doubts)
    if warnings == 1:
        parts.append("The sanity checks gave a warning; read it at the top before the numbers.")
    elif warnings:
        parts.append(f"The sanity checks gave {warnings} warnings; read them at the top before the numbers.")
    else:
        parts.append("The sanity checks gave no warning.")
    return " ".join(parts)
