"""moire: many neural networks on one machine, each within its own latency target.

    import moire
    session = moire.Session("model.onnx")
    outputs = session.run(None, {"input": array})

Session runs one model as ONNX Runtime's InferenceSession does; Runtime serves several models with
latency targets; docs/python.md has the guide.  Messages of the library go to the logger "moire".
"""

import logging as _logging

from ._models import Model
from ._native import lib as _lib, text as _text
from ._tensors import Port
from .errors import (
    Error,
    InvalidArgument,
    OutOfMemory,
    FileError,
    FormatError,
    Unsupported,
    ShapeError,
    LimitExceeded,
    Busy,
    Expired,
    Shed,
    Cancelled,
    Failed,
    Unloaded,
    Closed,
    StoreError,
    CompilerError,
    Interrupted,
    Stale,
    InternalError,
    DeviceError,
    Forked,
)
from .runtime import QueryFuture, Runtime, Timing
from .session import Session

__all__ = [
    "Model",
    "Port",
    "QueryFuture",
    "Runtime",
    "Session",
    "Timing",
    "Error",
    "InvalidArgument",
    "OutOfMemory",
    "FileError",
    "FormatError",
    "Unsupported",
    "ShapeError",
    "LimitExceeded",
    "Busy",
    "Expired",
    "Shed",
    "Cancelled",
    "Failed",
    "Unloaded",
    "Closed",
    "StoreError",
    "CompilerError",
    "Interrupted",
    "Stale",
    "InternalError",
    "DeviceError",
    "Forked",
]

_logging.getLogger("moire").addHandler(_logging.NullHandler())
__version__ = _text(_lib.moire_version())
