#!/usr/bin/env bash
# Makes .venv ready for `make check`, `make test` and `make bench`; does nothing when nothing changed.
set -euo pipefail
cd "$(dirname "$0")/.."

stamp=.venv/.ready
wanted=$(cat pyproject.toml constraints.txt scripts/setup.sh | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then exit 0; fi

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "foretrain needs Python 3.11 or newer, and '$python' is not; set PYTHON=/path/to/python3.11." >&2
    exit 2
fi
[ -x .venv/bin/python ] || "$python" -m venv .venv
pip() { .venv/bin/python -m pip --disable-pip-version-check --quiet "$@"; }
echo "setting up .venv (about two minutes the first time): torch"
pip install torch==2.13.0                          # first and exactly: nothing below may pull another build
echo "setting up .venv: foretrain and what it needs"
pip install --constraint constraints.txt --editable ".[dev]"
# Tests open pages in a real browser, and figures become images with it. Without one, those tests are skipped.
if ! command -v chromium chromium-browser google-chrome > /dev/null && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null
then
    echo "setting up chromium, for tests in a browser"
    (timeout 120 apt-get -qq update && \
        DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -qq install --no-install-recommends chromium) \
        > /dev/null 2>&1 < /dev/null || echo "chromium could not be installed; tests in a browser will be skipped"
fi
echo "$wanted" > "$stamp"
