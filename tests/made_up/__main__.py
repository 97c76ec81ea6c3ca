"""The command line with the made-up papers in place of the real ones: `python tests/made_up list`.

The path is set at import, so that worker processes, which import this file anew, see the same papers.
"""

import signal
from pathlib import Path

import foretrain.papers

foretrain.papers.__path__[:] = [str(Path(__file__).parent / "papers")]

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell starts its children deaf to it
    from foretrain.cli import main

    main()
