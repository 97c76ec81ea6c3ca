"""Texts that try to run a script, leave the page, or steer a terminal; a script that runs sets `window.harmed`."""

from __future__ import annotations

SCRIPTS = (
    "<script>window.harmed=1</script>",
    '"><img src=x onerror="window.harmed=1">',
    "</script><script>window.harmed=1</script>",
    "</title></style></textarea><svg onload=window.harmed=1>",
    "javascript:window.harmed=1",
    '<a href="javascript:window.harmed=1">a</a>',
    '<a href="https://example.org/a">a</a>',
    "<style>@import url(https://example.org/a.css)</style>",
    "';window.harmed=1;//",
    "`${window.harmed=1}`",
    "<!--<script>",
    "{{7*7}}",
)
CONTROLS = ("\x1b[31mred\x1b[2J", "\x9b31m", "\x07\x08\r", "\u202egnp.exe", "\u2066a\u2069", "\x7f", "\u2028", "\ue000")
ALL = " ".join((*SCRIPTS, *CONTROLS))
FILE = "<img src=x onerror=window.harmed=1>\x1b[31m\u202e.csv"  # a name that a file can have
