"""Parts are sized by time, and never hold more images than fit comfortably into memory."""

from __future__ import annotations

import numpy as np
import pytest

from robustatlas.evaluation.work import Manner, _parts


@pytest.mark.parametrize(("part", "most", "largest"), [(None, 40, 40), (None, 10_000, 1_000), (300, 40, 300)])
def test_parts_cover_all_and_are_bounded(part: int | None, most: int, largest: int) -> None:
    manner = Manner(seed=0, batch_size=256, keep_adversarial=False, part=part, pair=1e-6)
    parts = list(_parts(np.arange(1_000), manner, most))
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(1_000))
    assert max(map(len, parts)) <= largest
