"""Blur of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass

from robustatlas.threats.imagenet_ua.blur import UaBlur


@dataclass(frozen=True)
class HistoricalUaBlur(UaBlur):
    """The inputs and the start of the sound one."""
