"""Everyday changes through the whole: worst and typical cases of one run, typed strengths, pixels of 8 bits."""

import html
import io
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from PIL import Image
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.everyday import CHANGES, everyday_suite
from robustatlas.common.errors import UserError
from robustatlas.common.noise import Noise
from robustatlas.common.typed_strengths import FALLING_UNIT_PREFIX, falling_scale_start
from robustatlas.engine.numerics import SWEPT, TYPICAL
from robustatlas.metrics import AccuracyTable, Interval, RobustnessCurve, proportion_bounds, typical_accuracies
from robustatlas.metrics.figures import plot_curves
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.models.card import read_card
from robustatlas.optimizers.sweep import Sweep
from robustatlas.outcomes import Outcome, query
from robustatlas.report.facts.rows import run_row
from robustatlas.report.gate.requirements import Requirement
from robustatlas.report.gate.verdict import samples_to_decide
from robustatlas.report.leaderboard import board_data
from robustatlas.report.page import build_report
from robustatlas.report.sheet import cells
from robustatlas.threats.everyday.change import Change
from robustatlas.training.against import make_opponents, parse_against
from robustatlas.training.references import ReferencePlan
from threat_properties import images

QUIET = {"diagnose": False, "audit": 0, "progress": False}


def a_model(side: int = 12, classes: int = 3) -> ra.Classifier:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * (side - 2) ** 2, classes))
    return ra.Classifier(net)


def some_data(model: ra.Classifier, count: int = 10, side: int = 12) -> tuple[Tensor, Tensor]:
    """Images of whole levels; what the model says of most of them is the label."""
    x = images(count=count, side=side)
    labels = model.logits(x).argmax(1)
    labels[0] = (labels[0] + 1) % 3
    return x, labels


def outcome_of(name: str, model: ra.Classifier, data: tuple[Tensor, Tensor], **asked: object) -> Outcome:
    return ra.evaluate(model, data, name, **QUIET | asked).outcome(name)  # type: ignore[arg-type]


# ---- worst and typical --------------------------------------------------------------------------------------------


def points_of(threat: Change, multiples: list[float], size: float, noise: Noise) -> Tensor:
    """All points of a sweep of one size, for the one sample of ``noise``."""
    values = {
        "angle": lambda k, count: [j / count for j in range(count)],
        "place": lambda k, count: [j / (count - 1) for j in range(count)],
        "draw": lambda k, count: noise.child(k).uniform(count)[0].tolist(),
    }
    free = [values[kind](k, count) for k, (kind, count) in enumerate(threat.free)]
    signs = (-1, 1) if threat.signed else (1,)
    inner = [0.0, *(sign * each for each in [*(k for k in multiples if k < size), size] for sign in signs)]
    bounded = [each for each in itertools.product(inner, repeat=threat.bounded) if max(map(abs, each)) == size]
    return torch.tensor([[*each, *rest] for each in bounded for rest in itertools.product(*free)])


def drawn_points(attack: ra.Attack, x: Tensor, rows: Tensor, level: int) -> list[Tensor]:
    """The typical draws of samples ``rows`` at one strength."""
    strength = attack.strengths[level]
    bits = int(torch.tensor(strength, dtype=torch.float32).view(torch.int32))
    noise = Noise.for_samples(0, rows, attack.name).child(TYPICAL).child(bits)
    epsilon = torch.full((len(x),), strength)
    return [attack.threat.typical(x, epsilon, noise.child(draw)) for draw in range(attack.typical)]  # type: ignore[misc]


