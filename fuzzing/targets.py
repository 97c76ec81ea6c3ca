"""What is fuzzed: one target for each kind of input that comes from outside."""

from __future__ import annotations

from fuzzing import corpora, records, settings, tasks
from fuzzing.running import Target

TARGETS: dict[str, Target] = {
    target.name: target for target in (*tasks.targets(), *corpora.targets(), *records.targets(), *settings.targets())
}
