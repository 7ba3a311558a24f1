"""What is wrong with page ids that a pool refuses."""

from __future__ import annotations

import numpy as np

from poolproof.errors import Fault
from poolproof.page_table import UNMAPPED, Pages


def find_page_fault(ids: Pages, physical: Pages, count: int) -> tuple[Fault, Pages]:
    """The first kind of fault among ids of which some are not live or listed twice, and the ids that have it.

    Args:
        ids: as they were given.
        physical: the page of each id.
        count: ids of the sub-pool, the sink's included.
    """
    for fault, wrong in (
        (Fault.NEGATIVE, ids < 0),
        (Fault.OUT_OF_RANGE, ids >= count),
        (Fault.SINK, ids == 0),
        (Fault.NOT_OWNED, physical.take(ids, mode="clip") == UNMAPPED),
    ):
        if wrong.any():
            return fault, np.unique(ids[wrong])
    numbers, times = np.unique(ids, return_counts=True)
    return Fault.DUPLICATE, numbers[times > 1]
