"""What stands around a network, from inputs in [0, 1] to logits: each wrapper is a function of what it wraps."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.wording import pluralise
from robustatlas.models.classifier.channels import channels_taken
from robustatlas.models.classifier.normalisation import normalised
from robustatlas.models.classifier.outputs import Outputs, as_logits, believed, logits_in
from robustatlas.models.classifier.rejection import Rejection, with_score

Net = Callable[[Tensor], Any]
Logits = Callable[[Tensor], Tensor]

_IMAGES = 4
"""Sides of a batch of images."""
_OF_ONE_SIZE = "; one that takes batches of a single size is given as Classifier(net, batch_size=that size)"


def guarded(net: Net, part: str = "") -> Net:
    """``net``, whose errors are sentences that name the shape of the batch; ``part`` of the model, where it is one."""

    def run(x: Tensor) -> Any:
        try:
            return net(x)
        except (UserError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            taken = channels_taken(net)
            if x.dim() == _IMAGES and taken not in (None, x.shape[1]):
                raise UserError(
                    f"The model{part} failed ({first_line(error)}): its first layer takes "
                    f"{pluralise(taken, 'channel')}, "
                    f"and the images have {x.shape[1]}. Give pictures in folders with --channels {taken} "
                    f"(channels={taken} of load_dataset), and other images in that form."
                ) from error
            check_inputs_of(net)
            sizes = "" if isinstance(error, TypeError) else _OF_ONE_SIZE
            raise UserError(
                f"The model{part} failed on a batch of shape {tuple(x.shape)}: {first_line(error)}. "
                f"Try it on such a batch by itself{sizes}. Finished shards of the run are kept."
            ) from error

    return run


def check_inputs_of(net: Callable[..., Any]) -> None:
    """Look whether a network can be called with one input."""
    try:
        parameters = inspect.signature(net.forward if isinstance(net, nn.Module) else net).parameters.values()
    except (TypeError, ValueError):  # of what is not written in Python
        return
    fillable = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    needed = [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if not fillable or len(needed) > 1 or (needed and needed[0] != fillable[0].name):
        raise UserError(
            f"The model takes {len(needed)} inputs ({', '.join(needed)}), and is called with one, images [B, ...]: "
            "give a function of the images that fills in the others, such as lambda x: net(x, other)."
        )


def on_a_copy(net: Net) -> Net:
    """``net`` on memory of its own: it may write into its input."""
    return lambda x: net(x.clone())


def casting(net: Net, dtype: torch.dtype) -> Net:
    """``net`` on inputs in its own ``dtype``."""
    return lambda x: net(x.to(dtype))


def normalising(net: Net, by: Mapping[str, Tensor]) -> Net:
    """``net`` on inputs less a mean and divided by a deviation."""
    return lambda x: net(normalised(x, by))


def preparing(net: Net, prepare: Net) -> Net:
    """``net`` on what ``prepare`` makes of the inputs."""
    prepared_by = on_a_copy(guarded(prepare, " (its prepare)"))

    def run(x: Tensor) -> Any:
        prepared = prepared_by(x)
        if not isinstance(prepared, Tensor):
            raise UserError(f"prepare returned {type(prepared).__name__}; expected inputs as a tensor [B, ...].")
        return net(prepared)

    return run


def answering(net: Net, outputs: Outputs, rejection: Rejection | None) -> Logits:
    """The logits that the outputs of ``net`` say; of models that reject by a score with one more class."""
    if rejection == "score":
        return lambda x: with_score(net(x))
    return lambda x: as_logits(believed(logits_in(net(x), len(x)), outputs), outputs)
