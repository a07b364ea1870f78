"""What a run is about: the answers of its model, the gradients that its attacks were given, and whose its parts are."""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.common.errors import RobustnessWarning
from robustatlas.outcomes import merge

STRENGTHS = {"linf": [0.05, 0.1, 0.2]}


@pytest.fixture(scope="module")
def data() -> Any:
    return ra.load_dataset("digits").take(12)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    model = ra.load_model("builtin:digits-standard").net
    assert isinstance(model, nn.Module)
    return model


def coarse(x: Tensor) -> Tensor:
    return (x * 4).round() / 4


def found(result: ra.Result) -> list[float]:
    return result.accuracies().values("linf").round(1).tolist()


def run(model: Any, data: Any, path: Path | None, **options: Any) -> ra.Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobustnessWarning)
        return ra.evaluate(
            model, data, **{"attacks": "linf", "strengths": STRENGTHS, "effort": "low", "run": path, **options}
        )


def test_a_repaired_gradient_is_searched_anew_and_what_was_found_still_counts(
    net: nn.Module, data: Any, tmp_path: Path
) -> None:
    masked = ra.Classifier(net, prepare=coarse)
    repaired = ra.Classifier(net, prepare=ra.straight_through(coarse))
    blind, alone = run(masked, data, tmp_path / "r1"), run(repaired, data, None)
    assert found(blind)[-1] > found(alone)[-1] + 20
    both = run(repaired, data, tmp_path / "r1")
    assert (both.minimal_size("linf") <= np.minimum(blind.minimal_size("linf"), alone.minimal_size("linf"))).all()
    assert sum(both.passes("linf")) == pytest.approx(sum(blind.passes("linf")) + sum(alone.passes("linf")))
    # Asked again, either way, nothing is lacking; and the old gradient does not take the new evidence back.
    for model in (masked, repaired):
        again = run(model, data, tmp_path / "r1")
        assert found(again) == found(both) and sum(again.passes("linf")) == sum(both.passes("linf"))
    assert not again.missing and len(again.records) == 2


def test_asking_by_another_gradient_says_so(net: nn.Module, data: Any, tmp_path: Path, capsys: Any) -> None:
    run(ra.Classifier(net, prepare=coarse), data, tmp_path / "r1", samples=4)
    repaired = ra.Classifier(net, prepare=ra.straight_through(coarse))
    run(repaired, data, tmp_path / "r1", samples=4, progress=True)
    said = capsys.readouterr().err
    assert "'linf'" in said and "another gradient" in said


