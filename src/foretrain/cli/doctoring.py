"""`foretrain doctor`: are the numbers right on this hardware, and what does watching a training cost?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foretrain.cli.common import option
from foretrain.cli.files import require_outputs
from foretrain.cli.progress import progress_shown
from foretrain.cli.terminal import console, table
from foretrain.doctor import examine
from foretrain.doctor.words import HEAD, reason_of, rows

DISAGREES = 1  # exit code


def doctor(
    device: Annotated[str | None, option("Device of torch to examine.", "DEVICE", default="the accelerator")] = None,
    json_out: Annotated[Path, option("File to write, to be sent to us.", "FILE", "--json")] = Path("doctor.json"),
) -> None:
    """Are foretrain's numbers right on your hardware, and what does watching a training cost there?

    Attention, norms, gradients and ranks of small models are compared with their definitions in float64 on the CPU.
    Then a training is timed with and without a Monitor. Exit codes: 0 everything agrees, 1 something does not,
    2 there is no such device.

    \b
    Examples:
      foretrain doctor
      foretrain doctor --device cuda --json doctor.json
      foretrain doctor --device cpu
    """
    require_outputs({"--json": json_out})
    with progress_shown("examining"):
        examination = examine(device)
    examination.write(json_out)
    out = console(results=True)
    out.lines(*examination.summary, f"Written to {json_out}; send it to us, and the table of checked hardware grows.")
    out.print(table(HEAD, rows(examination.checks)))
    out.lines(*(f"  {c.area}, {c.what}: {reason_of(c)}" for c in examination.checks if not c.holds))
    out.lines(*(f"  Note: {note}" for note in examination.notes))
    if not examination.holds:
        raise typer.Exit(DISAGREES)
