"""Session: one model, run as with ONNX Runtime's InferenceSession."""

from __future__ import annotations

import os
import weakref
from typing import Any, Mapping, Optional, Sequence

from ._core import Core
from ._models import Model, Shapes, Source, precision_code
from ._tensors import Array, Port


class Session:
    """A model, ready to run.

    model: path of an ONNX file, or its bytes (which must hold all weights).
    threads: cores to use; 0 is all that the process may use.
    precision: "auto", "fp32", "int8", "bf16" or "fp16"; see docs/precision.md.
    tolerance: with "auto", 0 to 1; above 0 the fastest precision whose outputs differ by at most
        this part of their range.
    exact: sum convolutions and products as ONNX writes them, without Winograd and Strassen.
    shapes: whole shapes of inputs by name, {"x": (1, 3, 224, 224)}, for dimensions that the file
        leaves open.  Without it every shape that comes is loaded when it first comes.
    max_shapes: shapes that are kept loaded at once.
    store: folder of compiled kernels; None is where `moire compile` writes.
    generic_only: use the built-in kernels only.
    pin: bind the worker threads to cores of their own.  Only for a process with one session:
        those of another one would be bound to the same cores.  For several models there is Runtime.

    Any number of threads may call run() at once.  Errors are `moire.Error`s.  Layers that run by
    the slow reference are warned of (RuntimeWarning).  Use it in a `with`, or close() it; dropping
    it does the same.
    """

    def __init__(
        self,
        model: Source,
        *,
        threads: int = 0,
        precision: str = "auto",
        tolerance: float = 0.0,
        exact: bool = False,
        shapes: Optional[Shapes] = None,
        max_shapes: int = 16,
        store: Optional[str | os.PathLike[str]] = None,
        generic_only: bool = False,
        pin: bool = False,
    ):
        code = precision_code(precision)
        core = Core(threads=threads, store=store, generic_only=generic_only, no_pin=not pin)
        self._core, self._end = core, weakref.finalize(self, core.close)
        config = {"precision": code, "tolerance": tolerance, "exact": exact}
        try:
            self._model = Model(core, model, shapes, max_shapes, config)
        except BaseException:
            self._end()
            raise

    def run(
        self, output_names: Optional[Sequence[str]], input_feed: Mapping[str, Any]
    ) -> list[Array]:
        """The outputs of these names, in this order; of all, for None.

        input_feed has an array for each input, of its type and shape.  C-contiguous arrays are
        read where they are and must not change during the call; others are copied first.  Objects
        with `__dlpack__` (tensors of PyTorch and the like, on the CPU) are taken as they are; lists
        and numbers become arrays.  Outputs are new arrays.

        Raises InvalidArgument (names), ShapeError (types and shapes), Busy, Closed, or what else
        the library says.  The interpreter is free for other threads while the model runs.
        """
        return self._model.run(output_names, input_feed)

    def get_inputs(self) -> list[Port]:
        """Inputs with `name`, `shape` and `type`; None is an open dimension."""
        return list(self._model.inputs)

    def get_outputs(self) -> list[Port]:
        """Outputs with `name`, `shape` and `type`; None is a dimension that inputs decide."""
        return list(self._model.outputs)

    def close(self) -> None:
        """Waits for runs of other threads and frees everything.  Twice is fine."""
        self._core.close()
        self._end.detach()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
