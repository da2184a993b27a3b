"""Exceptions: one class for each error code of the library, all of them `moire.Error`.

Catch a class, or catch `Error` and look at `.code` (a negative number, `enum moire_code` of
moire.h) or `.name` ("MOIRE_EBUSY").  The text says what is wrong and what to do about it.
"""

from __future__ import annotations

from typing import Any

from ._abi import ffi


class Error(RuntimeError):
    """What the library refused, or failed at.

    `document` is the whole result of a command that failed (moire.commands), else None.
    """

    name = "MOIRE_UNKNOWN"
    document: Any = None

    def __init__(self, message: str, code: int = 0):
        super().__init__(message)
        self.code = code or (0 if type(self) is Error else ffi.integer_const(self.name))

    def __reduce__(self) -> tuple[type, tuple[str, int]]:
        return type(self), (str(self), self.code)


class InvalidArgument(Error, ValueError):
    """An argument is out of its range, or names what does not exist."""

    name = "MOIRE_EINVAL"


class OutOfMemory(Error, MemoryError):
    """Memory is short."""

    name = "MOIRE_ENOMEM"


class FileError(Error):
    """A file cannot be read or written, or the system refuses something."""

    name = "MOIRE_EIO"


class FormatError(Error, ValueError):
    """A file is malformed."""

    name = "MOIRE_EFORMAT"


class Unsupported(Error):
    """An operator, type or version is not supported."""

    name = "MOIRE_EUNSUPPORTED"


class ShapeError(Error, ValueError):
    """An array has another type or shape than the model wants."""

    name = "MOIRE_ESHAPE"


class LimitExceeded(Error):
    """A limit was exceeded; the text names it."""

    name = "MOIRE_ELIMIT"


class Busy(Error):
    """The queue is full: try later."""

    name = "MOIRE_EBUSY"


class Expired(Error):
    """The query's own deadline passed before an answer."""

    name = "MOIRE_EEXPIRED"


class Shed(Error):
    """The query was given up, because it could not meet its deadline any more."""

    name = "MOIRE_ESHED"


class Cancelled(Error):
    """The query was cancelled."""

    name = "MOIRE_ECANCELLED"


class Failed(Error):
    """The execution failed."""

    name = "MOIRE_EFAILED"


class Unloaded(Error):
    """The model was unloaded before an answer, or while a query was given to it."""

    name = "MOIRE_EUNLOADED"


class Closed(Error):
    """The session or runtime is closed, or was closed before an answer."""

    name = "MOIRE_ESHUTDOWN"


class StoreError(Error):
    """The store of compiled kernels cannot be used, or an entry is damaged."""

    name = "MOIRE_ESTORE"


class CompilerError(Error):
    """There is no usable C compiler, or it failed."""

    name = "MOIRE_ECOMPILER"


class Interrupted(Error):
    """The work was interrupted."""

    name = "MOIRE_EINTERRUPTED"


class Stale(Error):
    """A handle is no longer valid."""

    name = "MOIRE_ESTALE"


class InternalError(Error):
    """A fault of the library; please report it."""

    name = "MOIRE_EINTERNAL"


class DeviceError(Error):
    """A GPU failed, or was lost."""

    name = "MOIRE_EDEVICE"


class Forked(Error):
    """The runtime stayed behind in the process that forked: create one in the child."""

    name = "MOIRE_EFORKED"


BY_NAME: dict[str, type[Error]] = {kind.name: kind for kind in Error.__subclasses__()}