@pytest.mark.parametrize("name", [change.name for change in CHANGES])
def test_the_worst_case_is_that_of_a_loop(name: str) -> None:
    """Every point of the grid and every draw, one by one, by the threat model and the model alone."""
    model = a_model()
    x, labels = some_data(model, count=4)
    attack = attack_named(name).on_images((12, 12))
    found = outcome_of(name, model, (x, labels))
    threat, sweep, strengths = attack.threat, attack.plan("descent").runs[0].optimizer, attack.strengths
    assert isinstance(threat, Change)
    assert isinstance(sweep, Sweep)
    multiples = [sweep.spacing * k for k in range(1, int(strengths[-1] / sweep.spacing + 1e-6) + 1)]
    between = [at for at in strengths if not np.isclose(at, multiples).any()]
    for row in range(len(x)):
        patterns = Noise.for_samples(0, torch.tensor([row]), name).child(SWEPT)
        image = x[row : row + 1]

        def fooled(theta: Tensor, row: int = row, image: Tensor = image) -> bool:
            shown = threat.apply(image.expand(len(theta), -1, -1, -1), theta)
            return bool((model.logits(shown).argmax(1) != labels[row]).any())

        draws = [
            (min(np.ceil(size - 1e-5), at) if name in ("translation", "jpeg-quality") else size)
            for level, at in enumerate(strengths)
            for theta in drawn_points(attack, image, torch.tensor([row]), level)
            if fooled(theta) and (size := float(threat.size(image, theta)))
        ]
        grid = (at for at in sorted([*multiples, *between]) if fooled(points_of(threat, multiples, at, patterns)))
        expected = 0.0 if fooled(threat.neutral(x[:1])) else min([next(grid, np.inf), *draws])
        assert found.minimal_size[row] == pytest.approx(expected, rel=1e-4)


SWEPT_ATTACKS = [*(change.name for change in CHANGES), "hue", "saturation", "brightness", "contrast"]


