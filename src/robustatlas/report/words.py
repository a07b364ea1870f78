"""The summary of one or several runs in plain words."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, axis_label, format_size, format_strength
from robustatlas.common.wording import MASKED, elide_middle, format_p_value, join_words, list_names, ordinal, pluralise
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import ReferenceFacts, RunFacts
from robustatlas.report.numbers.definitions import NOTICEABLE
from robustatlas.report.numbers.headline import Headline, headline_label, strengths_in_words
from robustatlas.report.numbers.number import Number
from robustatlas.report.numbers.standings import Contest, Standings
from robustatlas.report.numbers.texts import number_text, size_text, status_text

UNEQUAL = "Strengths of different attacks are not equally difficult; the comparison with a reference corrects for that."
OTHER_THREAT = "Searched under another threat model than the reference's: what is said beside it holds about."
WITHOUT = "Without any attack"
UPPER_BOUNDS = "Robust accuracies are upper bounds: an attack can miss adversarial examples."


def percent(interval: Interval) -> str:
    """Return an interval in percent, and the status of a number that has another one than the usual.

    >>> percent(Interval(61.25, 58.0, 64.4, 0.95))
    '61.2% (58.0 to 64.4)'
    """
    return number_text(interval, unit="%")


def headline_sentence(first: Headline, data: str = "") -> str:
    """Return the headline of a run with its intervals, and the reason for it; `data`: name of the data, to be said.

    >>> number = Number(45, 42, 48, 0.95, "robust accuracy", "net", {"linf": (8 / 255,)}, samples=1000)
    >>> headline_sentence(Headline((number,), None, "as asked"), "cifar10")
    '45.0% (42.0 to 48.0) of 1000 images of cifar10 withstand L∞ at 8/255 (as asked)'
    """
    of = f" of {pluralise(first.leading.samples, 'image')} of {data}" if data else ""
    why = "; ".join(dict.fromkeys([first.why, *(number.why for number in first.visible_numbers if number.why)]))
    if first.is_mean:
        verb = "stays" if first.leading.samples == 1 else "stay"
        return f"{percent(first.leading)}{of} {verb} correct in {headline_label(first.leading)} ({why})"
    verb = "withstands" if first.leading.samples == 1 else "withstand"
    begin, *others = first.numbers
    said = [f"{percent(begin)}{of} {verb} {headline_label(begin)}"]
    said += [f"{percent(number)} {verb} {headline_label(number)}" for number in others]
    return f"{join_words(said)} ({why})"


def headline(facts: RunFacts) -> str:
    """Return how robust a run is: the headline and its reason, clean accuracy, then the mean over everything."""
    first = facts.headline
    if first is None or facts.average is None:
        verb = "is" if facts.samples == 1 else "are"
        images = f"{pluralise(facts.samples, 'image')} of {facts.data}"
        return (
            f"{percent(facts.clean)} of {images} {verb} classified correctly; no attack was searched at every strength."
        )
    said = f"{headline_sentence(first, facts.data)}. {percent(facts.clean)} without an attack."
    if first.is_mean:
        return said
    return f"{said} Mean over {strengths_in_words(facts.average)}: {percent(facts.average)}."


def attacks_and_strengths(facts: RunFacts) -> str:
    """Return over what the mean over attacks and strengths is taken."""
    return strengths_in_words(facts.average) if facts.average else ""


def line_in_words(run: RunFacts, item: AttackFacts, named: bool) -> str:
    """The values of an accuracy over strength: without attack, at the standard or middle strength, at the largest."""
    accuracy = item.accuracy or ()
    standard = STANDARD_STRENGTHS.get(item.attack, (float("nan"), ""))[0]
    near = np.flatnonzero(np.isclose(item.strengths, standard, rtol=1e-5))
    middle = int(near[0]) if len(near) else (len(item.strengths) - 1) // 2
    held = run.certified_under(item.attack)
    said = [
        f"{percent(accuracy[k])}{f' (certified: at least {percent(held.accuracy[k])})' if held else ''} "
        f"at {format_strength(item.strengths[k], attack=item.attack)}"
        for k in dict.fromkeys((middle, len(item.strengths) - 1))
    ]
    return f"{f'{run.name}: ' if named else ''}{percent(run.clean)} without attack, {', '.join(said)}."


def certified(facts: RunFacts) -> list[str]:
    """Return a sentence for each certified attack: what is certain from below, and what attacks left from above."""
    return [attack_label(held.row).label + held.sentence.removeprefix(held.row) for held in facts.certified]


def findings(facts: RunFacts, distances: Mapping[str, float] | None = None) -> list[tuple[str, str, str]]:
    """The three findings that matter: pairs of what they are about, the number, and the sentence around it.
    ``distances``: attack -> smallest distance between images of different classes, where it is known."""
    found = [_breaking_point(facts, distances or {})]
    if facts.reference:
        found.append(_place(facts.reference))
    if facts.worst is not None and is_worst_case_shown(facts.worst):
        found.append(
            ("Worst case over attacks", percent(facts.worst), f"withstand {worst_case_in_words(facts.worst)}.")
        )
    else:
        found.append((WITHOUT, percent(facts.clean), "are classified correctly."))
    return found


def is_worst_case_shown(worst: Number) -> bool:
    """Return True if more than one attack decides a noticeable share of a worst case, so that it says more than one."""
    return sum(share >= NOTICEABLE for share in worst.decided_by.values()) > 1


def worst_case_in_words(worst: Number) -> str:
    """Return over which attacks a worst case is taken, and which attack decides it.

    >>> at, shares = {"linf": (8 / 255,), "l2": (0.5,)}, {"l2": 9.0, "linf": 2.0}
    >>> worst_case_in_words(Number(40, 35, 45, 0.95, "union accuracy", "net", at, 500, decided_by=shares))
    'L∞ at 8/255 and L2 at 0.5, each image under all of them; L2 decides it (it alone breaks 9.0%)'
    """
    over = join_words(
        [f"{attack_label(attack).label} at {format_strength(at, attack=attack)}" for attack, at in worst.points.items()]
    )
    attack, share = next(iter(worst.decided_by.items()))
    who = f"{attack_label(attack).label} decides it (it alone breaks {share:.1f}%)"
    return f"{over}, each image under all of them; {who}"


def median_sentence(median: Number) -> str:
    """Return the sentence on the median size under an attack.

    >>> median_sentence(Number(0.25, 0.2, 0.3, 0.95, "median size", "net", {"l2": (0.5,)}, samples=90))
    'Half of the images that are right without a change are wrong from L2 0.25 on.'
    """
    status = _bracketed(status_text(median))
    if math.isinf(median.value):
        label = attack_label(median.attack).label
        return f"More than half of the images that are right without a change withstand even {label}{status}."
    return f"{_HALF} are wrong from {size_text(median.attack, median.value)} on{status}."


def _bracketed(status: str) -> str:
    return f" ({status})" if status else ""


_HALF = "Half of the images that are right without a change"


def _breaking_point(facts: RunFacts, distances: Mapping[str, float]) -> tuple[str, str, str]:
    """Return the median size under the attack that leaves fewest images correct, as a finding."""
    about, median = "Where it breaks", facts.weakest
    if median is None:
        return about, "Not known", "No attack was run."
    weakest = next(attack for attack in facts.attacks if attack.attack == median.attack)
    label = attack_label(median.attack).label
    status = _bracketed(status_text(median))
    left = f" Averaged over its strengths, {percent(weakest.average)} stay correct." if weakest.average else ""
    if math.isinf(median.value):
        return about, label, f"is its weakest side, but more than half of the right images withstand it{status}.{left}"
    distance = distances.get(median.attack)
    share = f", {100 * median.value / distance:.0f}% of the smallest distance between classes" if distance else ""
    unit = f" Unit: {axis_label(weakest.unit, attack=weakest.attack)}." if weakest.unit else ""
    said = f"{_HALF} are wrong from here on{share}{status}.{left}{unit}"
    return about, size_text(median.attack, median.value), said


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
        of = "of the accuracy of specialists" if has_specialists(reference) else f"relative to {reference.subject}"
        what = f"{of}, on average (CR ind-avg)" if key == "CR ind-avg" else "mUAR"
        entries = f"On {reference.held.points} of {reference.held.ranked_points} ranked entries"
        missing = "" if reference.complete else f" {entries}: incomplete, so no rank."
        if reference.masked:
            missing = f" {MASKED.capitalize()}, so no rank."
        about = "Against specialists" if has_specialists(reference) else "Against a reference"
        return about, percent(reference.numbers[key]), f"{what}.{missing}{doubt}"
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


def has_specialists(reference: ReferenceFacts) -> bool:
    """Return True if the reference is of models that were trained against the very attack."""
    return not reference.held.reference.models


def summary(facts: RunFacts, alone: bool = True) -> list[tuple[str, str]]:
    """Pairs of a question and its answer: how robust, against what, where it breaks, what to trust.

    Next to other runs (not `alone`) it leaves out what holds for all of them, which `trust_together` says once.
    """
    answers = [("How robust?", _robustness_sentences(facts))]
    judged = [attack for attack in facts.attacks if attack.average and not masked_shares(facts, [attack.attack])]
    if judged and (len(judged) > 1 or len(facts.attacks) == 1):
        answers.append(("Against what?", _against_what(judged) + (f" {UNEQUAL}" if alone and len(judged) > 1 else "")))
    answers.append(("Where does it break?", _medians_in_words(facts)))
    if handed := [attack for attack in facts.attacks if attack.best_known]:
        answers.append(("Best known, and by whom?", " ".join(map(_best_known, handed))))
    if advice := facts.advice:
        answers.append(
            ("Do the strengths tell enough?", f"{' '.join(one.why for one in advice)} Better: {facts.extended}.")
        )
    if facts.reference:
        whom = "specialists" if has_specialists(facts.reference) else facts.reference.subject
        answers.append((f"Compared with {whom}?", _reference_sentences(facts.reference)))
    if alone:
        answers.append(("What to trust?", " ".join([_intervals(facts), UPPER_BOUNDS, _checks(facts)])))
    elif facts.warnings or facts.missing:
        answers.append(("What to trust?", _checks(facts)))
    return answers


def verdict(standings: Standings) -> list[str]:
    """Return who is more robust, in sentences: at the headline, who is masked, in the mean over everything, and clean.

    A model is the most robust one only if it is ahead of all others under every headline attack.
    """
    behind = [f"{elide_middle(name)} is {MASKED}. {why}" for name, why in standings.masked.items()]
    said = [" ".join(_headline_sentences(standings))] if all(map(_is_contested, standings.headlines)) else []
    together = standings.together
    means = []
    if together and _is_contested(together):
        over = f"In the mean over {list_names(contest.label for contest in standings.attacks)} and their "
        means.append(f"{over}{together.strengths} strengths, {_order(standings, together, 'stay correct')}.")
    if not standings.is_mean or not said:
        means += _attack_sentences(standings, standings.attacks)
    clean = f"On clean images, {_order(standings, standings.clean, 'are right')}."
    return [*said, *behind, *means, clean]


def _headline_sentences(standings: Standings) -> list[str]:
    best, names = standings.robust_leader, [elide_middle(name) for name in standings.names]
    where = join_words([f"{contest.label}" for contest in standings.headlines])
    if standings.is_mean:
        where = (
            f"{where}, in the mean over the strengths of each"
            if len(standings.headlines) > 1
            else f"{where}, in the mean over its strengths"
        )
    why = f"({standings.why[0].upper()}{standings.why[1:]}.)"
    if best is None:
        return [*_attack_sentences(standings, standings.headlines), why]
    degree = "more" if len(names) == 2 else "most"
    numbers = join_words([f"{percent(contest.values[best])}" for contest in standings.headlines])
    gap = _gap(standings, standings.headlines[0]) if len(standings.headlines) == 1 else ""
    return [f"{names[best]} is the {degree} robust under {where}: {numbers}{gap}.", why]


def _attack_sentences(standings: Standings, contests: Sequence[Contest]) -> list[str]:
    """Return a sentence for the attacks under which the same models are ahead."""
    alike: dict[tuple[tuple[tuple[int, int], ...], tuple[int, ...]], list[Contest]] = {}
    for contest in filter(_is_contested, contests):
        alike.setdefault((contest.ahead, contest.masked), []).append(contest)
    said = []
    for group in alike.values():
        first = group[0]
        where = join_words([contest.label for contest in group])
        over = (
            ""
            if not first.strengths
            else " in the mean over the strengths of each"
            if len(group) > 1
            else " in the mean over its strengths"
        )
        said.append(f"Under {where},{over and over + ','} {_order(standings, first, '', alone=len(group) == 1)}.")
    return said


def _order(standings: Standings, contest: Contest, verb: str, alone: bool = True) -> str:
    """Return who is ahead of whom in one number, with the number of a model that is ahead of all."""
    names = [elide_middle(name) for name in standings.names]
    if not contest.is_told_apart:
        return f"the images tell no models apart{_gap(standings, contest) if alone else ''}"
    if not contest.leaders:
        pairs = join_words([f"{names[first]} is ahead of {names[second]}" for first, second in contest.ahead])
        return f"{pairs}; the other differences are within chance"
    leader = contest.leaders[0]
    if not alone:
        return f"{names[leader]} is ahead"
    value = f"{percent(contest.values[leader])}{' ' if verb else ''}{verb}"
    return f"{names[leader]} is ahead: {value}{_gap(standings, contest)}"


def _gap(standings: Standings, contest: Contest) -> str:
    """Return what the best model has more than the next one on the same images, of two models or if it leads all."""
    gap, count = contest.difference, len(contest.values) - len(contest.masked)
    if gap is None or contest.p_value is None or (count > 2 and not contest.leaders):
        return ""
    doubt = f"{gap.low:.1f} to {gap.high:.1f}"
    p = format_p_value(contest.p_value)
    doubt += f"; p {p if p.startswith('<') else f'= {p}'}"
    doubt += f", corrected for {count * (count - 1) // 2} pairs" if count > 2 else ""
    if not contest.is_told_apart:
        return f": {gap.value:.1f} points between them ({doubt})"
    other = elide_middle(standings.names[contest.best[1]])
    return f", {gap.value:.1f} points more than {other} ({doubt})"


def rule_of_differences(pairs: int) -> str:
    """Return when a model is called ahead of another one, for a number of pairs of models.

    >>> rule_of_differences(1)
    'A model is ahead where its p-value on the same images is below 0.05, which is where the interval excludes 0.'
    """
    corrected = f" Both are corrected for {pairs} pairs (Bonferroni), for each number by itself." if pairs > 1 else ""
    return (
        "A model is ahead where its p-value on the same images is below 0.05, which is where the interval excludes 0."
        f"{corrected}"
    )


def _is_contested(contest: Contest) -> bool:
    return len(contest.values) - len(contest.masked) > 1


def trust_together(facts: Sequence[RunFacts], contests: Standings | None) -> str:
    """Return what to trust, said once for several runs."""
    widest = max(facts, key=lambda run: run.clean.high - run.clean.low)
    parts = [_intervals(widest)]
    if contests:
        parts.append(rule_of_differences(len(contests.names) * (len(contests.names) - 1) // 2))
    parts.append(UPPER_BOUNDS)
    if any(len(run.attacks) > 1 for run in facts):
        parts.append(UNEQUAL)
    return " ".join(parts)


def _robustness_sentences(facts: RunFacts) -> str:
    text = f"Of {pluralise(facts.samples, 'image')}, {percent(facts.clean)} are classified correctly as they are."
    if facts.average is None:
        return text
    return f"{text} On average over {attacks_and_strengths(facts)}, {percent(facts.average)} stay correct."


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


def _medians_in_words(facts: RunFacts) -> str:
    medians = [attack.median for attack in facts.attacks]
    status = {m.attack: _bracketed(status_text(m)) for m in medians}
    broken = [f"{size_text(m.attack, m.value)}{status[m.attack]}" for m in medians if math.isfinite(m.value)]
    holding = [f"{attack_label(m.attack).label}{status[m.attack]}" for m in medians if math.isinf(m.value)]
    parts = [f"{_HALF} are wrong from these sizes on: {join_words(broken)}."] if broken else []
    parts += [f"More than half of them withstand {join_words(holding)} as far as it was searched."] if holding else []
    return " ".join(parts)


def _reference_sentences(reference: ReferenceFacts) -> str:
    ranked = f"{reference.held.ranked_points} ranked entries"
    some = f"{reference.held.points} of the {ranked}, which is incomplete and has no rank"
    scope = f"all {ranked}" if reference.complete else some
    said = {name: percent(number) for name, number in reference.numbers.items()}
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
