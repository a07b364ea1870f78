"""Attacks of other libraries as ours, and ours as theirs."""

from robustatlas.peers.adapters import external
from robustatlas.peers.foolbox import as_foolbox
from robustatlas.peers.torchattacks import as_torchattacks

__all__ = ["as_foolbox", "as_torchattacks", "external"]
