"""Section 1.1: how many templates a task needs."""

from __future__ import annotations

import math


def majority_templates(length: int) -> int:
    """Section 1.1: templates over two symbols in which one of them is at most positions, Σ_{j < k/2} C(k, j).

    Printed as 2^(k−1), which is the sum for odd k; for even k, strings with as many α as β have no majority.
    """
    return sum(math.comb(length, j) for j in range((length + 1) // 2))
