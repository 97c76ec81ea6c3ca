"""The file that an analysis keeps its records in: a line of JSON per checkpoint, in the order they were measured in.

Unlike a training, an analysis may measure an earlier step after a later one: when a checkpoint has changed or is new.
"""

from __future__ import annotations

from pathlib import Path

from foretrain.checkpoints.fault import Record
from foretrain.core.errors import DamagedFile, InputError
from foretrain.runs.training_log import read_line


def read_records(file: Path) -> dict[str, Record]:
    """The last record of each checkpoint, by its label; empty if there is no file.

    A torn last line, left by a killed process, is left out. Any other damage is refused.
    """
    if not file.exists():
        return {}
    try:
        *lines, _ = file.read_bytes().split(b"\n")  # what follows the last line break was written in part
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
    records = {}
    for number, line in enumerate(lines, start=1):
        try:
            record = read_line(line)
            records[str(record["checkpoint"])] = record
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise DamagedFile(f"{file}, line {number} is damaged; delete that line, or the file.") from error
    return records


def is_analysis(file: Path) -> bool:
    """Whether a file of records is that of an analysis, not of a monitored training."""
    with open(file, "rb") as stream:
        return b'"checkpoint":' in stream.readline()[:200]
