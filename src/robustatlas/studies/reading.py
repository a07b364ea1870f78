"""The file of a study read and checked: every mistake is one sentence that names the key."""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.suites import attacks_of
from robustatlas.attacks.wanted import requested_attacks
from robustatlas.common.documents import validate
from robustatlas.common.errors import UserError, unknown_name_error
from robustatlas.common.files import parse_path, read_text
from robustatlas.common.wording import join_words
from robustatlas.models.sources.defended import transformations
from robustatlas.studies.description import ModelEntry, Study, check_known
from robustatlas.studies.outputs import OUTPUTS
from robustatlas.training.presets import preset_named
from robustatlas.training.recipes import check_options
from robustatlas.training.request import check_settings

USUAL = "small"
"""The size of a file with sizes where none is asked for."""

_INSTEAD = {"recipe": "preset", "preset": "recipe"}
_SECTIONS = ("data", "models", "evaluations", "references", "outputs")


def shipped() -> dict[str, str]:
    """The studies that come with robustatlas: name -> what the first line of its file says.

    Example:
        >>> list(shipped())
        ['hypervolume', 'multirobustbench', 'robustness-curves', 'uar']
    """
    folder = files("robustatlas.studies") / "files"
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {file.name[:-5]: file.read_text(encoding="utf-8").split("\n")[0].lstrip("# ") for file in found}


def text_of(file: str | Path) -> tuple[str, str]:
    """The name of a study and the text of its file: a path, or the name of one that comes with robustatlas.

    Raises:
        UserError: there is none.
    """
    known = shipped()
    if str(file) in known:
        return str(file), (files("robustatlas.studies") / "files" / f"{file}.toml").read_text(encoding="utf-8")
    path = parse_path(file, "the file of a study, or the name of one")
    try:
        return path.stem, read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise unknown_name_error(
            "study", str(file), known, f"give a file, or one of {join_words(list(known))}"
        ) from error


def read_study(file: str | Path, size: str | None = None) -> Study:
    """Read and check the file of a study.

    Args:
        file: a path, or the name of one that comes with robustatlas.
        size: one of the sizes in it; by default "small".

    Returns:
        the study at that size.

    Raises:
        UserError: no such file or size, or a mistake in it, which is named.

    Example:
        >>> read_study("uar", "tiny").evaluated("main")[:2]
        ('normal', 'linf')
    """
    name, text = text_of(file)
    where = f"study {name}"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where} is not TOML: {error}.") from error
    study = validate(TypeAdapter(Study), at_size(document, size, where) | {"name": name}, where)
    study = study.model_copy(update={"outputs": _outputs(study, where)})
    _check(study, where)
    return study


def at_size(document: Mapping[str, Any], size: str | None, where: str) -> dict[str, Any]:
    """What the file says at one of its sizes. A key of an entry that a size gives counts in place of the file's, whole.
    What a size leaves ``without`` is not there, nor named by others, unless the size gives it anew. ``training`` gives
    what models do not say themselves."""
    given = {key: value for key, value in document.items() if key != "size"}
    sizes = document.get("size", {})
    _tables({**given, "size": sizes}, where)
    if not sizes and size is None:
        return _with_trainings(given)
    chosen = USUAL if size is None else size
    if chosen not in sizes:
        there = f"the sizes of {where} are {join_words(list(sizes))}" if sizes else f"{where} has no sizes"
        raise unknown_name_error("size", chosen, sizes, there)
    other = dict(sizes[chosen])
    without, differs = other.pop("without", []), other.pop("differs", [])
    models = set(given.get("models", {}))
    for pattern in without:
        section, _, name = str(pattern).partition(".")
        kept = {key: entry for key, entry in given.get(section, {}).items() if not fnmatchcase(key, name)}
        if len(kept) == len(given.get(section, {})):
            raise UserError(f"size.{chosen}.without of {where} names {pattern!r}, which is not there.")
        given[section] = kept
    for key, value in other.items():
        if key not in (*_SECTIONS, "training"):
            raise UserError(f"size.{chosen}.{key} of {where} is not known; a misspelt entry?")
        given[key] = {**given.get(key, {}), **value} if key == "training" else _merged(given.get(key, {}), value)
    gone = models - set(given.get("models", {}))
    for section in ("evaluations", "outputs"):
        given[section] = {name: _left(entry, gone) for name, entry in given.get(section, {}).items()}
    return _with_trainings(given) | {"size": chosen, "differs": differs}


