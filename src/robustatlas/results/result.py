"""The result of an evaluation: the table of a run, with the curves, displays and files that people want of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from robustatlas.checks.diagnosis import Diagnosis
from robustatlas.checks.findings import findings_at_other_strengths
from robustatlas.checks.run_findings import (
    Audits,
    attacks_without_audit,
    audit_finding,
    is_all_refused,
    missing_audit_finding,
    piecewise_findings,
    refusal_sentence,
    refused_findings,
)
from robustatlas.common.errors import UserError
from robustatlas.common.tabular import Grid, Tabular
from robustatlas.common.wording import masked_warning
from robustatlas.metrics.audit import Audited, audit_warning
from robustatlas.metrics.curves import RobustnessCurve, envelope, local_optimality
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.metrics.two_sided import TwoSided
from robustatlas.outcomes import display
from robustatlas.outcomes.identity import Identity
from robustatlas.outcomes.outcome import LOOKS, Integers, Outcome
from robustatlas.outcomes.parts import AdversarialExamples
from robustatlas.outcomes.records import AttackRecord, CallRecord, DiagnosisRecord
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.table import OutcomeTable


@dataclass(frozen=True, eq=False)
class Result(OutcomeTable, Tabular):
    """The outcomes of all attacks of one run on the same N samples.

    Of a run that is not finished, a result holds the attacks that have begun and the samples that all of these have
    finished; ``missing`` says how many samples each attack of the run still lacks.

    ``to_pandas``, ``to_polars`` and ``to_arrow`` give one long table with a row for each attack and sample. Its columns
    are index, label, clean_prediction, attack, minimal_strength, minimal_size (as people type them; where typed
    strengths fall, -inf is never), found_class, forward and backward. Randomised models have mistakes and drawn as well
    (see :class:`Outcome`).

    Attributes:
        name: of the model.
        data: name of the data set.
        index: ``[N]``, positions of the samples in the data set, distinct.
        labels: ``[N]``, true classes.
        clean_prediction: ``[N]``, class predicted for the clean input.
        clean_margin: ``[N]``, softmax margin of the clean input, in [-1, 1]; NaN where not known.
        outcomes: attack -> :class:`Outcome` of the same samples.
        clean_rejected: ``[N]``, whether the model refuses to answer for the clean input; None: it never may.
        certified_sizes: attack -> sizes up to which nothing can be found, where some were certified.
        identity: what the run is about; None for a table of arrays at hand.
        records: the attacks as they were run, by their keys.
        plans: what was asked of the run, oldest first.
        path: the run directory, None for a run in memory.
        missing: attack to number of samples without an outcome; empty when complete.
        about: what the owner of the run says of the model; see :meth:`describe`.
        run: the run that the numbers are of; None for a table of arrays at hand.

    Example:
        >>> import numpy as np
        >>> result = Result.from_arrays(
        ...     labels=[0, 1, 1], clean_prediction=[0, 1, 0],
        ...     minimal_size={"linf": [0.15, np.inf, 0.0]}, strengths={"linf": [0.1, 0.2]},
        ... )
        >>> result.accuracies().values("linf").round(1), round(float(result.curve("linf").at(0.2)), 1)
        (array([66.7, 33.3]), 66.7)
    """

    identity: Identity | None = None
    records: Mapping[str, AttackRecord] = field(default_factory=dict)
    plans: Sequence[CallRecord] = ()
    path: Path | None = None
    missing: Mapping[str, int] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    run: Run | None = field(default=None, repr=False)

    @classmethod
    def from_run(
        cls,
        run: Run,
        attacks: Sequence[str] | None = None,
        index: Integers | None = None,
        strengths: Mapping[str, Sequence[float]] | None = None,
    ) -> Result:
        """Return what a run holds of some attacks, samples and strengths.

        The arguments are those of :meth:`robustatlas.outcomes.store.Run.table`.
        """
        table = run.table(attacks, index, strengths)
        cards = [card.about for card in run.cards()]
        return cls(
            name=_last_name(cards) or table.name,
            data=table.data,
            index=table.index,
            labels=table.labels,
            clean_prediction=table.clean_prediction,
            clean_margin=table.clean_margin,
            outcomes=table.outcomes,
            clean_rejected=table.clean_rejected,
            certified_sizes=table.certified_sizes,
            identity=run.identity,
            records={key: record for key, record in run.records().items() if record.name in table.outcomes},
            plans=run.plans(),
            path=run.path,
            missing=run.missing_counts(),
            about={key: value for card in cards for key, value in card.items() if key != "name"},
            run=run,
        )

    def __repr__(self) -> str:
        audits = [f"  {attack}: {sentence}" for attack, sentence in self.audit_sentences().items()]
        return "\n".join([display.text_of(self, self.warnings, self._verdict), *audits])

    def _repr_html_(self) -> str:
        # The report, a room above, writes the view of a notebook from its table of numbers.
        page: str = import_module("robustatlas.report.notebook").result_html(self)
        return page

    def _grid(self) -> Grid:
        return display.grid_of(self, self.warnings, self._verdict)

    def _columns(self) -> dict[str, NDArray[Any]]:
        return display.columns_of(self)

    @property
    def complete(self) -> bool:
        """True if every attack has finished every sample that was asked for."""
        return not self.missing

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on what is to be doubted, each once.

        They name attacks whose gradients the model did not give, a diagnosis that speaks against the numbers, and the
        warnings of the checks when each attack was last asked for.
        """
        last = {self.records[key].name: plan for plan in self.plans for key in plan.attacks if key in self.records}
        warned = [warning for plan in last.values() for warning in plan.warnings]
        lost, diagnosis = super().invalid, self.diagnosis
        found = [masked_warning(lost)] if lost else []
        found += self._audits.concerns()
        if diagnosis is not None and diagnosis.has_doubts:
            found.append(diagnosis.warning)
        return tuple(dict.fromkeys([*found, *warned]))

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """Last diagnosis of the run that tells anything; None if there was none.

        A diagnosis for attacks without gradients alone tells nothing.
        """
        records = self.run.diagnoses() if self.run is not None else []
        telling = [record for record in records if record.told] or records
        besides = [audit_finding(*audit) for audit in self._audits.all()] + piecewise_findings(self.outcomes.values())
        besides += refused_findings(self.outcomes.values(), self.clean)
        besides += [missing_audit_finding(attack, ours) for attack, ours in self._attacks_without_audit().items()]
        return (
            Diagnosis.from_record(telling[-1], [*findings_at_other_strengths(telling), *besides]) if telling else None
        )

    def keep_diagnosis(self, record: DiagnosisRecord) -> None:
        """Keep in the run what indicators read of its model; of no effect on any number."""
        if self.run is not None:
            self.run.keep_diagnosis(record)
            vars(self).pop("diagnosis", None)

    @property
    def invalid(self) -> dict[str, float]:
        """Attack -> share of the samples at which the model's gradient is missing, or misleads by the diagnosis.

        Only attacks with such samples: their robust accuracies are too high.
        """
        shares, diagnosis = super().invalid, self.diagnosis
        if diagnosis is None or diagnosis.verdict != "masked":
            return shares
        blind = {record.name for record in self.records.values() if record.gradient is not None}
        return {
            attack: max(shares.get(attack, 0.0), diagnosis.blind_share if attack in blind else 0.0)
            for attack in self.outcomes
            if attack in blind or attack in shares
        }

    @property
    def unproven(self) -> dict[str, str]:
        """Attack -> why its numbers have no place beside published ones and give no advice, in a sentence.

        It is an attack of one's own that was not held against this package's attack on the same threat model, or that
        leaves much more standing, or verification refused every candidate of it.
        """
        own = {record.name for record in self.records.values() if record.counterpart}
        found = {
            attack: f"{attack} is an attack of one's own; {ours}, on the same threat model, was not held against it."
            for attack, ours in self._attacks_without_audit().items()
        }
        found |= {audit[0]: said for audit in self._audits.all() if audit[0] in own and (said := audit_warning(*audit))}
        refused = [one for one in self.outcomes.values() if is_all_refused(one, self.clean)]
        return found | {one.attack: f"{refusal_sentence(one)}." for one in refused}

    def _attacks_without_audit(self) -> dict[str, str]:
        records = [record for record in self.records.values() if record.name in self.outcomes]
        return attacks_without_audit(records, [attack for attack, _, _ in self._audits.all()])

    @property
    def is_suspect(self) -> bool:
        """True if numbers of the result carry a mark: some are invalid, or its diagnosis speaks against them."""
        diagnosis = self.diagnosis
        return bool(self.invalid) or (diagnosis is not None and diagnosis.has_doubts)

    @property
    def _verdict(self) -> str:
        diagnosis = self.diagnosis
        return "" if diagnosis is None else diagnosis.sentence

    @property
    def recorded_name(self) -> str:
        """The name of the model when its run was begun, whatever it is called now."""
        return self.name if self.identity is None else self.identity.model.name

    def describe(self, about: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Keep in the run what reports and leaderboards say of its model; of no effect on any number.

        Args:
            about: any of ``name`` (of the model), ``title``, ``url`` (of the paper), ``architecture``, ``extra_data``,
                ``trained_on`` (attack to largest strength, as people type it), ``notes``. What is said later replaces
                what was said before; results that are loaded from then on have it. Tables, figures, LaTeX and pages
                call the model by the name, or the title where no name is said with it.
            more: the same as keywords, such as ``title="My network"``.

        Raises:
            UserError: the numbers are of no run, or something is said that JSON cannot hold.
        """
        if self.run is None:
            raise UserError("These numbers are of no run, so nothing can be kept with them; give evaluate a run.")
        self.run.describe({**(about or {}), **more})

    @property
    def circumstances(self) -> Sequence[Mapping[str, str]]:
        """Devices, hosts and versions with which the numbers were computed, each combination once."""
        return self.run.circumstances() if self.run else ()

    def reread(self) -> Result:
        """Return the result of the same attacks, samples and strengths with what their run has learned since.

        Raises:
            UserError: the numbers are of no run.
        """
        if self.run is None:
            raise UserError("These numbers are of no run, so there is nothing to read again.")
        grids = {attack: self.distances(attack).tolist() for attack in self.attacks}
        return Result.from_run(self.run, list(self.attacks), self.index, grids)

    @classmethod
    def from_certificates(cls, run: Run, attacks: Sequence[str], index: Integers) -> Result:
        """Return both sides of some attacks on the samples ``index``.

        An attack that was not run on all of them has its lower side alone.
        """
        found = [name for name in attacks if name in {record.name for record in run.records().values()}]
        both = [name for name in found if not len(np.setdiff1d(index, run.finished_samples(name)))]
        return cls.from_run(run, both, index)

    def certified(self, attack: str) -> RobustnessCurve:
        """Return the curve of the certified sizes: an upper bound of the robust error at every size.

        Args:
            attack: its name.

        Returns:
            the curve; 100 less its values is the certified accuracy, and the robust accuracy is at least that.

        Raises:
            UserError: nothing was certified under that attack.
        """
        sizes, certified = self.certified_size(attack), self.certified_sizes[attack]
        return RobustnessCurve(sizes, attack=attack, unit=certified.unit, model=self.name)

    def two_sided(self, attack: str) -> TwoSided:
        """Return both sides of an attack's robustness curve: what was found, and what is certain.

        Args:
            attack: its name.

        Returns:
            both curves, with their bands and how far they are apart.

        Raises:
            UserError: the attack was not run, or nothing was certified under it.

        Example:
            >>> import robustatlas as ra
            >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     common = {"samples": 4, "run": f"{folder}/run", "progress": False}
            ...     _ = ra.evaluate(model, data, "linf", **common)
            ...     print(ra.certify(model, data, "linf", **common).two_sided("linf").at(0.02))
            at least 100.0 %, at most 100.0 % robust at 0.02
        """
        return TwoSided(self.certified(attack), self.curve(attack), float(self.strengths(attack)[-1]))

    def curve(self, attack: str) -> RobustnessCurve:
        """Return the robustness curve: robust error as a function of the perturbation size."""
        return RobustnessCurve.from_outcome(self.outcome(attack), model=self.name)

    def misclassification(self, attack: str) -> tuple[Interval | None, ...]:
        """Return how often a randomised model misclassifies each sample's smallest example, in percent of fresh draws.

        Where the clean input is misclassified, it is that which is drawn. Intervals are at 95 %.

        Bounds are exact (Clopper-Pearson), each at a third of the error, since draws are added until a verdict is
        certain, at most twice. None where there is no example, or its draws were not kept.
        """
        outcome = self.outcome(attack)
        if outcome.mistakes is None or outcome.drawn is None:
            return (None,) * self.samples
        return tuple(
            replace(proportion_interval(mistakes, drawn, 1 - 0.05 / len(LOOKS)), confidence=0.95) if drawn else None
            for mistakes, drawn in zip(outcome.mistakes.tolist(), outcome.drawn.tolist(), strict=True)
        )

    def audited(self, attack: str) -> Audited:
        """Return what the stronger search of an audit would leave of all samples, at each strength and in the mean.

        The 95 % intervals are about these samples and that search.

        Raises:
            UserError: there was no audit, or it did not have this attack.

        Example:
            >>> import robustatlas as ra
            >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
            >>> result = ra.evaluate(model, data, "brightness", samples=9, audit=3, progress=False)
            >>> result.audited("brightness").audited
            3
        """
        return self._audits.audit(attack)

    def audit_sentences(self) -> dict[str, str]:
        """Return attack -> what its audit says in words; empty where there was none."""
        return self._audits.sentences()

    @property
    def _audits(self) -> Audits:
        return Audits(self, self.run.audit if self.run is not None else None)

    def searched(self, attack: str) -> Outcome:
        """Return the outcome of the run's own searches under an attack, without examples that others handed over."""
        outcome = self.outcome(attack)
        if self.run is None:
            return outcome
        strengths = {attack: outcome.strengths.tolist()}
        return self.run.table([attack], self.index, strengths, searched=True).outcome(attack)

    def optimality(self, best_known: OutcomeTable) -> dict[str, float]:
        """Return the optimality of each attack in [0, 1], as AttackBench defines it, by the smallest examples known.

        It is 1 if no smaller example of its samples is known.

        Args:
            best_known: of the same data; joined runs (``robustatlas best-known``) or one of another search or seed.
                Only attacks of both count, but those that judge each strength by itself, and this result's own examples
                are among those known.

        Raises:
            UserError: no attack in common, or a sample of this result that the other does not have or labels otherwise.

        Source: Cinà et al. 2025, AttackBench (see :func:`robustatlas.metrics.local_optimality`).

        Example:
            >>> def of(*sizes):
            ...     return Result.from_arrays([0, 0], [0, 0], {"linf": sizes}, {"linf": [0.1, 0.4]})
            >>> of(0.2, 0.4).optimality(of(0.1, 0.4))
            {'linf': 0.6666666666666666}
        """
        shared = [name for name, own in self.outcomes.items() if own.monotone and name in best_known.attacks]
        if not shared:
            raise UserError(f"{self.name} and {best_known.name} have no attack in common.")
        at = {int(index): row for row, index in enumerate(best_known.index)}
        rows = np.array([at.get(int(index), -1) for index in self.index], np.int64)
        if (rows < 0).any() or (best_known.labels[rows] != self.labels).any():
            raise UserError(f"{best_known.name} does not hold the samples of {self.name}; give runs of the same data.")
        known = best_known.select(rows)
        curves = {
            attack: (self.curve(attack), RobustnessCurve.from_outcome(known.outcome(attack))) for attack in shared
        }
        return {attack: local_optimality(curve, envelope([curve, best])) for attack, (curve, best) in curves.items()}

    def adversarial(self, attack: str, index: NDArray[np.int64] | None = None) -> AdversarialExamples:
        """Return the smallest adversarial examples: positions in the data set ``[M]`` and float32 inputs ``[M, ...]``.

        Args:
            attack: its name.
            index: positions of samples in the data set; default: all.

        Raises:
            UserError: an attack that the result does not have, or a run that kept no examples.
        """
        self.outcome(attack)
        if self.run is None:
            raise UserError("This result has no adversarial examples; evaluate with keep_adversarial=True.")
        return self.run.adversarial(attack, self.index if index is None else index)


def load_result(path: str | Path, attacks: Sequence[str] | None = None) -> Result:
    """Return the result of a run on disk, finished or not (see :class:`Result`).

    Args:
        path: the run directory.
        attacks: only these attacks; of an unfinished run this may leave more samples.

    Returns:
        what all attacks found on the samples that they share.

    Raises:
        UserError: no run there, a run of another format, a damaged file (it is named), nothing finished yet.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> net, data = torch.nn.Linear(4, 2), (torch.rand(3, 4), torch.tensor([0, 1, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ra.evaluate(net, data, "linf", run=f"{folder}/run", progress=False)
        ...     load_result(f"{folder}/run").minimal_size("linf").shape
        (3,)
    """
    return Result.from_run(Run.open(path), attacks)


def _last_name(cards: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the name that was said of a model last, or the title where a card has no name; None: neither was said."""
    names = [card.get("name", card.get("title")) for card in cards]
    return next((name for name in reversed(names) if isinstance(name, str) and name.strip()), None)


class Results(Sequence[Result]):
    """The results of runs on disk, each of which is read when it is asked for. ``paths``: the run directories.
    ``kept``: so many of those that were asked for last stay in memory, and are not read again."""

    def __init__(self, paths: Sequence[str | Path], kept: int = 0) -> None:
        self.paths, self.kept = tuple(paths), kept
        self._read = lru_cache(kept)(load_result)

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, place: int) -> Result: ...

    @overload
    def __getitem__(self, place: slice) -> Results: ...

    def __getitem__(self, place: int | slice) -> Result | Results:
        return Results(self.paths[place], self.kept) if isinstance(place, slice) else self._read(self.paths[place])
