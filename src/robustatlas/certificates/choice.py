"""Which certificate is taken for which attack."""

from __future__ import annotations

from collections.abc import Mapping

from robustatlas.attacks.definition import Attack, Effort
from robustatlas.certificates import CERTIFICATES, Certificate, Subject, certificate_named
from robustatlas.certificates.base import in_ball, norm_of
from robustatlas.common.errors import UserError
from robustatlas.common.wording import listed
from robustatlas.threats.color import Line

Method = str | Certificate | None

_BY_EFFORT: dict[Effort, str] = {"low": "crown-ibp", "default": "crown", "high": "alpha-crown"}


def certificate_for(
    attack: Attack, method: Method | Mapping[str, str | Certificate], subject: Subject, effort: Effort
) -> Certificate:
    """The certificate of an attack, checked against the model."""
    given = method.get(attack.name) if isinstance(method, Mapping) else method
    if given is None:
        chosen = _usual(attack, subject, effort)
    elif isinstance(given, str):
        chosen = certificate_named(given)
    elif isinstance(given, Certificate):
        chosen = given
    else:
        raise UserError(
            f"method is a {type(given).__name__}; expected a name ({', '.join(CERTIFICATES)}), a Certificate, or one "
            "of these for each attack."
        )
    chosen.check(subject, attack)
    return chosen


def _usual(attack: Attack, subject: Subject, effort: Effort) -> Certificate:
    if isinstance(attack.threat, Line):
        return certificate_named("line")
    if norm_of(attack) is not None and subject.network.graph.affine:
        return certificate_named("linear")
    if in_ball(attack):
        return certificate_named(_BY_EFFORT[effort])
    covered = listed(["linf", "l2", "l1", "brightness", "contrast", "saturation", "hue"])
    raise UserError(
        f"No certificate covers {attack.name!r} of {subject.model.name}; there are such for {covered}, and for l0 of "
        "linear networks (and of small ReLU networks by 'complete'). Leave it out, or look at what attacks find."
    )
