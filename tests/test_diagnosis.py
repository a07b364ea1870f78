"""Whether a number can be trusted: indicators, the verdict, and where it is shown."""

import json
import warnings
from collections.abc import Callable
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import robustatlas as ra
from command_line import entered
from helpers_core import brief, broken_defense
from robustatlas.attacks.catalogue import attack_named
from robustatlas.checks.diagnosis import Diagnosis
from robustatlas.checks.indicators import INDICATORS, DiagnosedSamples, Indicator, Measurement
from robustatlas.checks.verdict import EXCLUDED, FEW
from robustatlas.common.noise import Noise
from robustatlas.evaluation.reading import diagnosis_request, read_indicators
from robustatlas.evaluation.samples import choose_samples
from robustatlas.models.architectures import digits_cnn
from robustatlas.models.sources.functions import object_named
from robustatlas.outcomes.records import DiagnosisRecord, Reading

DATA = ra.load_dataset("digits")
GRID = {"linf": [0.1, 0.2]}


def diagnosed(model: ra.Classifier | nn.Module, samples: int = 40) -> Diagnosis:
    return ra.diagnose(model, DATA, samples=samples)


EXPECTED = {
    "false_gradients.py:zero_gradient": "zero-gradient",
    "false_gradients.py:random_signs": "gradient",
    "false_gradients.py:reversed_for_bright_images": "gradient",
    "false_gradients.py:detached_branch": "gradient",
    "discrete_steps.py:eight_levels": "zero-gradient",
    "discrete_steps.py:black_and_white": "zero-gradient",
    "shattered_gradients.py:wave_on_pixels": "gradient",
    "shattered_gradients.py:keyed_noise": "gradient",
    "saturated_outputs.py:double_softmax": "probabilities",
    "compression.py:jpeg": "gradient",
    "chance.py:input_noise": "random",
    "chance.py:batch_statistics": "batch",
    "saturated_outputs.py:large_logits": "logit-scale",
    "saturated_outputs.py:tiny_logits": "logit-scale",
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_broken_defense_is_flagged(name: str) -> None:
    found = diagnosed(ra.load_model(broken_defense(name)))
    assert EXPECTED[name] in found.flags
    assert found.verdict == ("sound" if EXPECTED[name] == "logit-scale" else found.verdict)
    assert found.verdict != "sound" or EXPECTED[name] == "logit-scale"
    assert [remedy.flag for remedy in found.remedies] == list(found.flags) and all(each.code for each in found.remedies)


@pytest.mark.parametrize("name", ["standard", "linf", "l2"])
def test_a_sound_network_is_not(name: str) -> None:
    found = diagnosed(ra.load_model(f"builtin:digits-{name}"))
    assert (found.verdict, found.flags) == ("sound", ())


def test_an_adaptive_attack_breaks_a_broken_defense_and_leaves_its_outputs() -> None:
    source = broken_defense("false_gradients.py:zero_gradient")
    given, attacked = ra.load_model(source), ra.load_model(source, arguments={"attacked": True})
    assert torch.equal(given.logits(DATA.images), attacked.logits(DATA.images))
    results = [
        ra.evaluate(model, DATA, "linf", strengths=GRID, samples=12, effort="low", diagnose=False, progress=False)
        for model in (given, attacked)
    ]
    accuracies = [result.accuracies().values("linf")[1] for result in results]
    assert accuracies[0] > 90 and accuracies[1] < 30


PRECISE: dict[str, Callable[[nn.Module], ra.Classifier]] = {
    "bfloat16 search": lambda net: ra.Classifier(net, precision="bfloat16"),
    "bfloat16 network": lambda net: ra.Classifier(net.to(torch.bfloat16)),
    "float16 network": lambda net: ra.Classifier(net.to(torch.float16)),
    "float64": lambda net: ra.Classifier(net.to(torch.float64)),
}


@pytest.mark.parametrize("kind", PRECISE)
def test_rounding_raises_no_alarm(kind: str) -> None:
    net = ra.load_model("builtin:digits-linf").net
    assert isinstance(net, nn.Module)
    assert diagnosed(PRECISE[kind](net)).flags == ()


@pytest.mark.parametrize(("classes", "side"), [(2, 8), (1000, 8), (10, 224)])
def test_classes_and_sizes_raise_no_alarm(classes: int, side: int) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, classes),
    )  # fmt: skip
    samples = 40 if side < 100 else 12
    x = torch.rand(samples, 3, side, side)
    with torch.no_grad():
        labels = net(x).argmax(1)
    found = ra.diagnose(net, (x, labels), samples=samples)
    assert (found.verdict, found.flags) == ("sound", ())


