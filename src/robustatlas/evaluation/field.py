"""The evaluation of many models by the same attacks on the same data, each in a run of its own."""

import argparse
import gc
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.files import parse_path, read_text
from robustatlas.common.scalars import parse_fraction
from robustatlas.common.wording import safe_file_name
from robustatlas.evaluation.auditing import evaluated_and_audited
from robustatlas.evaluation.forecast import Forecast, forecasted
from robustatlas.evaluation.request import Data, Request
from robustatlas.evaluation.throughput import DeviceThroughput
from robustatlas.models.classifier import Classifier
from robustatlas.models.loading import load_model
from robustatlas.models.settings import parse_settings
from robustatlas.results.result import Result

_GRAMMAR = "SOURCE [--name NAME] [--weights FILE] [--mean NUMBERS] [--std NUMBERS] [--set NAME=VALUE]..."


@dataclass(frozen=True)
class FieldModel:
    """One model of a field.

    Attributes:
        name: of its run, and what tables call it.
        source: as of :func:`robustatlas.load_model`.
        options: further arguments of that function.

    Example:
        >>> FieldModel("mine", "builtin:digits-linf").load("cpu").name
        'mine'
    """

    name: str
    source: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def load(self, device: str | None = None) -> Classifier:
        """The model, ready."""
        return load_model(self.source, name=self.name, device=device, **self.options)

    def run(self, store: str | Path) -> Path:
        """Its run in the folder, or at the address, of all."""
        return parse_path(store) / self.name


@dataclass(frozen=True)
class FieldOutcome:
    """Result, failure or forecast of one model.

    Attributes:
        entry: which one.
        result: of its run, or ``None`` where it failed or was only asked for its forecast.
        forecast: what it will take, where that was asked for.
        failure: why it failed, in a sentence.
        seconds: that it took.
    """

    entry: FieldModel
    result: Result | None = None
    forecast: Forecast | None = None
    failure: str | None = None
    seconds: float = 0.0


def read_field(path: str | Path) -> list[FieldModel]:
    """The models that a file lists.

    Args:
        path: a text file; each line is what stands behind ``robustatlas evaluate`` for that model: its source and,
            where it takes any, ``--name``, ``--weights``, ``--mean``, ``--std`` and ``--set``. Empty lines and what
            follows a ``#`` are passed over. A name is that of the source where none is given.

    Returns:
        one entry for each model, in the order of the file.

    Raises:
        UserError: no such file, a line that is not understood, two models of one name, or no models.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        ...     _ = file.write("builtin:digits-linf\\nnet.py:make --set depth=3 --name deep  # ours")
        ...     file.flush()
        ...     [(entry.name, entry.options) for entry in read_field(file.name)]
        [('builtin-digits-linf', {}), ('deep', {'arguments': {'depth': 3}})]
    """
    file = parse_path(path, "a file that lists models")
    try:
        lines = read_text(file).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read ({error}); give a text file with a model a line.") from error
    words = {f"{file}, line {number}": shlex.split(line, comments=True) for number, line in enumerate(lines, 1)}
    entries = [_entry(said, place) for place, said in words.items() if said]
    if not entries:
        raise UserError(f"{file} lists no models; expected one a line: {_GRAMMAR}.")
    names = [entry.name for entry in entries]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{file} has two models called {twice!r}; give each a --name of its own.")
    return entries


