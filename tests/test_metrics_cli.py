"""The commands that print metrics: what they say of runs on disk, and that it is what the metrics say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from robustatlas.cli import _metrics_section
from robustatlas.cli.compare import compare
from robustatlas.cli.distances import distances
from robustatlas.errors import UserError
from robustatlas.metrics import competitiveness_ratio, interclass_distances
from robustatlas.outcomes import (
    AttackSettings,
    DataSettings,
    Manifest,
    ModelSettings,
    RunStore,
    SampleSettings,
    Settings,
)
from robustatlas.references import load_reference

GRIDS = {"linf": [0.005 * k for k in range(1, 21)], "l2": [0.125 * k for k in range(1, 21)]}


def write_run(path: Path, name: str, scale: float, samples: int = 400, seed: int = 0, margins: bool = False) -> Path:
    """A run whose minimal sizes are exponential; the same seed draws the same difficulty for every sample."""
    generator = np.random.default_rng(seed)
    wrong = generator.uniform(size=samples) < 0.1
    manifest = Manifest(
        settings=Settings(
            model=ModelSettings(name=name),
            data=DataSettings(name="cifar10"),
            samples=SampleSettings(count=samples),
            attacks={attack: AttackSettings(strengths=tuple(grid)) for attack, grid in GRIDS.items()},
        ),
        shard_size=samples,
    )
    store = RunStore.create_or_resume(path, manifest)
    labels = np.arange(samples) % 10
    store.write_samples(
        0,
        {
            "index": np.arange(samples),
            "label": labels,
            "clean_prediction": np.where(wrong, (labels + 1) % 10, labels),
            "clean_margin": np.where(wrong, -0.2, 0.9).astype(np.float32),
        },
    )
    for attack, grid in GRIDS.items():
        size = np.where(wrong, 0.0, scale * generator.exponential(grid[7], samples))
        size[size > grid[-1]] = np.inf
        strength = np.where(size == 0, 0.0, np.append(grid, np.inf)[np.searchsorted(grid, size)])
        levels = np.array(grid)[None, :]
        margin = np.where(size[:, None] == 0, -0.2, 0.9 * (1 - levels / np.maximum(size[:, None], 1e-9)))
        recorded = np.clip(margin, -1, 0.9) if margins else np.full((samples, len(grid)), np.nan)
        store.write(
            attack,
            0,
            {
                "index": np.arange(samples),
                "minimal_strength": strength,
                "minimal_size": size,
                "found_class": np.where(np.isfinite(size), (labels + 1) % 10, -1),
                "forward": np.full(samples, 10),
                "backward": np.full(samples, 10),
                "seconds": np.full(samples, 0.01),
                "margins": recorded.astype(np.float32),
                "fooled": (strength[:, None] <= levels).astype(np.int8),
            },
        )
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [
        write_run(folder / "a", "strong", 1.0, margins=True),
        write_run(folder / "b", "weak", 0.7, margins=True),
    ]


def printed(result, **options) -> str:
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    _metrics_section.print_metrics(result, console, **options)
    return console.export_text()


def test_show_prints_every_metric_and_explains_each(runs):
    from robustatlas.outcomes import load_result

    result = load_result(runs[0])
    text = printed(result, explain=True, trained_on={"linf": 8 / 255})
    for name in ("clean accuracy", "average accuracy", "union accuracy", "AH", "CR ind-worst", "mUAR", "SC"):
        assert name in text
    reference = load_reference("multirobustbench-cifar10")
    ratio = competitiveness_ratio(result.accuracies(), reference, attacks=["linf", "l2"])
    assert f"{ratio:.1f} [" in text
    assert "on 40 of its 180 ranked" in " ".join(text.split())
    assert "What the numbers mean" in text and "Kang et al. 2019" in text
    assert "What the numbers mean" not in printed(result)
    assert max(map(len, text.splitlines())) <= 80


def test_compare_says_who_is_more_robust(runs, capsys):
    compare(runs, reference=None, explain=True)
    text = " ".join(capsys.readouterr().out.split())
    assert "400 shared samples of cifar10, 2 shared attacks at 40 strengths: linf, l2." in text
    assert "strong is more robust on average, by" in text
    assert "Neither is shown to be more accurate on clean samples." in text
    assert "linf: strong is right more often at" in text and "of 20 strengths, between" in text
    assert "strong keeps more confidence (Wilcoxon signed-rank p =" in text
    assert "CR ind-avg" in text and "on 40 of its 180 ranked" in text
    assert "What the numbers mean" in text


def test_compare_takes_shared_samples_and_attacks_and_names_what_it_leaves_out(runs, tmp_path, capsys):
    fewer = write_run(tmp_path / "c", "small", 1.0, samples=120, seed=3)
    compare([runs[0], fewer], reference="none", explain=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "120 shared samples" in text
    assert "CR" not in text and "hypervolume" not in text


def test_compare_refuses_what_cannot_be_compared(runs):
    with pytest.raises(UserError, match="give two or more"):
        compare(runs[:1])
    with pytest.raises(UserError, match="given twice"):
        compare([runs[0], runs[0]])


def test_distances_prints_and_saves(tmp_path, capsys):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (60, 3, 16, 16), dtype=np.uint8)
    images[1] = images[0]
    images[7] = 9
    labels = np.arange(60) % 3
    np.savez(tmp_path / "noise.npz", images=images, labels=labels)
    output = tmp_path / "distances.npz"
    distances(str(tmp_path / "noise.npz"), norms="linf,l2", samples=None, split="test", output=output, explain=True)
    text = " ".join(capsys.readouterr().out.split())
    found = interclass_distances(images, labels, "l2")
    assert f"{found.smallest:.4g}" in text and f"{found.largest:.4g}" in text
    assert "1 pairs of identical images" in text and "0 and 1" in text
    assert "1 images have a single value: 7" in text
    with np.load(output) as saved:
        np.testing.assert_allclose(saved["l2_distance"], found.per_sample)
        assert saved["linf_nearest"].shape == (60,)
    for options, message in (
        ({"norms": "l3"}, "linf, l2, l1"),
        ({"samples": 1}, "at least 2"),
        ({"split": "x"}, "test"),
    ):
        with pytest.raises(UserError, match=message):
            distances(str(tmp_path / "noise.npz"), **({"norms": "l2", "samples": None, "split": "test"} | options))
