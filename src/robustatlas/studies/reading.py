"""The file of a study read and checked: every mistake is one sentence that names the key."""

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from robustatlas.attacks.catalogue import attack_named
from robustatlas.attacks.suites import requested_attacks, resolve_attacks
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


def shipped_studies() -> dict[str, str]:
    """Return the studies that come with robustatlas: name -> the title in the first line of its file.

    Example:
        >>> list(shipped_studies())
        ['hypervolume', 'multirobustbench', 'robustness-curves', 'uar']
    """
    folder = files("robustatlas.studies") / "files"
    found = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {file.name[:-5]: file.read_text(encoding="utf-8").split("\n")[0].lstrip("# ") for file in found}


def study_text(file: str | Path) -> tuple[str, str]:
    """Return the name of a study and the text of its file, which is a path or the name of one of robustatlas.

    Raises:
        UserError: there is none.
    """
    known = shipped_studies()
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
        >>> read_study("uar", "tiny").evaluated_models("main")[:2]
        ('normal', 'linf')
    """
    name, text = study_text(file)
    where = f"study {name}"
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where} is not TOML: {error}.") from error
    study = validate(TypeAdapter(Study), document_at_size(document, size, where) | {"name": name}, where)
    study = study.model_copy(update={"outputs": _outputs(study, where)})
    _check(study, where)
    return study


@dataclass(frozen=True)
class _SizeChange:
    """The changes that a size makes to the document of a study.

    Attributes:
        size: its name.
        removed: patterns of the entries that it leaves out, such as "models.in-*".
        sections: section -> entry -> the keys that it gives anew; of "training" the keys themselves.
        differs: in what this size is not as in the paper.
    """

    size: str
    removed: Sequence[str]
    sections: Mapping[str, Mapping[str, Any]]
    differs: Sequence[str]


def document_at_size(document: Mapping[str, Any], size: str | None, where: str) -> dict[str, Any]:
    """Return the document of a study at one of its sizes.

    Entries are removed first, then the size's own are merged, and last every training gets the keys of ``training``
    that it lacks. In this order a size can remove an entry and give another one under the same name, and what it says
    in ``training`` reaches all of its models.

    Args:
        document: as the file has it, with the table ``size``.
        size: the name of a size, None for the usual one; a file without sizes is returned as it is.
        where: the name of the study in messages.

    Raises:
        UserError: no such size, or a mistake in it.
    """
    entries = {key: value for key, value in document.items() if key != "size"}
    sizes = document.get("size", {})
    _check_tables({**entries, "size": sizes}, where)
    if not sizes and size is None:
        return _complete_trainings(entries)
    change = _size_change(sizes, USUAL if size is None else size, where)
    merged = _merge_change(_remove_entries(entries, change, where), change, where)
    removed_models = set(entries.get("models", {})) - set(merged.get("models", {}))
    for section in ("evaluations", "outputs"):
        named_entries = merged.get(section, {})
        merged[section] = {name: _remove_models(entry, removed_models) for name, entry in named_entries.items()}
    return _complete_trainings(merged) | {"size": change.size, "differs": change.differs}


def _size_change(sizes: Mapping[str, Mapping[str, Any]], size: str, where: str) -> _SizeChange:
    if size not in sizes:
        known = f"the sizes of {where} are {join_words(list(sizes))}" if sizes else f"{where} has no sizes"
        raise unknown_name_error("size", size, sizes, known)
    sections = {key: value for key, value in sizes[size].items() if key not in ("without", "differs")}
    return _SizeChange(size, sizes[size].get("without", []), sections, sizes[size].get("differs", []))


def _remove_entries(document: Mapping[str, Any], change: _SizeChange, where: str) -> dict[str, Any]:
    """Return the document without the entries that a size removes; a pattern that matches no entry is a mistake."""
    kept = dict(document)
    for pattern in change.removed:
        section, _, name = str(pattern).partition(".")
        before = kept.get(section, {})
        after = {key: entry for key, entry in before.items() if not fnmatchcase(key, name)}
        if len(after) == len(before):
            raise UserError(f"size.{change.size}.without of {where} names {pattern!r}, which is not there.")
        kept[section] = after
    return kept


def _merge_change(document: Mapping[str, Any], change: _SizeChange, where: str) -> dict[str, Any]:
    """Return the document with the keys that a size gives in place of the file's; each key is replaced as a whole."""
    merged = dict(document)
    for section, given in change.sections.items():
        if section == "training":
            merged[section] = {**document.get(section, {}), **given}
        elif section in _SECTIONS:
            merged[section] = _merge_entries(document.get(section, {}), given)
        else:
            raise UserError(f"size.{change.size}.{section} of {where} is not known; a misspelt entry?")
    return merged


