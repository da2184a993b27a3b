"""A model on a runtime: its ports, and a tenant of the library for each shape of its inputs.

A tenant of the library has fixed shapes.  Where the file leaves dimensions open, each shape that
a query brings is loaded when it first comes, beside the others of the file, and the shapes that
were not used for longest are unloaded when there are more than `max_shapes`.

Invariants: `users` of a tenant counts queries without an answer, and one with users is not
unloaded to make room.  `calls` counts threads that may be inside of a call with it.
"""

from __future__ import annotations

import contextlib
import operator
import os
import tempfile
import threading
import warnings
import weakref
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from . import errors
from ._core import Core, filled
from ._native import asked, check, failure, ffi, lib, path_bytes, text
from ._tensors import Array, Port, as_input, model_ports, point, ports, take, tensors

Shapes = Mapping[str, Sequence[int]]
Key = tuple[tuple[int, ...], ...]
Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview]

_PRECISIONS = {
    "auto": lib.MOIRE_PRECISION_AUTO,
    "fp32": lib.MOIRE_PRECISION_FP32,
    "int8": lib.MOIRE_PRECISION_INT8,
    "bf16": lib.MOIRE_PRECISION_BF16,
    "fp16": lib.MOIRE_PRECISION_FP16,
}


def precision_code(name: str) -> int:
    """The library's number for a precision."""
    if name not in _PRECISIONS:
        raise errors.InvalidArgument(f"precision is {name!r}: it can be {', '.join(_PRECISIONS)}")
    return int(_PRECISIONS[name])


class Tenant:
    """A tenant of the library for one shape of the inputs."""

    def __init__(self, handle: Any, key: Key, n_inputs: int):
        self.handle, self.key, self.n_inputs = handle, key, n_inputs
        self.users = self.calls = 0
        self.spare: list[tuple[Any, Any]] = []

    def prepared(self, arrays: Sequence[Any], inputs: Sequence[Port]) -> tuple[Any, Any, list[Any]]:
        """Tensors of the arrays, room for an error, and what must live until they were read.

        To be given to `spare` then: the next query finds types and shapes already set.
        """
        kept: list[Any] = []
        try:
            made, err = self.spare.pop()
        except IndexError:
            made, kept = tensors(arrays, inputs)
            return made, ffi.new("moire_error *"), kept
        point(made, arrays, kept)
        return made, err, kept


