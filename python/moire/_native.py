"""The shared library, and what every call to it needs."""

from __future__ import annotations

import os
from typing import Any

from . import errors
from ._abi import ffi as ffi

FOLDER = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(FOLDER, "lib", "libmoire.so")

lib: Any = ffi.dlopen(LIBRARY)
if lib.moire_abi_version() != lib.MOIRE_ABI_VERSION:
    raise ImportError(
        f"{LIBRARY} has binary interface {lib.moire_abi_version()}, this package was built for "
        f"{lib.MOIRE_ABI_VERSION}: install the package again"
    )


def text(chars: Any) -> str:
    """A C string; bytes that are no UTF-8 are shown as escapes."""
    return "" if chars == ffi.NULL else ffi.string(chars).decode("utf-8", "backslashreplace")


def path_bytes(path: str | os.PathLike[str]) -> bytes:
    """A path or name for the library, which ends at a zero byte."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise errors.InvalidArgument(f"{path!r} has a zero byte")
    return encoded


def failure(code: int, message: str) -> errors.Error:
    """The exception for a code of the library."""
    kind = errors.BY_NAME.get(text(lib.moire_code_name(code)), errors.Error)
    return kind(message or text(lib.moire_code_text(code)), code)


def check(code: int, err: Any) -> None:
    """Raises what a call that returned `code` and filled `err` has to say."""
    if code:
        raise failure(code, text(err.message))


def asked(struct: str, ask: Any, handle: Any) -> Any:
    """A struct with statistics of a handle, by the call that fills it."""
    out, err = ffi.new(struct + " *"), ffi.new("moire_error *")
    out.size = ffi.sizeof(struct)
    check(ask(handle, out, err), err)
    return out
