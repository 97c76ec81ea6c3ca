"""torch's Adam for parameters with a leading axis of runs, which may have rates of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adam import adam


class Adam:
    """torch's fused Adam over stacked parameters, each stretch of runs at its own rate."""

    def __init__(self, parameters: Sequence[Tensor], rates: Sequence[float]) -> None:
        self.first = [torch.zeros_like(p) for p in parameters]
        self.second = [torch.zeros_like(p) for p in parameters]
        self.rates, self.steps = list(rates), 0

    def step(self, parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        begin = 0
        while begin < len(self.rates):
            rate, end = self.rates[begin], begin + 1
            while end < len(self.rates) and self.rates[end] == rate:
                end += 1
            here = slice(begin, end)
            moved, by, first, second = (
                [tensor[here] for tensor in part] for part in (parameters, gradients, self.first, self.second)
            )
            adam(
                moved,
                by,
                first,
                second,
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

    def keep(self, runs: Tensor) -> None:
        self.first = [value[runs] for value in self.first]
        self.second = [value[runs] for value in self.second]
        self.rates = [self.rates[run] for run in runs.tolist()]
