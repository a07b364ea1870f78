"""Optimality of attacks, by the smallest examples known: ours beside those of other libraries, on the same samples.

AttackBench's measure (Cinà et al. 2025): 1 where no attack of the run found anything smaller, 0 where nothing was
found. Best known are the smallest examples of all attacks of the run. Everybody's passes are counted by the model, and
everybody's examples are verified, by this library. Beside it: optimality against the union of the peers alone and the
attack itself.

    python benchmarks/optimality.py [--subjects mnist,digits-linf] [--norms linf,l2,l1,l0] [--samples 50] [--first 0]
        [--only ours,adv-lib] [--limit SECONDS] [--output FILE.json] [--kept FOLDER]

Takes the small MNIST network where ROBUSTATLAS_MODELS and ROBUSTATLAS_DATA have it, the built-in networks for digits,
and any model that `robustatlas evaluate` takes, as NAME=MODEL@DATA. Libraries that are not installed are left out;
adv-lib, foolbox, torchattacks and pyautoattack are known. A contender that raises, or takes longer than the limit,
stays in the results with the reason. With --kept, what a contender found stays in the folder, and a benchmark that was
stopped goes on there.
"""

import argparse
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.attacks.definition import Attack, grid
from robustatlas.metrics import RobustnessCurve, envelope, local_optimality
from robustatlas.models.architectures import small_cnn
from robustatlas.models.weights import load_weights

NORMS = {"linf": torch.inf, "l2": 2.0, "l1": 1.0, "l0": 0.0}
STRENGTHS = {"linf": grid(0.3), "l2": grid(4.0), "l1": grid(30.0), "l0": grid(40.0)}
PACKAGES = {"adv-lib": "adv_lib", "foolbox": "foolbox", "torchattacks": "torchattacks", "pyautoattack": "pyautoattack"}
BUDGET = 2000
"""Passes a sample that AttackBench allows."""


@dataclass(frozen=True)
class Contender:
    """One attack in one norm; ``settings`` are those of :func:`robustatlas.evaluate`."""

    library: str
    name: str
    attack: str | Attack
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Subject:
    """A model and the samples that it is attacked at."""

    name: str
    model: ra.Classifier
    data: ra.Dataset


def subject(name: str, first: int, samples: int) -> Subject:
    given = name
    if name == "mnist":
        net = small_cnn()
        load_weights(net, Path(os.environ["ROBUSTATLAS_MODELS"]) / "mnist_mmr_universal.safetensors")
        model, data = ra.Classifier(net.eval(), name=name), ra.load_dataset("mnist")
    elif name.startswith("digits"):
        model, data = ra.load_model(f"builtin:{name}"), ra.load_dataset("digits")
    else:
        name, _, rest = given.partition("=")
        source, _, held = rest.rpartition("@")
        model, data = ra.load_model(source, name=name), ra.load_dataset(held)
    index = torch.arange(first, first + samples)
    return Subject(name, model, ra.Dataset.of_rows(data.rows.chosen(index), data.labels[index], name=data.name))


def ours(norm: str) -> Iterator[Contender]:
    for effort in ("low", "default", "high"):
        yield Contender("robustatlas", f"descent, {effort}", norm, {"effort": effort})
    yield Contender("robustatlas", "minimum, default", norm, {"search": "minimum"})
    published = {"linf": ("fmn-linf", "fab-linf"), "l2": ("fmn-l2", "cw-l2"), "l1": ("fmn-l1", "ead-l1")}
    for name in published.get(norm, ("sigma-zero",)):
        yield Contender("robustatlas", name, name, {})


def adv_lib_contenders(norm: str) -> Iterator[Contender]:
    attacks: Any = import_module("adv_lib.attacks")
    p, apgd = NORMS[norm], import_module("adv_lib.attacks.auto_pgd").minimal_apgd

    def contender(name: str, call: Any, **settings: Any) -> Contender:
        return Contender("adv-lib", name, ra.external(call, norm, **settings), {})

    def minimal_apgd(model: nn.Module, x: Tensor, labels: Tensor) -> Any:
        limit = {"linf": 1.0, "l2": 10.0}[norm]
        return apgd(model, x, labels, p, limit, binary_search_steps=10, n_iter=100, use_rs=True)

    for steps in (100, 1000):
        yield contender(f"FMN {steps}", attacks.fmn, steps=steps)
    if norm in ("linf", "l2"):
        yield contender("minimal APGD 10 x 100", minimal_apgd)
    yield contender("PDPGD 500", attacks.pdpgd, num_steps=500)
    if norm == "l2":
        for steps in (100, 1000):
            yield contender(f"DDN {steps}", attacks.ddn, steps=steps, levels=None)
        yield contender("PDGD 500", attacks.pdgd, num_steps=500)
        yield contender("SuperDeepFool", attacks.sdf)
    if norm in ("l2", "linf"):
        yield contender("TR 200", attacks.tr, iter=200, p=p)
    if norm in ("l2", "l1"):
        yield contender("ALMA 1000", attacks.alma, distance=norm, init_lr_distance={"l2": 0.1, "l1": 0.5}[norm])
    if norm == "l0":
        yield contender("sigma-zero 1000", attacks.sigma_zero, num_steps=1000)
        yield contender("VFGA", attacks.vfga, targeted=False)


