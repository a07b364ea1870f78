"""Comparison of the points, each an attack at a strength, of several tables."""

from collections.abc import Iterable, Mapping
from functools import reduce

from robustatlas.common.typed_strengths import format_strength
from robustatlas.outcomes.strengths import strength_position


def shared_points(
    ours: Mapping[str, Iterable[float]], theirs: Mapping[str, Iterable[float]], attacks: Iterable[str]
) -> dict[str, list[float]]:
    """Attack -> those of our strengths that both have, for those of the attacks that share any.

    >>> shared_points({"p": [1, 3], "q": [1]}, {"p": [1, 2], "r": [1]}, ["p", "q", "r"])
    {'p': [1.0]}
    """
    shared = {}
    for attack in attacks:
        known = [float(s) for s in theirs.get(attack, ())]
        kept = [float(s) for s in ours.get(attack, ()) if strength_position(s, known) is not None]
        if kept:
            shared[attack] = kept
    return shared


def common_points(grids: Iterable[Mapping[str, Iterable[float]]]) -> dict[str, list[float]]:
    """Attack -> those of the first one's strengths that all have; attacks without any are left out.

    >>> common_points([{"p": [1, 3], "q": [1]}, {"p": [1, 2]}])
    {'p': [1.0]}
    """
    first, *others = grids
    ours = {attack: [float(strength) for strength in grid] for attack, grid in first.items()}
    return reduce(lambda one, other: shared_points(one, other, one), others, ours)


def different_points(
    ours: Mapping[str, Iterable[float]], theirs: Mapping[str, Iterable[float]], attacks: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Names of the points that are missing of a reference, and of those that are extra to it. ``attacks``: the attacks
    to go over; one that only one side has is named alone, without its strengths.

    >>> different_points({"p": [1, 3], "q": [1]}, {"p": [1, 2], "r": [1]}, ["p", "q", "r"])
    (['p@2', 'r'], ['p@3', 'q'])
    """
    missing: list[str] = []
    extra: list[str] = []
    for attack in attacks:
        if attack not in ours:
            missing.append(attack)
        elif attack not in theirs:
            extra.append(attack)
        else:
            mine, wanted = list(ours[attack]), list(theirs[attack])
            missing += [
                f"{attack}@{format_strength(s, attack=attack)}" for s in wanted if strength_position(s, mine) is None
            ]
            extra += [
                f"{attack}@{format_strength(s, attack=attack)}" for s in mine if strength_position(s, wanted) is None
            ]
    return missing, extra