def a_jagged_model(side: int = 12) -> ra.Classifier:
    """A model whose class changes often along any line, so that what is found depends on where one looks."""
    torch.manual_seed(3)
    weight = torch.randn(3 * side**2, 1)

    class Jagged(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            height = torch.sin(3 * (x.flatten(1) @ weight))
            return torch.cat([0.9 + 0 * height, height], 1)

    return ra.Classifier(Jagged())


@pytest.mark.parametrize("search", ["descent", "every"])
@pytest.mark.parametrize("name", SWEPT_ATTACKS)
def test_more_strengths_never_raise_an_accuracy(name: str, search: str) -> None:
    """The accuracy at a strength, of a run at several, is never above that of a run at this one alone."""
    model, x = a_jagged_model(), images(count=12, side=12)
    data, known = (x, torch.zeros(12, dtype=torch.long)), replace(attack_named(name).on_images((12, 12)), small=None)
    last = known.strengths[-1]
    most = min(1.2 * last, known.threat.max_size(x), 90.0 if known.threat.levels else np.inf)
    grid = sorted(
        {
            float(max(1, round(share * most))) if known.threat.levels else share * most
            for share in (0.05, 0.33, 0.7, 1.0)
        }
    )

    def accuracies(*strengths: float) -> np.ndarray:
        attack = replace(known, strengths=strengths)
        return ra.evaluate(model, data, attack, search=search, **QUIET).outcome(name).accuracies()  # type: ignore[arg-type]

    alone = [accuracies(strength)[0] for strength in grid]
    assert (accuracies(*grid) <= alone).all()
    for (s, first), (t, second) in itertools.combinations(zip(grid, alone, strict=True), 2):
        both = accuracies(s, t)
        assert both[0] <= first
        assert both[1] <= second


def test_a_small_strength_beside_a_large_one_is_looked_at() -> None:
    model, x = a_jagged_model(), images(count=12, side=12)
    data = x, torch.zeros(12, dtype=torch.long)
    for name, small, large in (("translation", 0.4, 7), ("contrast-percent", 7, 100), ("rotation", 0.5, 45)):
        asked = {"strengths": {name: [small, large]}}
        outcome, clean = outcome_of(name, model, data, **asked), (model.logits(x).argmax(1) == 0).numpy()
        threat = attack_named(name).threat
        theta = torch.full((12, threat.bounded), float(small))  # type: ignore[attr-defined]
        broken = (model.logits(threat.apply(x, theta)).argmax(1) != 0).numpy()
        assert (broken & clean).any()
        assert outcome.broken()[broken, 0].all()


def test_whole_units_are_swept_in_whole_numbers() -> None:
    """JPEG against every quality, by Pillow alone; shifts against every number of pixels, by slices alone."""
    model, side = a_jagged_model(), 12
    x = images(count=12, side=side)
    data = x, torch.zeros(12, dtype=torch.long)

    def wrong(image: np.ndarray) -> bool:
        return bool(model.logits(torch.from_numpy(image)[None].float()).argmax(1) != 0)

    def saved(image: Tensor, quality: int) -> np.ndarray:
        file = io.BytesIO()
        levels = (image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
        Image.fromarray(levels).save(file, "JPEG", quality=quality)
        return np.asarray(Image.open(file)).transpose(2, 0, 1) / 255

    def moved(image: Tensor, right: int, down: int) -> np.ndarray:
        edges = [(0, 0), (abs(down), abs(down)), (abs(right), abs(right))]
        padded = np.pad(image.numpy(), edges, mode="reflect")
        top, left = abs(down) - down, abs(right) - right
        return padded[:, top : top + side, left : left + side]

    found = outcome_of("jpeg-quality", model, data, strengths={"jpeg-quality": [63, 17]})
    shifts = outcome_of("translation", model, data, strengths={"translation": [2, 5]}, search="every")
    without_draws = replace(attack_named("translation"), typical=0, strengths=(2.0, 5.0))
    swept = ra.evaluate(model, data, without_draws, **QUIET).outcome("translation")  # type: ignore[arg-type]
    for row, image in enumerate(x):
        if wrong(image.numpy()):
            assert found.minimal_size[row] == swept.minimal_size[row] == 0
            continue
        assert found.minimal_size[row] == next((100 - q for q in range(99, 16, -1) if wrong(saved(image, q))), np.inf)
        around = [(max(abs(r), abs(d)), r, d) for r in range(-5, 6) for d in range(-5, 6) if (r, d) != (0, 0)]
        sizes = [size for size, right, down in sorted(around) if wrong(moved(image, right, down))]
        assert swept.minimal_size[row] == (sizes[0] if sizes else np.inf)
        assert shifts.minimal_size[row] <= swept.minimal_size[row]
    for outcome in (found, shifts):
        sizes = outcome.minimal_size[np.isfinite(outcome.minimal_size)]
        assert (sizes == sizes.round()).all()
    with pytest.raises(UserError, match="whole numbers from 1 to 99"):
        outcome_of("jpeg-quality", model, data, strengths={"jpeg-quality": [51.5]})


@pytest.mark.parametrize("search", ["descent", "every"])
@pytest.mark.parametrize("pixels", ["any", "8bit"])
def test_what_a_draw_breaks_counts_in_the_worst_case(search: str, pixels: str) -> None:
    """Of every change: a sample with a misclassified draw within a strength is broken there."""
    model, x = a_jagged_model(), (images(count=12, side=12) * 255).round() / 255
    data, more = (x, torch.zeros(12, dtype=torch.long)), 0
    attacks = [replace(attack_named(name).on_images((12, 12)), small=None) for name in SWEPT_ATTACKS]
    drawn = [replace(attack, typical=4) for attack in attacks]
    result = ra.evaluate(model, data, drawn, search=search, pixels=pixels, keep_adversarial=True, **QUIET)  # type: ignore[arg-type]
    for attack in drawn:
        outcome = result.outcome(attack.name)
        assert outcome.typical is not None
        assert outcome.broken()[outcome.typical < 1].all()
        assert (outcome.accuracies() <= outcome.typical_accuracies() + 1e-9).all()
        searched = ra.evaluate(model, data, replace(attack, typical=0), search=search, pixels=pixels, **QUIET)  # type: ignore[arg-type]
        more += int((outcome.broken() & ~searched.outcome(attack.name).broken()).sum())
        _, examples = result.adversarial(attack.name)
        assert (model.logits(torch.from_numpy(examples)).argmax(1) != 0).all()
    assert more > 0


def test_draws_of_what_is_not_nested_count_at_their_strength() -> None:
    model, x = a_jagged_model(), images(count=12, side=12)
    attack = replace(attack_named("rotation"), nested=False, typical=6, strengths=(3.0, 10.0, 30.0))
    outcome = ra.evaluate(model, (x, torch.zeros(12, dtype=torch.long)), attack, **QUIET).outcome("rotation")  # type: ignore[arg-type]
    assert outcome.typical is not None
    assert (outcome.fooled[outcome.typical < 1] == 1).all()


@pytest.mark.parametrize("name", ["rotation", "translation", "occlusion", "noise", "jpeg-quality"])
def test_results_do_not_depend_on_the_batch(name: str) -> None:
    """Several points of a sweep stand in one batch where samples are few; passes are those of one by one."""
    model = a_model()
    data = some_data(model)
    found = [outcome_of(name, model, data, batch_size=size) for size in (1, 3, 10, 1000)]
    for other in found[1:]:
        for column in ("minimal_size", "forward", "found_class", "typical", "fooled"):
            np.testing.assert_array_equal(getattr(other, column), getattr(found[0], column))
        np.testing.assert_allclose(other.margins, found[0].margins, atol=1e-5)


@pytest.mark.parametrize("taken_apart", [False, True])
def test_sweeps_and_draws_see_images_channels_last(taken_apart: bool) -> None:
    """On a processor; what counts is verified on images as they are, and no other search sees another layout. Of a
    network that cannot take them the results are the same."""
    seen: list[bool] = []

    class Watched(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 6, 3, padding=1), nn.Linear(6 * 12 * 12, 3)

        def forward(self, x: Tensor) -> Tensor:
            seen.append(x.is_contiguous(memory_format=torch.channels_last))
            maps = self.conv(x).relu()
            answer: Tensor = self.head(maps.view(len(x), -1) if taken_apart else maps.flatten(1))
            return answer

    torch.manual_seed(1)
    model = ra.Classifier(Watched())
    data = some_data(model)
    seen.clear()
    outcome_of("linf", model, data)
    assert not any(seen)
    seen.clear()
    found = outcome_of("rotation", model, data)
    assert sum(seen) == 1 if taken_apart else 1 < sum(seen) < len(seen)
    plain = outcome_of("rotation", ra.Classifier(lambda x: model.net(x.contiguous())), data)
    assert np.isfinite(found.minimal_size[1:]).any()
    for column in ("minimal_size", "forward", "found_class", "typical", "fooled"):
        np.testing.assert_array_equal(getattr(found, column), getattr(plain, column))
    np.testing.assert_allclose(found.margins, plain.margins, atol=1e-5)


def test_a_run_says_to_what_its_sweeps_are_exact(tmp_path: Path) -> None:
    """In the terminal and on the page; and every attack of a long table has its row."""
    model, folder, page = a_model(), tmp_path / "run", tmp_path / "page.html"
    result = ra.evaluate(model, some_data(model), "everyday", run=str(folder), **QUIET)
    assert result.outcome("rotation").origins == ("descent, exact to steps of 2, seed 0",)
    assert result.outcome("blur").origins == ("descent, exact to steps of 0.1, seed 0",)
    finer = outcome_of("rotation", model, some_data(model), effort="high")
    assert finer.origins == ("descent, exact to steps of 1, high effort, seed 0",)
    alone = outcome_of("noise", model, some_data(model), search="every")
    assert alone.origins == ("every, exact to steps of 5, seed 0",)
    build_report([result], page)
    assert "exact to steps of 2" in page.read_text(encoding="utf-8")
    told = entered("show", folder, columns=100).out
    rows = [line for line in told.splitlines() if line.split()[:1] and line.split()[0] in result.attacks]
    assert len(rows) == len(result.attacks) == 19
    assert "exact to steps of 2" in told


def test_a_sweep_is_counted() -> None:
    """A sample that nothing breaks takes the clean pass, every point, and its draws."""
    model = ra.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 2)))
    with torch.no_grad():
        model.net[1].weight.zero_()
        model.net[1].bias.copy_(torch.tensor([1.0, 0.0]))
    x = images(count=3, side=12)
    outcome = outcome_of("translation", model, (x, torch.zeros(3, dtype=torch.long)))
    assert outcome.forward.tolist() == [1 + (9 * 9 - 1) + 4 * 3] * 3
    assert np.isinf(outcome.minimal_size).all()
    assert (typical_accuracies(outcome) or ())[0].value == 100


