"""Certificates: sizes up to which nothing can be found; one family a file, and ``certify``, which drives them."""

from dataclasses import fields
from typing import Any

from robustatlas.certificates.base import Certificate, Samples, Subject
from robustatlas.common.errors import UserError
from robustatlas.common.registry import Registry, subclass_test
from robustatlas.common.wording import suggestion

__all__ = ["CERTIFICATES", "Certificate", "Samples", "Subject", "certificate_named"]

CERTIFICATES: Registry[type[Certificate]] = Registry(
    "certificate",
    "robustatlas.certificates",
    {
        "interval": "certificates.balls:IntervalBounds",
        "crown": "certificates.balls:Crown",
        "beta-crown": "certificates.branching:BetaCrown",
        "linear": "certificates.linear:Linear",
        "line": "certificates.line:LineCertificate",
        "smoothing": "certificates.smoothing:Smoothing",
    },
    "a class derived from robustatlas.extending.Certificate",
    subclass_test(Certificate),
)
"""Method -> its class; a new one is one file and one line here."""


def certificate_named(name: str, **settings: Any) -> Certificate:
    """Return the certificate of that name.

    Args:
        name: one of :data:`CERTIFICATES`.
        **settings: its fields, such as ``seconds=10`` of beta-crown.

    Returns:
        the certificate with these settings.

    Raises:
        UserError: there is no such method, or it has no such setting.

    Example:
        >>> certificate_named("beta-crown", seconds=10).seconds
        10
    """
    kind = CERTIFICATES[name]
    known = [field.name for field in fields(kind)]
    for key in settings:
        if key not in known:
            there = f"known are {', '.join(known)}" if known else "it has none"
            raise UserError(f"The certificate {name!r} has no setting {key!r}{suggestion(key, known, there)}")
    return kind(**settings)
