"""``certify``: certificates x samples -> the other side of a run's table, with progress and resume."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from robustatlas.attacks.definition import Effort
from robustatlas.certificates.certifying import Methods, certify_request, forecast
from robustatlas.certificates.rechecking import Rechecked, recheck
from robustatlas.evaluation.preparation import Model
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.request import Attacks, Data, Request, Samples, Strengths
from robustatlas.evaluation.workers import Cluster
from robustatlas.results.result import Result

__all__ = ["Rechecked", "certify", "forecast", "recheck"]


def certify(
    model: Model,
    data: Data,
    attacks: Attacks = ("linf", "l2"),
    *,
    method: Methods = None,
    strengths: Strengths | None = None,
    samples: Samples = None,
    effort: Effort = "default",
    seed: int = 0,
    run: str | Path | None = None,
    batch_size: int | Literal["auto"] | None = None,
    shard_size: int | None = None,
    progress: bool | Progress | None = None,
    part: str | tuple[int, int] | None = None,
    workers: int | None = None,
    devices: Sequence[str] | None = None,
    ray: bool | str | Cluster | None = None,
) -> Result:
    """Find, for each sample and attack, a size up to which no attack can succeed.

    What attacks find are upper bounds of the smallest size at which a model errs; these are lower ones. Both go into
    the same run, and of several certificates of a sample the larger size counts.

    Args:
        model: a network of linear layers, convolutions, batch normalisation, sums, views, pooling and the usual
            activations (see :data:`robustatlas.certificates.CERTIFICATES` for methods that take others).
        data: as of :func:`robustatlas.evaluate`.
        attacks: names of the catalogue, or :class:`Attack` objects: linf, l2, l1, brightness, contrast, saturation,
            hue, and other attacks with these threat models.
        method: name of a certificate, a :class:`robustatlas.certificates.Certificate` with settings of its own, or
            attack -> such. Default: ``"linear"`` for networks without activations, ``"line"`` for threat models of one
            parameter, otherwise what ``effort`` says.
        strengths: attack -> strengths at which alone its balls are proven, one bound each. The certified size is then
            the largest of them that was proven, and 0 where none was. Default: the largest size is searched, with about
            six bounds.
        samples: as of :func:`robustatlas.evaluate`.
        effort: ``"low"`` (interval), ``"default"`` (crown) or ``"high"`` (beta-crown: branch and bound, up to 30 s a
            sample and strength).
        seed, run, batch_size, shard_size, progress, part, workers, devices, ray: as of :func:`robustatlas.evaluate`.

    Returns:
        the result of the run, with what it holds of both sides: ``certified_size``, ``certified``, ``two_sided``.

    Raises:
        UserError: the method does not cover an attack or the network, the network runs otherwise than it is read, or a
            certified size is larger than that of an example, of the same run or of those that every size is tried out
            by: one of the two is wrong, and nothing of the certificate stays in the run.

    Example:
        >>> import robustatlas as ra
        >>> model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
        >>> result = certify(model, data, "linf", samples=4, effort="low", progress=False)
        >>> bool((result.certified_size("linf") > 0).all())
        True
    """
    request = Request(
        attacks=attacks,
        strengths=strengths,
        samples=samples,
        seed=seed,
        run=run,
        batch_size=batch_size,
        effort=effort,
        shard_size=shard_size,
        progress=progress,
        part=part,
        workers=workers,
        devices=devices,
        ray=ray,
    )
    return certify_request(model, data, request, method)
