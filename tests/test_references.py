"""The shipped references: complete, with the source's digits, and with its known errors put right."""

from __future__ import annotations

import ast
import json
import math
from pathlib import Path

import numpy as np
import pytest

import robustatlas.metrics
from robustatlas.errors import UserError
from robustatlas.metrics import AccuracyTable
from robustatlas.references import Reference, available_references, load_reference

GOLDENS = Path(__file__).parent / "goldens" / "metrics"


@pytest.fixture(scope="module")
def multirobustbench() -> Reference:
    return load_reference("multirobustbench-cifar10")


def test_multirobustbench_is_complete(multirobustbench):
    ranked = ("linf", "l2", "l1", "stadv", "recolor", "elastic", "jpeg-linf", "jpeg-l1", "lpips")
    assert multirobustbench.ranked == ranked
    adversarial = [attack for attack in multirobustbench.accuracies.attacks if not attack.startswith("corruption-")]
    corruptions = [attack for attack in multirobustbench.accuracies.attacks if attack.startswith("corruption-")]
    assert (len(adversarial), len(corruptions), len(multirobustbench.defenses)) == (18, 19, 21)
    assert all(len(multirobustbench.accuracies.strengths(attack)) == 20 for attack in adversarial)
    assert all(len(multirobustbench.accuracies.strengths(attack)) == 5 for attack in corruptions)
    assert multirobustbench.clean == pytest.approx(94.2033333)
    assert multirobustbench.source_names["jpeg-l1"] == "JPEGL1Attack"


def test_multirobustbench_numbers_are_counts_of_images(multirobustbench):
    """Three models on 10,000 images: acc* is a multiple of 1/300 percent; a defense's accuracy of 1/100."""
    for table, images in [
        (multirobustbench.accuracies, 30_000),
        *((d.accuracies, 10_000) for d in multirobustbench.defenses),
    ]:
        adversarial = [attack for attack in table.attacks if not attack.startswith("corruption-")]
        counts = np.concatenate([table.values(attack) for attack in adversarial]) * images / 100
        np.testing.assert_allclose(counts, np.round(counts), atol=1e-4)


def test_both_known_errors_are_put_right_and_marked(multirobustbench):
    corrected = multirobustbench.defense("Dai2023MultiRobustBench_Linf")
    assert corrected.trained_on == {"linf": pytest.approx(8 / 255)}
    assert any(note.startswith("corrected:") for note in corrected.notes)
    incomplete = multirobustbench.defense("Croce2022Adversarial_Linf")
    assert incomplete.missing(multirobustbench.ranked) == ("linf", "l2", "l1", "lpips")
    assert any(note.startswith("incomplete:") for note in incomplete.notes)
    others = [d for d in multirobustbench.defenses if d not in (corrected, incomplete)]
    assert not any(d.missing(multirobustbench.accuracies.attacks) for d in others)
    with pytest.raises(UserError, match="no defense 'none'"):
        multirobustbench.defense("none")


UAR_ROWS = {
    "table1_imagenet100": "uar-imagenet100",
    "table2_imagenet100_jpeg": "uar-imagenet100",
    "table3_cifar10": "uar-cifar10",
}
UAR_NAMES = {"JPEG": "jpeg-linf", "Linf-JPEG": "jpeg-linf", "L2-JPEG": "jpeg-l2", "L1-JPEG": "jpeg-l1"}


def test_uar_references_have_the_printed_digits():
    tables = json.loads((GOLDENS / "uar_tables.json").read_text())
    compared = 0
    for table, name in UAR_ROWS.items():
        accuracies = load_reference(name).accuracies
        for paper_name, (strengths, ata) in tables[table].items():
            attack = UAR_NAMES.get(paper_name, paper_name.lower())
            pixels = 255 if attack in ("linf", "l2", "l1") else 1
            np.testing.assert_allclose(accuracies.strengths(attack) * pixels, strengths, rtol=1e-12)
            # The paper's digits come from float32 fractions, whose last bits decide ties such as 90.95.
            np.testing.assert_array_less(np.abs(accuracies.values(attack) - ata), 0.05 + 1e-5)
            compared += len(strengths) + len(ata)
    assert compared == 192


def test_uar_references_have_no_clean_accuracy():
    assert math.isnan(load_reference("uar-cifar10").clean)
    assert load_reference("uar-cifar10").ranked == ("linf", "l2", "l1", "jpeg-linf", "jpeg-l1", "elastic")
    assert len(load_reference("uar-imagenet100").ranked) == 8


@pytest.mark.parametrize("name", available_references())
def test_every_shipped_reference_round_trips_and_names_its_source(name, tmp_path):
    reference = load_reference(name)
    assert "https://" in reference.source
    (tmp_path / "mine.json").write_text(json.dumps(reference.to_dict()))
    again = load_reference(tmp_path / "mine.json")
    assert again.to_dict() == reference.to_dict()


def test_own_reference_takes_the_best_model_at_every_strength():
    a = AccuracyTable(95, {"linf": {0.01: 70, 0.02: 40}})
    b = AccuracyTable(90, {"linf": {0.01: 65, 0.02: 50}})
    mine = Reference.from_models("mine", "two models", {"a": a, "b": b})
    assert mine.accuracies == AccuracyTable(95, {"linf": {0.01: 70, 0.02: 50}})
    other = AccuracyTable(90, {"l2": {0.5: 65}})
    with pytest.raises(UserError, match="not evaluated with the same attacks"):
        Reference.from_models("mine", "", {"a": a, "c": other})
    longer = AccuracyTable(90, {"linf": {0.01: 65, 0.02: 50, 0.03: 40}})
    with pytest.raises(UserError, match="different strengths of linf"):
        Reference.from_models("mine", "", {"a": a, "b": longer})


def test_wrong_references_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"no reference 'cifar'; give one of multirobustbench-cifar10"):
        load_reference("cifar")
    (tmp_path / "empty.json").write_text("{}")
    with pytest.raises(UserError, match="missing: name, source, accuracies"):
        load_reference(tmp_path / "empty.json")
    ranked = {"name": "x", "source": "y", "ranked": ["l2"], "accuracies": {"clean": 90, "cells": {"linf": {"1": 80}}}}
    (tmp_path / "ranked.json").write_text(json.dumps(ranked))
    with pytest.raises(UserError, match="ranks l2"):
        load_reference(tmp_path / "ranked.json")


def test_metrics_import_no_torch():
    """Only the inter-class distances use torch, and only once they are called."""
    files = set(Path(robustatlas.metrics.__file__).parent.glob("*.py"))
    for file in files - {file for file in files if file.name == "_pruned_search.py"}:
        for node in ast.parse(file.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith(("torch", "robustatlas.metrics._pruned_search")) for name in names), file