def test_the_directional_derivative_is_a_cosine() -> None:
    """Of a linear model it is 1, turned round -1, and of an unrelated gradient what numpy says."""
    torch.manual_seed(0)
    weight, other = torch.randn(2, 20), torch.randn(2, 20)
    x, labels = 0.2 + 0.6 * torch.rand(5, 20), torch.zeros(5, dtype=torch.long)

    def model(claimed: Tensor) -> ra.Classifier:
        return ra.Classifier(ra.surrogate(lambda x: x @ weight.T, lambda x: x @ claimed.T))

    def values(claimed: Tensor) -> Tensor:
        look = DiagnosedSamples(model(claimed), x, labels, Noise.for_samples(0, torch.arange(5), "diagnosis"))
        found: Measurement = INDICATORS["gradient"]().measure(look)
        return found.values

    assert values(weight).allclose(torch.ones(5, dtype=torch.float64), atol=1e-4)
    assert values(-weight).allclose(-torch.ones(5, dtype=torch.float64), atol=1e-4)
    noise = Noise.for_samples(0, torch.arange(5), "diagnosis")
    steps = torch.stack([noise.child(1000 + k).sign(20) for k in range(8)]).double()
    a, b = ((steps * (w[0] - w[1]).double()).sum(2) for w in (weight, other))
    cosine = (a * b).sum(0) / (a.square().sum(0) * b.square().sum(0)).sqrt()
    assert values(other).allclose(cosine, atol=1e-3)


def record(doubtful: int, samples: int, severity: str = "masked", told: bool = True) -> Diagnosis:
    reading = {
        "name": "gradient", "severity": severity, "threshold": 0.1,
        "values": (0.0,) * samples, "doubtful": tuple(range(doubtful)),
    }  # fmt: skip
    reading = Reading.model_validate(reading)
    return Diagnosis.from_record(
        DiagnosisRecord(asked="0", told=told, index=tuple(range(samples)), readings=(reading,))
    )


def test_the_verdict_comes_from_intervals() -> None:
    """12 of 60 is the first share whose lower end is above 10 %; few samples that exclude nothing are inconclusive."""
    assert record(12, 60).verdict == "masked" and record(11, 60).verdict == "doubtful"
    assert record(12, 60, "doubtful").verdict == "doubtful" and record(60, 60, "note").verdict == "sound"
    assert record(0, 60).verdict == record(4, FEW).verdict == "sound"
    assert record(0, 5).verdict == "inconclusive" and record(5, 5).verdict == "masked"
    assert record(0, 60, told=False).verdict == "inconclusive"
    assert record(5, FEW).indicators[0].share.high > 100 * EXCLUDED  # type: ignore[union-attr]


@pytest.mark.parametrize("samples", [1, 5, 10, 11, 20, 31])
def test_few_samples_are_sound_where_they_exclude_enough_and_the_sentence_says_what_they_do_not(samples: int) -> None:
    found = record(0, samples)
    highest = 100 * (1 - 0.025 ** (1 / samples))  # Clopper and Pearson: none of so many
    assert found.verdict == ("sound" if highest <= 100 * EXCLUDED else "inconclusive")
    assert found.verdict == "sound" or f"up to {highest:.0f} % of such may be doubtful" in found.sentence


def test_what_is_read_does_not_depend_on_batch_or_order() -> None:
    model = ra.load_model(broken_defense("false_gradients.py:reversed_for_bright_images"))
    attack = attack_named("linf")
    plans = [attack.plan("descent")]

    def read(samples: Any, batch: int) -> DiagnosisRecord:
        with model.evaluating():
            return read_indicators(
                model, diagnosis_request(choose_samples(DATA, samples), [attack], plans, 0, batch, 40)
            )

    first, second = read(60, 60), read(np.random.default_rng(1).permutation(60), 7)
    assert first.index == second.index
    for mine, other in zip(first.readings[:2], second.readings[:2], strict=True):
        assert mine.doubtful == other.doubtful


