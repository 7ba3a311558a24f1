"""What is wrong with page ids that a pool refuses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poolproof.page_errors import DEAD_WHY, NEGATIVE_WHY, RANGE_WHY, SINK_WHY, TWICE_WHY
from poolproof.page_table import UNMAPPED

Pages = NDArray[np.int64]


def find_page_fault(ids: Pages, physical: Pages, count: int) -> tuple[str, Pages]:
    """The first kind of fault among ids of which some are not live or listed twice, and the ids that have it.

    Args:
        ids: as they were given.
        physical: the page of each id.
        count: ids of the sub-pool, the sink's included.
    """
    for why, wrong in (
        (NEGATIVE_WHY, ids < 0),
        (RANGE_WHY, ids >= count),
        (SINK_WHY, ids == 0),
        (DEAD_WHY, physical.take(ids, mode="clip") == UNMAPPED),
    ):
        if wrong.any():
            return why, np.unique(ids[wrong])
    numbers, times = np.unique(ids, return_counts=True)
    return TWICE_WHY, numbers[times > 1]