def test_what_is_typical_is_that_of_a_loop() -> None:
    model = a_model()
    x, labels = some_data(model)
    attack = attack_named("motion-blur").on_images((12, 12))
    outcome = outcome_of("motion-blur", model, (x, labels))
    noise = Noise.for_samples(0, torch.arange(len(x)), "motion-blur").child(TYPICAL)
    for level, strength in enumerate(attack.strengths):
        bits = int(torch.tensor(strength, dtype=torch.float32).view(torch.int32))
        right = np.zeros(len(x))
        for draw in range(attack.typical):
            theta = attack.threat.typical(x, torch.full((len(x),), strength), noise.child(bits).child(draw))
            right += (model.logits(attack.threat.apply(x, theta)).argmax(1) == labels).numpy()
        np.testing.assert_allclose(outcome.typical[:, level], right / attack.typical)
    known = typical_accuracies(outcome) or ()
    assert [number.value for number in known] == pytest.approx(100 * outcome.typical.mean(0))
    assert all(number.low <= number.value <= number.high for number in known)


def test_runs_grow_and_join(tmp_path: Path) -> None:
    """More strengths, and more seeds, of one run: draws of a strength do not depend on the others."""
    model = a_model()
    data = some_data(model)
    whole = outcome_of("rotation", model, data, strengths={"rotation": [10, 20, 30]})
    folder = str(tmp_path / "run")
    outcome_of("rotation", model, data, strengths={"rotation": [10, 30]}, run=folder)
    grown = ra.evaluate(model, data, "rotation", strengths={"rotation": [10, 20, 30]}, run=folder, **QUIET).outcome(
        "rotation"
    )
    np.testing.assert_array_equal(grown.typical, whole.typical)
    outcome_of("rotation", model, data, strengths={"rotation": [10, 20, 30]}, run=folder, seed=1)
    both = ra.load_result(folder).outcome("rotation")
    second = outcome_of("rotation", model, data, strengths={"rotation": [10, 20, 30]}, seed=1)
    np.testing.assert_allclose(both.typical[:, 1], (whole.typical[:, 1] + second.typical[:, 1]) / 2)


