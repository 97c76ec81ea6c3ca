from __future__ import annotations

import numpy as np
import pytest

from foretrain.core.errors import InputError
from foretrain.core.streams import seed_list, stream, torch_stream


def test_a_key_names_its_numbers_and_neighbours_differ() -> None:
    first = stream("fig6", 1, "data").random(4)
    np.testing.assert_array_equal(first, stream("fig6", 1, "data").random(4))
    others = [("fig6", 2, "data"), ("fig6", 1, "start"), ("fig61", "", "data"), ("fig6", "1", "data")]
    assert all(not np.array_equal(first, stream(*key).random(4)) for key in others)
    assert torch_stream("a", 1).initial_seed() != torch_stream("a", 2).initial_seed()


def test_streams_of_neighbouring_seeds_are_uncorrelated() -> None:
    draws = np.stack([stream("x", seed, "data").standard_normal(4000) for seed in range(20)])
    worst = np.abs(np.corrcoef(draws) - np.eye(20)).max()
    assert worst < 4.5 / np.sqrt(4000)  # 190 pairs: 4.5 standard errors leaves p = .001


def test_seed_lists() -> None:
    assert seed_list(3) == [1, 2, 3]
    assert seed_list((5, 2)) == [5, 2]
    assert seed_list(np.int64(2)) == seed_list(np.array([1, 2])) == [1, 2]
    for bad in (0, -1, [], [1, 1]):
        with pytest.raises(InputError, match="seeds must"):
            seed_list(bad)
