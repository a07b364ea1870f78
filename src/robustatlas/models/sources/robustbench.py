"""``robustbench:ID``: the defenses of RobustBench, such as ``robustbench:Carmon2019Unlabeled``."""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.common.wording import suggestion
from robustatlas.models.classifier import Classifier, Origin
from robustatlas.models.sources.packages import optional, version_of
from robustatlas.models.weights import load_weights

_DEFAULT = ("cifar10", "Linf")


def robustbench_model(name: str, *, pretrained: bool = True, folder: str = "models") -> Classifier:
    """A defense by RobustBench's own definition, which normalises by itself.

    Args:
        name: ``ID`` (CIFAR-10, Linf) or ``DATASET/THREAT/ID``, such as ``cifar100/L2/...``.
        pretrained: with the published weights, kept as ``FOLDER/DATASET/THREAT/ID.pt``; otherwise random ones.
        folder: where RobustBench keeps its weights.
    """
    source = f"robustbench:{name}"
    with _autoattack_by_either_name():
        zoo = optional("robustbench.model_zoo.models", source, "robustbench").model_dicts
    kinds = {
        (dataset.value, threat.value): known for dataset, of_data in zoo.items() for threat, known in of_data.items()
    }
    *place, identifier = name.split("/")
    key = tuple(place) or _DEFAULT
    if key not in kinds:
        raise UserError(
            f"RobustBench has no models for {'/'.join(place)!r}; expected ID or DATASET/THREAT/ID with "
            f"{', '.join('/'.join(kind) for kind in kinds)}."
        )
    known = kinds[key]
    if identifier not in known:
        there = suggestion(identifier, known, f"it has {len(known)}, such as {next(iter(known))}")
        raise UserError(f"RobustBench has no model {identifier!r} for {'/'.join(key)}{there}")
    net = known[identifier]["model"]()
    notes: tuple[str, ...] = ()
    file = parse_path(folder).joinpath(*key, f"{identifier}.pt")
    if pretrained:
        if not file.is_file():
            raise UserError(
                f"The weights of {source!r} are not at {file}; fetch them with robustbench.utils.load_model("
                f"{identifier!r}, {folder!r}, {key[0]!r}, {key[1]!r}), name another folder (--set folder=...), or give "
                "a file of weights (--weights)."
            )
        notes = load_weights(net, file).notes
    return Classifier(
        net,
        origin=Origin(
            source,
            home=str(file.resolve()) if pretrained else None,
            library=version_of("robustbench"),
            notes=notes,
        ),
    )


@contextmanager
def _autoattack_by_either_name() -> Iterator[None]:
    """RobustBench's package declares pyautoattack, and imports it as autoattack, as its repository calls it."""
    aliases = {}
    if importlib.util.find_spec("autoattack") is None and importlib.util.find_spec("pyautoattack") is not None:
        aliases = {name: importlib.import_module(f"py{name}") for name in ("autoattack", "autoattack.state")}
    sys.modules.update(aliases)
    try:
        yield
    finally:
        for name in aliases:
            del sys.modules[name]
