"""What was called otherwise in earlier versions is still understood, and shown nowhere."""

from pathlib import Path

import pytest
from typer.main import get_command

import robustatlas as ra
from robustatlas.cli import app
from robustatlas.cli._help import parameters_of
from robustatlas.cli._words import settled
from robustatlas.common.renamed import NOW
from robustatlas.metrics import AccuracyTable
from robustatlas.studies.reading import read_study

COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if hasattr(command, "params")])
def test_old_options_are_read_and_not_shown(name: str) -> None:
    parameters = COMMANDS[name].params
    known = {option for parameter in parameters for option in parameter.opts}
    for old, new in NOW.items():
        if f"--{new}" in known:
            assert (
                settled(parameters, [f"--{old}", "paper"])
                == [f"--{new}", "paper"]
                == settled(parameters, [f"--{new}=paper"])
            )
            with pytest.raises(ra.UserError, match=f"--{new} is given twice"):
                settled(parameters, [f"--{old}", "paper", f"--{new}", "default"])
    shown = [entry.name for entries in parameters_of(COMMANDS[name]).values() for entry in entries]
    assert not {f"--{old}" for old in NOW} & set(shown)


def test_some_command_has_such_an_option() -> None:
    assert [p for p in COMMANDS["evaluate"].params if "--protocol" in p.opts]


def test_old_keywords_are_read() -> None:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits").take(2)
    for name in ("procedure", "protocol"):
        with pytest.raises(ra.UserError, match="protocol='papers'"):
            ra.evaluate(model, data, "linf", progress=False, **{name: "papers"})  # type: ignore[arg-type]


def test_old_files_are_read(tmp_path: Path) -> None:
    old = AccuracyTable.from_dict({"clean": 90, "cells": {"linf": {"0.1": 50}}})
    assert old == AccuracyTable.from_dict({"clean": 90, "entries": {"linf": {"0.1": 50}}})
    text = """
title = "mine"
[data.digits]
name = "digits"
[models.linf]
source = "builtin:digits-linf"
data = "digits"
[evaluations.main]
attacks = ["linf"]
protocol = "default"
[size.small.evaluations.main]
procedure = "paper"
"""
    (tmp_path / "mine.toml").write_text(text)
    assert read_study(tmp_path / "mine.toml").evaluations["main"].protocol == "paper"
