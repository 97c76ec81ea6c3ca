"""What is recorded of the weight matrices at a measured step: their spectra, their gradients, and how far the update
moved them.

    norm             ‖W‖, Frobenius
    stable_rank      ‖W‖²/σ_max²
    effective_rank   exp of the entropy of the singular values; at some measurements only, see whole_spectra.py
    gradient_norm    see gradients.py
    update_ratio     ‖ΔW‖/‖W‖ from the forward pass to the end of the step

Norms and ranks are those at the end of the step, after the update. For updates, a sample of every matrix's entries is
kept from the forward pass to that moment.

Matrices on the CPU that this process holds whole are measured by `SpectrumTracker`. All others are measured together by
`JointSpectra`, which never waits for an accelerator, and which shards need.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from foretrain.core.errors import InputError
from foretrain.measures import SpectrumTracker
from foretrain.measures.matrices import plain_arithmetic
from foretrain.monitor.guard import Guard, no_guard
from foretrain.monitor.held import Held, held_by_this_process
from foretrain.monitor.spectra import AddUp, JointSpectra, square_of
from foretrain.monitor.tally import Arrays, Measures, Readings, Tally
from foretrain.monitor.whole_spectra import effective_ranks

EFFECTIVE_RANK_EVERY = 10  # measurements: all singular values cost 30 to 80 times as much as the largest one
ENTRIES = 1 << 17  # of a matrix that are kept to see how far it moves; of a larger matrix, some of its rows and columns
PART, SPECTRA = "weights", "spectra"


class WeightReader:
    """Reads the trainable matrices of a model at one step after another."""

    def __init__(self, guard: Guard = no_guard) -> None:
        self.measurements, self._guard = 0, guard
        self._tracker, self._on_device, self._of_shards = SpectrumTracker(), JointSpectra(), JointSpectra()
        self._before: dict[str, Tensor] = {}
        self._measured: dict[str, Measures] = {}

    def begin(self, model: nn.Module) -> dict[str, Held]:
        """Keep a sample of every matrix as it is now; all trainable parameters, for those who read gradients."""
        self.stop()
        parts = held_by_this_process(model)
        for name, held in _matrices(parts).items():
            with self._guard("read the weights"):
                self._before[name] = _sample(held).clone()
        return parts

    def needs_all(self, model: nn.Module) -> bool:
        """Whether a matrix is spread over processes."""
        return any(not held.whole for held in _matrices(held_by_this_process(model)).values())

    def finish(self, model: nn.Module, squares: dict[str, Tensor], readings: Readings, add_up: AddUp | None) -> None:
        """Add what is measured now, and since `begin`. Without `add_up`, shards are left out."""
        matrices = _matrices(held_by_this_process(model))
        chosen = {name: held for name, held in matrices.items() if held.whole or add_up is not None}
        self._measured = {}
        for name, held in chosen.items():
            with self._guard("read the weights"), plain_arithmetic(held.values().device):
                readings.add(PART, name, self._tally(name, held, squares.get(name)))
        self._spectra(chosen, readings, add_up)
        self.measurements += 1
        self.stop()

    def measured(self, parts: dict[str, dict[str, Measures]]) -> dict[str, Measures]:
        """The measures of every matrix, from what was read of all tallies and what was known before."""
        spectra = parts.pop(SPECTRA, {})
        measures = {}
        for name, rest in parts.pop(PART, {}).items():
            norm = {"norm": rest.pop("norm")}
            measures[name] = norm | self._measured.get(name, {}) | spectra.get(name, {}) | rest
        return measures

    def stop(self) -> None:
        """Let go of the weights."""
        self._before = {}

    def _tally(self, name: str, held: Held, gradient: Tensor | None) -> Tally:
        fields = {"square": square_of(held)}
        if gradient is not None:
            fields["gradient"] = gradient
        with self._guard("read updates of the weights"):
            before, after = self._before.get(name), _sample(held)
            if before is not None and before.shape == after.shape:
                fields |= {"moved": _square(after - before) / held.copies, "size": _square(before) / held.copies}
        if held.whole:
            return Tally({}, {}, _finish, fields)
        return Tally(fields, {}, _finish, needs_all=True)

    def _spectra(self, matrices: dict[str, Held], readings: Readings, add_up: AddUp | None) -> None:
        full = self.measurements % EFFECTIVE_RANK_EVERY == 0
        on_device, shards = {}, {}
        for name, held in matrices.items():
            values = held.values()
            if held.is_stack:
                continue
            if not held.whole:
                shards[name] = held
            elif values.device.type != "cpu":
                on_device[name] = held
            else:
                with self._guard("read the weights"):
                    self._measured[name] = self._tracked(name, values, full)
        self._together(self._on_device, on_device, readings, list)
        if add_up is not None:
            self._together(self._of_shards, shards, readings, add_up)

    def _together(self, spectra: JointSpectra, matrices: dict[str, Held], readings: Readings, add_up: AddUp) -> None:
        if not matrices:
            return
        with self._guard("read the weights"), torch.no_grad():
            tallies = spectra.tallies(matrices, add_up)
            ranks = effective_ranks(matrices, add_up, self.measurements, EFFECTIVE_RANK_EVERY)
            for name, tally in tallies.items():
                readings.add(SPECTRA, name, _with_rank(tally, ranks.get(name)))

    def _tracked(self, name: str, W: Tensor, full: bool) -> Measures:
        try:
            spectrum = self._tracker.refresh(name, W, full=full)
        except InputError:  # an entry is infinite or not a number: a finding, not a reason to stop someone's training
            return {"stable_rank": math.nan}
        measures = {"stable_rank": spectrum.stable_rank}
        if spectrum.effective_rank is not None:
            measures["effective_rank"] = spectrum.effective_rank
        return measures


def _finish(arrays: Arrays) -> Measures:
    measures = {"norm": math.sqrt(arrays["square"])}
    if "gradient" in arrays:
        measures["gradient_norm"] = math.sqrt(arrays["gradient"])
    if "moved" in arrays:
        size = float(arrays["size"])
        measures["update_ratio"] = math.sqrt(arrays["moved"] / size) if size > 0 else math.nan
    return measures


def _with_rank(tally: Tally, rank: Tensor | None) -> Tally:
    if rank is None:
        return tally

    def finish(arrays: Arrays) -> Measures:
        return {**tally.finish(arrays), "effective_rank": float(arrays["effective_rank"])}

    return Tally(tally.sums, tally.largest, finish, {**tally.local, "effective_rank": rank}, tally.needs_all)


def _matrices(parts: dict[str, Held]) -> dict[str, Held]:
    """Matrices, and stacks of them, which have norms but no rank."""
    return {name: held for name, held in parts.items() if held.is_matrix or held.is_stack}


def _sample(held: Held) -> Tensor:
    """Entries at every so many rows and columns of the whole matrix, as far as this process holds them: the same
    entries however the matrix is spread."""
    every_row, every_column = strides((math.prod(held.shape[:-1]), held.shape[-1]))
    row, column = held.offset
    return held.block()[-row % every_row :: every_row, -column % every_column :: every_column]


def strides(shape: Sequence[int]) -> tuple[int, int]:
    """Steps from one row and from one column to the next, so that at most `ENTRIES` entries are kept."""
    least = math.ceil(math.prod(shape) / ENTRIES)
    rows = min(math.ceil(math.sqrt(least)), shape[0])
    return rows | 1, math.ceil(least / rows) | 1  # odd: matrices often have a pattern of two, or of heads


def _square(values: Tensor) -> Tensor:
    with plain_arithmetic(values.device):
        wide = torch.promote_types(values.dtype, torch.float32)
        return torch.linalg.vector_norm(values, dtype=wide).double().square()