class Detaching(nn.Module):
    """Two branches; one of them may let no gradient through, for all inputs or for those that are bright."""

    def __init__(self, net: nn.Module, detached: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.detached = net, detached

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.where(self.detached(x)[:, None, None, None], x.detach(), x)
        return self.net(0.1 * x + 0.9 * kept)


def bright(x: Tensor) -> Tensor:
    """Digits, but no noise image."""
    return x.flatten(1).std(1) > 0.33


GRADIENTS: dict[str, Callable[[nn.Module], Any]] = {
    "none detached": lambda net: Detaching(net, lambda x: torch.zeros(len(x), dtype=torch.bool)),
    "all detached": lambda net: Detaching(net, lambda x: torch.ones(len(x), dtype=torch.bool)),
    "digits detached": lambda net: Detaching(net, bright),
    "another stand-in": lambda net: ra.Classifier(net, prepare=ra.surrogate(lambda x: x, lambda x: x**2)),
}


def test_each_gradient_has_its_own_key_and_the_same_one_always_the_same(net: nn.Module, data: Any) -> None:
    keys = {name: set(run(make(net), data, None, samples=2).records) for name, make in GRADIENTS.items()}
    assert len(set.union(*keys.values())) == len(GRADIENTS) - 1  # 8 digits of 8: "digits" and "all" are the same
    assert keys["all detached"] == keys["digits detached"]
    again = run(GRADIENTS["none detached"](net), data, None, samples=[5, 6], batch_size=1)
    assert set(again.records) == keys["none detached"]
    half = run(ra.Classifier(GRADIENTS["none detached"](net), precision="bfloat16"), data, None, samples=2)
    (one,), (other,) = (list(result.records.values()) for result in (again, half))
    assert one.gradient is not None and other.gradient is not None and one.gradient.is_same_gradient(other.gradient)


def test_subsets_of_the_data_share_their_gradient(net: nn.Module, tmp_path: Path) -> None:
    digits = ra.load_dataset("digits")
    first = run(net, digits.take(10, stratified=True), tmp_path / "r")
    grown = run(net, digits.take(14, stratified=True, seed=3), tmp_path / "r")
    assert len(grown.records) == 1 and set(grown.records) == set(first.records)


def test_attacks_without_gradients_keep_their_evidence(net: nn.Module, data: Any, tmp_path: Path) -> None:
    attack = {"attacks": "brightness", "strengths": {"brightness": [0.2, 0.4]}, "samples": 4}
    scanned = {"attacks": "corruption-gaussian-noise", "strengths": None, "samples": 4}
    for options in (attack, scanned):
        path = tmp_path / str(options["attacks"])
        for prepare in (coarse, ra.straight_through(coarse)):
            result = run(ra.Classifier(net, prepare=prepare), data, path, **options)
        takes = [record for record in result.records.values() if record.gradient is not None]
        assert len(result.records) == (2 if takes else 1)


def gated(net: nn.Module, factor: float) -> Callable[[Tensor], Tensor]:
    def answers(x: Tensor) -> Tensor:
        return torch.where(bright(x)[:, None], net(x * factor), net(x))

    return answers


def test_functions_that_differ_on_the_data_alone_are_refused(net: nn.Module, data: Any, tmp_path: Path) -> None:
    run(gated(net, 1.0), data, tmp_path / "r", samples=8)
    with pytest.raises(ra.UserError, match="sample 0"):
        run(gated(net, 0.9), data, tmp_path / "r", samples=12)
    assert found(run(gated(net, 1.0), data, tmp_path / "r", samples=12)) == found(run(gated(net, 1.0), data, None))
    with pytest.raises(ra.UserError, match="the model is not the one of the run"):
        ra.verify(tmp_path / "r", {"images": data.images[:1].numpy(), "index": np.arange(1)}, "me",
                  model=gated(net, 0.9), data=data)  # fmt: skip


@pytest.mark.parametrize("draws", [None, 4])
def test_models_whose_answers_vary_are_known_again(
    net: nn.Module, data: Any, tmp_path: Path, draws: int | None
) -> None:
    class Noisy(nn.Module):
        def __init__(self, scale: float) -> None:
            super().__init__()
            self.net, self.scale = net, scale

        def forward(self, x: Tensor) -> Tensor:
            return self.net((x + 0.1 * torch.randn_like(x)) * (1 - self.scale * bright(x)[:, None, None, None].float()))

    first = run(ra.Classifier(Noisy(0.0), draws=draws), data, tmp_path / "r", samples=8, seed=1)
    assert run(ra.Classifier(Noisy(0.0), draws=draws), data, tmp_path / "r", samples=12, seed=1).samples == 12
    assert first.samples == 8
    with pytest.raises(ra.UserError, match="the model is not the one of the run"):
        run(ra.Classifier(Noisy(1.0), draws=draws), data, tmp_path / "r", samples=12, seed=1)


def test_batch_normalisation_in_training_mode_still_grows(data: Any, tmp_path: Path) -> None:
    class Depending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(64, 10)

        def forward(self, x: Tensor) -> Tensor:
            z = self.layer(x.flatten(1))
            return z - 0.3 * z.mean(0)

    model = Depending()
    run(model, data, tmp_path / "r", samples=8)
    assert run(model, data, tmp_path / "r", samples=12).samples == 12


def test_a_part_of_another_attack_is_not_believed(net: nn.Module, data: Any, tmp_path: Path) -> None:
    strengths = {**STRENGTHS, "l2": [0.25, 0.5, 1.0]}
    both = {"attacks": ["linf", "l2"], "strengths": strengths, "effort": "low", "keep_adversarial": True}
    truth = run(net, data, tmp_path / "r", **both)
    parts = {name: next((tmp_path / "r" / "outcomes").glob(f"{name}-*/*.parquet")) for name in ("linf", "l2")}
    shutil.copy(parts["linf"], parts["l2"])
    with pytest.warns(RobustnessWarning, match=r"linf-\w+.* l2-"):
        damaged = ra.load_result(tmp_path / "r")
    assert damaged.attacks == ("linf",) and damaged.missing == {"l2": 12}
    with pytest.warns(RobustnessWarning, match="in a wrong place"):
        mended = ra.evaluate(net, data, run=tmp_path / "r", **both)  # type: ignore[arg-type]
    assert (mended.minimal_size("l2") == truth.minimal_size("l2")).all() and not mended.missing


@pytest.mark.parametrize("folder", ["outcomes", "samples", "adversarial"])
def test_a_part_of_another_model_is_not_believed(net: nn.Module, data: Any, tmp_path: Path, folder: str) -> None:
    other = ra.load_model("builtin:digits-linf").net
    for name, model in (("r", net), ("other", other)):
        run(model, data, tmp_path / name, keep_adversarial=True, samples=6)
    mine, theirs = (next((tmp_path / name / folder).rglob("*.*")) for name in ("r", "other"))
    shutil.copy(theirs, mine)
    with pytest.warns(RobustnessWarning, match="wrong place"):
        if folder == "outcomes":
            with pytest.raises(ra.UserError, match="no finished samples"):
                ra.load_result(tmp_path / "r")
        elif folder == "samples":
            with pytest.raises(ra.UserError, match="file of samples/ is missing"):
                ra.load_result(tmp_path / "r")
        else:
            with pytest.raises(ra.UserError, match="did not keep"):
                ra.load_result(tmp_path / "r").adversarial("linf")


def test_parts_made_apart_are_joined(net: nn.Module, data: Any, tmp_path: Path) -> None:
    for part in (0, 1):
        run(net, data, tmp_path / f"part{part}", part=(part, 2))
    joined = merge([tmp_path / "part0", tmp_path / "part1"], tmp_path / "all")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not joined.missing_counts() and len(joined.table().index) == 12
