"""Mistakes of every kind in calls: one sentence, and nothing written; what says the same in other types is taken."""

import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import robustatlas as ra
from bad_inputs import contents
from command_line import entered
from robustatlas.attacks.catalogue import attack_named
from robustatlas.evaluation import forecast
from robustatlas.models.classifier import seeded
from robustatlas.training import Settings

with seeded(3, torch.device("cpu")):
    NET = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    IMAGES, LABELS = torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1])
    IMAGES[0, 0, 0] = torch.tensor([0.0, 1.0])


def evaluate(**changes: Any) -> Any:
    given: dict[str, Any] = {"model": NET, "data": (IMAGES, LABELS), "attacks": "linf"}
    return ra.evaluate(**(given | changes))


TABLE = ra.metrics.AccuracyTable(90, {"linf": {0.1: 60, 0.2: 40}})


def result() -> ra.Result:
    return ra.Result.from_arrays([0, 1], [0, 1], {"linf": [0.1, np.inf]}, {"linf": [0.1, 0.2]})


CALLS: list[tuple[str, Callable[[], Any]]] = [
    ("expected an nn.Module", lambda: evaluate(model=3)),
    ("returned", lambda: evaluate(model=lambda x: None)),
    ("data", lambda: evaluate(data=None)),
    ("expected a Dataset", lambda: evaluate(data=IMAGES)),
    ("data", lambda: evaluate(data=(None, None))),
    ("shape", lambda: evaluate(data=(3, 4))),
    ("uint8", lambda: evaluate(data=((IMAGES * 255).long(), LABELS))),
    ("mean and std", lambda: evaluate(data=(IMAGES - 0.5, LABELS))),
    ("integers", lambda: evaluate(data=(IMAGES, LABELS.float()))),
    ("from 0", lambda: evaluate(data=(IMAGES, LABELS - 1))),
    ("attacks", lambda: evaluate(attacks=3)),
    ("attacks", lambda: evaluate(attacks=[])),
    ("attacks", lambda: evaluate(attacks=[3])),
    ("attacks", lambda: evaluate(attacks={"linf": 0.1})),
    ("twice", lambda: evaluate(attacks=["linf", "linf"])),
    ("search", lambda: evaluate(search="guess")),
    ("protocol", lambda: evaluate(protocol=None)),
    ("strengths", lambda: evaluate(strengths=[0.1, 0.2])),
    ("strengths", lambda: evaluate(strengths={"linf": "much"})),
    ("increasing", lambda: evaluate(strengths={"linf": [0.2, 0.1]})),
    ("increasing", lambda: evaluate(strengths={"linf": [0.1, 0.1]})),
    ("positive", lambda: evaluate(strengths={"linf": [0.0]})),
    ("not among the attacks", lambda: evaluate(strengths={"l2": [0.1]})),
    ("strengths", lambda: evaluate(strengths={"linf": [np.nan]})),
    ("Strengths", lambda: evaluate(strengths={3: [0.1]})),
    ("samples", lambda: evaluate(samples="all")),
    ("from 1 to 5", lambda: evaluate(samples=0)),
    ("samples", lambda: evaluate(samples=2.5)),
    ("samples", lambda: evaluate(samples=True)),
    ("samples", lambda: evaluate(samples=[])),
    ("positions from 0 to 4", lambda: evaluate(samples=[7])),
    ("samples", lambda: evaluate(samples=[0, [1, 2]])),
    ("twice", lambda: evaluate(samples=[1, 1])),
    ("mask", lambda: evaluate(samples=np.ones(3, bool))),
    ("seed", lambda: evaluate(seed="a")),
    ("seed", lambda: evaluate(seed=1.5)),
    ("run", lambda: evaluate(run=3)),
    ("batch_size", lambda: evaluate(batch_size="all")),
    ("shard_size", lambda: evaluate(shard_size=-1)),
    ("exclude", lambda: evaluate(exclude="linf")),
    ("left out", lambda: evaluate(exclude=["fog"])),
    ("left out", lambda: evaluate(exclude=[3])),
    ("keep_adversarial", lambda: evaluate(keep_adversarial="yes")),
    ("progress", lambda: evaluate(progress="yes")),
    ("cuda:77", lambda: ra.Classifier(NET, device="cuda:77")),
    ("device", lambda: ra.Classifier(NET, device="nonsense")),
    ("precision", lambda: ra.Classifier(NET, precision="int4")),  # type: ignore[arg-type]
    ("mean", lambda: ra.Classifier(NET, mean="grey")),  # type: ignore[arg-type]
    ("std", lambda: ra.Classifier(NET, std=0.0)),
    ("name", lambda: ra.load_model(NET)),  # type: ignore[arg-type]
    ("bits", lambda: ra.load_model("net.py:make", arguments={"colour": 1})),
    ("split", lambda: ra.load_dataset("digits", "valid")),  # type: ignore[arg-type]
    ("samples", lambda: ra.load_dataset("digits").take(0)),
    ("samples", lambda: ra.load_dataset("digits").take(2.5)),  # type: ignore[arg-type]
    ("pixels", lambda: ra.load_dataset("digits", resize=2.5)),  # type: ignore[arg-type]
    ("data set", lambda: ra.load_dataset(3)),  # type: ignore[arg-type]
    ("255 bytes", lambda: ra.load_result("a\0b")),
    ("UTF-8", lambda: ra.load_result("\udcff")),
    ("run", lambda: ra.load_result(3)),  # type: ignore[arg-type]
    ("reference", lambda: ra.load_reference(None)),  # type: ignore[arg-type]
    ("weights", lambda: ra.load_model("builtin:digits-linf", weights=3)),  # type: ignore[arg-type]
    ("arguments", lambda: ra.load_model("builtin:digits-linf", arguments=3)),  # type: ignore[arg-type]
    ("UTF-8", lambda: evaluate(run="\udcff")),
    ("255 bytes", lambda: evaluate(run="a\0b")),
    ("seed", lambda: evaluate(seed=np.float64(3))),
    ("64 bits", lambda: evaluate(seed=np.uint64(2**64 - 1))),
    ("batch_size", lambda: evaluate(batch_size=np.float32(2))),
    ("workers", lambda: evaluate(workers=2.0)),
    ("samples", lambda: evaluate(samples=np.float64(2))),
    ("samples", lambda: evaluate(samples={1, 2})),
    ("part", lambda: evaluate(part=(0.5, 2))),
    ("part", lambda: evaluate(part=(np.inf, 2))),
    ("part", lambda: evaluate(part=3)),
    ("1e+12", lambda: evaluate(strengths={"linf": [1e300]})),
    ("1e+12", lambda: evaluate(strengths={"linf": [0.1, np.float64(1e39)]})),
    ("strengths", lambda: evaluate(strengths={"linf": [2**2000]})),
    ("strengths", lambda: evaluate(strengths={"linf": [True]})),
    ("strengths", lambda: evaluate(strengths={"linf": [0.1 + 1j]})),
    ("strengths", lambda: evaluate(strengths={"linf": [[0.1, 0.2]]})),
    ("1e+12", lambda: evaluate(attacks=replace(attack_named("linf"), strengths=(1e300,)))),
    ("increasing", lambda: replace(attack_named("linf"), strengths=(0.2, 0.1))),
    ("no strengths", lambda: replace(attack_named("linf"), strengths=())),
    ("name", lambda: replace(attack_named("linf"), name="../linf")),
    ("name", lambda: ra.compose(3, 4)),  # type: ignore[arg-type]
    ("strengths", lambda: ra.compose("linf", "l2", strengths=[1e300, 1])),
    ("not an array", lambda: evaluate(data=(IMAGES.numpy().astype(object), LABELS))),
    ("not an array", lambda: evaluate(data=([[1.0], [1.0, 2.0]], [0, 1]))),
    ("class numbers", lambda: evaluate(data=(IMAGES, LABELS.numpy().astype(str)))),
    ("masked", lambda: evaluate(data=(np.ma.masked_array(IMAGES.numpy(), IMAGES.numpy() > 0.5), LABELS))),
    ("meta", lambda: evaluate(data=(IMAGES.to("meta"), LABELS))),
    ("no pixels", lambda: evaluate(data=(IMAGES[..., :0], LABELS))),
    ("is 1 white", lambda: evaluate(data=(IMAGES > 0.5, LABELS))),
    ("is 1 white", lambda: ra.Dataset.from_arrays((IMAGES > 0.5).byte(), LABELS)),
    ("is 1 white", lambda: evaluate(data=torch.utils.data.TensorDataset((IMAGES > 0.5).byte(), LABELS))),
    ("clip", lambda: evaluate(data=(IMAGES + 0.05, LABELS))),
    ("prepare", lambda: evaluate(model=ra.Classifier(NET, prepare=lambda x: x.numpy()))),  # type: ignore[arg-type, return-value]
    ("shape", lambda: evaluate(model=lambda x: NET(x)[None])),
    ("draws", lambda: ra.Classifier(NET, draws=np.float64(3))),  # type: ignore[arg-type]
    ("draws", lambda: ra.Classifier(NET, draws=True)),
    ("threshold", lambda: ra.Classifier(NET, draws=3, threshold="half")),  # type: ignore[arg-type]
    ("batch_size", lambda: ra.Classifier(NET, batch_size=2.5)),  # type: ignore[arg-type]
    ("outputs", lambda: ra.Classifier(NET, outputs=["logits"])),  # type: ignore[arg-type]
    ("device", lambda: ra.Classifier(NET, device=2.5)),  # type: ignore[arg-type]
    ("budget", lambda: forecast(NET, (IMAGES, LABELS), "linf", budget=np.nan)),
    ("queries", lambda: ra.from_predictions(len, queries="all")),  # type: ignore[arg-type]
    ("classes", lambda: ra.from_predictions(len, "labels", classes=2.5)),  # type: ignore[arg-type]
    ("confidence", lambda: result().curve("linf").band("95%")),  # type: ignore[arg-type]
    ("sizes", lambda: result().curve("linf").at("large")),
    ("shares", lambda: result().curve("linf").quantile("half")),
    ("up_to", lambda: result().curve("linf").area("a")),  # type: ignore[arg-type]
    ("strength", lambda: result().survivors({"linf": "a"})),  # type: ignore[dict-item]
    ("strength", lambda: result().survivors(["linf"])),  # type: ignore[arg-type]
    ("linf", lambda: result().restrict({"linf": "a"})),
    ("alpha", lambda: ra.metrics.stability_constant(TABLE, TABLE, {"linf": 0.1}, alpha="3")),  # type: ignore[arg-type]
    ("training strength", lambda: ra.metrics.stability_constant(TABLE, TABLE, {"linf": "a"})),  # type: ignore[dict-item]
    ("trained_on", lambda: ra.metrics.percent_seen(TABLE, TABLE, ["linf"])),  # type: ignore[arg-type]
    ("result.accuracies()", lambda: ra.metrics.competitiveness_ratio(result(), TABLE)),  # type: ignore[arg-type]
    ("margins", lambda: ra.metrics.adversarial_hypervolume([[0.5], [0.2, 0.1]])),
    (
        "replicates",
        lambda: ra.metrics.confidence_intervals({"a": ra.metrics.mean_statistic(np.ones(3))}, replicates=1.5),
    ),  # type: ignore[arg-type]
    ("epochs", lambda: Settings(epochs=1.5)),  # type: ignore[arg-type]
    ("learning_rate", lambda: Settings(learning_rate=np.nan)),
    ("net", lambda: ra.train(len, ra.load_dataset("digits"))),  # type: ignore[arg-type]
    ("data", lambda: ra.train(NET, (IMAGES, LABELS))),  # type: ignore[arg-type]
    ("fog", lambda: ra.load_result("run", ["fog"])),
    ("l7", lambda: result().minimal_size("l7")),
    ("sizes", lambda: ra.Result.from_arrays([0], [0], {"linf": [-1.0]}, {"linf": [0.1]})),
    ("l7", lambda: ra.compose("linf", "l7")),
    ("strengths", lambda: ra.compose("linf", "l2", strengths=[0.1])),
    ("not valid", lambda: attack_named("corruption-fog").choose_search("descent")),
]


