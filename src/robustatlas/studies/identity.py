"""Everything that determines the numbers of each step of a study, as one record, by which a folder is judged."""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from robustatlas.attacks.suites import PERCEPTUAL, requested_attacks, resolve_attacks
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.files import parse_path
from robustatlas.data import Dataset
from robustatlas.models.sources.local_files import features_file, hashes_of_files, sha256_of_file, source_files
from robustatlas.outcomes.base import digest
from robustatlas.studies.description import DataEntry, EvaluationEntry, Study
from robustatlas.studies.planning import Step, epochs_to_keep

Identity = dict[str, Any]
"""Plain data, as JSON gives it back."""

ImagesOf = Callable[[DataEntry, str], Dataset]
"""From an entry of data and "test" or "train"."""

_GROWS = {"models": ("kept",), "evaluations": ("attacks", "samples"), "references": ("samples",)}
"""Keys of an identity in which a step may differ from what was done and go on with it, by the kind of the step."""
_NAMES = {"label", "data", "models", "seeds", "trained_on", "epochs", "keep", "start", "extra"}
"""Keys of entries that are names in the file, or are resolved into other keys of the identity."""
_SHA256 = 64


class State(Enum):
    """The fate of a step, given what the folder holds of it; each value is its word in the sentence of the plan."""

    NEW = "new"
    REUSED = "Reused"
    CONTINUED = "continued, as the file asks for other samples or attacks"
    AGAIN = "done again, as the file has changed (what was there is kept in aside/)"
    REFUSED = "refused"


def step_state(kind: str, before: Identity, now: Identity, finished: bool) -> State:
    """Return what becomes of a step of some kind that was `before` and is asked for as `now`.

    Trainings and references are never replaced; of evaluations the numbers of other attacks and samples are kept.

    Example:
        >>> was, larger = {"samples": 10, "seed": 0}, {"samples": 20, "seed": 0}
        >>> [step_state("references", was, now, finished=True).name for now in (larger, {"seed": 1})]
        ['CONTINUED', 'REFUSED']
    """
    same = equal(_unchanging_part(kind, before), _unchanging_part(kind, now))
    if kind == "models":
        kept = set(now.get("kept", ())) <= set(before.get("kept", ()))
        return State.REFUSED if not (same and kept) else State.REUSED if finished else State.NEW
    if kind == "evaluations":
        was, asked = before.get("attacks", {}), now["attacks"]
        same = same and all(was[name] == asked[name] for name in was.keys() & asked.keys())
    if not same:
        return State.AGAIN if kind == "evaluations" else State.REFUSED
    if not finished:
        return State.NEW
    return State.REUSED if equal(before, now) else State.CONTINUED


def _unchanging_part(kind: str, identity: Identity) -> Identity:
    """Return the part of an identity in which a step must not differ."""
    return {key: value for key, value in identity.items() if key not in _GROWS[kind]}


def equal(before: Any, now: Any) -> bool:
    """Return whether two identities are equal where both are known; data that are not at hand are None."""
    return not differences(before, now)


def differences(before: Any, now: Any, place: str = "") -> list[str]:
    """Return a phrase for each difference.

    Example:
        >>> differences({"model": {"steps": 1}}, {"model": {"steps": 2}})
        ['model.steps: 1 there, 2 given']
    """
    if place.endswith("images") and None in (before, now):
        return []
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        found = []
        for key in dict.fromkeys([*now, *before]):
            found += differences(before.get(key), now.get(key), f"{place}.{key}".strip("."))
        return found
    if before == now:
        return []
    if all(isinstance(each, str) and len(each) == _SHA256 for each in (before, now)):
        return [f"{place}: its bytes have changed"]
    return [f"{place}: {shorten(repr(before))} there, {shorten(repr(now))} given"]