@pytest.mark.parametrize(("limit", "drawn"), [(40, True), (10, False)])
def test_draws_are_queries(limit: int, drawn: bool) -> None:
    """Of a model that may be asked only so often they count, and are left out where they would take all."""
    model = a_model()
    x, labels = some_data(model)
    asked: list[int] = []

    def answer(batch: np.ndarray) -> np.ndarray:
        asked.append(len(batch))
        return model.logits(torch.from_numpy(batch)).argmax(1).numpy()

    asking = ra.from_predictions(answer, "labels", classes=3, queries=limit)
    outcome = ra.evaluate(asking, (x, labels), "rotation", strengths={"rotation": [10, 20, 30]}, **QUIET).outcome(
        "rotation"
    )
    assert (outcome.typical is not None) == drawn
    assert outcome.forward.max() <= limit


def test_the_suite_in_three_sizes() -> None:
    names = [attack.name for attack in everyday_suite("default")]
    assert len(names) == len(set(names)) == len(CHANGES) - 1
    for attack in everyday_suite("default"):
        for sides in ((32, 32), (224, 224)):
            fitting = attack.on_images(sides)
            assert len(fitting.strengths) == 3
            assert fitting.about.source
            sweep = fitting.plan("descent").runs[0].optimizer
            assert set(fitting.strengths) <= set(sweep.sizes)


