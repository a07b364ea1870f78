"""Certified accuracies of a run's attacks, as numbers and in sentences."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from robustatlas.common.typed_strengths import format_strength, value_as_typed
from robustatlas.common.wording import join_words
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.two_sided import TwoSided
from robustatlas.outcomes.certified import CertifiedSizes
from robustatlas.report.numbers.definitions import share_wrong_at_half
from robustatlas.report.numbers.number import CERTIFIED, Number, Numbers
from robustatlas.report.numbers.units import unit_of
from robustatlas.results.result import Result


@dataclass(frozen=True)
class CertifiedFacts:
    """The lower side of one attack, and both where it was run too.

    Attributes:
        row: name of the attack in tables, with the certified model if that is another one than the run's.
        held: the certified sizes.
        unit: of the strengths.
        accuracy: row of the table of numbers for each strength of the attack as it was run, or of the certificate.
        curve: of the certified sizes.
        both: None where the attack was not run, or another model is certified.
        saved: at most how many passes a sample certificates saved; None: nothing was certified before.
        half: size up to which half of the clean accuracy is proved; 0 where that is not so at any.
    """

    row: str
    held: CertifiedSizes
    unit: str
    accuracy: tuple[Number, ...]
    curve: RobustnessCurve
    both: TwoSided | None
    saved: float | None
    half: float

    @property
    def strengths(self) -> tuple[float, ...]:
        """Strengths of the accuracies."""
        return tuple(number.strength for number in self.accuracy)

    @property
    def sentence(self) -> str:
        """At the middle one of its strengths, from both sides where it was run too."""
        middle = (len(self.strengths) - 1) // 2
        beginning = f"{self.row}, certified by {join_words(list(self.held.methods))}:"
        at = self.strengths[middle]
        if self.both is None:
            least = self.accuracy[middle].value
            said = f"{beginning} at least {least:.1f} % robust at {format_strength(at, attack=self.held.attack)}."
        else:
            meet = f"both sides meet on {self.both.share_closed:.1f} % of the images"
            said = f"{beginning} {self.both.at(value_as_typed(self.held.attack, at))}; {meet}."
        return " ".join(filter(None, [said, self.draws_sentence, self.saving_sentence]))

    @property
    def draws_sentence(self) -> str:
        """Random draws of a certificate of another model, with their certainty and where it abstains; else empty."""
        if not self.held.of:
            return ""
        settings = [record.settings for record in self.held.records if "alpha" in record.settings]
        made = join_words([f"n = {each['draws']:,}, alpha = {each['alpha']:g}" for each in settings])
        abstained = 0 if self.held.abstained is None else int(self.held.abstained.sum())
        return f"Another model than the run's own; {made}; it abstains on {abstained} images."

    @property
    def saving_sentence(self) -> str:
        """Passes that certificates spared the attack, in a sentence."""
        return f"They spared the attack up to {self.saved:.0f} passes a sample." if self.saved is not None else ""


def certified_of(result: Result, numbers: Numbers) -> Iterator[CertifiedFacts]:
    """Yield the certified side of each attack of a run that has one; `numbers`: the table of the run.

    >>> import numpy as np
    >>> from robustatlas.report.numbers.of_run import numbers_of_run
    >>> found = Result.from_arrays([0, 1], [0, 1], {"linf": [0.15, np.inf]}, {"linf": [0.1, 0.2]})
    >>> sizes = CertifiedSizes("linf", np.array([0.14, 0.05]), ("crown",), strengths=(0.1, 0.2))
    >>> vars(found)["certified_sizes"] = {"linf": sizes}
    >>> [facts.sentence for facts in certified_of(found, numbers_of_run(found, {}))]
    ['linf, certified by crown: at least 50.0 %, at most 100.0 % robust at 0.1; both sides meet on 0.0 % ...']
    """
    for row, held in result.certified_sizes.items():
        is_run = row in result.attacks and not held.of and result.outcome(row).is_judged
        saved, curve = result.outcome(row).saved if is_run else None, result.certified(row).distance_curve
        accuracy = numbers.select(CERTIFIED, row)
        half = float(curve.quantile(share_wrong_at_half(result.clean_accuracy)))
        yield CertifiedFacts(
            row=row,
            held=held,
            unit=unit_of(held.attack, held.unit),
            accuracy=accuracy,
            curve=curve,
            both=result.two_sided(row) if is_run else None,
            saved=None if saved is None else float(saved.mean()),
            half=min([half, *(number.strength for number in accuracy[-1:])]),
        )


def halves_proved(certified: Iterable[CertifiedFacts]) -> dict[str, float]:
    """Attack -> size up to which half of the clean accuracy is proved of the model itself, where that is so."""
    return {facts.row: facts.half for facts in certified if not facts.held.of and facts.half > 0}
