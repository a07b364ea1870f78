"""Classes with the names and signatures of other libraries' own, so that scripts written for these run unchanged.

>>> from robustatlas.drop_in import AutoAttack
"""

from robustatlas.compat.autoattack import AutoAttack

__all__ = ["AutoAttack"]