# ---- typed strengths ----------------------------------------------------------------------------------------------


def test_units_of_what_falls_say_so() -> None:
    falling = {name for name, attack in catalogue().items() if attack.about.unit.startswith(FALLING_UNIT_PREFIX)}
    assert falling == {name for name in catalogue() if falling_scale_start(name) is not None}


def test_strengths_that_fall_are_typed_as_people_type_them(tmp_path: Path) -> None:
    """In every view: the lists of the API stand in the order of harm, everything else as it was typed."""
    model, folder = a_model(side=16), str(tmp_path / "run")
    data = some_data(model, side=16)
    result = ra.evaluate(model, data, "jpeg-quality", strengths={"jpeg-quality": [90, 40, 10]}, run=folder, **QUIET)
    outcome = result.outcome("jpeg-quality")
    assert outcome.strengths.tolist() == [10, 60, 90]
    assert (np.diff(outcome.accuracies()) <= 0).all()
    assert "90 to 10 (3)" in repr(result)
    rows = query("SELECT strength, accuracy FROM accuracies ORDER BY strength DESC", folder).rows
    assert [row[0] for row in rows] == [90, 40, 10]
    assert [row[1] for row in rows] == pytest.approx(outcome.accuracies().tolist())

    csv = [line.split(",")[:2] for line in entered("show", folder, "--csv").out.splitlines() if "jpeg" in line]
    assert csv == [["jpeg-quality", "90.0"], ["jpeg-quality", "40.0"], ["jpeg-quality", "10.0"]]
    shown = [line.split() for line in entered("show", folder, "--all").out.splitlines()]
    heads = shown.index(["strength", "90", "40", "10", "mean"])
    assert shown[heads + 1][0] == "jpeg-quality" and len(shown[heads + 1]) == 5
    plain = json.loads(entered("show", folder, "--json").out)["attacks"]["jpeg-quality"]
    assert plain["strengths"] == [90, 40, 10]
    assert plain["unit"] == "quality"
    lowest = outcome.accuracies()[-1]
    entered("check", folder, "--value", "--require", f"jpeg-quality@10>={lowest}")
    entered("check", folder, "--value", "--require", f"typical-jpeg-quality@10>={100 * outcome.typical[:, 2].mean()}")
    page = tmp_path / "page.html"
    entered("report", folder, "-o", page)
    assert "strength 40:" in page.read_text(encoding="utf-8")
    grown = ra.evaluate(model, data, "jpeg-quality", strengths={"jpeg-quality": [90, 60, 40, 10]}, run=folder, **QUIET)
    assert grown.outcome("jpeg-quality").strengths.tolist() == [10, 40, 60, 90]


def test_a_gallery_of_what_falls(tmp_path: Path) -> None:
    """At the strengths of the attack, written as people type them."""
    model = a_model(side=16)
    x, labels = some_data(model, side=16)
    attack = replace(attack_named("jpeg-quality"), strengths=(20.0, 60.0))
    data = ra.Dataset.from_arrays(x, labels, "drawn", classes=("a", "b", "c"))
    found = cells(model, data, attack, columns=2, sample=1)
    assert [cell.strength for cell in found] == [20, 60]


def test_strengths_that_do_not_fall() -> None:
    model = a_model()
    for wrong in ([10, 90], [100, 50], [50, 50], [-1]):
        with pytest.raises(UserError, match=r"falling numbers below 100|at least"):
            outcome_of("jpeg-quality", model, some_data(model), strengths={"jpeg-quality": wrong})


