"""`python -m moire ...` is the command `moire`, which comes with the package."""

import os
import sys

from . import commands


def main() -> None:
    """Becomes the command."""
    os.execve(commands.PATH, ["moire", *sys.argv[1:]], commands.environment())


if __name__ == "__main__":
    main()
