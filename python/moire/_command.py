"""The command `moire`, which comes with the package."""

import os

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "moire")