class Identities:
    """The identities of the steps of a study, each computed when it is first asked for.

    Args:
        study: as its file says it.
        load_images: loads images.
    """

    def __init__(self, study: Study, load_images: ImagesOf) -> None:
        self._study, self.load_images = study, load_images
        self._known: dict[str, Identity] = {}
        self._data: dict[str, Identity | None] = {}
        self._sha256_of = cache(sha256_of_file)

    def step_identity(self, step: Step) -> Identity:
        """Return the identity of a training, an evaluation or a reference.

        Raises:
            UserError: a file that it names is not there, or its data cannot be loaded.
        """
        if step.name not in self._known:
            kinds = {"models": self._training, "evaluations": self._evaluation, "references": self._reference}
            self._known[step.name] = json.loads(json.dumps(kinds[step.kind](step)))
        return self._known[step.name]

    def _training(self, step: Step) -> Identity:
        entry = self._study.models[step.entry]
        own = {key: value for key, value in entry.to_record().items() if key not in _NAMES}
        return {
            "model": own,
            "files": self._hashes([*source_files(entry.architecture or ""), *features_file(entry.features)]),
            "data": self._images(entry, "train"),
            "extra": None if entry.extra in (None, "none") else self._loaded(DataEntry(name=str(entry.extra)), "train"),
            "start": None if entry.start is None else self._model(entry.start, step.seed),
            "seed": step.seed,
            "kept": epochs_to_keep(entry),
        }

    def _model(self, name: str, seed: int | None, epoch: int | None = None) -> Identity:
        """Return what determines the answers of a model: of a training all that determines that."""
        entry = self._study.models[name]
        if entry.source is not None:
            files = self._hashes(source_files(entry.source))
            if entry.weights is not None:
                files |= {"weights": next(iter(self._hashes([parse_path(entry.weights)]).values()))}
            return {"source": entry.source, "arguments": entry.arguments, "files": files}
        trained = entry.of or name
        training = dict(self.step_identity(Step("models", trained, seed=self._study.matching_seed(trained, seed))))
        training.pop("kept")
        return {"training": training, "defense": entry.defense, "epoch": epoch}

    def _evaluation(self, step: Step) -> Identity:
        entry, model = self._study.evaluations[step.entry], self._study.models[step.model]
        taken = ("search", "protocol", "effort", "steps", "diagnose", "audit")
        seed = entry.seed if model.source is None or step.seed is None else step.seed
        return {
            "evaluation": {key: getattr(entry, key) for key in taken} | {"seed": seed},
            "model": self._model(step.model, step.seed, step.epoch),
            "data": self._images(entry, "test"),
            "attacks": self._attacks(entry),
            "samples": [self._study.data[self._study.data_name(entry)].samples, entry.samples],
        }

    def _reference(self, step: Step) -> Identity:
        entry = self._study.references[step.entry]
        own = {key: value for key, value in entry.to_record().items() if key not in (*_NAMES, "samples")}
        return {
            "reference": own,
            "files": self._hashes([*source_files(entry.architecture), *features_file(entry.features)]),
            "data": self._images(entry, "test"),
            "training": self._images(entry, "train"),
            "samples": [self._study.data[self._study.data_name(entry)].samples, entry.samples],
        }

    def _attacks(self, entry: EvaluationEntry) -> dict[str, Identity]:
        """Return the attacks of an evaluation by name: their strengths, and the bytes of the files that they need."""
        found: dict[str, Identity] = {}
        for name in entry.attacks:
            for attack in resolve_attacks(requested_attacks([name], entry.protocol, None), entry.protocol):
                features = features_file(entry.features) if attack.name == PERCEPTUAL else []
                if attack.name not in entry.exclude:
                    found[attack.name] = {
                        "strengths": list((entry.strengths or {}).get(attack.name, attack.strengths)),
                        "files": self._hashes([*_attack_file(name), *features]),
                    }
        return found

    def _hashes(self, files: Sequence[Path]) -> dict[str, str]:
        """Return the SHA-256 of the bytes of each file, by its name."""
        return hashes_of_files(files, self._sha256_of)

    def _images(self, entry: Any, split: str) -> Identity:
        data = self._study.data[self._study.data_name(entry)]
        return self._loaded(data, split)

    def _loaded(self, data: DataEntry, split: str) -> Identity:
        """Return the hashes of all images of a data set, of which fewer may be asked for; `images` is None where they
        are not at hand and the file gives a stand-in."""
        key = f"{data.model_dump_json()} {split}"
        if key not in self._data:
            self._data[key] = self._hashed(data, split)
        fewer = {"train_samples": data.train_samples} if split == "train" else {}
        return {"images": self._data[key], **fewer}

    def _hashed(self, data: DataEntry, split: str) -> Identity | None:
        try:
            found = self.load_images(data, split)
        except UserError:
            if data.stand_in is None:
                raise
            return None
        return {"name": found.name, "classes": digest(found.classes), **vars(found.fingerprint)}


def _attack_file(name: str) -> list[Path]:
    """Return the file of ``file.py:ATTACK``; attacks of the catalogue have none."""
    return [parse_path(name.rpartition(":")[0])] if ".py:" in name else []
