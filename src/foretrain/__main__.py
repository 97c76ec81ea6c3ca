"""`python -m foretrain` is `foretrain`."""

from foretrain.cli import main

if __name__ == "__main__":
    main()
