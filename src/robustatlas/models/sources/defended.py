"""``defended:jpeg=75,MODEL``: a model behind transformations of its input."""

from collections.abc import Callable

from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.models.architectures import Normalised
from robustatlas.models.defenses import BitDepthReduction, Defended, JPEGCompression, MedianSmoothing, Transformation

_KINDS: dict[str, Callable[[int], Transformation]] = {
    "jpeg": JPEGCompression,
    "bits": BitDepthReduction,
    "median": MedianSmoothing,
}


def defended_model(inside: str) -> nn.Module:
    """Load a model and put transformations of its input before it.

    ``inside`` is ``jpeg=QUALITY``, ``bits=BITS`` or ``median=SIZE``, or several with ``+`` between them in the order in
    which they are applied; a comma; and the source of the model.

    >>> net = defended_model("bits=5+median=2,builtin:digits-linf")
    >>> [type(each).__name__ for each in net.transformations]
    ['BitDepthReduction', 'MedianSmoothing']
    """
    from robustatlas.models.loading import load_model

    before, comma, source = inside.partition(",")
    if not comma or not source:
        raise UserError(
            f"The model defended:{inside} is not understood; expected defended:TRANSFORMATION,MODEL, such as "
            "defended:jpeg=75,trained:nets/a."
        )
    found = transformations(before)
    model = load_model(source)
    usual = model.outputs == "logits" and model.rejection is None and model.prepare is None
    if not isinstance(model.net, nn.Module) or not usual:
        raise UserError(
            f"{source} is not a network from images to logits alone, so nothing is put before it here; do it in "
            "Python, with robustatlas.models.defenses."
        )
    mean, std = (value if isinstance(value, tuple) or value is None else (value,) for value in (model.mean, model.std))
    plain = mean is None and std is None
    return Defended(model.net if plain else Normalised(model.net, mean or (0.0,), std or (1.0,)), *found)


def transformations(said: str) -> list[Transformation]:
    """Return the transformations that ``jpeg=75``, or several with ``+`` between them, stand for, in their order.

    >>> [each.extra_repr() for each in transformations("bits=5")]
    ['5 bits']
    """
    return [_transformation(part) for part in said.split("+")]


def _transformation(part: str) -> Transformation:
    name, _, value = part.partition("=")
    if name not in _KINDS or not value.isdecimal():
        raise UserError(f"{part!r} is not a transformation; expected {', '.join(f'{kind}=N' for kind in _KINDS)}.")
    return _KINDS[name](int(value))
