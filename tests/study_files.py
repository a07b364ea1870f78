"""A small study, as a file that tests change in places."""

from pathlib import Path

SMALL = """
title = "A small study"

[data.digits]
name = "digits"
samples = 12
train_samples = 200

[training]
architecture = "digits-cnn"
settings = { epochs = 1, batch_size = 50, learning_rate = 0.02, held_out = 0 }

[models.plain]
recipe = "standard"
seeds = 2
[models.linf]
recipe = "pgd"
against = { linf = 0.1 }
steps = 1
seeds = [3, 4]
[models.bits]
of = "plain"
defense = "bits=3"

[evaluations.main]
attacks = ["linf"]
strengths = { linf = "0.2:2" }
effort = "low"
diagnose = false
audit = 0

[outputs.scores]
kind = "scores"
numbers = ["clean", "linf@0.1", "average"]

[outputs.tests]
kind = "tests-between-groups"
models = ["linf"]
first = "plain"
numbers = ["linf@0.1"]

[size.other]
differs = ["one more strength"]
without = ["models.bits"]
[size.other.evaluations.main]
strengths = { linf = "0.3:3" }
"""


def written(folder: Path, text: str = SMALL, *changes: tuple[str, str]) -> Path:
    """The file of a study, changed in places."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return file


def without_sizes(text: str) -> str:
    return text[: text.index("[size.other]")]