def _left(entry: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """An evaluation or output without the models that a size leaves out."""
    models = entry.get("models")
    return {**entry, **({"models": [m for m in models if m not in gone]} if isinstance(models, list) else {})}


def _merged(section: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Entries with the keys that a size gives anew; a stand-in is no longer one where data have another name."""
    joined = {name: {**section.get(name, {}), **entry} for name, entry in other.items()}
    for name, entry in joined.items():
        if "name" in other[name] and "stand_in" not in other[name]:
            entry.pop("stand_in", None)
    return {**section, **joined}


def _tables(document: Mapping[str, Any], where: str) -> None:
    """Raise where a section, or an entry in it, is not a table."""
    for section in (*_SECTIONS, "size"):
        entries = document.get(section, {})
        for place, value in {section: entries, **_named_in(section, entries)}.items():
            if not isinstance(value, Mapping):
                raise UserError(f"{place} of {where} is {value!r}; expected a table, [{place}].")
    for size, value in document["size"].items():
        for section in _SECTIONS:
            for place, entry in _named_in(f"size.{size}.{section}", value.get(section, {})).items():
                if not isinstance(entry, Mapping):
                    raise UserError(f"{place} of {where} is {entry!r}; expected a table, [{place}].")


def _named_in(section: str, entries: Any) -> dict[str, Any]:
    return {f"{section}.{name}": entry for name, entry in entries.items()} if isinstance(entries, Mapping) else {}


def _with_trainings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The document whose trainings say themselves what the section ``training`` says for all."""
    common, models = given.get("training", {}), {}
    for name, entry in given.get("models", {}).items():
        trained = "source" not in entry and "of" not in entry
        shared = {key: value for key, value in common.items() if _INSTEAD.get(key) not in entry}
        joined = {key: {**common.get(key, {}), **entry.get(key, {})} for key in ("settings",) if key in common}
        models[name] = {**shared, **entry, **joined} if trained else dict(entry)
    return {**{key: value for key, value in given.items() if key != "training"}, "models": models}


def _outputs(study: Study, where: str) -> dict[str, Any]:
    """Each output as its kind understands it."""
    found = {}
    for name, entry in study.outputs.items():
        kind = entry.get("kind")
        if kind is None:
            raise UserError(f"outputs.{name} of {where} has no kind; there are {', '.join(OUTPUTS)}.")
        if kind not in OUTPUTS:
            raise UserError(f"outputs.{name}.kind of {where}: {OUTPUTS.unknown_name_error(kind)}")
        rest = {key: value for key, value in entry.items() if key != "kind"}
        found[name] = validate(TypeAdapter(OUTPUTS[kind]), rest, f"outputs.{name} of {where}")
    return found


def _check(study: Study, where: str) -> None:
    """Raise where an entry names another that is not there, or settings that nobody knows."""
    if not study.data:
        raise UserError(f"{where} has no data; give a table such as [data.digits].")
    for section in _SECTIONS[:-1]:
        for name, entry in getattr(study, section).items():
            if (data := getattr(entry, "data", None)) is not None:
                check_known(data, study.data, f"{section}.{name}.data of {where}")
    for name, model in study.models.items():
        _check_model(study, model, f"models.{name}")
        _check_chain(study, name, where)
    for name, evaluation in study.evaluations.items():
        for evaluated in evaluation.models or ():
            check_known(evaluated, study.models, f"evaluations.{name}.models of {where}")
        with _placed(f"evaluations.{name}.attacks of {where}"):
            attacks_of(requested_attacks(evaluation.attacks, evaluation.protocol, None), evaluation.protocol)
    for name, output in study.outputs.items():
        output.check(study, f"outputs.{name} of {where}")


def _check_model(study: Study, model: ModelEntry, place: str) -> None:
    for key in ("start", "of"):
        if (other := getattr(model, key)) is not None:
            check_known(other, study.models, f"{place}.{key}")
    if model.of is not None and not study.models[model.of].trained:
        raise UserError(f"{place} is of {model.of}, which is not trained here; give source = 'defended:...,SOURCE'.")
    with _placed(f"{place}.defense"):
        transformations(model.defense) if model.defense is not None else None
    if model.trained:
        check_settings(model.settings, f"{place}.settings: ")
        if model.recipe is not None and model.preset is not None:
            raise UserError(f"{place} has a recipe and a preset; give one of them.")
        with _placed(place):
            check_options(
                preset_named(model.preset).kind if model.preset else model.recipe or "standard", model.options
            )
            for attack in model.against or ():
                attack_named(attack)


def _check_chain(study: Study, name: str, where: str) -> None:
    """Raise where models begin with each other's weights in a circle."""
    chain = [name]
    while (before := study.models[chain[-1]].start or study.models[chain[-1]].of) is not None:
        if before in chain:
            circle = " -> ".join([*chain[chain.index(before) :], before])
            raise UserError(f"models of {where} wait for each other in a circle: {circle}.")
        if before not in study.models:
            return  # told by its own check
        chain.append(before)


@contextmanager
def _placed(place: str) -> Iterator[None]:
    """What is raised inside says where."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error