def test_training_takes_strengths_as_people_type_them() -> None:
    """Once: a quality of 30 is 70 inside, on the command line and in Python."""
    for given in (parse_against("jpeg-quality=30,resolution=80"), {"jpeg-quality": 30, "resolution": 80}):
        assert [(one.name, one.epsilon) for one in make_opponents(given)] == [("jpeg-quality", 70), ("resolution", 20)]
    with pytest.raises(UserError, match="below 100"):
        make_opponents({"jpeg-quality": 120})


def test_references_of_what_falls(tmp_path: Path) -> None:
    """Given, trained, printed and read as people type them."""
    command = "reference digits-cnn --data digits --strengths jpeg-quality=90,10 --epochs 1 --steps 1 --samples 20"
    told = entered(*command.split(), "--train-samples", 60, "--out", tmp_path).out
    assert re.search(r"jpeg-quality: 90 -> [\d.]+, 10 -> ", told)
    assert load_reference(str(tmp_path / "reference.json")).accuracies.strengths("jpeg-quality").tolist() == [90, 10]
    assert read_card(tmp_path / "jpeg-quality-90-seed0").trained_on == {"jpeg-quality": 90.0}
    with pytest.raises(UserError, match=r"not in falling order \(10, 90\)"):
        ReferencePlan("digits-cnn", {"jpeg-quality": [10, 90]})


def test_calibration_of_what_falls(tmp_path: Path) -> None:
    """Among the qualities down to the one that is allowed."""
    falling = {1.0: 90.0, 2.0: 85.0, 4.0: 75.0, 8.0: 60.0, 16.0: 40.0, 32.0: 20.0}
    cells = {"linf": falling, "jpeg-quality": {100 - at: ata for at, ata in {**falling, 64.0: 1.0}.items()}}
    file = tmp_path / "ata.json"
    Reference("ata", "made up", AccuracyTable(95, cells), ("linf", "jpeg-quality")).to_json(file)
    told = entered("calibrate", "jpeg-quality", "--reference", file, "--up-to", 68).out
    assert [line.split()[0] for line in told.splitlines()[3:9]] == ["99", "98", "96", "92", "84", "68"]
    assert "(eps_max): 68\n" in told


def test_plots_count_as_people_type() -> None:
    """Ticks and unit of an axis: qualities, the best on the left."""
    curve = RobustnessCurve([90.0, 40.0, -np.inf], attack="jpeg-quality", unit=attack_named("jpeg-quality").about.unit)
    axes = plot_curves(curve, up_to=20)
    assert axes.get_xlabel() == "quality"
    axes.figure.canvas.draw()
    labels = {label.get_position()[0]: label.get_text() for label in axes.get_xticklabels()}
    assert labels[0] == "100"
    assert labels[20] == "80"


def test_pages_count_as_people_type(tmp_path: Path) -> None:
    """The ends of the small charts, what scripts draw, and the columns of a board; typical beside worst."""
    model, folder, page = a_model(side=16), str(tmp_path / "run"), tmp_path / "page.html"
    strengths = {"jpeg-quality": [90, 40, 10]}
    result = ra.evaluate(model, some_data(model, side=16), "jpeg-quality", strengths=strengths, run=folder, **QUIET)
    build_report([result], page)
    text = page.read_text(encoding="utf-8")
    assert re.findall(r'class="tick (?:first|last)"[^>]*>([^<]*)<', text) == ["100", "10"]
    assert '<path class="typical"' in text
    (card,) = json.loads(re.search(r'id="report-data"[^>]*>(.*?)</script>', text, re.DOTALL)[1])["cards"]  # type: ignore[index]
    assert (card["axis"], card["falls"], card["end"]) == ("quality", 100, 90)
    (line,) = card["curve"]["lines"]
    typical = result.outcome("jpeg-quality").typical
    assert typical is not None
    assert line["typical"]["sizes"] == [0, 10, 60, 90]
    np.testing.assert_allclose(line["typical"]["error"][1:], 100 - 100 * typical.mean(0), atol=1e-3)
    own = Reference("own", "made up", result.accuracies(), ("jpeg-quality",))
    (attack,) = board_data(own, [run_row(result, own)], "title")["attacks"]
    assert (attack["axis"], attack["falls"], attack["written"]) == ("quality", 100, ["90", "40", "10"])


