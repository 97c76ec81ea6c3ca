"""The verbs: find, check, run, sweep and report, for Python and for the command line."""