def test_it_is_kept_and_shown(tmp_path: Path) -> None:
    model, folder = ra.load_model(broken_defense("false_gradients.py:random_signs")), tmp_path / "run"
    with pytest.warns(UserWarning, match="† Diagnosis: masked"):
        result = ra.evaluate(model, DATA, "linf", strengths=GRID, samples=40, run=folder, progress=False)
    loaded = ra.load_result(folder)
    assert loaded.diagnosis is not None and loaded.diagnosis.verdict == "masked"
    assert repr(loaded).splitlines()[1].startswith("Diagnosis: masked.")
    assert loaded.invalid["linf"] > 0.5 and "linf †" in str(loaded.accuracies())
    before = len(list((folder / "diagnoses").iterdir()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ra.evaluate(model, DATA, "linf", strengths=GRID, samples=40, run=folder, progress=False)
    assert len(list((folder / "diagnoses").iterdir())) == before == 1
    assert result.diagnosis is not None and len(result.diagnosis.samples.doubtful) >= 20


def test_it_can_be_left_out_and_costs_little() -> None:
    model = ra.load_model("builtin:digits-linf")
    off = ra.evaluate(model, DATA, "linf", strengths=GRID, samples=5, diagnose=False, progress=False)
    assert off.diagnosis is None
    few = ra.evaluate(model, DATA, "linf", strengths=GRID, samples=5, progress=False)
    assert few.diagnosis is not None and few.diagnosis.verdict == "inconclusive"
    read = few.diagnosis.record
    assert read.forward + read.backward <= 34


KINDS: dict[str, Callable[[], nn.Module]] = {
    "convolutional": digits_cnn,
    "residual": object_named(broken_defense("sound_networks.py:Residual")),
    "attention": object_named(broken_defense("sound_networks.py:Attention")),
    "fully connected": partial(object_named(broken_defense("sound_networks.py:Perceptron")), nn.ReLU),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_costs_less_than_a_twentieth_of_an_evaluation_of_200_samples(kind: str) -> None:
    """Of networks that are not trained, which take the fewest passes of a search: 97 a sample the residual one, so that
    the fewest samples that are looked at, as they are and where searches end, cost a twentieth of 470."""
    torch.manual_seed(0)
    net, x = KINDS[kind](), DATA.images[: 470 if kind == "residual" else 200]
    with torch.no_grad():
        labels = net(x).argmax(1)
    result = ra.evaluate(net, (x, labels), "linf", progress=False)
    assert result.diagnosis is not None and result.diagnosis.verdict == "sound"
    read = result.diagnosis.record
    assert len(read.index) >= FEW
    cost, most = len(read.index) * (read.forward + read.backward), 0.05 * len(x) * sum(result.passes("linf"))
    assert cost <= most, 'an indicator that not every evaluation needs has part = "full"'


def test_the_command_and_the_gate(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    given = ["--data", "digits", "--samples", 40, "--run", folder, "--strengths", "linf=0.1,0.2", "--attacks", "linf"]
    entered("evaluate", "builtin:digits-linf", "--no-diagnose", *given)
    entered("check", folder, "--require", "diagnosis=sound", code=3)
    assert json.loads(entered("diagnose", folder, "--samples", 40, "--json").out)["verdict"] == "sound"
    entered("check", folder, "--require", "diagnosis=sound")
    entered("check", folder, "--require", "diagnosis=fine", code=1)


ATTACKS = [brief(attack_named(name), [0.3], {"steps": 300}) for name in ("pgd-linf", "square-linf")]


@pytest.mark.parametrize("name", ["discrete_steps.py:black_and_white", "detached"])
def test_a_gradient_that_ends_is_a_number_and_a_verdict(name: str) -> None:
    sound = ra.load_model("builtin:digits-linf").net
    model = ra.Classifier((lambda x: sound(x).detach()) if name == "detached" else ra.load_model(broken_defense(name)))
    with pytest.warns(UserWarning, match="gradient"):
        result = ra.evaluate(model, DATA, ATTACKS, samples=8)
    assert result.diagnosis is not None and result.diagnosis.verdict == "masked" and "pgd-linf" in result.invalid
    assert result.accuracies().values("square-linf")[0] < result.accuracies().values("pgd-linf")[0]


class Clipped(nn.Module):
    """A network behind a ReLU, which has no gradient at pixels of exactly 0."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.net = ra.load_model(name).net

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.net(x.relu())
        return outputs


@pytest.mark.parametrize("name", ["builtin:digits-linf", "builtin:digits-standard"])
def test_a_gradient_that_ends_at_the_border_is_flagged(name: str) -> None:
    found = diagnosed(ra.Classifier(Clipped(name)))
    assert (found.verdict, found.flags) == ("masked", ("border-gradient",))


class Failing(torch.autograd.Function):
    """The identity, without a backward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        raise NotImplementedError("no backward pass here")


def test_a_backward_pass_that_fails_is_a_number_and_a_verdict() -> None:
    sound = ra.load_model("builtin:digits-linf").net
    model = ra.Classifier(lambda x: sound(Failing.apply(x)))
    with pytest.warns(UserWarning, match="NotImplementedError"):
        result = ra.evaluate(model, DATA, ATTACKS, samples=8)
    assert result.diagnosis is not None and result.diagnosis.verdict == "masked" and "pgd-linf" in result.invalid
    assert result.accuracies().values("square-linf")[0] < result.accuracies().values("pgd-linf")[0]
    assert diagnosed(model).verdict == "masked"


def test_a_diagnosis_that_tells_nothing_hides_none_that_does(tmp_path: Path) -> None:
    model, given = ra.load_model("builtin:digits-linf"), {"samples": 40, "run": tmp_path / "run", "progress": False}
    for attack in ("linf", "square-linf"):
        ra.evaluate(model, DATA, brief(attack_named(attack), [0.1]), **given)
    found = ra.load_result(tmp_path / "run").diagnosis
    assert found is not None and found.verdict == "sound"


def test_what_rests_on_no_gradient_is_untold() -> None:
    asked = ra.diagnose(
        ra.load_model(broken_defense("discrete_steps.py:eight_levels")), DATA, attacks="square-linf", samples=40
    )
    assert asked.verdict == "inconclusive" and "No attack by gradients" in asked.sentence
    nothing = ra.diagnose(
        ra.load_model(broken_defense("discrete_steps.py:eight_levels")), DATA, attacks="corruption-contrast", samples=40
    )
    assert nothing.verdict == "sound"


def test_cross_entropy_alone_is_blind_to_saturated_logits() -> None:
    asked = ra.diagnose(
        ra.load_model(broken_defense("saturated_outputs.py:large_logits")), DATA, attacks="pgd-linf", samples=40
    )
    assert (asked.verdict, asked.flags) == ("doubtful", ("logit-scale",))


def test_what_decides_nothing_is_read_on_request() -> None:
    model = ra.load_model("builtin:digits-linf")
    found = ra.diagnose(model, DATA, samples=32, everything=True)
    extra = {finding.name: finding for finding in found.indicators if not finding.reading.decides}
    assert set(extra) == {"random-step", "unavailable-gradients", "unstable-predictions"}
    assert found.verdict == "sound" and not extra["random-step"].reading.doubtful
    lying = ra.diagnose(
        ra.load_model(broken_defense("false_gradients.py:random_signs")), DATA, samples=32, everything=True
    )
    assert "random-step" in lying.flags


def test_what_to_do_stands_in_terminal_json_and_page(tmp_path: Path) -> None:
    given = ("--data", "digits", "--attacks", "linf", "--strengths", "linf=0.1", "--samples", 34, "--effort", "low")
    source = broken_defense("false_gradients.py:zero_gradient")
    said = entered("evaluate", source, *given, "--run", tmp_path / "run").line
    assert f"What to do: robustatlas diagnose {tmp_path / 'run'}" in said
    shown = entered("diagnose", tmp_path / "run").line
    told = json.loads(entered("diagnose", tmp_path / "run", "--json").out)["remedies"]
    entered("report", tmp_path / "run", "-o", tmp_path / "page.html")
    page = unescape((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert told and all(each["code"] for each in told)
    for each in told:
        assert all(
            " ".join(each[part].split()) in shown and each[part] in page for part in ("flag", "sentence", "code")
        )


def test_every_indicator_says_what_it_must() -> None:
    for name, kind in INDICATORS.items():
        assert issubclass(kind, Indicator) and kind.name == name and kind.means and kind.remedy and kind.source
    page = (Path(__file__).parents[1] / "docs" / "trust.md").read_text(encoding="utf-8")
    flags = [name for name, kind in INDICATORS.items() if kind.decides and kind.severity != "note"]
    assert [name for name in flags if f"`{name}" not in page] == [], "docs/trust.md says what each flag means"
