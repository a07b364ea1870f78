"""Examples that count become outcomes of the run."""

from __future__ import annotations

import numpy as np
import torch

from robustatlas.evaluation.examples import Arrays
from robustatlas.evaluation.verification.asked import Case
from robustatlas.evaluation.verification.judging import Judged, samples_at
from robustatlas.evaluation.work import clean_answers
from robustatlas.outcomes import CallRecord
from robustatlas.outcomes.circumstances import circumstances, command_line, now
from robustatlas.outcomes.records import EXAMPLES, spans_of
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE


def enter(case: Case, judged: Judged, batch: int) -> None:
    """Write the smallest example that counts of each sample under each attack."""
    store, model, work, rows = case.store, case.model, case.work, case.rows
    protocol = {"search": EXAMPLES, "by": case.by, "sha256": case.given.sha256, "eight bits": case.eight_bit}
    handed_over = {"protocol": protocol, "gradient": None}
    records = {name: record.model_copy(update=handed_over) for name, (record, _) in case.wanted.items()}
    about = circumstances(device=str(model.device), threads=str(torch.get_num_threads()))
    for name, record in records.items():
        chosen = judged.smallest(name, rows)
        chosen = chosen[~np.isin(work.index[rows[chosen]], store.done(record))]
        if not len(chosen):
            continue
        samples_of = rows[chosen]
        index, size = work.index[samples_of], judged.sizes[name][chosen]
        store.add(
            [record], CallRecord(attacks=(record.key,), spans=spans_of(index), created=now(), command=command_line())
        )
        strengths = np.array(record.strengths)
        within = size[:, None] <= strengths * (1 + STRENGTH_TOLERANCE)
        none = np.zeros(len(chosen), np.int64)
        columns: Arrays = {
            "index": index,
            "minimal_size": size,
            "found_class": judged.found[chosen],
            "forward": np.bincount(rows, minlength=len(work.labels))[samples_of] + 1,
            "backward": none,
            "rejected": none,
            "seconds": np.zeros(len(chosen)),
            "margins": np.where(within, judged.margin[chosen, None], np.nan).astype(np.float32),
            "fooled": np.full(within.shape, -1, np.int8),
        }
        if model.draws is not None:
            columns |= {"possible_size": size, "mistakes": judged.mistakes[chosen], "drawn": judged.drawn[chosen]}
        samples = {
            "index": index,
            "label": work.labels.numpy()[samples_of],
            "clean_prediction": judged.clean_prediction[samples_of],
            "clean_margin": judged.clean_margin[samples_of],
        }
        if model.rejection is not None and model.draws is None:
            samples |= clean_answers(model, *samples_at(case, torch.from_numpy(samples_of)), batch)
        store.write(record, columns, samples, (index, judged.images[chosen]), about)
