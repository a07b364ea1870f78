"""Other people's examples: which count, how large they are, and what they change."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import robustatlas as ra
from command_line import entered
from helpers_core import THREATS, digits_network, exact_sizes, linear
from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.definition import AttackRun
from robustatlas.common.errors import UserError
from robustatlas.metrics.references import Reference
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes import AccuracyTable, merge
from robustatlas.report.facts import best_known, facts_of
from robustatlas.report.facts.rows import run_row
from robustatlas.report.words import summary

WEAK = replace(attack_named("linf"), strengths=(0.05, 0.1, 0.2), runs=(AttackRun(PGD(1), "margin"),))
"""One step: leaves much for others to find."""


def problem(count: int = 30) -> tuple[torch.nn.Module, tuple[torch.Tensor, torch.Tensor], np.ndarray]:
    """A linear classifier, samples that it gets right, and their exact linf sizes."""
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 6)), rng.normal(size=3) / 10
    x = rng.uniform(0.3, 0.7, (count, 6))
    y = (x @ weight.T + bias).argmax(1)
    sizes = exact_sizes(weight, bias, x, y, np.inf)
    return linear(weight, bias), (torch.tensor(x), torch.tensor(y)), sizes


def optimal(data: tuple[torch.Tensor, torch.Tensor], net: torch.nn.Module, beyond: float = 1e-3) -> np.ndarray:
    """The smallest linf examples, by a search in closed form over target classes."""
    x, y = (part.numpy() for part in data)
    weight, bias = net.weight.detach().numpy(), net.bias.detach().numpy()
    found = np.full_like(x, np.nan)
    for i in range(len(x)):
        gaps = [
            (weight[k] - weight[y[i]], (weight[y[i]] - weight[k]) @ x[i] + bias[y[i]] - bias[k])
            for k in range(3)
            if k != y[i]
        ]
        sizes = [gap / np.abs(w).sum() for w, gap in gaps]
        w, size = gaps[int(np.argmin(sizes))][0], min(sizes)
        found[i] = x[i] + size * (1 + beyond) * np.sign(w)
    return found


def test_examples_of_others_lower_the_table_to_the_exact_sizes() -> None:
    net, data, exact = problem()
    result = ra.evaluate(net, data, [replace(WEAK, strengths=(0.02, 0.05, 0.1, 0.5))])
    own = result.minimal_size("linf")
    assert (own > exact * 1.05).mean() > 0.2
    found = ra.verify(result, {"images": optimal(data, net)}, "Jane Doe", model=net, data=data)
    assert found.verified.all() and not found.refused
    assert np.allclose(found.result.minimal_size("linf"), np.minimum(exact * 1.001, own), rtol=1e-6)
    outcome = found.result.outcome("linf")
    assert outcome.origins == ("descent, seed 0", "examples of Jane Doe")
    assert (
        found.attacks["linf"].smaller
        == (exact * 1.001 < own).sum()
        == outcome.counts_by_origin()["examples of Jane Doe"]
    )
    assert np.array_equal(found.result.searched("linf").minimal_size, own)
    assert found.attacks["linf"].after == tuple(outcome.accuracies().tolist())
    assert found.attacks["linf"].before == tuple(result.outcome("linf").accuracies().tolist())


def test_each_example_is_checked() -> None:
    net, data, _ = problem(8)
    result = ra.evaluate(net, data, WEAK)
    images = optimal(data, net)
    images[0] = data[0][0]  # the clean image
    images[1, 0] = 1.5
    images[2, 3] = np.nan
    labels = data[1].numpy().copy()
    labels[3] += 1
    mistaken = (data[0], torch.where(torch.arange(8) == 4, (data[1] + 1) % 3, data[1]))
    found = ra.verify(result, {"images": images, "labels": labels}, "J", model=net, data=data)
    assert found.verified.tolist() == [False] * 4 + [True] * 4
    assert found.refused == {
        "the label is not that of the data": 1,
        "not a finite number": 1,
        "outside of [0, 1]": 1,
        "classified correctly": 1,
    }
    with pytest.raises(UserError, match="the labels are not those of the run"):
        ra.verify(result, {"images": images}, "J", model=net, data=mistaken)
    other = ra.evaluate(net, mistaken, WEAK)
    found = ra.verify(other, {"images": images[4:5], "index": np.array([4])}, "J", model=net, data=mistaken)
    assert found.refused == {"the clean image is misclassified already": 1}
    with pytest.raises(UserError, match="its weights are others"):
        ra.verify(result, {"images": images}, "J", model=linear(np.eye(3, 6), np.zeros(3)), data=data)
    with pytest.raises(UserError, match="do not say which images they change"):
        ra.verify(result, {"images": images[:3]}, "J", model=net, data=data)
    with pytest.raises(UserError, match=r"image 99, which is not among the 8"):
        ra.verify(result, {"images": images[:1], "index": np.array([99])}, "J", model=net, data=data)
    with pytest.raises(UserError, match="has no attack 'l2'"):
        ra.verify(result, {"images": images}, "J", attacks="l2", model=net, data=data)
    with pytest.raises(UserError, match="shape"):
        ra.verify(result, {"images": images[:, :5]}, "J", model=net, data=data)
    with pytest.raises(UserError, match="'pictures', which is not known"):
        ra.verify(result, {"pictures": images}, "J", model=net, data=data)


def test_every_norm_of_the_run_is_measured_and_the_smallest_of_several_counts() -> None:
    net, data, _ = problem(6)
    attacks = [replace(WEAK, name=name, threat=THREATS[name]) for name in ("linf", "l2", "l1")]
    first = attack_named("l0").plan("every").runs[0]
    attacks.append(
        replace(attack_named("l0"), strengths=(2.0, 4.0, 6.0), runs=(replace(first, searches=()),), search_order=())
    )
    result = ra.evaluate(net, data, attacks)
    near, far = optimal(data, net), optimal(data, net, beyond=0.3)
    both = {"images": np.concatenate([far, near]), "index": np.tile(np.arange(6), 2)}
    found = ra.verify(result, both, "J", model=net, data=data)
    delta = near - data[0].numpy()
    for name, p in (("linf", np.inf), ("l2", 2), ("l1", 1)):
        expected = np.minimum(np.linalg.norm(delta, p, axis=1), result.minimal_size(name))
        assert np.allclose(found.result.minimal_size(name), expected, rtol=1e-5)
        assert found.attacks[name].samples == 6
    assert (found.result.minimal_size("l0") <= 6).all()


def test_eight_bits_count_only_what_survives_saving() -> None:
    net, data, _ = problem(40)
    coarse = ((data[0] * 255).round() / 255, data[1])
    result = ra.evaluate(net, coarse, WEAK)
    images = optimal(coarse, net, beyond=1e-9)
    whole = ra.verify(result, {"images": images}, "J", model=net, data=coarse)
    saved = ra.verify(result, {"images": images}, "J in 8 bits", model=net, data=coarse, eight_bit=True)
    rounded = np.round(images * 255) / 255
    with torch.no_grad():
        fools = net(torch.tensor(rounded)).argmax(1) != coarse[1]
    assert 0 < fools.sum() < 40 and whole.verified.all()
    assert saved.verified.tolist() == fools.tolist()
    sizes = np.abs(rounded - coarse[0].numpy()).max(1)
    alone = ra.verify(ra.evaluate(net, coarse, WEAK), {"images": images}, "J", model=net, data=coarse, eight_bit=True)
    own = ra.evaluate(net, coarse, WEAK).minimal_size("linf")
    expected = np.where(fools.numpy(), np.minimum(sizes, own), own)
    assert np.allclose(alone.result.minimal_size("linf"), expected, rtol=1e-5)


def test_sets_that_an_image_does_not_show_are_taken_by_theta(tmp_path: Path) -> None:
    net, digits = digits_network(), ra.load_dataset("digits").take(12)
    brightness = replace(attack_named("brightness"), strengths=(0.1, 0.3, 0.6))
    result = ra.evaluate(net, digits, brightness, run=tmp_path / "run")
    threat, x = brightness.threat, digits.images
    theta = threat.project(x, torch.full_like(threat.neutral(x), 9.0), torch.full((12,), 0.9))
    assert torch.is_tensor(theta)
    found = ra.verify(result, {"theta": theta.numpy(), "attack": "brightness"}, "J", model=net, data=digits)
    with torch.no_grad():
        fools = net(threat.apply(x, theta)).argmax(1) != digits.labels
    assert (found.verified == (fools & torch.tensor(result.clean)).numpy()).all()
    sizes = np.where(found.verified, threat.size(x, theta).numpy(), np.inf)
    expected = np.minimum(sizes, result.minimal_size("brightness"))
    assert np.allclose(found.result.minimal_size("brightness"), expected, rtol=1e-5)
    with pytest.raises(UserError, match="'theta'"):
        ra.verify(result, {"images": x.numpy()}, "J", attacks="brightness", model=net, data=digits)
    with pytest.raises(UserError, match="has the shapes"):
        ra.verify(result, {"theta": x.numpy(), "attack": "brightness"}, "J", model=net, data=digits)


def test_evidence_is_kept_merged_and_never_mistaken_for_a_search(tmp_path: Path) -> None:
    net, data, exact = problem()
    few = ra.evaluate(net, data, WEAK, samples=10, run=tmp_path / "run")
    np.savez(tmp_path / "jane.npz", images=optimal(data, net))
    found = ra.verify(tmp_path / "run", tmp_path / "jane.npz", model=net, data=data)
    assert found.by == "jane" and found.verified.sum() == 30
    assert found.result.samples == 10 and found.result.complete  # what was handed over was not searched
    again = ra.verify(tmp_path / "run", tmp_path / "jane.npz", model=net, data=data)
    assert again.attacks == replace_before(found.attacks)
    assert sum(1 for _ in (tmp_path / "run" / "outcomes").rglob("*.parquet")) == 2  # the same file is not entered twice
    grown = ra.evaluate(net, data, WEAK, run=tmp_path / "run")
    assert grown.samples == 30
    assert np.allclose(
        ra.load_result(tmp_path / "run").minimal_size("linf"),
        np.minimum(exact * 1.001, grown.searched("linf").minimal_size),
    )
    index, images = grown.adversarial("linf")
    by_jane = grown.outcome("linf").origin_index == 1
    assert set(index.tolist()) == set(np.flatnonzero(by_jane)) and images.shape == (by_jane.sum(), 6)
    merge([tmp_path / "run"], tmp_path / "merged")
    assert np.array_equal(ra.load_result(tmp_path / "merged").minimal_size("linf"), grown.minimal_size("linf"))
    assert few.samples == 10


def replace_before(attacks: object) -> object:
    return {name: replace(found, before=found.after) for name, found in attacks.items()}  # type: ignore[attr-defined]


def test_facts_board_and_pages_say_what_is_best_known_and_by_whom() -> None:
    net, data, _ = problem()
    result = ra.evaluate(net, data, WEAK)
    assert best_known(result, "linf") is None
    result = ra.verify(result, {"images": optimal(data, net)}, "Jane", model=net, data=data).result
    far = optimal(data, net, beyond=2.0)
    result = ra.verify(result, {"images": far}, "Max", model=net, data=data).result
    known = facts_of(result).attacks[0].best_known
    assert known is not None and known.names == ["Jane"] and known.by["Max"] == 0 and known.by["Jane"] > 3
    assert known.searched is not None and known.known is not None and (known.searched >= known.known).all()
    assert (known.searched > known.known).any()
    assert f"Jane ({known.by['Jane']})" in known.sentence("linf")
    reference = Reference("small", "made up", result.accuracies(), ("linf",))
    assert "best known" in " ".join(run_row(result, reference).notes)
    answers = dict(summary(facts_of(result)))
    assert f"Jane ({known.by['Jane']})" in answers["Best known, and by whom?"]
    most = int(np.argmax(known.searched - known.known))
    lowered = f"from {known.searched[most]:.1f} % to {known.known[most]:.1f} %"
    assert lowered in answers["Best known, and by whom?"]
    assert "Best known, and by whom?" not in dict(summary(facts_of(ra.evaluate(net, data, WEAK))))


def test_the_command_line_takes_files_folders_and_runs(tmp_path: Path) -> None:
    run = tmp_path / "run"
    common = ["--data", "digits", "--samples", "20", "--strengths", "linf=0.1,0.3", "--attacks", "linf"]
    entered("evaluate", "builtin:digits-standard", *common, "--run", run, "--keep-adversarial")
    result = ra.load_result(run)
    index, images = result.adversarial("linf")
    folder = tmp_path / "pngs"
    folder.mkdir()
    for position, image in zip(index, images, strict=True):
        Image.fromarray((image[0] * 255).round().astype(np.uint8)).save(folder / f"digit-{position:04d}.png")
    told = entered("verify", run, folder, "--by", "Jane [bold]").line
    assert "by Jane [bold] verified" in told and "classified correctly" in told
    other = tmp_path / "other"
    entered("evaluate", "builtin:digits-linf", *common, "--run", other, "--keep-adversarial")
    entered("verify", run, other, "--by", "transfer")
    shown = entered("show", run).line
    assert "verified examples of" in shown or "best known" in shown
    for name, content in (("bad.npz", b"no archive"), ("empty.npz", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="cannot be read"):
            ra.verify(run, tmp_path / name)
    with pytest.raises(UserError, match="no PNGs"):
        (tmp_path / "nothing").mkdir()
        ra.verify(run, tmp_path / "nothing")
    Image.new("RGBA", (8, 8)).save(folder / "9.png")
    with pytest.raises(UserError, match="RGBA"):
        ra.verify(run, folder)


CARD = {"title": "t", "url": "https://example.org", "architecture": "a", "extra_data": False, "trained_on": {}}


@pytest.mark.parametrize(
    ("strengths", "card", "faults"),
    [
        ([0.05, 0.1], CARD, []),
        ([0.05], CARD, ["It lacks 1 of 2 ranked points: linf@0.1"]),
        ([0.05, 0.1], {k: v for k, v in CARD.items() if k != "trained_on"}, ["Its card does not say trained_on ("]),
        ([0.05], {}, ["It lacks 1 of 2", "Its card does not say title"]),
    ],
)
def test_a_submission_has_every_ranked_point_and_its_card(
    strengths: list[float], card: dict[str, object], faults: list[str], tmp_path: Path
) -> None:
    net, data, _ = problem(8)
    ra.evaluate(net, data, "linf", strengths={"linf": strengths}, run=tmp_path / "run", progress=False).describe(card)
    reference = Reference("mine", "", AccuracyTable(100.0, {"linf": {0.05: 90.0, 0.1: 80.0}}), ("linf",))
    (tmp_path / "reference.json").write_text(json.dumps(reference.to_dict()), encoding="utf-8")
    asked = ("verify", tmp_path / "run", "--submission", tmp_path / "reference.json")
    said = entered(*asked, code=1 if faults else 0).out.splitlines()
    if faults:
        assert [line[: len(fault)] for line, fault in zip(said, faults, strict=True)] == faults
    else:
        assert "is a complete submission" in " ".join(said)
