"""What is typed behind a command, before its options are read: each option once, and lists with commas."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from robustatlas.common.errors import UserError, brief


@dataclass(frozen=True)
class _Typed:
    """A word; or a value, with its option and the ``name`` that it is given by."""

    word: str
    option: Any = None
    name: str = ""

    @property
    def words(self) -> list[str]:
        return [self.name, self.word] if self.name else [self.word]

    @property
    def is_list(self) -> bool:
        """Whether the value holds several with commas between them, as what help calls it says."""
        return self.is_one and (self.option.metavar or "").endswith(("NAMES", ",..."))

    @property
    def is_one(self) -> bool:
        """Whether it is the value of an option that takes one."""
        return self.option is not None and not self.option.multiple


def settled(parameters: Sequence[Any], words: Sequence[str]) -> list[str]:
    """``words`` with each option that takes one value there once: lists that are given several times are one.

    Example:
        >>> from typer.main import get_command
        >>> from robustatlas.cli import app
        >>> settled(get_command(app).commands["evaluate"].params, ["net.py:f", "--attacks", "linf", "--attacks=l2"])
        ['net.py:f', '--attacks', 'linf,l2']
    """
    typed = list(_typed(parameters, words))
    _check_commas(typed, [p for p in parameters if p.param_type_name == "argument"])
    once: dict[object, _Typed] = {}
    for each in typed:
        key = each.option.name if each.is_one else object()
        before = once.get(key)
        if before is not None and not each.is_list:
            first, second = brief(repr(before.word)), brief(repr(each.word))
            raise UserError(f"{each.name} is given twice, as {first} and as {second}; give it once.")
        once[key] = each if before is None else _Typed(f"{before.word},{each.word}", each.option, before.name)
    return [word for each in once.values() for word in each.words]


def _typed(parameters: Sequence[Any], words: Sequence[str]) -> Iterator[_Typed]:
    valued = {name: p for p in parameters if p.param_type_name == "option" and not p.is_flag for name in p.opts}
    left = iter(words)
    for word in left:
        if word == "--":
            yield from map(_Typed, (word, *left))
            return
        name, equals, value = word.partition("=")
        if name not in valued and not word.startswith("--") and word[:2] in valued:
            name, equals, value = word[:2], "=", word[2:]
        if name not in valued:
            yield _Typed(word)
        elif (given := value if equals else next(left, None)) is None:
            yield _Typed(word)  # which is refused where options are read
        else:
            yield _Typed(given, valued[name], name)


def _check_commas(typed: Sequence[_Typed], arguments: Sequence[Any]) -> None:
    """Raise where words behind a list can only be meant to belong to it.

    That is so where there are too many words that are not options, or where there are enough without them and they
    read like members of the list.
    """
    plain = [each for each in typed if _is_plain(each)]
    least, most = sum(p.required for p in arguments), sum(p.nargs if p.nargs > 0 else len(plain) for p in arguments)
    for place, each in enumerate(typed):
        behind = [other.word for other in takewhile(_is_plain, typed[place + 1 :])] if each.is_list else []
        alike = len(plain) - len(behind) >= least and any(_is_member(each.option, word) for word in behind)
        if behind and (len(plain) > most or alike):
            meant = f"{each.word.rstrip(',')},{behind[0].strip(',')}"
            raise UserError(f"{each.name} takes a list with commas and no spaces: {each.name} {brief(meant)}.")


def _is_plain(typed: _Typed) -> bool:
    return typed.option is None and not typed.word.startswith("-")


def _is_member(option: Any, word: str) -> bool:
    """Whether a word reads like one of the list of an option, and like nothing on this machine."""
    alike = "=" in word if option.metavar.endswith(",...") else not set(word) & set("./:")
    return alike and not Path(word).exists()