def foolbox_contenders(norm: str) -> Iterator[Contender]:
    attacks: Any = import_module("foolbox.attacks")
    kinds = {
        "linf": {"FMN 100": attacks.LInfFMNAttack(steps=100), "DeepFool": attacks.LinfDeepFoolAttack()},
        "l2": {"DDN 100": attacks.DDNAttack(steps=100), "FMN 100": attacks.L2FMNAttack(steps=100)},
        "l1": {"FMN 100": attacks.L1FMNAttack(steps=100), "EAD 5 x 100": attacks.EADAttack(5, 100, 0.01)},
        "l0": {"FMN 100": attacks.L0FMNAttack(steps=100)},
    }
    for name, attack in kinds[norm].items():
        yield Contender("foolbox", name, ra.external(attack, norm), {})


def torchattacks_contenders(norm: str) -> Iterator[Contender]:
    attacks: Any = import_module("torchattacks")

    def apgd_t(model: nn.Module, x: Tensor, labels: Tensor, eps: float) -> Any:
        kind: Any = import_module("torchattacks").APGDT
        return kind(model, norm={"linf": "Linf", "l2": "L2"}[norm], eps=eps, steps=20, n_classes=10)(x, labels)

    if norm in ("linf", "l2"):
        yield Contender("torchattacks", "APGDT 9 x 20, bisection", ra.external(apgd_t, norm), {"search": "bisection"})
    if norm == "l2":
        yield Contender("torchattacks", "DeepFool", ra.external(attacks.DeepFool, norm), {})
        yield Contender("torchattacks", "CW 200", ra.external(attacks.CW, norm, c=10, steps=200, lr=0.05), {})


def pyautoattack_contenders(norm: str) -> Iterator[Contender]:
    names = {"linf": "Linf", "l2": "L2"}
    if norm not in names:
        return

    def apgd_and_fab(model: nn.Module, x: Tensor, labels: Tensor, eps: float) -> Tensor:
        auto: Any = import_module("pyautoattack").AutoAttack
        attack = auto(model, norm=names[norm], eps=eps, version="standard", seed=0, device="cpu")
        attack.verbose, attack.attacks_to_run = False, ["apgd-t", "fab-t"]
        found: Tensor = attack.run_standard_evaluation(x, labels, batch_size=len(x))[0]
        return found

    attack = ra.external(apgd_and_fab, norm, name="apgd-fab")
    yield Contender("pyautoattack", "APGD-T and FAB-T, bisection", attack, {"search": "bisection"})


LIBRARIES: Mapping[str, Callable[[str], Iterator[Contender]]] = {
    "ours": ours,
    "adv-lib": adv_lib_contenders,
    "foolbox": foolbox_contenders,
    "torchattacks": torchattacks_contenders,
    "pyautoattack": pyautoattack_contenders,
}


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise a TimeoutError inside after ``seconds`` (0: never)."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"not through after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def measured(
    who: Subject, norm: str, contender: Contender, first: int, limit: int
) -> tuple[dict[str, Any], NDArray[np.float64] | None]:
    """Return the cost of an attack and the sizes [N] of the smallest examples it found; None if it did not finish."""
    name = contender.attack if isinstance(contender.attack, str) else contender.attack.name
    given = dict(contender.settings, strengths={name: STRENGTHS[norm]}, progress=False)
    row = {"subject": who.name, "norm": norm, "library": contender.library, "attack": contender.name}
    row |= {"first": first, "samples": len(who.data.labels)}
    begun = time.perf_counter()
    try:
        with limited(limit):
            result = ra.evaluate(who.model, who.data, contender.attack, **given)
    except Exception as error:  # whatever another library raises
        return row | {"unfinished": f"{type(error).__name__}: {error}"}, None
    seconds = time.perf_counter() - begun
    passes = float(sum(result.passes(name)))
    return row | {"passes": round(passes, 1), "seconds": round(seconds, 2)}, np.asarray(result.minimal_size(name))