class Model:
    """A loaded model, as `Runtime.load` returns it: to read its `name`, `inputs` and `outputs`."""

    def __init__(
        self,
        core: Core,
        source: Source,
        shapes: Optional[Shapes],
        max_shapes: int,
        config: dict[str, Any],
    ):
        self._core, self._room = core, max_shapes
        name = config.get("name")
        if isinstance(source, (bytes, bytearray, memoryview)):
            file = tempfile.NamedTemporaryFile(prefix="moire-", suffix=".onnx")
            weakref.finalize(self, file.close)  # shapes that come later are loaded from it
            file.write(source)
            file.flush()
            source, name = file.name, name or "model"
        self._path = path_bytes(source)
        self.name: str = name or os.path.basename(os.fsdecode(self._path))
        self._config = ffi.new("moire_tenant_config *")
        lib.moire_tenant_config_init(self._config)
        self._kept = filled(self._config, {**config, "name": self.name})
        file_inputs, outputs = model_ports(self._path)
        self.inputs, self.outputs = _bound(file_inputs, shapes or {}), outputs
        self._open = [
            index
            for index, port in enumerate(file_inputs)
            if not port.fixed or port.name in (shapes or {})
        ]
        self._names = {port.name: index for index, port in enumerate(self.inputs)}
        self._output_names = {port.name: index for index, port in enumerate(outputs)}
        self._tenants: OrderedDict[Key, Tenant] = OrderedDict()
        self._loading, self._closed = threading.Lock(), False
        if not isinstance(max_shapes, int) or max_shapes < 1:
            raise errors.InvalidArgument(f"max_shapes is {max_shapes!r}: it is at least 1")
        if all(port.fixed for port in self.inputs):
            key = tuple(port.shape for port in self.inputs)
            self._load(key)  # type: ignore[arg-type]
            handle = self._tenants[key].handle  # type: ignore[index]
            self.outputs = ports(handle, lib.moire_n_outputs, lib.moire_output)

    def arrays(self, feed: Mapping[str, Any]) -> list[Array]:
        """The inputs in the model's order, checked."""
        try:
            found = [as_input(feed[port.name], port) for port in self.inputs]
        except KeyError as missing:
            raise errors.InvalidArgument(
                f"no input {missing} is given; the model has {', '.join(map(repr, self._names))}"
            ) from None
        if len(feed) > len(found):
            extra = next(name for name in feed if name not in self._names)
            raise errors.InvalidArgument(
                f"the model has no input {extra!r}; it has {', '.join(map(repr, self._names))}"
            )
        return found

    def chosen(self, names: Optional[Sequence[str]]) -> Sequence[int]:
        """Indices of the outputs of these names; of all for None, and for no name at all."""
        if isinstance(names, str):
            names = [names]
        if not names:
            return range(len(self.outputs))
        try:
            return [self._output_names[name] for name in names]
        except KeyError as missing:
            raise errors.InvalidArgument(
                f"the model has no output {missing}; it has "
                + ", ".join(map(repr, self._output_names))
            ) from None

    def lease(self, arrays: Sequence[Array]) -> Tenant:
        """The tenant of these inputs' shapes, loaded if need be, to be left() and given() back."""
        key, core = tuple([array.shape for array in arrays]), self._core
        while True:
            with core.lock:
                if core.closing:
                    raise errors.Closed(f"'{self.name}': the session or runtime is closed")
                if self._closed:
                    raise errors.Unloaded(f"'{self.name}' is unloaded")
                tenant = self._tenants.get(key)
                if tenant:
                    self._tenants.move_to_end(key)
                    tenant.users += 1
                    tenant.calls += 1
                    core.calls += 1
                    return tenant
            self._load(key)

    def left(self, tenant: Tenant) -> None:
        """The thread that leased is out of its call."""
        core = self._core
        with core.lock:
            tenant.calls -= 1
            core.calls -= 1
            if core.closing or self._closed:
                core.lock.notify_all()

    def given(self, tenant: Tenant) -> None:
        """The query of the lease has its answer, or was not accepted."""
        with self._core.lock:
            tenant.users -= 1

    def run(self, output_names: Optional[Sequence[str]], feed: Mapping[str, Any]) -> list[Array]:
        """Runs a query and waits for it.  The arrays of the feed are lent, not copied."""
        chosen, arrays = self.chosen(output_names), self.arrays(feed)
        tenant = self.lease(arrays)
        try:
            made, err, kept = tenant.prepared(arrays, self.inputs)
            node = lib.moire_answers_run(tenant.handle, made, tenant.n_inputs, err)
            if not node:
                check(err.code, err)
            del kept
            tenant.spare.append((made, err))
        finally:
            self.left(tenant)
            self.given(tenant)
        try:
            if node.code:
                raise failure(node.code, text(node.text))
            return outputs_of(node, chosen)
        finally:
            lib.moire_answered_free(node)

    def _load(self, key: Key) -> None:
        """Loads the tenant of these shapes, unless another thread has; unloads what is too many."""
        with self._loading, self._core as runtime:
            if key in self._tenants or self._closed:
                return
            tenant = Tenant(self._native_load(runtime, key), key, len(self.inputs))
            with self._core.lock:
                self._tenants[key] = tenant
                too_many = max(0, len(self._tenants) - self._room)
                idle = [t for t in self._tenants.values() if not t.users and t is not tenant]
                for old in idle[:too_many]:
                    del self._tenants[old.key]
            for old in idle[:too_many]:
                lib.moire_unload(old.handle, ffi.NULL)
            self._warn_of_slow_layers(tenant)

    def _native_load(self, runtime: Any, key: Key) -> Any:
        config, err = self._config, ffi.new("moire_error *")
        kept: list[Any] = []
        rows = ffi.new("moire_shape[]", len(self._open) or 1)
        for row, index in zip(rows, self._open):
            kept += filled(row, {"input": self.inputs[index].name, "rank": len(key[index])})
            row.shape[0 : len(key[index])] = key[index]
        config.shapes, config.n_shapes = rows, len(self._open)
        config.at_once = 1 if self._tenants else 0
        out = ffi.new("moire_tenant **")
        check(lib.moire_load(runtime, self._path, config, out, err), err)
        del kept
        return out[0]

    def _warn_of_slow_layers(self, tenant: Tenant) -> None:
        """Tells of layers that take much of the time and have no fast kernel."""
        slow = text(asked("moire_tenant_stats", lib.moire_tenant_get_stats, tenant.handle).slow)
        if slow:
            warnings.warn(f"'{self.name}': {slow}", RuntimeWarning, stacklevel=4)

    @contextlib.contextmanager
    def held(self) -> Iterator[list[Tenant]]:
        """The tenants that are loaded now, which stay so meanwhile."""
        with self._core:
            with self._core.lock:
                tenants = list(self._tenants.values())
                for tenant in tenants:
                    tenant.users += 1
                    tenant.calls += 1
            try:
                yield tenants
            finally:
                with self._core.lock:
                    for tenant in tenants:
                        tenant.users -= 1
                        tenant.calls -= 1
                    self._core.lock.notify_all()

    def unload(self, drain: bool) -> None:
        """Takes no query any more, and ends what it has: answered (drain), or by `Unloaded`."""
        with self._loading, self._core:
            with self._core.lock:
                self._closed = True
                old = list(self._tenants.values())
                self._core.lock.wait_for(lambda: not any(t.calls for t in old))
                self._tenants.clear()
            for tenant in old:
                if drain:
                    lib.moire_tenant_drain(tenant.handle, ffi.NULL)
                lib.moire_unload(tenant.handle, ffi.NULL)


def outputs_of(node: Any, chosen: Sequence[int]) -> list[Array]:
    """The chosen outputs of an answer that has them."""
    found: list[Array] = []
    for place, index in enumerate(chosen):
        first = chosen.index(index)  # who asks twice gets two arrays
        found.append(found[first].copy() if first < place else take(node.outputs[index]))
    return found


def _bound(inputs: Sequence[Port], shapes: Shapes) -> tuple[Port, ...]:
    """The inputs with the shapes that the caller binds."""
    unknown = set(shapes) - {port.name for port in inputs}
    if unknown:
        raise errors.InvalidArgument(
            f"shapes: the model has no input {unknown.pop()!r}; it has "
            + ", ".join(repr(port.name) for port in inputs)
        )
    return tuple(
        replace(port, shape=_sizes(port.name, shapes[port.name])) if port.name in shapes else port
        for port in inputs
    )


def _sizes(name: str, shape: Any) -> tuple[int, ...]:
    """A whole shape: the library has 64 bits for each dimension, and so many of them."""
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError:
        sizes = (-1,)
    if len(sizes) > lib.MOIRE_MAX_RANK or any(not 0 <= size < 2**63 for size in sizes):
        raise errors.InvalidArgument(
            f"shapes: {name!r} cannot be {shape!r}; give {lib.MOIRE_MAX_RANK} whole numbers at most"
        )
    return sizes
