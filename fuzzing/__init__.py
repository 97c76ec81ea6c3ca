"""Feeds broken and hostile inputs to every reader of foretrain: `make fuzz`, or `python -m fuzzing`.

An input is a valid one that was changed: a value replaced, a key renamed, bytes flipped, a seal renewed afterwards. So
most inputs get past the parser and reach the checks behind it. A reader may accept an input or refuse it with an
InputError; anything else is a finding, and so is more than 5 seconds or more than 1 GB of memory.
"""
