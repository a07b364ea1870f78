"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

from robustatlas import registry

# A busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# The tests are about what this package brings, whatever is installed beside it.
registry.entry_points = lambda group: ()  # type: ignore[assignment]