def evaluate_field(
    field: Sequence[FieldModel],
    data: Data | Callable[[Classifier], Data],
    store: str | Path,
    request: Request,
    *,
    device: str | None = None,
    begin: Callable[[FieldModel], None] = lambda entry: None,
) -> Iterator[FieldOutcome]:
    """Evaluate models one after the other; one that fails does not keep the others from being evaluated.

    Args:
        field: the models.
        data: as of :func:`robustatlas.evaluate`, or what makes it of a model.
        store: the folder, or the address in a store of objects, that has a run of each model by its name. What is in
            these runs is not computed again.
        request: what is asked of each.
        device: where models compute; default: where their sources put them.
        begin: is told of each model before it is loaded.

    Yields:
        what became of each model, as soon as it is done.

    Example:
        >>> field = [FieldModel("one", "builtin:digits-linf"), FieldModel("none", "builtin:digits-lin")]
        >>> import tempfile, robustatlas as ra
        >>> request = Request(attacks="linf", strengths={"linf": [0.1]}, samples=3, progress=False)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     done = list(evaluate_field(field, ra.load_dataset("digits"), folder, request))
        >>> done[0].result.samples, done[1].failure
        (3, "There is no built-in model 'digits-lin'; ...")
    """
    return _run_each(field, data, store, request, device, begin, _evaluated)


def forecast_field(
    field: Sequence[FieldModel],
    data: Data | Callable[[Classifier], Data],
    store: str | Path,
    request: Request,
    *,
    device: str | None = None,
    begin: Callable[[FieldModel], None] = lambda entry: None,
    budget: float = 5.0,
    device_throughput: str | None = None,
) -> Iterator[FieldOutcome]:
    """Forecast what each model lacks and will take; nothing is written.

    Args:
        field, data, store, request, device, begin: as of :func:`evaluate_field`.
        budget: seconds that each attack of each model is tried for.
        device_throughput: as of :func:`robustatlas.evaluation.forecast`, instead of these trials.

    Yields:
        the forecast of each model.
    """
    throughput = DeviceThroughput.parse_optional(device_throughput)

    def forecast(model: Classifier, rows: Data, asked: Request) -> dict[str, Any]:
        return {"forecast": forecasted(model, rows, asked, budget, throughput)}

    return _run_each(field, data, store, request, device, begin, forecast)


def _evaluated(model: Classifier, rows: Data, asked: Request) -> dict[str, Any]:
    return {"result": evaluated_and_audited(model, rows, asked)}


def _run_each(
    field: Sequence[FieldModel],
    data: Data | Callable[[Classifier], Data],
    store: str | Path,
    request: Request,
    device: str | None,
    begin: Callable[[FieldModel], None],
    do: Callable[[Classifier, Data, Request], dict[str, Any]],
) -> Iterator[FieldOutcome]:
    for entry in field:
        begin(entry)
        begun = time.perf_counter()
        try:
            model = entry.load(device)
            rows = data(model) if callable(data) else data
            done = FieldOutcome(entry, **do(model, rows, replace(request, run=entry.run(store))))
        except UserError as error:
            done = FieldOutcome(entry, failure=str(error))
        except Exception as error:  # of whatever a model does
            done = FieldOutcome(entry, failure=f"{first_line(error)}.")
        yield replace(done, seconds=time.perf_counter() - begun)
        model = rows = done = None  # type: ignore[assignment]
        gc.collect()  # the next one may need the memory of this one


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def _entry(words: list[str], place: str) -> FieldModel:
    parser = _Parser(prog="", add_help=False, allow_abbrev=False)
    parser.add_argument("source")
    for option in ("--name", "--weights", "--mean", "--std"):
        parser.add_argument(option)
    parser.add_argument("--set", action="append", default=[])
    try:
        said = parser.parse_args(words)
        options: dict[str, Any] = {"weights": said.weights}
        options |= {name: _statistic(getattr(said, name)) for name in ("mean", "std")}
        options["arguments"] = parse_settings(said.set)
    except UserError as error:
        raise UserError(f"{place} is not understood ({str(error).rstrip('.')}); expected {_GRAMMAR}.") from error
    stem = f"{said.source}-{Path(said.weights).stem}" if said.weights else said.source
    return FieldModel(
        safe_file_name(said.name or stem), said.source, {name: value for name, value in options.items() if value}
    )


def _statistic(given: str | None) -> float | tuple[float, ...] | None:
    values = tuple(parse_fraction(value) for value in given.split(",")) if given else ()
    return values if len(values) > 1 else next(iter(values), None)
