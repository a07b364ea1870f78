"""Attacks of other libraries as ours, and ours as theirs."""

from robustatlas.peers.adapters import external
from robustatlas.peers.foolbox import as_foolbox

__all__ = ["as_foolbox", "external"]