def _merge_entries(section: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a section with the keys that are given anew."""
    merged = {name: {**section.get(name, {}), **entry} for name, entry in given.items()}
    for name, entry in merged.items():
        # A stand-in has the shape of the file's data set, and not that of another one.
        if "name" in given[name] and "stand_in" not in given[name]:
            entry.pop("stand_in", None)
    return {**section, **merged}


def _remove_models(entry: Mapping[str, Any], removed: Collection[str]) -> dict[str, Any]:
    """Return an evaluation or output that no longer names the removed models."""
    models = entry.get("models")
    return {**entry, **({"models": [m for m in models if m not in removed]} if isinstance(models, list) else {})}


def _check_tables(document: Mapping[str, Any], where: str) -> None:
    """Raise where a section, or an entry in it, is not a table."""
    for section in (*_SECTIONS, "size"):
        entries = document.get(section, {})
        for place, value in {section: entries, **_entries_by_place(section, entries)}.items():
            if not isinstance(value, Mapping):
                raise UserError(f"{place} of {where} is {value!r}; expected a table, [{place}].")
    for size, value in document["size"].items():
        for section in _SECTIONS:
            for place, entry in _entries_by_place(f"size.{size}.{section}", value.get(section, {})).items():
                if not isinstance(entry, Mapping):
                    raise UserError(f"{place} of {where} is {entry!r}; expected a table, [{place}].")


def _entries_by_place(section: str, entries: Any) -> dict[str, Any]:
    return {f"{section}.{name}": entry for name, entry in entries.items()} if isinstance(entries, Mapping) else {}


def _complete_trainings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document in which each training has the keys of the section ``training`` that it lacks."""
    common, models = given.get("training", {}), {}
    for name, entry in given.get("models", {}).items():
        trained = "source" not in entry and "of" not in entry
        shared = {key: value for key, value in common.items() if _INSTEAD.get(key) not in entry}
        joined = {key: {**common.get(key, {}), **entry.get(key, {})} for key in ("settings",) if key in common}
        models[name] = {**shared, **entry, **joined} if trained else dict(entry)
    return {**{key: value for key, value in given.items() if key != "training"}, "models": models}


def _outputs(study: Study, where: str) -> dict[str, Any]:
    """Return each output, checked by its kind."""
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
        with _prefix_errors(f"evaluations.{name}.attacks of {where}"):
            resolve_attacks(requested_attacks(evaluation.attacks, evaluation.protocol, None), evaluation.protocol)
    for name, output in study.outputs.items():
        output.check(study, f"outputs.{name} of {where}")


def _check_model(study: Study, model: ModelEntry, place: str) -> None:
    for key in ("start", "of"):
        if (other := getattr(model, key)) is not None:
            check_known(other, study.models, f"{place}.{key}")
    if model.of is not None and not study.models[model.of].trained:
        raise UserError(f"{place} is of {model.of}, which is not trained here; give source = 'defended:...,SOURCE'.")
    with _prefix_errors(f"{place}.defense"):
        transformations(model.defense) if model.defense is not None else None
    if model.trained:
        check_settings(model.settings, f"{place}.settings: ")
        if model.recipe is not None and model.preset is not None:
            raise UserError(f"{place} has a recipe and a preset; give one of them.")
        with _prefix_errors(place):
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
def _prefix_errors(place: str) -> Iterator[None]:
    """Begin the message of a `UserError` that is raised inside with a place in the file."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error
