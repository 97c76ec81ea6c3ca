"""Does the theory apply to your setting? Which assumptions it meets, how far it misses the others, what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from foretrain.core.errors import as_floats, require
from foretrain.papers.scan_snap.theory.confusion import memory
from foretrain.papers.scan_snap.theory.correlation import correlation_window, overlaps, unmixing
from foretrain.papers.scan_snap.theory.decoder import Array, omega1, snap_time, within
from foretrain.papers.scan_snap.theory.finite_length import least_length
from foretrain.papers.scan_snap.theory.sampling import can_follow, noise_excess

TIME_UNIT = "steps of one sample, or of a batch whose loss is averaged"
MEMORY_ALLOWED = 0.2  # measured: ignoring the decoder's past is then off by less than 10 % up to the snap
STEP_ALLOWED = 0.15  # of η_Y/K, measured: steps are then within 9 % of the flow from a quarter of t0 on
NOISE_ALLOWED = 0.3  # of z, added by drawn classes: measured, the moments are then within 10 % of training
NOISE_TIMES = (0.25, 0.5, 1.0, 2.0)  # of t0, at which this is measured
LITTLE_NOISE, LITTLE_CURVATURE = 0.15, 0.5  # of (η_Y + η_Z)/batch and η_Z·h: below both, noise adds too little to count
CURVATURE_ALLOWED = 1.0  # times η_Z: measured, attention runs away from about 2 on, as in any gradient descent
CURVATURE_FOLLOWED = 2.0  # the same if the steps themselves are followed, as the moments do
ALL_CLASSES = "all classes"
RATE_ALLOWED = 1.0  # Theorem 1 asks for η_Y < 1
VOCAB_NEEDED = 100.0  # Theorem 1 asks for M ≫ 100
WIDTH = 100  # columns of the printed table
EQUAL = 1e-9  # two probabilities that differ by less are the same


@dataclass(frozen=True)
class Condition:
    """One assumption: what was measured, and by which factor the setting misses it (1 or less: it is met)."""

    name: str
    says: str
    measured: str
    miss: float | None  # None: what was given does not tell

    @property
    def met(self) -> bool | None:
        """Whether the setting meets it; None if that cannot be measured."""
        return None if self.miss is None else self.miss <= 1


@dataclass(frozen=True)
class Meaning:
    """One prediction: which function makes it, and the conditions that stand in its way."""

    predicts: str
    function: str
    blocked_by: tuple[str, ...]
    note: str = ""

    @property
    def meaningful(self) -> bool:
        """Whether nothing stands in its way."""
        return not self.blocked_by


@dataclass(frozen=True)
class Applicability:
    """What `applies` found; print it, or take `rows()`."""

    conditions: tuple[Condition, ...]
    predictions: tuple[Meaning, ...]
    snap_time: float  # in `time_unit`
    time_unit: str = TIME_UNIT

    def __getitem__(self, name: str) -> Condition:
        """A condition by its name, such as "Assumption 2"."""
        by_name = {condition.name: condition for condition in self.conditions}
        require(name in by_name, f"There is no condition {name!r}; there are {', '.join(by_name)}.")
        return by_name[name]

    def rows(self) -> list[dict[str, Any]]:
        """One row per condition and per prediction, for a table."""
        met: Mapping[bool | None, str] = {True: "met", False: "not met", None: "not known"}
        conditions = [
            {"name": c.name, "says": c.says, "verdict": met[c.met], "reason": c.measured} for c in self.conditions
        ]
        predictions = [
            {
                "name": p.function,
                "says": p.predicts,
                "verdict": "meaningful" if p.meaningful else "not meaningful",
                "reason": p.note if p.meaningful else f"needs {' and '.join(p.blocked_by)}",
            }
            for p in self.predictions
        ]
        return conditions + predictions

    def __str__(self) -> str:
        margin = " " * (len("not meaningful") + 2)
        lines = []
        for row in self.rows():
            head = f"{row['verdict']:<{len(margin)}}{row['name']}: {row['says']}"
            lines += [head, *([f"{margin}{row['reason']}"] if row["reason"] else [])]
        lines.append(f"{margin}t0 = {self.snap_time:.0f} {self.time_unit}")
        return "\n".join(line for long in lines for line in wrap(long, WIDTH, subsequent_indent=margin))


def applies(
    task: Any,
    *,
    eta_y: float,
    eta_z: float,
    query: ArrayLike | None = None,
    length: int | None = None,
    class_weights: ArrayLike | None = None,
    batch: int | str = 1,
) -> Applicability:
    """Assumptions 1 and 2, and what Theorems 1 to 4 ask for besides, in a setting of your own.

    task           P(token | class) as [class, token] with a column for each of the M tokens, or an object with an
                   attribute `probabilities` (and perhaps `query`, `length`, `class_weights`), such as SequenceClasses
    eta_y, eta_z   learning rates of decoder and attention, for plain SGD; with momentum μ, those divided by 1 − μ
    query          the query of each class; by default all classes share one
    length         tokens per sequence including the query; None if sequences are as good as infinitely long
    batch          samples per step, drawn at random: 1 as in the paper; "all classes" if each is in every step equally
    """
    whole = batch == ALL_CLASSES
    require(
        whole or (isinstance(batch, int) and batch >= 1),
        f'batch must be a whole number of at least 1, or "{ALL_CLASSES}"; got {batch!r}.',
    )
    samples = None if whole else int(batch)
    P = as_floats("task", getattr(task, "probabilities", task))
    require(P.ndim == 2 and len(P) >= 2, "The task must have P(token | class) as [class, token], with two classes.")
    require(bool(np.all(P >= 0) and np.allclose(P.sum(axis=1), 1)), "Every row of P(token | class) must sum to 1.")
    for name, rate in (("eta_y", eta_y), ("eta_z", eta_z)):
        within(f"{name} must be a finite number above 0", rate, np.nextafter(0, 1))
    K, M = P.shape
    require(M >= 4, f"The theory needs at least 4 tokens; got {M}.")
    given = query if query is not None else getattr(task, "query", np.zeros(K, dtype=int))
    queries = np.unique(np.asarray(given), return_inverse=True)[1].reshape(-1)
    require(queries.shape == (K,), f"query must name one query per class, {K}; got {queries.size}.")
    long = length if length is not None else getattr(task, "length", None)
    weights = class_weights if class_weights is not None else getattr(task, "class_weights", np.full(K, 1 / K))
    f = P / np.linalg.norm(P, axis=1, keepdims=True)
    t0 = float(snap_time(eta_y=eta_y, vocab=M, classes=K))
    curvature, single = (eta_z * h for h in _curvatures(f))
    conditions = (
        Condition("Assumption 1(a)", "the model has no positions", "a property of your model", None),
        _long(P, long),
        _decoder_first(f, queries, eta_y, eta_z),
        _weak_correlations(f, M),
        _theorem1(M, eta_y),
        _equal_classes(as_floats("weights", weights)),
        _one_query(queries),
        _short_steps(K, eta_y),
        _small_noise(P, eta_y, eta_z, samples, t0, single),
        _steady_attention(eta_z, curvature, CURVATURE_ALLOWED if samples is None else CURVATURE_FOLLOWED),
        _common_tokens(P),
        _dominant(P),
        _gradient(f, M),
    )
    missed = {c.name for c in conditions if c.met is False}
    return Applicability(conditions, _meanings(missed, samples), t0)


def _meanings(missed: set[str], samples: int | None) -> tuple[Meaning, ...]:
    """With drawn samples the moments follow the length of steps, too."""
    steps = "Short steps" if samples is None else "Small noise"
    how = "at any ratio of the rates" + ("" if samples is None else f", with batch={samples}")
    table = (
        ("which tokens gain and lose attention (Theorem 2)", "fates",
         ("Assumption 1(b)", "Assumption 1(c)", "Equal classes", "Common tokens"), ""),
        ("which distinct token leaves the others behind (Theorem 3)", "relative_gain",
         ("Assumption 1(b)", "Assumption 1(c)", "Equal classes", "Dominant token"), ""),
        ("when attention snaps (t0 of Theorem 4)", "snap_time",
         ("Assumption 1(c)", "Theorem 1", "Equal classes"), "in training at .5 to 1.4 times t0"),
        ("how far attention moves, by Theorem 4", "theorem4_growth_factor",
         ("Assumption 1(b)", "Assumption 1(c)", "Theorem 1", "Equal classes", "One query", "Common tokens",
          "Gradient of Lemma 3"), ""),
        ("how far attention moves, by the flow of training", "predicted_logits",
         ("Assumption 1(b)", "Equal classes", "One query", steps, "Steady attention"), how),
    )  # fmt: skip
    return tuple(
        Meaning(predicts, function, tuple(n for n in needs if n in missed), note)
        for predicts, function, needs, note in table
    )


def _long(P: Array, length: int | None) -> Condition:
    says = "sequences are so long that noise in the token counts does not matter"
    needed = least_length(P)
    needed = needed[np.isfinite(needed)]
    most = float(needed.max(initial=2.0))
    words = f"the rarest distinct token needs T ≥ {most:.0f}"
    if length is None:
        return Condition("Assumption 1(b)", says, f"{words}; length was not given", None)
    enough = float(np.mean(needed <= length)) if needed.size else 1.0
    measured = f"T = {length}; {words}; {enough:.0%} of the distinct tokens have what they need"
    return Condition("Assumption 1(b)", says, measured, most / length)


def _decoder_first(f: Array, queries: NDArray[np.int64], eta_y: float, eta_z: float) -> Condition:
    """A token that several classes of a query have is pulled by all of them, hence the sum of f² over these."""
    u = float((1 + omega1(vocab=f.shape[1])) * np.log(f.shape[1]))
    pull = max(float((f[queries == q] ** 2).sum(axis=0).max()) for q in np.unique(queries))
    held = float(memory(u, eta_y=eta_y, eta_z=eta_z, feature=np.sqrt(pull)))
    needed = eta_y / eta_z * held / MEMORY_ALLOWED
    measured = f"η_Y/η_Z = {eta_y / eta_z:.3g}; {needed:.0f} is needed, f²·u²/(2·{MEMORY_ALLOWED:g}) with u = {u:.1f}"
    return Condition(
        "Assumption 1(c)",
        "the decoder learns so fast that it keeps no memory of past attention",
        measured,
        held / MEMORY_ALLOWED,
    )


def _weak_correlations(f: Array, M: int) -> Condition:
    sizes = abs(np.linalg.eigvalsh(overlaps(f)))
    least, most = (float(edge) for edge in correlation_window(vocab=M, classes=len(f)))
    smallest = max(float(sizes.min()), np.finfo(float).tiny)
    measured = f"|λ| from {sizes.min():.3g} to {sizes.max():.3g}; allowed from {least:.3g} to {most:.3g}"
    if least >= most:
        measured += f", which no features can meet: M must be above 36K² = {36 * len(f) ** 2}"
    miss = max(float(sizes.max()) / most, least / smallest)
    return Condition("Assumption 2", "the classes overlap weakly: 6/√M ≤ |λ_i(E)| < 1/K", measured, miss)


def _theorem1(M: int, eta_y: float) -> Condition:
    low = M**-0.99
    miss = max(VOCAB_NEEDED / M, eta_y / RATE_ALLOWED, low / eta_y)
    return Condition("Theorem 1", "M ≫ 100 and M^−.99 ≪ η_Y < 1", f"M = {M}, η_Y = {eta_y:g}, M^−.99 = {low:.2g}", miss)


def _equal_classes(weights: Array) -> Condition:
    spread = float(weights.max() / max(weights.min(), np.finfo(float).tiny))
    measured = (
        f"the most frequent one occurs {spread:.3g} times as often as the rarest" if spread > 1 + 1e-6 else "they are"
    )
    return Condition("Equal classes", "all classes are equally frequent", measured, spread * (1 - 1e-6))


def _one_query(queries: NDArray[np.int64]) -> Condition:
    number = len(np.unique(queries))
    words = "one" if number == 1 else f"there are {number}"
    return Condition("One query", "all classes share one query (section 6)", words, float(number))


def _short_steps(K: int, eta_y: float) -> Condition:
    """The flow leaves out that steps have a length: its error is about .6·η_Y/K at a quarter of t0, and less later."""
    says = f"steps are short: η_Y/K ≤ {STEP_ALLOWED:g}"
    return Condition("Short steps", says, f"η_Y/K = {eta_y / K:.3g}", eta_y / K / STEP_ALLOWED)


def _small_noise(P: Array, eta_y: float, eta_z: float, samples: int | None, t0: float, single: float) -> Condition:
    """Drawn classes make decoder and attention wander, and on average a wandering network moves attention farther.

    Following the moments takes a second or two, so it is left out where (η_Y + η_Z)/batch and the curvature of a single
    class are small. `single` is that curvature times η_Z.
    """
    says = f"the classes of a step are drawn with little noise: it changes z by at most {NOISE_ALLOWED:.0%} up to 2·t0"
    if samples is None:
        return Condition("Small noise", says, "every class is in every step", 0.0)
    size = (eta_y + eta_z) / samples
    if size <= LITTLE_NOISE and single / samples <= LITTLE_CURVATURE:
        small = f"(η_Y + η_Z)/batch = {size:.3g}; up to {LITTLE_NOISE:g} it is small"
        return Condition("Small noise", says, small, size / LITTLE_NOISE)
    if not can_follow(P):
        return Condition("Small noise", says, "cannot be measured: many classes that are not alike", None)
    excess = noise_excess(P, eta_y=eta_y, eta_z=eta_z, times=np.array(NOISE_TIMES) * t0, batch=samples)
    measured = (
        f"it changes z by {excess:.2g} times itself" if excess < 10 else "attention runs away: noise feeds on itself"
    )
    return Condition("Small noise", says, measured, excess / NOISE_ALLOWED)


def _curvatures(f: Array) -> tuple[float, float]:
    """Curvature of the loss along a logit z_l, averaged over the classes, and of a single class.

    Once the decoder's logit is s, moving z_l by one changes its own force by f_l²(1 − f_l²)·s·(1 − α), with the
    decoder's confidence α = e^s/(e^s + M − 1). The largest s·(1 − α) counts.
    """
    logits = np.linspace(0, 2 * np.log(f.shape[1]), 1000)
    force = float((logits / (1 + np.exp(logits) / (f.shape[1] - 1))).max())
    spread = f**2 * (1 - f**2)
    return force * float(spread.mean(axis=0).max()), force * float(spread.max())


def _steady_attention(eta_z: float, steepness: float, allowed: float) -> Condition:
    """Gradient descent on a curvature h is steady while rate·h < 2; beyond that attention ran 100 times too far.

    h is the mean over classes. What a single class does is part of the noise.
    """
    return Condition(
        "Steady attention",
        f"steps of attention are shorter than its loss is curved: η_Z·h ≤ {allowed:g}",
        f"η_Z = {eta_z:.3g}; up to {allowed * eta_z / steepness:.3g} is allowed",
        steepness / allowed,
    )


def _common_tokens(P: Array) -> Condition:
    """Theorem 2(b) has a single common token; Corollary 2 several, with the same probability in every class."""
    common = P[:, (P > 0).sum(axis=0) > 1]
    even = common.size > 0 and float(np.ptp(common, axis=0).max()) <= EQUAL
    says = "one common token, or several with the same probability in every class (Corollary 2)"
    measured = f"{common.shape[1]} common, {'each equally' if even else 'not each equally'} likely in all classes"
    return Condition("Common tokens", says, measured, 1.0 if even else float(max(common.shape[1], 2 - common.shape[1])))


def _dominant(P: Array) -> Condition:
    alone = (P > 0).sum(axis=0) == 1
    best = np.sort(np.where(alone, P, 0.0), axis=1)[:, -2:]
    lead = float((best[:, 1] - best[:, 0]).min())
    measured = "every class has one" if lead > EQUAL else "in some class no distinct token is the most frequent"
    says = "each class has one most frequent distinct token"
    return Condition("Dominant token", says, measured, 1.0 if lead > EQUAL else 2.0)


def _gradient(f: Array, M: int) -> Condition:
    """Lemma 3's modified gradient gives attention a drive of E', the gradient itself one of 1/M at the start."""
    E_ = unmixing(overlaps(f))
    factor = float(abs(E_[~np.eye(len(f), dtype=bool)]).max() * M)
    says = "the modified gradient of Lemma 3 drives attention as the loss's own gradient does"
    return Condition(
        "Gradient of Lemma 3", says, f"at the start its drive is M·E' = {factor:.3g} times as large", factor
    )
