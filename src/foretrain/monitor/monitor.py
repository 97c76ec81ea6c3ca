"""Watches a model while it trains: every so many steps, the attention of one forward pass and the weights are read."""

from __future__ import annotations

from pathlib import Path

from foretrain.monitor.recorder import Recorder


class Monitor(Recorder):
    """Records what attention and weights do during training, without changing a bit of it.

        monitor = Monitor(model, every=50, file="run.jsonl")
        for batch in data:
            loss = model(batch).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            monitor.step(loss=loss)
        monitor.dataset()["attention_entropy"]  # over (step, layer, head)

    Step 0 is measured, then every `every` steps: the first forward pass of that step in training mode, and the weights
    as they are at that moment. With gradient accumulation, call `step` once per update. With a `file`, each record is
    added to it as a line of JSON, and a resumed training goes on with the same file; to go on with one whose training
    is finished, say `resume=True`. `start` is the step at which a resumed training goes on; by default, the one after
    the last record. `weights=False` leaves the matrices out. Every sink is called with each new record,
    and closed at the end if it can be. `total` is the number of steps planned, for the report. In a distributed
    training every process measures its own batches, and only the first one writes. A model wrapped by torch.compile is
    given as it is, wrapped: at measured steps it runs eagerly.

    `alarms` lists early warnings, each with its step and reason; a serious one is also logged as a warning of the
    logger "foretrain". docs/early-warnings.md says how far to trust them.
    """

    def report(self, out: str | Path) -> None:
        """Write a page about the training so far: what it shows in words, warnings, and curves. It opens offline."""
        from foretrain.monitor.report import write_page

        write_page(self.records, Path(out))
