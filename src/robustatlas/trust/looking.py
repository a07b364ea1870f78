"""The look itself: at samples as they are, and where searches from them end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robustatlas.checks.verdict import Diagnosis
from robustatlas.evaluation.ends import with_ends, withstood
from robustatlas.evaluation.reading import Question, readings_of
from robustatlas.outcomes.readings import DiagnosisRecord
from robustatlas.trust.subject import KnownSubject


def looked_at(known: KnownSubject, question: Question) -> DiagnosisRecord:
    """The answer to a question: of a result where its own searches ended, of a model by searches made for it."""
    record, result = readings_of(known.model, question), known.result
    if not Diagnosis.of(record).open:
        return record
    if result is None:
        return with_ends(known.model, question, record)
    grids = {name: tuple(result.strengths(name).tolist()) for name in result.attacks}
    asked = replace(question, attacks=[replace(each, strengths=grids[each.name]) for each in question.attacks])
    return with_ends(known.model, asked, record, withstood(result, np.array(record.index, np.int64)))
