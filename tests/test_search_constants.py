"""Numeric constants of the searches and of the plans of attacks: few, and each with a name."""

import ast
from collections import Counter
from pathlib import Path

import robustatlas

ROOT = Path(robustatlas.__file__).parent
MOST = 80

SOURCED = {
    "attacks/imagenet_ua": "Kaufmann et al. 2023",
    "attacks/lp.published_attacks": "each attack names its source",
    "attacks/suites.uar_attack": "Kang et al. 2019",
    "attacks/suites._hypervolume": "the paper of the adversarial hypervolume",
    "attacks/suites._LEVELS": "the paper of the adversarial hypervolume",
    "attacks/image._STEPS": "Dai et al. 2023",
    "attacks/image._UAR_PGD": "Kang et al. 2019",
    "attacks/image._mrb": "Dai et al. 2023",
    "attacks/image.lpips": "Laidlaw et al. 2021",
    "attacks/lp.autoattack": "Croce and Hein 2020 and 2021",
}
"""What has a source of its own, by module or by name."""

STRENGTHS = {
    "attacks/image.ENTRIES",
    "attacks/image.corruption",
    "attacks/lp.STRENGTHS",
    "attacks/everyday.CHANGES",
}
"""Whose numbers are strengths; so are all arguments of ``grid``."""


def numbers_in(node: ast.AST) -> int:
    """Numbers other than 0, 1 and -1 below a node, without those in calls of ``grid``."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "grid":
        return 0
    if isinstance(node, ast.Constant):
        return int(type(node.value) in (int, float) and node.value not in (0, 1))
    return sum(numbers_in(child) for child in ast.iter_child_nodes(node))


def name_of(node: ast.stmt) -> str:
    """Of what a statement of a module defines."""
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    ids = [name.id for target in targets if target for name in ast.walk(target) if isinstance(name, ast.Name)]
    return str(getattr(node, "name", "")) or ", ".join(ids)


def constants() -> Counter[str]:
    """Module and name -> how many."""
    found: Counter[str] = Counter()
    for path in sorted([*ROOT.glob("search/*.py"), *ROOT.glob("attacks/*.py")]):
        module = f"{path.parent.name}/{path.stem}"
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            name = f"{module}.{name_of(node)}"
            if not {module, name} & (SOURCED.keys() | STRENGTHS):
                found[name] += numbers_in(node)
    return +found


def test_what_has_a_source_or_is_a_strength_is_there() -> None:
    every = {f"{path.parent.name}/{path.stem}" for path in [*ROOT.glob("search/*.py"), *ROOT.glob("attacks/*.py")]}
    for path in [*ROOT.glob("search/*.py"), *ROOT.glob("attacks/*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            every.add(f"{path.parent.name}/{path.stem}.{name_of(node)}")
    assert not (SOURCED.keys() | STRENGTHS) - every


def test_few_constants_have_no_source() -> None:
    found = constants()
    listed = "\n".join(f"{count:3d}  {name}" for name, count in found.items())
    assert found.total() <= MOST, f"{found.total()} constants without a source, at most {MOST} may be:\n{listed}"


if __name__ == "__main__":
    for known, count in constants().items():
        print(f"{count:3d}  {known}")
    print(constants().total())
