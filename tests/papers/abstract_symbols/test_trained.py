"""The grid of trained networks: samples needed, tasks by name and by file, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from foretrain import papers
from foretrain.core.errors import InputError
from foretrain.core.progress import listening
from foretrain.core.trajectory import trajectory
from foretrain.papers.abstract_symbols.claims import data_need as gains
from foretrain.papers.abstract_symbols.claims.forecast import kendall
from foretrain.papers.abstract_symbols.claims.published import LENGTH_4, _published
from foretrain.papers.abstract_symbols.experiments import data_need
from foretrain.papers.abstract_symbols.experiments.architectures import SAMPLES, chosen_rate, train
from foretrain.papers.abstract_symbols.simulations import trained
from foretrain.papers.abstract_symbols.simulations.trained import (
    TRANSFORMERS,
    VANILLA,
    WITH_A,
    WITH_AB,
    cell,
    n_needed,
    network,
    setting_called,
    summary,
    task_called,
)
from foretrain.runs.identity import RunIdentity

QUICK = {"setting": "glance", "epochs": 2, "rates": (1e-2,), "seeds": 1}


def curves(*losses):
    return trajectory(
        {"test_loss": (("seed", "n"), np.array(losses))}, {"seed": range(len(losses)), "n": [10, 100, 1000]}
    )


def test_samples_needed_is_interpolated_between_sizes():
    assert float(n_needed(curves([1.0, 0.1001, 0.01]), 0.1)) == pytest.approx(100, rel=0.01)
    assert float(n_needed(curves([10.0, 1.0, 0.01]), 0.1)) == pytest.approx(10**2.5)
    assert float(n_needed(curves([0.01, 0.01, 0.01]), 0.1)) == 10
    assert float(n_needed(curves([1.0, 1.0, 0.5]), 0.1)) == np.inf
    # how far below it falls does not matter, nor that it falls to 0: half way from 1 to a hundredth
    assert float(n_needed(curves([1.0, 1.0, 1e-9]), 0.1)) == pytest.approx(10**2.5)
    assert float(n_needed(curves([1.0, 1.0, 0.0]), 0.1)) == pytest.approx(10**2.5)
    # the median over seeds counts, a later rise too, and a run that diverged has not learned
    assert float(n_needed(curves([1.0, 0.01, 0.01], [1.0, np.nan, np.nan]), 0.1)) == np.inf
    assert float(n_needed(curves([0.0, 1.0, 0.0], [0.02, 1.0, 0.02]), 0.1)) > 100
    first, late, never = [0.01, 0.01, 0.01], [1.0, 1.0, 0.01], [1.0, 1.0, 1.0]
    assert float(n_needed(curves(first, first, never), 0.1)) == 10  # the median over seeds
    assert float(n_needed(curves(first, never, never), 0.1)) == np.inf
    assert float(n_needed(curves(first, late), 0.1)) == pytest.approx(10**1.75)


def test_samples_needed_refuses_what_has_no_sizes():
    with pytest.raises(InputError, match="over n"):
        n_needed(curves([1.0, 1.0, 1.0]).isel(n=0, drop=True))


def made_up_runs(misses):
    """In place of training: the test loss, over that of a guess, of each size by architecture, at the second rate."""

    def summary(task, architecture, *, n, seeds, setting, rates, good_enough, patience):
        run.append((architecture, n))
        assert good_enough == pytest.approx(0.01)  # a tenth of .1, and same/different is ±1
        values = np.asarray(misses[architecture][n], dtype=float)
        losses = {"validation_loss": (("rate", "seed"), [9.0 + values, values])}
        return trajectory(
            {"test_loss": (("rate", "seed"), [0 * values, values]), **losses}, {"rate": rates, "seed": seeds}
        )

    run = []
    return summary, run


def test_data_need_goes_down_until_no_seed_is_below_and_the_plain_need_is_at_least_the_largest_size(monkeypatch):
    plain = {1000: (0.5, 0.6, 0.01)}
    ours = {10: (1.0, 1.0, 1.0), 100: (0.01, 0.01, 1.0), 1000: (0.01, 0.0, 1.0)}
    plain |= {100: (1.0, 1.0, 1.0)}
    train, run = made_up_runs({VANILLA: plain, WITH_A: ours})
    monkeypatch.setattr(trained, "summary", train)
    sides, sizes = (VANILLA, WITH_A), (1, 10, 100, 1000)
    needs = data_need.data_need("same_different", sizes, sides, seeds=3, rates=(0.1, 0.2))
    assert run == [(VANILLA, 1000), (VANILLA, 100), (WITH_A, 1000), (WITH_A, 100), (WITH_A, 10)]
    assert needs.n_needed.sel(architecture=VANILLA) == np.inf
    needed = float(needs.n_needed.sel(architecture=WITH_A))
    assert needed == pytest.approx(10**1.5)  # half way in log loss
    a = needs.sel(architecture=WITH_A)
    assert float(a.factor) == pytest.approx(1000 / needed)
    assert needs.factor.sel(architecture=VANILLA).isnull()


def test_data_need_goes_on_below_a_size_at_which_one_seed_failed(monkeypatch):
    ours = {10: (1.0, 1.0), 100: (1.0, 0.01), 1000: (0.01, 0.01)}
    train, run = made_up_runs({WITH_A: ours})
    monkeypatch.setattr(trained, "summary", train)
    needs = data_need.data_need("same_different", (1, 10, 100, 1000), (WITH_A,), seeds=2, rates=(0.1, 0.2))
    assert [n for _, n in run] == [1000, 100, 10]
    after, until = data_need._enclosed(needs.miss, 0.1)
    np.testing.assert_array_equal([after.squeeze(), until.squeeze()], [[100, 10], [1000, 100]])


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"n": (0,)}, "n must be a whole number of at least 1; got 0"),
        ({"n": ()}, "n must have at least one value"),
        ({"n": (8, 4)}, "n must grow"),
        ({"loss": -1.0}, "loss must be .*; got -1"),
    ],
)
def test_data_need_refuses_what_cannot_be_asked(arguments, wanted):
    with pytest.raises(InputError, match=wanted):
        data_need.data_need("same_different", **{"n": (4,), "setting": "glance", **arguments})


def misses(*rows):
    return xr.DataArray(np.array(rows).T, dims=("n", "seed"), coords={"n": [10, 100, 1000]})


NEVER, LATE, MIDDLE, FIRST = (np.nan, np.nan, 1.0), (np.nan, 1.0, 0.0), (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("plain", "ours", "low", "high"),
    [
        (LATE, MIDDLE, 1, 100),  # between 100 and 1000, over between 10 and 100
        (NEVER, MIDDLE, 10, np.inf),
        (NEVER, FIRST, 100, np.inf),
        (MIDDLE, LATE, 0.01, 1),
        (LATE, NEVER, 0, 1),  # ours needs more than 1000
        (NEVER, NEVER, 0, np.inf),  # nothing is known
    ],
)
def test_the_range_of_a_factor_knows_the_grid_and_what_was_not_reached(plain, ours, low, high):
    factors = data_need.factors(misses(plain), misses(ours), 0.1)
    assert (float(factors.factor_low), float(factors.factor_high)) == (low, high)
    two = data_need.factors(misses(plain, LATE), misses(ours, LATE), 0.1)  # another seed widens it
    assert float(two.factor_low) <= low
    assert float(two.factor_high) >= high


KNOWN = st.lists(st.tuples(*[st.sampled_from([0.0, 0.05, 0.2, 1.0, np.inf])] * 3), min_size=3, max_size=3)


@given(KNOWN, KNOWN)
@example([LATE, NEVER, LATE], [MIDDLE, FIRST, MIDDLE])
def test_the_range_encloses_the_factor(plain, ours):
    factors = data_need.factors(misses(*plain), misses(*ours), 0.1)
    if np.isfinite(factors.factor):  # else neither network learns with most seeds
        assert float(factors.factor_low) <= float(factors.factor) * (1 + 1e-12)
        assert float(factors.factor) <= float(factors.factor_high) * (1 + 1e-12)


def test_one_seed_of_three_that_does_not_learn_leaves_a_factor_and_a_range_from_0():
    """As on tasks that are learned at once or not at all."""
    factors = data_need.factors(misses(NEVER, NEVER, NEVER), misses(MIDDLE, NEVER, MIDDLE), 0.1)
    assert float(factors.factor) == pytest.approx(1000 / 10**1.5)
    assert (float(factors.factor_low), float(factors.factor_high)) == (0, np.inf)


def test_what_published_numbers_say_of_the_samples_needed():
    """Observation 1.2, from the numbers published with Fig 22 and Fig 23."""
    majorities = n_needed(_published("majority_4", LENGTH_4, (VANILLA, WITH_AB)))
    np.testing.assert_allclose(majorities, [3993, 583], atol=1)  # interpolated between sizes four times apart
    plain, with_a = n_needed(_published("aba_abb", SAMPLES, (VANILLA, WITH_A))).values
    assert plain > 8 * with_a


def test_a_task_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('alphabet = 7\n[[template]]\nstring = "αα"\nlabel = 1\n[[template]]\nstring = "αβ"\nlabel = -1\n')
    runs = train(task=str(file), n=9, identity_kq=True, **QUICK)
    assert {"architecture": WITH_A, "n": 9, "epochs": 2, "heads": 2}.items() <= runs.attrs.items()
    assert runs.validation_curve.sizes == {"rate": 1, "seed": 1, "epoch_done": 2}
    assert np.isfinite(runs.test_loss).all()


def test_a_task_file_that_changes_is_another_run(tmp_path):
    file = tmp_path / "mine.toml"
    text = '[[template]]\nstring = "αα"\nlabel = 1\n[[template]]\nstring = "αβ"\nlabel = -1\n'
    s = setting_called("glance", epochs=1)
    losses, paths = [], []
    for label in ("1", "50"):
        file.write_text(text.replace("label = 1", f"label = {label}"))
        losses.append(summary(str(file), n=8, seeds=1, setting=s).test_loss.item())
        paths.append(RunIdentity.of("abstract_symbols/train", {"task": str(file)}, "source", ["task"]).path(tmp_path))
    assert losses[1] > 10 * losses[0]
    assert paths[0] != paths[1]


def test_what_copies_its_last_symbol_is_read_at_a_cls_token():
    assert network([task_called("copying")[0]], VANILLA, 8, setting_called("glance")).shape.readout == "cls"
    assert network([task_called("print_symbol")[0]], VANILLA, 8, setting_called("glance")).shape.readout == "last"


def test_sizes_too_small_for_a_task_count_as_not_learned():
    needs = data_need.data_need("relational_match_to_sample", (4,), (VANILLA,), seeds=1, setting="glance")
    assert needs.miss.item() == needs.n_needed.item() == np.inf


def test_a_run_says_which_rate_validation_chose():
    conclusion = chosen_rate(train(**{**QUICK, "n": 8, "rates": (1e-9, 1e-2), "epochs": 20}))
    assert conclusion.startswith("Chosen by validation: rate 0.01. On unseen symbols: loss")


def test_a_run_says_that_all_diverged_and_what_patience_it_had():
    runs = train(**{**QUICK, "n": 8, "rates": (1e30,), "epochs": 3, "patience": 2})
    assert chosen_rate(runs) == "Every run diverged; set smaller rates."
    assert runs.attrs["patience"] == 2
    three = train(**{**QUICK, "n": 8, "rates": (1e-3,), "seeds": 3})
    lost = three[["test_loss", "test_accuracy", "validation_loss"]].where(three.seed != 2)
    assert "over 2 seeds), 1 lost before the first validation pass, accuracy" in chosen_rate(lost)


def test_needs_that_were_not_found_are_explained():
    needs = data_need.data_need("same_different", (4, 8), (VANILLA,), seeds=1, setting="glance", loss=1e-9)
    assert data_need.learned(needs) == (
        "0 of 1 needs found; infinite: from 8 samples at least half of the seeds miss 1e-09 or more, try more, "
        "or a larger setting."
    )


def test_training_prints_nothing_and_tells_how_far_it_is(capsys):
    events = []
    with listening(events.append):
        train(n=8, **QUICK)
    assert capsys.readouterr() == ("", "")
    assert events
    assert all(event.inner for event in events)
    assert events[-1].done == events[-1].total


def test_the_network_of_a_run_may_be_changed():
    one, two = (train(n=8, **QUICK, heads=heads, depth=1, embedding=8, batch=4) for heads in (1, 3))
    assert one.test_loss.item() != two.test_loss.item()
    slow, fast = (train(n=8, identity_vo=True, **QUICK, scaling_multiplier=m).test_loss.item() for m in (1.0, 50.0))
    assert slow != fast
    with pytest.raises(InputError, match="heads must be"):
        train(n=8, **QUICK, heads=0)


def test_a_seed_does_not_depend_on_those_beside_it():
    fig21 = papers.experiments("abstract_symbols/fig21")["abstract_symbols/fig21"]
    drawn = {"templates": (4,), "n": (16,), "setting": "glance"}  # the templates of seed 3 hold one token, not two
    beside, alone = (fig21.run(seeds=seeds, **drawn).test_loss.sel(seed=3).item() for seeds in ((1, 2, 3), (3,)))
    assert beside == pytest.approx(alone, rel=1e-4)


def test_baselines_have_a_limit_of_parameters():
    with pytest.raises(InputError, match=r"has 768,.* parameters, of at most 200,000,000"):
        cell("aba_abb", "MLP", n=1_000_000, seeds=1)


def test_an_alphabet_of_its_own_is_enough_for_a_single_sample(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('alphabet = 7\n[[template]]\nstring = "αα"\nlabel = 1\n[[template]]\nstring = "αβ"\nlabel = -1\n')
    needs = data_need.data_need(str(file), (1,), (VANILLA,), seeds=1, setting="glance", epochs=1)
    assert np.isfinite(needs.miss).all()


def test_architectures_of_one_seed_share_their_data():
    a, b = (
        cell("aba_abb", name, n=8, seeds=1, setting=setting_called("glance", epochs=1)) for name in (VANILLA, WITH_A)
    )
    # a·I begins at 0, so the first epoch's training loss is that of the same network on the same samples
    np.testing.assert_allclose(a.train_curve, b.train_curve, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"n": 0}, "n must be a whole number of at least 1; got 0"),
        ({"n": 1}, "n must be at least 2"),
        ({"n": 10**12}, "n must be at most 1,000,000"),
        ({"heads": 10**6}, "has .* parameters, of at most 200,000,000"),
        ({"task": "copying", "embedding": 0}, "embedding must be a whole number of at least 1; got 0"),
        ({"patience": 0}, "patience must be a whole number of at least 1; got 0"),
        ({"task": "aba_abc"}, "no task 'aba_abc'; the nearest names are aba_abb, .*; a file of your own ends in .toml"),
        ({"setting": "huge"}, "no setting 'huge'"),
        ({"rates": (float("inf"),)}, "finite number above 0"),
    ],
)
def test_refusals_are_one_sentence(change, sentence, as_users_run_it):
    with pytest.raises(InputError, match=sentence):
        train(**{"n": 8, **QUICK, **change})


def test_kendall_with_ties_is_scipys():
    draw = np.random.default_rng(0)
    for _ in range(20):
        x, y = draw.integers(0, 4, (2, 3, 4)).astype(float)
        wanted = stats.kendalltau(x, y).statistic
        y[y == 3] = x[x == 3] = np.inf  # needs that were not reached
        assert kendall(x, y) == pytest.approx(wanted)


@pytest.mark.parametrize(("worst", "counted"), [(0.01, 1.0), (0.25, 0.0), (0.9, 0.0)])
def test_a_task_that_some_seed_learns_is_judged_with_every_seed(worst, counted, monkeypatch):
    misses = np.ones((2, 4, 2, 3))  # task, architecture, n, seed
    misses[:, [1, 3], 1] = 0.01
    misses[1, 1, 1, 2] = worst  # a·I on the second task
    miss = xr.DataArray(
        misses,
        {"task": ["aba_abb", "majority_6"], "architecture": list(TRANSFORMERS), "n": [64, 256], "seed": [1, 2, 3]},
    )
    made = xr.Dataset({"miss": miss, "n_needed": data_need._needed(miss, 0.1)})
    made = made.assign(data_need.factors(miss.sel(architecture=VANILLA, drop=True), miss, 0.1).data_vars)
    monkeypatch.setitem(gains.RUNS, "abstract_symbols/data_need", lambda **_: made)
    gained = gains._gains(("aba_abb", "majority_6"), 3, 0.1)
    assert gained.learned.values.tolist() == ["αβα vs αββ", "majority of 6"]
    assert float(gained.helped_low.sel(learned="majority of 6", helped="alone")) == counted
    assert float(gained.helped_low.sel(learned="αβα vs αββ").min()) == 1.0
    xr.testing.assert_equal(gained.miss, miss)
