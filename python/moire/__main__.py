"""`python -m moire ...` is the command `moire`, which comes with the package."""

import os
import sys

from . import _command


def main() -> None:
    """Becomes the command."""
    os.execv(_command.PATH, ["moire", *sys.argv[1:]])


if __name__ == "__main__":
    main()
