"""make_abi.py - writes moire/_abi.py: what the package knows of libmoire's binary interface.

The declarations are the C preprocessor's output for python/native/answers.h, which includes the
public headers, so they cannot differ from what the library was built with.  cffi's out-of-line
ABI mode makes a module of them that needs neither a compiler nor a parser when it is imported.

    make_abi.py ROOT OUT.py        ROOT: of the repository; CC: the C compiler
"""

import os
import re
import subprocess
import sys
import tempfile

from cffi import FFI

HEADERS = ("moire.h", "moire_model.h", "moire_predict.h", "moire_stats.h", "moire_threads.h")


def declarations(root):
    """Text of all declarations.  The C library's headers are left out: cffi knows their types."""
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stddef.h", "stdint.h"):
            open(os.path.join(empty, name), "w", encoding="utf-8").close()
        command = [
            *os.environ.get("CC", "gcc").split(),
            "-E",
            "-P",
            "-U__GNUC__",
            "-nostdinc",
            "-I" + empty,
            "-I" + os.path.join(root, "include"),
            "-I" + root,
            os.path.join(root, "python", "native", "answers.h"),
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def numbers(root):
    """#define lines of whole numbers, which the preprocessor leaves out."""
    for header in HEADERS:
        with open(os.path.join(root, "include", header), encoding="utf-8") as file:
            yield from re.findall(r"^#define MOIRE_[A-Z_]+ +[0-9]+(?=\s)", file.read(), re.M)


def main():
    root, out = sys.argv[1:]
    ffi = FFI()
    ffi.set_source("moire._abi", None)
    ffi.cdef("\n".join([*numbers(root), declarations(root)]))
    ffi.emit_python_code(out)


if __name__ == "__main__":
    main()
