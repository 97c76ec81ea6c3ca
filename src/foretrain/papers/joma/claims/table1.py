"""Section 6, Table 1: how hidden nodes align with latents, how much of that is due to training, and on which data."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from foretrain.ledger.claim import Claim, Control, no_number
from foretrain.ledger.comparators import positive, same_mean
from foretrain.ledger.tolerances import THREE_ERRORS
from foretrain.papers.joma.experiments.table1 import MODEL, align, printed_table
from foretrain.papers.joma.setting import TABLE1, TABLE1_NODES, TABLE1_SEEDS

FIRST = ("C20-ch2-10-20",)
LAST_SHORT = ("C50-ch2-20-30",)  # the last with N_ch = 2, whose sequences are short
ALL = tuple(TABLE1)
FRESH = 101  # first seed of a second measurement, which has no seed in common with the first
HBLT = {"generator": "HBLT", "s": 1}
SMALL = {"width": 32, "batch": 32}
ROUNDING = 0.01 / np.sqrt(12)  # standard deviation of the rounding to two digits


def _runs(configurations: tuple[str, ...], seeds: int, steps: int, first_seed: int = 1, **setting: Any) -> xr.Dataset:
    numbers = tuple(range(first_seed, first_seed + seeds))
    runs = [align(c, seeds=numbers, steps=steps, **setting) for c in configurations]
    return xr.concat(runs, xr.IndexVariable("configuration", list(configurations)))


def _trained(**setting: Any) -> xr.Dataset:
    return _runs(**setting)[["ncorr"]].isel(time=-1, drop=True)


def _table(table: str = "printed", **setting: Any) -> xr.Dataset:
    """Table 1 as printed, or as measured with fresh seeds.

    The rounding error of a printed mean does not shrink with more seeds. The comparison divides the spread by √5, so
    the rounding is multiplied by √5 first.
    """
    if table == "fresh seeds":
        return _with_spread(_trained(**setting, first_seed=FRESH)["ncorr"])
    printed = printed_table(setting["configurations"])
    spread = np.hypot(printed["ncorr_std"], ROUNDING * np.sqrt(TABLE1_SEEDS))
    return printed.assign(ncorr_std=spread, ncorr_seeds=TABLE1_SEEDS)


def _with_spread(values: xr.DataArray) -> xr.Dataset:
    """A measurement in the form of a prediction: its mean over seeds, its spread and the number of seeds."""
    name = str(values.name)
    spread, seeds = values.std("seed", ddof=1), values.sizes["seed"]
    return xr.Dataset({name: values.mean("seed"), f"{name}_std": spread, f"{name}_seeds": seeds})


def _table_claim(identity: str, nodes: int, fast_seeds: int, erratum: str) -> Claim:
    return Claim(
        id=identity,
        source="Table 1",
        says=f"In a trained 3-layer transformer with {nodes} hidden nodes every latent of the data has a hidden node "
        "of its layer that correlates with it as printed (NCorr for s = 0 and s = 1), in all columns. (Tier fast "
        "looks at one column, the last of the cheap ones with N_ch = 2; it was settled on when the whole table had "
        "been measured, since it is one that does not agree. It takes 20 steps, tier full 100, and its verdict does "
        "not depend on them: the untrained network is off by 6.5 standard errors already. Three standard errors of "
        "five seeds are p = .04 by Student's t, not .0027.)",
        settings={
            "fast": {"configurations": LAST_SHORT, "seeds": fast_seeds, "steps": 20, "hidden": nodes},
            "full": {"configurations": ALL, "seeds": 5, "steps": MODEL.steps, "hidden": nodes},
        },
        control=Control(
            "the same network with fresh seeds in the place of the printed table",
            {"table": "fresh seeds", "configurations": LAST_SHORT},
        ),
        expect="fails",
        erratum=erratum,
        predict=_table,
        observe=lambda table="", **setting: _trained(**setting),
        compare=same_mean("ncorr"),
    )


table1 = _table_claim(
    "joma/table1",
    TABLE1_NODES[0],
    5,
    "With 400 hidden nodes, as in the published experiments, 16 of the 24 means are within three combined standard "
    "errors, 8 are not (measured, printed). s = 0: .91, .97 and .88, .94 and .87, .95 for C = 20, 30, 50 with N_ch = "
    "2, (20, 30). s = 1: .58, .72 and .60, .66 for C = 30, N_ch = 3; .60, .55 for C = 50, N_ch = 2, (20, 30); .50, "
    ".64 and .53, .61 for C = 50, N_ch = 3. On average s = 0 is .03 and s = 1 .05 too low. 1024 nodes come nearer: "
    "see table1_1024_nodes. A tenth of the rate changes some .02 (three columns), and thousands of steps more, in "
    "which weight decay takes over, bring s = 0 down to .75 (one column, two seeds).",
)
more_nodes = _table_claim(
    "joma/table1_1024_nodes",
    TABLE1_NODES[1],
    3,
    "With 1024 hidden nodes, a number chosen because it fits (400 are too few; with 4096 s = 1 is .1 too high, two "
    "columns and seeds), 19 of the 24 means are within three combined standard errors: all of s = 0, seven of s = 1. "
    "Not so (measured, printed): .74, .68 for C = 20, N_ch = 3, (20, 30); .62, .72 for C = 30, N_ch = 3, (10, 20); "
    ".63, .58 and .68, .55 for C = 50, N_ch = 2; .53, .64 for C = 50, N_ch = 3, (10, 20). The text says that NCorr "
    "falls as N_ch and N_l grow. Measured s = 0 falls with N_l; s = 1 falls with N_ch, but from (10, 20) to (20, 30) "
    "it rises in 6 of 6 pairs (400 nodes: 5 of 6; printed, it falls in 5). It falls with C too, of which the text "
    "says nothing: so does the level of nodes of pure noise (.67, .57, .44 for C = 20, 30, 50). Printed, s = 1 does "
    "not fall with N_ch at C = 50 nor from C = 20 to 30 at N_ch = 3, (10, 20). It would if the pairs of C = 30, N_ch "
    "= 3, of C = 50, N_ch = 2 and of C = 50, N_ch = 3 were one another's, and the distance at s = 1 would shrink from "
    ".064 to .039 (root mean square); with so many exchanges to choose from that is weak evidence that columns were "
    "mixed up.",
)


def _gain(s: int, **setting: Any) -> xr.Dataset:
    """NCorr after training minus before, averaged over the configurations: by seed (`overall`), and the mean over seeds
    minus three standard errors (`sure_gain`).

    It also gives the gain and its standard error by configuration, the share of the trained NCorr that the untrained
    network already has, and NCorr of nodes of noise.
    """
    run = _runs(**setting)
    ncorr = run["ncorr"].sel(s=s, drop=True)
    before, after = ncorr.isel(time=0, drop=True), ncorr.isel(time=-1, drop=True)
    gain = after - before
    overall = gain.mean("configuration")
    return xr.Dataset(
        {
            "sure_gain": overall.mean("seed") - THREE_ERRORS.value * _error(overall),
            "overall": overall,
            "gain": gain.mean("seed"),
            "gain_error": _error(gain),
            "share_untrained": (before.mean("seed") / after.mean("seed")),
            "chance": run["chance"].sel(s=s, drop=True).mean("seed"),
            "untrained": before.mean("seed"),
            "trained": after.mean("seed"),
            "loss": run["loss"].mean("seed"),
        }
    )


def _error(values: xr.DataArray) -> xr.DataArray:
    return values.std("seed", ddof=1) / np.sqrt(values.sizes["seed"])


_gain_claim: dict[str, Any] = {
    "source": 'Section 6, "in the learned models", and Table 1',
    "predict": no_number,
    "observe": _gain,
    "compare": positive("sure_gain"),
}

upper = Claim(
    id="joma/table1_learned_s1",
    says="Training raises the alignment of layer s = 1 above that of the untrained network (mean over the "
    "configurations, by more than three standard errors over seeds: .050 ± .005 with 400 hidden nodes, sure by itself "
    "in 9 of 12 columns).",
    settings={
        "fast": {"configurations": FIRST, "s": 1, "seeds": 5, "steps": 30},
        "full": {"configurations": ALL, "s": 1, "seeds": 5, "steps": MODEL.steps},
    },
    control=Control("labels shuffled at every step", {"shuffled": True}),
    **_gain_claim,
)
lower = Claim(
    id="joma/table1_learned_s0",
    says="Training raises the alignment of layer s = 0, the highest of the table, above that of the untrained network.",
    settings={
        "fast": {"configurations": FIRST, "s": 0, "seeds": 5, "steps": 30},
        "full": {"configurations": ALL, "s": 0, "seeds": 5, "steps": MODEL.steps},
    },
    control=Control("the layer above in its place", {"s": 1}),
    expect="fails",
    erratum="The printed .94 to 1.00 at s = 0 are there before training: with 400 hidden nodes the untrained network "
    "has .93 to 1.00 and the trained one .87 to .98, less in all 12 columns (surely so in 8). At s = 1 the untrained "
    "network has 85 to 101 % of what the trained one has (.657 of .739 for C = 20, N_ch = 2, (10, 20), where .81 is "
    "printed). Most of this is selection from noise: of 400 nodes of standard normal noise on the same sequences the "
    "best have .63, .52 and .41 at s = 1 for C = 20, 30 and 50, the untrained network .56 to .72, .50 to .65 and .45 "
    "to .61. That of s = 0 is not: noise has .63, .53 and .40 there.",
    **_gain_claim,
)


def _gain_on_set_unions(generator: str, seeds: int, set_union_seeds: int, **setting: Any) -> xr.Dataset:
    """The gain on set unions, the data behind the table, with fresh seeds."""
    run = _gain(**setting, seeds=set_union_seeds, generator="set union", first_seed=FRESH)
    return _with_spread(run["overall"])


hblt = Claim(
    id="joma/table1_hblt",
    source='Section 6, "synthetic data sampled by HBLT", and Table 1',
    says="On true HBLT(ρ) data, from which Table 1 is said to be sampled, training raises the alignment of layer s = 1 "
    "as it does on the deterministic set unions the table was made from (mean gain over the configurations, within "
    "three combined standard errors; the same network, batch and number of steps). (At tier fast four seeds against "
    "twelve, since a seed of HBLT costs several times one of set unions. Three standard errors of four or five seeds "
    "are p = .04 to .06 by Student's t, not .0027; here it is 4.4.)",
    predict=_gain_on_set_unions,
    observe=lambda set_union_seeds, **setting: _gain(**setting),
    compare=same_mean("overall"),
    settings={
        "fast": {**HBLT, "configurations": FIRST, "seeds": 4, "set_union_seeds": 12, "steps": 30, **SMALL},
        "full": {
            **HBLT,
            "configurations": ALL,
            "seeds": 5,
            "set_union_seeds": 5,
            "steps": MODEL.steps,
            "width": MODEL.width,
            "batch": 64,
        },
    },
    control=Control("the set-union generator in its place", {"generator": "set union"}),
    expect="fails",
    erratum="Training lowers it: over the 12 columns NCorr at s = 1 moves by −.030 ± .003 in 100 steps that bring the "
    "loss from 3.6 to 1.7, against +.046 ± .006 on set unions with the same network, batch and steps. It falls in all "
    "columns: by .024 to .052 with N_ch = 2, by .009 ± .014, .020 ± .015 and .039 ± .011 with N_ch = 3 for C = 20, 30, "
    "50 (had strings only 30 places, 13 % of the tokens would be lost with N_ch = 3, and it would hardly move there). "
    "The floors differ: nodes of noise have .18 on 256 samples of HBLT, far below the untrained network (.58 to .77), "
    "but .40 to .63 on set unions, near it. ρ = "
    ".9. A tree gives every latent one parent, so at most 99 tokens leave room for 11 top latents with N_ch = 3: (10, "
    "20) and (20, 30) are then the same tree.",
)

CLAIMS = [table1, more_nodes, upper, lower, hblt]