@pytest.mark.parametrize(("said", "call"), CALLS, ids=[f"{number}-{said}" for number, (said, _) in enumerate(CALLS)])
def test_a_call_gets_a_sentence(here: Path, said: str, call: Callable[[], Any]) -> None:
    before = contents(here)
    with pytest.raises(ra.UserError) as caught:
        call()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert contents(here) == before


ARRAY, POSITIONS = IMAGES.numpy(), LABELS.numpy()


def flipped(array: Any) -> Any:
    """The same numbers, as a view with negative strides."""
    return np.ascontiguousarray(array[..., ::-1])[..., ::-1]


def read_only(array: Any) -> Any:
    array = array.copy()
    array.setflags(write=False)
    return array


def mapped(array: Any) -> Any:
    np.save("mapped.npy", array)
    return np.load("mapped.npy", mmap_mode="r")


SAME: list[tuple[str, Callable[[], dict[str, Any]]]] = [  # what a reasonable person expects to work
    ("seed of NumPy", lambda: {"seed": np.int64(0)}),
    ("seed of 8 bits", lambda: {"seed": np.uint8(0)}),
    ("seed in an array", lambda: {"seed": np.array(0)}),
    ("seed in a tensor", lambda: {"seed": torch.tensor(0)}),
    ("batch size of NumPy", lambda: {"batch_size": np.int64(2)}),
    ("shard size of NumPy", lambda: {"shard_size": np.int32(2)}),
    ("workers of NumPy", lambda: {"workers": np.int64(1)}),
    ("samples of NumPy", lambda: {"samples": np.int64(5)}),
    ("samples as a range", lambda: {"samples": range(5)}),
    ("part of NumPy", lambda: {"part": (np.int64(0), np.int64(1))}),
    ("flags of NumPy", lambda: {"keep_adversarial": np.False_, "progress": np.False_}),
    ("strengths in an array", lambda: {"strengths": {"linf": np.array([0.2, 0.4])}}),
    ("strengths back to front", lambda: {"strengths": {"linf": np.array([0.4, 0.2])[::-1]}}),
    ("strengths in a tensor", lambda: {"strengths": {"linf": torch.tensor([0.2, 0.4], dtype=torch.float64)}}),
    ("strengths of a graph", lambda: {"strengths": {"linf": torch.tensor([0.2, 0.4]).double().requires_grad_()}}),
    ("flipped images", lambda: {"data": (flipped(ARRAY), POSITIONS)}),
    ("flipped labels", lambda: {"data": (ARRAY, flipped(POSITIONS))}),
    ("Fortran order", lambda: {"data": (np.asfortranarray(ARRAY), POSITIONS)}),
    ("read-only", lambda: {"data": (read_only(ARRAY), read_only(POSITIONS))}),
    ("memory-mapped", lambda: {"data": (mapped(ARRAY), POSITIONS)}),
    ("foreign bytes", lambda: {"data": (ARRAY.astype(">f4"), POSITIONS.astype(">i8"))}),
    ("lists", lambda: {"data": (ARRAY.tolist(), POSITIONS.tolist())}),
    ("a list of arrays", lambda: {"data": (list(ARRAY), list(POSITIONS))}),
    ("sparse images", lambda: {"data": (IMAGES.to_sparse(), LABELS)}),
    ("images of a graph", lambda: {"data": (IMAGES.clone().requires_grad_(), LABELS)}),
    ("unsigned labels", lambda: {"data": (ARRAY, POSITIONS.astype(np.uint64))}),
    ("labels of 16 bits", lambda: {"data": (ARRAY, POSITIONS.astype(np.uint16))}),
    ("flipped in a data set", lambda: {"data": ra.Dataset.from_arrays(flipped(ARRAY), flipped(POSITIONS))}),
    ("a tuple of outputs", lambda: {"model": lambda x: (NET(x), "more")}),
    ("outputs in a dict", lambda: {"model": lambda x: {"logits": NET(x)}}),
    ("batch size of the model", lambda: {"model": ra.Classifier(NET, batch_size=np.int64(1))}),  # type: ignore[arg-type]
]


