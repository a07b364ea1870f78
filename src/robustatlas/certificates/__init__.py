"""Certificates: sizes up to which nothing can be found, per sample; one method a file."""

from __future__ import annotations

from typing import Any

from robustatlas.certificates.base import Certificate, Samples, Subject
from robustatlas.registry import Registry, subclass_of

__all__ = ["CERTIFICATES", "Certificate", "Samples", "Subject", "certificate_named"]

CERTIFICATES: Registry[type[Certificate]] = Registry(
    "certificate",
    "robustatlas.certificates",
    {
        "interval": "certificates.interval:Interval",
        "crown-ibp": "certificates.crown_ibp:CrownIBP",
        "crown": "certificates.crown:Crown",
        "alpha-crown": "certificates.alpha_crown:AlphaCrown",
        "linear": "certificates.linear:Linear",
        "line": "certificates.line:LineCertificate",
        "lipschitz": "certificates.lipschitz:Lipschitz",
        "smoothing": "certificates.smoothing:Smoothing",
        "complete": "certificates.complete:Complete",
    },
    "a class derived from robustatlas.certificates.Certificate",
    subclass_of(Certificate),
)
"""Method -> its class; a new one is one file and one line here."""


def certificate_named(name: str, **settings: Any) -> Certificate:
    """The certificate of that name.

    Args:
        name: one of :data:`CERTIFICATES`.
        **settings: its fields, such as ``steps=100`` of alpha-crown.

    Returns:
        the certificate with these settings.

    Raises:
        UserError: there is no such method.

    Example:
        >>> certificate_named("alpha-crown", steps=50).steps
        50
    """
    return CERTIFICATES[name](**settings)
