"""Gradients that lie only away from the data: what is looked at where searches end, and what is said of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.catalogue import attack_named
from robustatlas.checks.diagnosis import Diagnosis
from robustatlas.common.noise import Noise
from robustatlas.engine.run_ends import observed_run, run_ends
from robustatlas.outcomes import Run
from robustatlas.outcomes.records import DiagnosisRecord
from robustatlas.report.gate import Requirement, check_verdict

DATA = ra.load_dataset("digits")
GRID = {"linf": [0.05, 0.1, 0.2]}
FEW: dict[str, Any] = {"samples": 40, "strengths": GRID, "progress": False}
MASKED = "Attacks by gradients are blind"


class OffTheData(nn.Module):
    """A network whose backward pass lies further than ``far`` from every image, as those of detectors and purifiers do;
    its outputs are those of the network."""

    def __init__(self, how: str, far: float, p: float = float("inf"), name: str = "builtin:digits-standard") -> None:
        super().__init__()
        self.net, self.how, self.far, self.p = ra.load_model(name).net, how, far, p
        self.data = DATA.images.flatten(1)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.net(x)
        lies = {
            "honest": lambda: z,
            "detached": z.detach,
            "reversed": lambda: 2 * z.detach() - z,
            "of another": lambda: z.detach() + (w := self.net(x.flip(2, 3))) - w.detach(),
        }
        off = torch.cdist(x.detach().flatten(1), self.data, p=self.p).amin(1, keepdim=True) > self.far
        return torch.where(off, lies[self.how](), z)


HONEST = ra.evaluate(OffTheData("honest", 0.0), DATA, "linf", diagnose=False, **FEW)


def of_the_images(diagnosis: Diagnosis) -> Diagnosis:
    """What is said of the samples as they are."""
    readings = tuple(reading for reading in diagnosis.record.readings if not reading.attack)
    return Diagnosis.from_record(diagnosis.record.model_copy(update={"readings": readings}))


LIES = [
    ("detached", 0.02, np.inf), ("detached", 0.05, np.inf), ("reversed", 0.02, np.inf), ("reversed", 0.05, np.inf),
    ("of another", 0.02, np.inf), ("detached", 0.3, 2.0), ("reversed", 0.3, 2.0), ("detached", 2.0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("how", "far", "p"), LIES)
def test_a_network_that_lies_off_the_data_alone_is_masked(how: str, far: float, p: float) -> None:
    """The honest one, of the same outputs, has the truth: at 0.1 at most 27.5 %."""
    with pytest.warns(UserWarning, match=MASKED):
        result = ra.evaluate(OffTheData(how, far, p), DATA, "linf", **FEW)
    accuracies, truth = (found.accuracies().values("linf") for found in (result, HONEST))
    assert truth[1] <= 27.5 and accuracies[1] >= truth[1] + 30
    assert result.diagnosis is not None and of_the_images(result.diagnosis).verdict == "sound"
    assert (result.diagnosis.verdict, result.diagnosis.flags) == ("masked", ("end-gradient-linf",))
    assert result.invalid["linf"] > 0.3 and not check_verdict("diagnosis=sound", result).passed


@pytest.mark.parametrize("attack", ["l2", "stadv", "fmn-linf", "pgd-linf"])
def test_wherever_an_attack_walks(attack: str) -> None:
    strengths = {attack: [0.5, 1.0] if attack == "l2" else [0.02, 0.05, 0.1]}
    with pytest.warns(UserWarning, match=MASKED):
        result = ra.evaluate(
            OffTheData("detached", 0.01), DATA, attack, samples=40, strengths=strengths, progress=False
        )
    assert result.diagnosis is not None and f"end-gradient-{attack}" in result.diagnosis.flags


def test_a_model_without_a_run_is_looked_at_as_well() -> None:
    assert ra.diagnose(OffTheData("detached", 0.05), DATA, samples=40).flags == ("end-gradient-linf",)
    assert ra.diagnose(OffTheData("honest", 0.05), DATA, samples=40).verdict == "sound"


def test_a_sound_network_is_called_so_up_to_what_was_looked_at(tmp_path: Path) -> None:
    model = ra.load_model("builtin:digits-linf")
    result = ra.evaluate(model, DATA, ["linf", "corruption-fog"], run=tmp_path / "run", **FEW)
    assert result.diagnosis is not None and result.diagnosis.checked_strengths == {"linf": (0.05, 0.1, 0.2)}
    said = "at the points where attacks ended (linf up to 0.2), not at other strengths."
    assert result.diagnosis.verdict == "sound" and result.diagnosis.sentence.endswith(said)
    assert said in entered("show", tmp_path / "run").line
    assert check_verdict("diagnosis=sound", result).passed


def test_the_gate_fails_where_a_required_strength_was_not_looked_at(tmp_path: Path) -> None:
    model, run = ra.load_model("builtin:digits-linf"), tmp_path / "run"
    ra.evaluate(model, DATA, "linf", run=run, **FEW)
    ra.evaluate(model, DATA, "linf", run=run, samples=40, strengths={"linf": [0.3]}, diagnose=False, progress=False)
    result = ra.load_result(run)

    def passes(*bounds: str) -> bool:
        return check_verdict("diagnosis=sound", result, [Requirement.parse(bound) for bound in bounds]).passed

    assert result.diagnosis is not None and result.diagnosis.verdict == "sound" and not passes()
    assert (
        passes("linf@0.1>=20") and passes("linf@0.15>=20") and not passes("linf@0.25>=0") and not passes("linf@0.3>=0")
    )
    assert passes("clean>=90", "linf@0.2>=0") and not passes("average>=0")
    missing = check_verdict("diagnosis=sound", result).sentence
    assert "linf at 0.3" in missing
    ra.evaluate(model, DATA, "linf", run=run, samples=40, strengths={"linf": [0.3]}, progress=False)
    again = ra.load_result(run)
    assert again.diagnosis is not None and again.diagnosis.checked_strengths == {"linf": (0.05, 0.1, 0.2, 0.3)}
    assert check_verdict("diagnosis=sound", again).passed


def test_a_diagnosis_of_images_alone_is_sound_of_them_and_no_more(tmp_path: Path) -> None:
    model, run = ra.load_model("builtin:digits-linf"), tmp_path / "run"
    ra.evaluate(model, DATA, "linf", run=run, **FEW)
    for file in (run / "diagnoses").iterdir():
        before = json.loads(file.read_text())
        before["readings"] = [reading for reading in before["readings"] if not reading["attack"]]
        file.unlink()
        kept = DiagnosisRecord.model_validate(before)
    Run.open(run).keep_diagnosis(kept)
    result = ra.load_result(run)
    assert result.diagnosis is not None and result.diagnosis.verdict == "sound"
    assert not check_verdict("diagnosis=sound", result).passed
    ra.diagnose(run, DATA, model=model, samples=40)
    assert check_verdict("diagnosis=sound", ra.load_result(run)).passed


def ends_in(result: ra.Result) -> Any:
    assert result.diagnosis is not None
    (reading,) = (reading for reading in result.diagnosis.record.readings if reading.attack)
    read = zip(result.diagnosis.record.index, reading.values, strict=True)
    return {position: value for position, value in read if value is not None}, reading.doubtful


@pytest.mark.usefixtures("watched")
def test_parts_resumed_runs_and_reused_evidence_are_looked_at_when_collected(tmp_path: Path) -> None:
    """As a run at once, sample by sample; so in other batches, in another order and by workers."""
    model = ra.load_model("builtin:digits-linf")
    whole = ends_in(ra.evaluate(model, DATA, "linf", **FEW))
    shuffled = FEW | {"samples": np.random.default_rng(0).permutation(40), "batch_size": 7}
    ways: dict[str, list[dict[str, Any]]] = {
        "parts": [FEW | {"part": "0/2"}, FEW | {"part": "1/2"}],
        "resumed": [FEW | {"samples": 25}, FEW],
        "reused": [FEW | {"diagnose": False}, FEW],
        "shuffled": [shuffled],
        "workers": [FEW | {"workers": 2, "shard_size": 20}],
    }
    for name, calls in ways.items():
        looked_at = []
        for call in calls:
            result = ra.evaluate(model, DATA, "linf", run=tmp_path / name, **call)
            looked_at.append(result.diagnosis is not None and list(result.diagnosis.checked_strengths))
        assert looked_at[-1] == ["linf"] and looked_at[0] == {"parts": [], "reused": False}.get(name, ["linf"]), name
        values, doubtful = ends_in(result)
        assert values == pytest.approx(whole[0], rel=1e-2), name
        assert doubtful == whole[1], name


def test_evidence_of_several_attacks_keeps_what_was_looked_at(tmp_path: Path) -> None:
    model = ra.load_model("builtin:digits-linf")
    for attack in ("linf", "stadv"):
        ra.evaluate(model, DATA, attack, samples=40, strengths={attack: [0.05]}, run=tmp_path / "run", progress=False)
    found = ra.load_result(tmp_path / "run")
    assert found.diagnosis is not None and found.diagnosis.checked_strengths == {"linf": (0.05,), "stadv": (0.05,)}
    assert check_verdict("diagnosis=sound", found).passed


def test_a_run_ends_where_ascent_ends() -> None:
    """Of a linear model: in the corner that the signs of its weights point to, at the strength of each sample."""
    weight = torch.tensor([[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]])
    model = ra.Classifier(lambda x: x @ weight.T + torch.tensor([0.605, 0.0]))
    x = torch.full((3, 3), 0.5)
    attack = replace(attack_named("linf"), strengths=(0.05, 0.1, 0.2))
    run = observed_run(attack.plan("descent"))
    assert run is not None
    noise, level = Noise.for_samples(0, torch.arange(3), "linf"), torch.tensor([0, 1, 2])
    found = run_ends(model, attack, run, x, torch.zeros(3, dtype=torch.long), noise, level)
    size = torch.tensor(attack.strengths)[level][:, None]
    corner = x - size * weight[0].sign()
    assert found.last.allclose(corner) and found.best.allclose(corner)
    margin = x[0] @ weight[0] + 0.605 - size.squeeze(1) * weight[0].abs().sum()
    assert margin.tolist() == pytest.approx([0.18, 0.005, -0.345], abs=1e-6)
    assert found.fooled.tolist() == [False, False, True]