USUAL: dict[str, Any] = {"strengths": {"linf": [0.2, 0.4]}, "effort": "low"}


@pytest.fixture(scope="module")
def expected() -> NDArray[np.float64]:
    return evaluate(**USUAL).minimal_size("linf")


@pytest.mark.parametrize("given", [given for _, given in SAME], ids=[name for name, _ in SAME])
def test_what_says_the_same_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: NDArray[np.float64], given: Callable[[], dict[str, Any]]
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate(**(USUAL | given())).minimal_size("linf")
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        ("make", "half-precision"),
        ("half", "fortran"),
        ("double_pair", "foreign-bytes"),
        ("half", "unsigned-labels"),
        ("double_pair", "rounded"),
    ],
)
def test_unusual_files_and_outputs_are_evaluated(here: Path, tmp_path: Path, data: str, model: str) -> None:
    line = f"evaluate net.py:{model} --data {data}.npz --attacks linf --strengths linf=0.1 --effort low --run"
    assert ("1.00000012" in entered(*line.split(), tmp_path / "run").err) == (data == "rounded")


def test_images_beyond_the_edge_by_rounding_are_clamped_with_a_word() -> None:
    images = IMAGES.clone()
    images[0, 0, 0] = torch.tensor([1.0, 0.0])
    expected = evaluate(data=(images, LABELS), **USUAL).minimal_size("linf")
    images[0, 0, 0] = torch.tensor([1.0000001, -1e-8])
    for data in ((images, LABELS), ra.Dataset, torch.utils.data.TensorDataset(images, LABELS)):
        with pytest.warns(UserWarning, match="1.00000012"):
            given = data.from_arrays(images, LABELS) if data is ra.Dataset else data
            found = evaluate(data=given, **USUAL).minimal_size("linf")
        np.testing.assert_array_equal(found, expected)
    assert float(images.max()) > 1  # the user's own stay as they are


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_evaluations_work_where_gradients_are_off(mode: Any) -> None:
    expected = evaluate(samples=3).minimal_size("linf")
    with mode():
        found = evaluate(samples=3).minimal_size("linf")
    np.testing.assert_array_equal(found, expected)


