"""Patterns laid over an image at many places at once: correlation with a kernel of each sample's own."""

import torch
import torch.nn.functional as F
from torch import Tensor

SMALL_KERNEL = 9
"""Smaller kernels are applied directly; larger ones are faster in the frequency domain."""


def correlate(fields: Tensor, kernels: Tensor) -> Tensor:
    """Return ``[B, C, H, W]``: ``fields`` [B, C, H, W] correlated with ``kernels`` [B, C or 1, k, k]; zeros outside."""
    kernels = kernels.expand(-1, fields.shape[1], -1, -1)
    if kernels.shape[-1] < SMALL_KERNEL:
        stacked = F.conv2d(
            fields.flatten(0, 1)[None],
            kernels.flatten(0, 1)[:, None],
            padding=kernels.shape[-1] // 2,
            groups=fields.shape[0] * fields.shape[1],
        )
        return stacked.view_as(fields)
    return _inverse_transform(_spectrum(fields, kernels), fields, kernels.shape[-1])


def correlate_and_sum(fields: Tensor, kernels: Tensor) -> Tensor:
    """Return ``[B, 1, H, W]``: the sum over the channels of :func:`correlate`."""
    if kernels.shape[-1] < SMALL_KERNEL:
        return correlate(fields, kernels).sum(1, keepdim=True)
    return _inverse_transform(_spectrum(fields, kernels).sum(1, keepdim=True), fields, kernels.shape[-1])


def _sides(fields: Tensor, size: int) -> list[int]:
    from scipy.fft import next_fast_len  # importing it takes a fifth of a second

    return [next_fast_len(side + size - 1, real=True) for side in fields.shape[2:]]


def _spectrum(fields: Tensor, kernels: Tensor) -> Tensor:
    sides = _sides(fields, kernels.shape[-1])
    spectra = (torch.view_as_real(torch.fft.rfft2(values, s=sides)) for values in (fields, kernels))
    (real, imaginary), (weight, turn) = (spectrum.unbind(-1) for spectrum in spectra)
    return torch.complex(real * weight + imaginary * turn, imaginary * weight - real * turn)


def _inverse_transform(spectrum: Tensor, fields: Tensor, size: int) -> Tensor:
    whole: Tensor = torch.fft.irfft2(spectrum, s=_sides(fields, size)).roll((size // 2, size // 2), (2, 3))
    return whole[..., : fields.shape[2], : fields.shape[3]]
