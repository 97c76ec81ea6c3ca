"""torch's fused Adam for parameters with a leading axis of runs, each run at its own rate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam


class FusedAdam:
    """Adam over all parameters of all runs. Neighbouring runs with the same rate are updated in one call."""

    def __init__(self, parameters: Sequence[Tensor], rates: Sequence[float]) -> None:
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]
        self.rates, self.steps = list(rates), 0

    def update(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Take one step, in place."""
        begin = 0
        while begin < len(self.rates):
            rate, end = self.rates[begin], begin + 1
            while end < len(self.rates) and self.rates[end] == rate:
                end += 1
            runs = slice(begin, end)
            adam(
                [parameter[runs] for parameter in parameters],
                [gradient[runs] for gradient in gradients],
                [moment[runs] for moment in self.first],
                [moment[runs] for moment in self.second],
                max_exp_avg_sqs=[],
                state_steps=[torch.tensor(float(self.steps)) for _ in parameters],
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=rate,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )
            begin = end
        self.steps += 1

    def select_runs(self, runs: Tensor) -> None:
        """Keep these runs."""
        self.first = [value[runs] for value in self.first]
        self.second = [value[runs] for value in self.second]
        self.rates = [self.rates[run] for run in runs.tolist()]
