"""The shipped references: complete, with the source's digits, and with its known errors put right."""

import ast
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import robustatlas.metrics
from robustatlas.common.errors import UserError
from robustatlas.metrics import AccuracyTable
from robustatlas.metrics.references import Reference, available_fields, available_references, load_field, load_reference

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
    assert incomplete.missing_attacks(multirobustbench.ranked) == ("linf", "l2", "l1", "lpips")
    assert any(note.startswith("incomplete:") for note in incomplete.notes)
    others = [d for d in multirobustbench.defenses if d not in (corrected, incomplete)]
    assert not any(d.missing_attacks(multirobustbench.accuracies.attacks) for d in others)
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
    with pytest.raises(UserError, match=r"linf@0.03"):
        Reference.from_models("mine", "", {"a": a, "b": longer})
    elsewhere = AccuracyTable(90, {"linf": {0.01: 65, 0.04: 50}})
    with pytest.raises(UserError, match=r"linf@0.02, linf@0.04"):
        Reference.from_models("mine", "", {"a": a, "b": elsewhere})
    with pytest.raises(UserError, match="look like fractions"):
        Reference.from_models("mine", "", {"a": AccuracyTable(0.9, {"linf": {0.01: 0.7}})})
    with pytest.raises(UserError, match="a has no attacks"):
        Reference.from_models("mine", "", {"a": AccuracyTable(90, {})})
    with pytest.raises(UserError, match="at least one model"):
        Reference.from_models("mine", "", {})


def test_own_reference_is_written_and_read(tmp_path):
    mine = Reference.from_models("mine", "one model", {"a": AccuracyTable(95, {"linf": {0.16799999999999998: 70}})})
    mine.to_json(tmp_path / "mine.json")
    assert load_reference(tmp_path / "mine.json") == mine
    with pytest.raises(UserError, match="Cannot write"):
        mine.to_json(tmp_path / "none" / "mine.json")


def test_a_reference_that_ranks_what_it_lacks_is_refused(tmp_path):
    ranked = {"name": "x", "source": "y", "ranked": ["l2"], "accuracies": {"clean": 90, "entries": {"linf": {"1": 80}}}}
    (tmp_path / "ranked.json").write_text(json.dumps(ranked))
    with pytest.raises(UserError, match="ranks l2"):
        load_reference(tmp_path / "ranked.json")


TABLE = {"clean": 90, "entries": {"linf": {"1": 80}}}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"name": 3}, "name of .*mine.json: input should be a valid string; given: 3"),
        ({"ranked": "linf"}, "ranked of .*: input should be a valid tuple; given: 'linf'"),
        ({"ranked": []}, "ranks no attack"),
        ({"notes": "one"}, "notes of .*: input should be a valid tuple; given: 'one'"),
        ({"accuracies": [1]}, "given: list"),
        ({"accuracies": {"clean": 0.9, "entries": {"linf": {"1": 0.8}}}}, "look like fractions"),
        ({"defenses": 3}, "defenses of .*: input should be a valid tuple; given: 3"),
        ({"defenses": ["a"]}, "defenses.0 of .*: input should be a dictionary.*; given: 'a'"),
        ({"defenses": [{"title": "a"}]}, "defenses.0.name of .* is missing"),
        ({"defenses": [{"name": "a"}]}, "defenses.0.accuracies of .* is missing"),
        (
            {"defenses": [{"name": "a", "accuracies": TABLE, "trained_on": "linf"}]},
            "defenses.0.trained_on of .*: .*(mapping|dictionary).*; given: 'linf'",
        ),
        (
            {"defenses": [{"name": "a", "accuracies": TABLE, "trained_on": {"linf": "8/255"}}]},
            "trained_on.linf of .*; given: '8/255'",
        ),
        ({"nots": ["a"]}, "nots of .* is not known"),
    ],
)
def test_wrong_entries_of_a_reference_file_are_named(entries, message, tmp_path):
    data = {"name": "x", "source": "y", "accuracies": {"clean": 90, "entries": {"linf": {"1": 80}}}} | entries
    (tmp_path / "mine.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=message):
        load_reference(tmp_path / "mine.json")


def test_an_accuracy_table_is_no_reference(tmp_path):
    AccuracyTable(90, {"linf": {1: 80}}).to_json(tmp_path / "table.json")
    with pytest.raises(UserError, match="accuracy table"):
        load_reference(tmp_path / "table.json")


def test_metrics_import_no_torch():
    """Only the inter-class distances use torch, and only once they are called."""
    files = set(Path(robustatlas.metrics.__file__).parent.glob("*.py"))
    for file in files - {file for file in files if file.name == "_pruned_search.py"}:
        for node in ast.parse(file.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith(("torch", "robustatlas.metrics._pruned_search")) for name in names), file


def test_metrics_and_the_command_line_s_help_work_without_torch():
    code = """
import sys
import robustatlas.cli
from robustatlas import metrics
from robustatlas.metrics.references import load_reference
reference = load_reference("multirobustbench-cifar10")
entry = reference.defense("Rebuffi2021Fixing_L2")
print(f"{metrics.competitiveness_ratio(entry.accuracies, reference):.2f}")
print("torch" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["65.44", "False"]


def test_the_field_is_all_of_robustbench():
    fields = {name: load_field(name) for name in available_fields()}
    assert {name: len(field.entries) for name, field in fields.items()} == {
        "robustbench-cifar10-corruptions": 23,
        "robustbench-cifar10-l2": 21,
        "robustbench-cifar10-linf": 99,
        "robustbench-cifar100-corruptions": 13,
        "robustbench-cifar100-linf": 38,
        "robustbench-imagenet-corruptions": 12,
        "robustbench-imagenet-linf": 30,
    }
    linf = fields["robustbench-cifar10-linf"]
    assert linf.epsilon == 8 / 255 and linf.date == "2025-03"
    assert sum(entry.evaluated_at == 0.031 for entry in linf.entries) == 6
    doubted = next(entry for entry in linf.entries if entry.name == "Kang2021Stable")
    assert (doubted.accuracy, doubted.autoattack, doubted.unreliable) == (64.2, 71.28, True)
    for field in fields.values():
        assert [entry.accuracy for entry in field.entries] == sorted((e.accuracy for e in field.entries), reverse=True)
        assert field.as_reference().accuracies.at(field.attack, field.epsilon) == field.entries[0].accuracy
    with pytest.raises(UserError, match="no field 'robustbench'"):
        load_field("robustbench")