# ---- borders ------------------------------------------------------------------------------------------------------


def test_the_border_is_chosen_said_and_kept_apart(tmp_path: Path) -> None:
    model, folder = a_model(), str(tmp_path / "run")
    data = some_data(model)
    black = ra.evaluate(model, data, ["rotation", "linf"], border="black", run=folder, **QUIET)
    record = next(each for each in black.records.values() if each.name == "rotation")
    assert record.threat["border"] == "black"
    assert "all is black" in record.note
    with pytest.raises(UserError, match=r"border: black .*reflect"):
        ra.evaluate(model, data, "rotation", run=folder, **QUIET)
    with pytest.raises(UserError, match="none among linf"):
        ra.evaluate(model, data, "linf", border="grey", **QUIET)


def test_an_attack_of_ones_own_can_be_typical() -> None:
    """By default what is typical is a random point of the set."""
    model = a_model()
    attack = replace(attack_named("hue"), typical=4)
    outcome = ra.evaluate(model, some_data(model), attack, **QUIET).outcome("hue")
    assert outcome.typical is not None
    assert set(np.unique(outcome.typical * 4)) <= {0, 1, 2, 3, 4}


# ---- requirements -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "right", "of"),
    [("rotation@10>=80", 85, 100), ("rotation@10>=80", 78, 100), ("clean>=99", 60, 60), ("union<=30", 25, 100)],
)
def test_how_many_samples_decide(text: str, right: int, of: int) -> None:
    """By SciPy's exact interval: the number that is named decides, nine tenths of it do not."""

    def interval(count: int) -> Interval:
        low, high = proportion_bounds(right / of * count, count)
        return Interval(100 * right / of, float(low), float(high), 0.95)

    asked = Requirement.parse(text)
    samples = samples_to_decide(asked, interval(of), of)
    assert samples is not None
    exact = scipy.stats.binomtest(round(right / of * samples), samples).proportion_ci(0.95)
    assert asked.is_met_by(interval(samples)) or asked.is_broken_by(interval(samples))
    assert interval(samples).low == pytest.approx(100 * exact.low, abs=0.5)
    few = interval(int(0.9 * samples))
    assert not asked.is_met_by(few)
    assert not asked.is_broken_by(few)


def test_what_can_never_be_decided() -> None:
    """A number that is the bound itself."""
    asked, number = Requirement.parse("rotation@10>=80"), Interval(80.0, 70.0, 88.0, 0.95)
    assert samples_to_decide(asked, number, 100) is None


def test_a_report_begins_with_what_is_required(tmp_path: Path) -> None:
    model, folder, page = a_model(), str(tmp_path / "run"), tmp_path / "page.html"
    x, labels = some_data(model)
    outcome = ra.evaluate(model, (x, labels), "translation", keep_adversarial=True, run=folder, **QUIET).outcome(
        "translation"
    )
    stands = outcome.accuracies()[1]
    bounds = [
        "translation@2>=0",
        f"translation@2>={min(100.0, stands + 5)}",
        "typical-translation@2>=99.99",
        "clean<=1",
        "diagnosis=sound",
    ]
    entered("report", folder, "-o", page, *(w for b in bounds for w in ("--require", b)))
    first = page.read_text(encoding="utf-8").split('class="answer"')[0]
    states = re.findall(r'<b class="state">([\w ]+)</b> <code>([^<]+)</code>', first)
    assert [state for state, _ in states][::3] == ["kept", "not kept"]
    assert states[4] == ("not decided", "diagnosis=sound")
    assert [html.unescape(text) for _, text in states] == bounds
    assert "samples would decide" in first and "No go: " in first
    assert first.count('class="example"') > 0  # those that broke within two pixels
    text = page.read_text(encoding="utf-8")
    assert "Worst and typical case" in text
