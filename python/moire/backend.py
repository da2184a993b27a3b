"""moire as a backend of ONNX's own interface, `onnx.backend.base.Backend`.

    import moire.backend
    prepared = moire.backend.prepare(model)       # an onnx.ModelProto
    (y,) = prepared.run([x])                      # inputs in the order of the graph, or by name

Programs that take a backend, as ONNX's backend tests do, take `moire.backend.MoireBackend`.  It
needs the package `onnx`, which the rest of moire does not.  What moire does not support raises
`moire.Unsupported`, when the model is prepared.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Union

import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from . import errors
from ._tensors import Array
from .session import Session

NEWEST_OPSET = 28  # that moire knows
Inputs = Union[Array, Sequence[Any], Mapping[str, Any]]


class Prepared(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: Session):
        self.session = session
        self._names = [port.name for port in session.get_inputs()]

    def run(self, inputs: Inputs, **_: Any) -> tuple[Array, ...]:
        """The outputs, for inputs in the graph's order or by name; one input may stand alone.

        Inputs that the graph has initializers for are no inputs.
        """
        if isinstance(inputs, Mapping):
            return tuple(self.session.run(None, inputs))
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        if len(values) != len(self._names):
            raise errors.InvalidArgument(
                f"{len(values)} inputs are given, the model has {len(self._names)}: "
                + ", ".join(self._names)
            )
        return tuple(self.session.run(None, dict(zip(self._names, values))))


class MoireBackend(Backend):
    """Runs models and single nodes on the processor."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is "CPU"."""
        return device.partition(":")[0] == "CPU"

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
        """Whether moire has all that the model needs: it is prepared, to see."""
        try:
            cls.prepare(model, device, **options).session.close()
        except (errors.Unsupported, errors.LimitExceeded):
            return False
        return True

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Prepared:
        """Loads a model; options are those of `moire.Session`, one thread by default."""
        if not cls.supports_device(device):
            raise errors.Unsupported(f"device {device!r}: moire's backend runs on 'CPU'")
        return Prepared(Session(model.SerializeToString(), **{"threads": 1, **options}))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Inputs,
        device: str = "CPU",
        outputs_info: Optional[Sequence[tuple[Any, Sequence[int]]]] = None,
        *,
        opset_version: Optional[int] = None,
        **options: Any,
    ) -> tuple[Array, ...]:
        """Runs one node; types of its outputs are inferred, unless outputs_info has them."""
        values = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        names = [name for name in node.input if name]
        ports = [_port(n, v.dtype, v.shape) for n, v in zip(names, map(np.asarray, values))]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        if outputs_info:
            outputs = [_port(n, *about) for n, about in zip(filter(None, node.output), outputs_info)]
        version = opset_version or min(onnx.defs.onnx_opset_version(), NEWEST_OPSET)
        model = onnx.helper.make_model(
            onnx.helper.make_graph([node], "node", ports, outputs),
            opset_imports=[onnx.helper.make_opsetid(node.domain, version)],
        )
        if not outputs_info:
            model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        return cls.prepare(model, device, **options).run(dict(zip(names, values)))


def _port(name: str, dtype: Any, shape: Sequence[int]) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return onnx.helper.make_tensor_value_info(name, kind, shape)


is_compatible = MoireBackend.is_compatible
prepare = MoireBackend.prepare
run_model = MoireBackend.run_model
run_node = MoireBackend.run_node
supports_device = MoireBackend.supports_device