def remembered(
    folder: Path | None, who: Subject, norm: str, contender: Contender, first: int, limit: int
) -> tuple[dict[str, Any], NDArray[np.float64] | None]:
    """Return the numbers of :func:`measured`, or those that it gave before on the same samples."""
    if folder is None:
        return measured(who, norm, contender, first, limit)
    key = f"{who.name} {norm} {first} {len(who.data.labels)} {contender.library} {contender.name}"
    path = folder / f"{key.replace(' ', '_')}.npz"
    if not path.exists():
        row, sizes = measured(who, norm, contender, first, limit)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, row=json.dumps(row), sizes=np.array([]) if sizes is None else sizes)
    kept = np.load(path)
    row = json.loads(str(kept["row"]))
    return row, None if "unfinished" in row else kept["sizes"]


def add_optimality(rows: list[dict[str, Any]], sizes: Mapping[str, NDArray[np.float64]], norm: str) -> None:
    """Add the optimality of each row, against all and against the peers, and its share of samples near the best: 1 %,
    in l0 one value."""
    curves = {key: RobustnessCurve(found) for key, found in sizes.items()}
    best = envelope(list(curves.values()))
    smallest = np.minimum.reduce(list(sizes.values()))
    known = (smallest > 0) & np.isfinite(smallest)
    slack = 1.0 if norm == "l0" else 0.01 * smallest
    peers = [curves[key] for row, key in zip(rows, sizes, strict=True) if row["library"] != "robustatlas"]
    for row, (key, found) in zip(rows, sizes.items(), strict=True):
        row["optimality"] = round(float(local_optimality(curves[key], best)), 4)
        row["against peers"] = round(float(local_optimality(curves[key], envelope([*peers, curves[key]]))), 4)
        near = (found <= smallest + slack)[known]
        row["near"] = round(100 * float(near.mean()), 1)


def tables(rows: list[dict[str, Any]]) -> Iterator[Table]:
    for who, norm in dict.fromkeys((row["subject"], row["norm"]) for row in rows):
        near = "within one value" if norm == "l0" else "within 1 %"
        columns = ("library", "attack", "passes", "optimality", "against peers", f"{near}, % of samples", "s")
        table = Table(*columns, title=f"{who}, {norm}")
        mine = [row for row in rows if (row["subject"], row["norm"]) == (who, norm)]
        for row in sorted(mine, key=lambda row: -row["optimality"]):
            over = "" if row["passes"] <= BUDGET else " *"
            shares = f"{row['optimality']:.4f}", f"{row['against peers']:.4f}", f"{row['near']:.0f}"
            cells = f"{row['passes']:.0f}{over}", *shares
            table.add_row(row["library"], row["attack"], *cells, f"{row['seconds']:.1f}")
        yield table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--subjects", default="mnist,digits-linf" if os.environ.get("ROBUSTATLAS_MODELS") else "digits-linf"
    )
    parser.add_argument("--norms", default=",".join(NORMS))
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default=",".join(LIBRARIES))
    parser.add_argument("--limit", type=int, default=0, help="seconds for each contender (0: none)")
    parser.add_argument("--output", type=Path, help="rows of other subjects and norms that are in it stay")
    parser.add_argument("--kept", type=Path, help="folder of what each contender found; what is in it is not run again")
    asked = parser.parse_args()
    console, rows = Console(), []
    wanted = [name for name in asked.only.split(",") if name == "ours" or find_spec(PACKAGES[name])]
    for who in (subject(name, asked.first, asked.samples) for name in asked.subjects.split(",")):
        for norm in asked.norms.split(","):
            found, unfinished, sizes = [], [], {}
            for contender in (each for library in wanted for each in LIBRARIES[library](norm)):
                row, size = remembered(asked.kept, who, norm, contender, asked.first, asked.limit)
                if size is None:
                    console.print(f"{contender.library}, {contender.name}: {row['unfinished']}", style="red")
                    unfinished.append(row)
                    continue
                found.append(row)
                sizes[f"{who.name}/{norm}/{contender.library}/{contender.name}"] = size
            add_optimality(found, sizes, norm)
            for table in tables(found):
                console.print(table)
            rows += [*found, *unfinished]
    if asked.output:
        done = {(row["subject"], row["norm"]) for row in rows}
        before = json.loads(asked.output.read_text()) if asked.output.exists() else {"versions": {}, "rows": []}
        others = [row for row in before["rows"] if (row["subject"], row["norm"]) not in done]
        versions = before["versions"] | {name: metadata.version(name) for name in wanted if name != "ours"}
        asked.output.write_text(json.dumps({"versions": versions, "rows": others + rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
