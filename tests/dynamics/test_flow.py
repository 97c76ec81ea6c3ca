from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from foretrain import InputError, integrate


@given(st.floats(0.1, 2), st.floats(-3, 3))
def test_linear_flow_is_an_exponential(rate: float, start: float) -> None:
    out = integrate(lambda t, s: {"x": -rate * s["x"]}, {"x": start}, until=3.0, save_at=[0.0, 1.5, 3.0])
    np.testing.assert_allclose(out["x"], start * np.exp(-rate * out["time"]), rtol=1e-10, atol=1e-13)


def test_several_arrays_keep_their_shapes_axes_and_names() -> None:
    start = {"a": xr.DataArray(np.ones((2, 3)), dims=("row", "column"), coords={"row": [5, 6]}), "b": np.zeros(4)}
    out = integrate(lambda t, s: {"a": -s["a"], "b": 1.0}, start, until=1.0)
    assert out["a"].dims == ("time", "row", "column")
    assert list(out["row"]) == [5, 6]
    assert out["b"].shape == (201, 4)
    np.testing.assert_allclose(out["b"].isel(time=-1), 1.0)


def test_energy_of_an_oscillator_is_kept() -> None:
    out = integrate(lambda t, s: {"x": s["v"], "v": -s["x"]}, {"x": 1.0, "v": 0.0}, until=50.0)
    np.testing.assert_allclose(out["x"] ** 2 + out["v"] ** 2, 1.0, rtol=1e-10)


def test_a_blow_up_is_a_sentence_and_not_a_wrong_number() -> None:
    with pytest.raises(InputError, match=r"cannot be followed to t = 2"):
        integrate(lambda t, s: {"x": s["x"] ** 2}, {"x": 1.0}, until=2.0)


@pytest.mark.parametrize("until", [-1.0, np.inf, np.nan])
def test_bad_times(until: float) -> None:
    with pytest.raises(InputError, match="until must be"):
        integrate(lambda t, s: {"x": 0.0}, {"x": 1.0}, until=until)


@pytest.mark.parametrize("save_at", [[0.0, 2.0], [0.5, 0.5], [-0.1, 1.0], []])
def test_bad_save_times(save_at: list[float]) -> None:
    with pytest.raises(InputError, match="save_at must rise"):
        integrate(lambda t, s: {"x": 0.0}, {"x": 1.0}, until=1.0, save_at=save_at)


@pytest.mark.parametrize(
    ("field", "start", "more", "words"),
    [
        (lambda t, s: {"x": np.nan}, {"x": 1.0}, {}, "must be finite"),
        (lambda t, s: {"x": 1.0}, {"x": np.inf}, {}, "must be finite"),
        (lambda t, s: {}, {"x": 1.0}, {}, "it lacks x"),
        (lambda t, s: {}, {}, {}, "start must name at least one array"),
        (lambda t, s: {"x": 1.0}, {"x": 1.0}, {"method": "foo"}, "There is no method 'foo'"),
    ],
)
def test_a_field_that_cannot_be_followed_is_refused_at_once(field, start, more, words) -> None:
    with pytest.raises(InputError, match=words):
        integrate(field, start, until=1.0, **more)