def test_a_builtin_model_leaves_random_numbers_alone() -> None:
    def states() -> tuple[list[int], str, object]:
        return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()  # noqa: NPY002

    before = states()
    ra.load_model("builtin:digits-l2")
    assert states() == before


def test_numbers_of_numpy_train_and_measure(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    data = ra.load_dataset("digits", "train").take(np.int64(60))  # type: ignore[arg-type]
    settings = Settings(batch_size=np.int64(20), held_out=np.int64(10), learning_rate=np.float32(0.01))  # type: ignore[arg-type]
    given: Any = {"epochs": np.int64(1), "seed": np.int64(3), "against": {"linf": np.float32(0.05)}}
    trained = ra.train(net, data, "pgd", settings=settings, out=tmp_path / "t", progress=False, **given)
    assert trained.card.trained_on["linf"] == pytest.approx(0.05)
    table = ra.metrics.AccuracyTable(80, {"linf": {0.1: 50, 0.2: 10}})
    constants = [
        ra.metrics.stability_constant(table, TABLE, {"linf": kind(0.5)}, alpha=kind(30), floor=kind(0)).value
        for kind in (float, np.float32, np.float64)
    ]
    assert constants[0] == constants[1] == constants[2]
    curve = result().curve("linf")
    np.testing.assert_allclose(curve.band(np.float32(0.9)).high, curve.band(0.9).high, rtol=1e-6)  # type: ignore[arg-type]
    model = ra.Classifier(NET, draws=np.int64(2), threshold=np.float32(0.5))  # type: ignore[arg-type]
    assert evaluate(model=model, samples=2).samples == 2
