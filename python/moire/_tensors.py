"""Between numpy arrays and the library's tensors: types, ports, checks, inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence

import numpy as np

from . import errors
from ._native import check, ffi, lib, text

try:  # numpy has no bfloat16 of its own
    from ml_dtypes import bfloat16 as _bfloat16
except ImportError:
    _bfloat16 = np.uint16

Array = np.ndarray[Any, Any]

# Element type of the library, numpy's, and the name that ONNX Runtime gives it.
_TYPES = (
    (lib.MOIRE_F32, np.float32, "float"),
    (lib.MOIRE_U8, np.uint8, "uint8"),
    (lib.MOIRE_I8, np.int8, "int8"),
    (lib.MOIRE_U16, np.uint16, "uint16"),
    (lib.MOIRE_I16, np.int16, "int16"),
    (lib.MOIRE_I32, np.int32, "int32"),
    (lib.MOIRE_I64, np.int64, "int64"),
    (lib.MOIRE_BOOL, np.bool_, "bool"),
    (lib.MOIRE_F16, np.float16, "float16"),
    (lib.MOIRE_F64, np.float64, "double"),
    (lib.MOIRE_U32, np.uint32, "uint32"),
    (lib.MOIRE_U64, np.uint64, "uint64"),
    (lib.MOIRE_BF16, _bfloat16, "bfloat16"),
)
_DTYPES = {code: np.dtype(of) for code, of, _ in _TYPES}
_NAMES = {code: f"tensor({name})" for code, _, name in _TYPES}


@dataclass(frozen=True)
class Port:
    """An input or output of a model.

    `shape` has a number for each dimension, and None for one that the model leaves open; it is
    None as a whole where even the rank is open.  `type` is written as ONNX Runtime writes it,
    "tensor(float)"; `dtype` is numpy's.  Numbers of type bfloat16 are `ml_dtypes.bfloat16` where
    the package ml_dtypes is installed, else their bits as uint16.
    """

    name: str
    shape: Optional[tuple[Optional[int], ...]]
    type: str
    dtype: np.dtype[Any]
    code: int

    @property
    def fixed(self) -> bool:
        """Whether every dimension is known."""
        return self.shape is not None and None not in self.shape


def ports(owner: Any, count: Any, describe: Any) -> tuple[Port, ...]:
    """All inputs or outputs of a model or tenant, by the two calls that tell them."""
    found, out = [], ffi.new("moire_port *")
    for index in range(count(owner)):
        code = describe(owner, index, out)
        name = text(out.name)
        if code or out.dtype not in _DTYPES:
            raise errors.Unsupported(f"'{name}' is of a type of elements that arrays do not have")
        shape = None
        if out.rank >= 0:
            shape = tuple(n if n >= 0 else None for n in out.shape[0 : out.rank])
        found.append(Port(name, shape, _NAMES[out.dtype], _DTYPES[out.dtype], out.dtype))
    return tuple(found)


def model_ports(path: bytes) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """Inputs and outputs of a file, without loading it."""
    out, err = ffi.new("moire_model **"), ffi.new("moire_error *")
    check(lib.moire_model_open(path, out, err), err)
    try:
        return (
            ports(out[0], lib.moire_model_n_inputs, lib.moire_model_input),
            ports(out[0], lib.moire_model_n_outputs, lib.moire_model_output),
        )
    finally:
        lib.moire_model_close(out[0])


def _wanted(port: Port) -> str:
    if port.shape is None:
        return f"{port.dtype} of any shape"
    return f"{port.dtype}[{', '.join('?' if n is None else str(n) for n in port.shape)}]"


def as_input(value: Any, port: Port) -> Array:
    """The value as a C-contiguous array of the port's type and shape; no copy where it is one.

    Lists and numbers become arrays of the type that the model wants.  An array of another type
    is refused, as ONNX Runtime does: what is lost by converting it only the caller knows.
    """
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as wrong:
            raise errors.InvalidArgument(
                f"input '{port.name}' cannot be taken by DLPack: {wrong}; give a tensor in "
                "the host's memory that needs no gradient"
            ) from None
    elif hasattr(value, "dtype"):
        array = np.asarray(value)
    else:
        try:
            array = np.asarray(value, dtype=port.dtype)
        except (TypeError, ValueError, OverflowError) as wrong:
            raise errors.ShapeError(f"input '{port.name}' is {_wanted(port)}: {wrong}") from None
    if array.dtype != port.dtype:
        raise errors.ShapeError(
            f"input '{port.name}' is {_wanted(port)}, an array of {array.dtype} was given: "
            f"convert it, as by .astype({str(port.dtype)!r})"
        )
    shape = port.shape
    if shape is not None and array.shape != shape:
        if len(shape) != array.ndim or any(n not in (None, m) for n, m in zip(shape, array.shape)):
            raise errors.ShapeError(
                f"input '{port.name}' is {_wanted(port)}, one of shape {array.shape} was given"
            )
    if array.ndim > lib.MOIRE_MAX_RANK:
        raise errors.ShapeError(
            f"input '{port.name}' has {array.ndim} dimensions, {lib.MOIRE_MAX_RANK} at most"
        )
    return array if array.flags.c_contiguous else np.array(array, order="C", copy=True)


def tensors(arrays: Sequence[Array], inputs: Sequence[Port]) -> tuple[Any, list[Any]]:
    """Tensors that point at the arrays, and what must live as long as they are used."""
    made = ffi.new("moire_tensor[]", len(arrays) or 1)
    kept: list[Any] = []
    for tensor, array, port in zip(made, arrays, inputs):
        tensor.dtype = port.code
        tensor.rank = array.ndim
        tensor.shape[0 : array.ndim] = array.shape
        tensor.bytes = array.nbytes
    point(made, arrays, kept)
    return made, kept


def point(made: Any, arrays: Sequence[Array], kept: list[Any]) -> None:
    """Points tensors, whose types and shapes are set, at the arrays' memory."""
    for index, array in enumerate(arrays):
        if array.dtype.kind == "V" or array.dtype == _bfloat16:
            array = array.view(np.uint16)  # types that are not numpy's own export no buffer
        memory = ffi.from_buffer(array)
        kept.append(memory)
        made[index].data = memory


def take(tensor: Any) -> Array:
    """An output as an array, which owns the memory that the library's answer had it in."""
    shape, dtype = tuple(tensor.shape[0 : tensor.rank]), _DTYPES[tensor.dtype]
    data, tensor.data = tensor.data, ffi.NULL
    owned = ffi.gc(data, lib.moire_answers_release, tensor.bytes)
    if not tensor.bytes:
        return np.empty(shape, dtype)
    return np.frombuffer(ffi.buffer(owned, tensor.bytes), dtype).reshape(shape)
