"""Runtime: several models on the same cores, each with its latency target."""

from __future__ import annotations

import asyncio
import numbers
import os
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence

from . import errors
from ._core import Core, filled
from ._models import Model, Shapes, Source, outputs_of, precision_code
from ._native import check, failure, ffi, lib, path_bytes, text
from ._stats import runtime_stats, tenant_stats
from ._tensors import Array


@dataclass(frozen=True)
class Timing:
    """Milliseconds of an answered query: before its first block, in blocks, and altogether."""

    queue_ms: float
    compute_ms: float
    total_ms: float
    in_time: bool


class QueryFuture(Future[list[Array]]):
    """The answer of a query to come: a Future of the list of its outputs.

    `cancel()` takes effect at once for the future; the library stops the query at the end of its
    block.  `timing` is there when the future is done with a result.
    """

    timing: Optional[Timing] = None
    _stop: Optional[Callable[[], None]] = None

    def cancel(self) -> bool:
        """Cancels the query unless it is answered.  Returns whether the future is cancelled."""
        if not super().cancel():
            return False
        if self._stop:
            self._stop()
        return True


class Runtime:
    """Cores, models loaded on them, and the policy by which their queries share the cores.

    threads: cores to use; 0 is all that the process may use.
    policy: name of a policy (docs/policies.md); None is "moire".
    objective: "every", "all" or "weighted": what counts when not every query can be in time.
    max_queries: accepted and unanswered queries of all models together; 0 is the default.
    limits: {"queue": 256, ...}: other values of the limits that `moire limits` shows.
    store, generic_only: as of Session.
    pin: bind the worker threads to cores of their own.
    record: events that every core remembers for record_to(); 0 is none.
    device: "cuda" is the machine's NVIDIA GPUs beside the cores, by the plugin that the package
        brings along; "cuda:FILE" is another plugin.  Without driver or GPU it raises Unsupported
        or DeviceError, which say what is missing.
    device_options: {"precision": "fp16", "process": "child", "libraries": "DIR:DIR", ...}, fields
        of moire_config in include/moire.h without their "device_".

    Everything may be called from any thread.  Use it in a `with`, or close() it; dropping it and
    the end of the interpreter do the same: what is accepted is answered first.
    """

    def __init__(
        self,
        *,
        threads: int = 0,
        policy: Optional[str] = None,
        objective: Optional[str] = None,
        max_queries: int = 0,
        limits: Optional[Mapping[str, int]] = None,
        store: Optional[str | os.PathLike[str]] = None,
        generic_only: bool = False,
        pin: bool = True,
        record: int = 0,
        device: Optional[str] = None,
        device_options: Optional[Mapping[str, Any]] = None,
    ):
        self._core = core = Core(
            dict(limits or {}),
            threads=threads,
            policy=policy,
            objective=objective,
            max_queries=max_queries,
            store=store,
            generic_only=generic_only,
            no_pin=not pin,
            record=record,
            device=device,
            **_device_fields(device, device_options),
        )
        self._end = weakref.finalize(self, core.close)
        self._models: dict[str, Model] = {}
        self._names = threading.Lock()

    def load(
        self,
        model: Source,
        name: Optional[str] = None,
        *,
        qos_ms: float = 0.0,
        best_effort: bool = False,
        priority: int = 0,
        queue: int = 0,
        shed_late: bool = False,
        cores: int = 0,
        weight: float = 0.0,
        device_only: bool = False,
        precision: str = "auto",
        tolerance: float = 0.0,
        exact: bool = False,
        shapes: Optional[Shapes] = None,
        max_shapes: int = 16,
    ) -> Model:
        """Loads an ONNX file (or its bytes) as a tenant of that name, by default the file's.

        qos_ms: answers are to be there within so many ms; 0 is no target.
        best_effort: nobody waits for its answers.
        priority: higher first among queries of equal deadlines.
        queue: accepted and waiting queries; more are refused as Busy.  0 is the default.
        shed_late: a query that can no longer be in time ends with Shed.
        cores: its queries have no more cores at once, all together; 0 is no bound.
        weight: its share where not all can be served; 0 is 1.
        device_only: of a runtime with a device: only there, with nothing prepared for cores.
        precision, tolerance, exact, shapes, max_shapes: as of Session.

        A load takes from milliseconds to many seconds, while other models are served.
        """
        config: dict[str, Any] = {
            "qos_ns": _ns("qos_ms", qos_ms),
            "cls": lib.MOIRE_BEST_EFFORT if best_effort else lib.MOIRE_LATENCY_CRITICAL,
            "priority": priority,
            "queue": queue,
            "shed_late": shed_late,
            "cores": cores,
            "weight": weight,
            "device_only": device_only,
            "precision": precision_code(precision),
            "tolerance": tolerance,
            "exact": exact,
        }
        if name is not None:
            if not isinstance(name, str):
                raise errors.InvalidArgument(f"name cannot be {name!r}")
            config["name"] = name
        with self._core:  # a closed runtime is said now, not at the first query
            pass
        made = Model(self._core, model, shapes, max_shapes, config)
        with self._names:
            taken = self._models.setdefault(made.name, made) is not made
        if taken:
            made.unload(drain=False)
            raise errors.InvalidArgument(f"there is a model '{made.name}': give another name")
        return made

    def unload(self, name: str, drain: bool = True) -> None:
        """Unloads a model.  What it has accepted is answered (drain), or ends with Unloaded."""
        model = self.model(name)
        with self._names:
            self._models.pop(name, None)
        model.unload(drain)

    def model(self, name: str) -> Model:
        """The model of that name."""
        try:
            return self._models[name]
        except KeyError:
            there = ", ".join(map(repr, self.names())) or "none"
            raise errors.InvalidArgument(f"there is no model {name!r}; loaded: {there}") from None

    def names(self) -> list[str]:
        """Names of the loaded models."""
        with self._names:
            return list(self._models)

    def run(
        self, name: str, inputs: Mapping[str, Any], output_names: Optional[Sequence[str]] = None
    ) -> list[Array]:
        """Submits a query and waits; inputs and outputs as of Session.run."""
        return self.model(name).run(output_names, inputs)

    def submit(
        self,
        name: str,
        inputs: Mapping[str, Any],
        output_names: Optional[Sequence[str]] = None,
        *,
        deadline_ms: Optional[float] = None,
        priority: Optional[int] = None,
    ) -> QueryFuture:
        """Submits a query; its inputs are copied before the call returns.

        deadline_ms: nobody waits for the answer after so many ms from now: the future then fails
            with Expired.  None: the model's target counts, and a late query is answered still.
        priority: in place of the model's.

        Returns a future of the list of outputs, done exactly once: with them, with the
        `moire.Error` that says why there are none, or cancelled.  Its callbacks run on the thread
        that delivers the answers of all queries, so they must be short.  A query that is not
        accepted raises here: Busy, ShapeError, InvalidArgument, Closed.  A shape that the model was
        not loaded for is loaded first.
        """
        model = self.model(name)
        chosen, arrays = model.chosen(output_names), model.arrays(inputs)
        core, tenant = self._core, model.lease(arrays)
        future, token = QueryFuture(), next(core.tokens)

        def answered(node: Any) -> None:
            model.given(tenant)
            _settle(future, node, chosen)

        accepted = False
        try:
            options = ffi.new("moire_query_options *")
            lib.moire_query_options_init(options)
            if deadline_ms is not None:
                in_ns = _ns("deadline_ms", deadline_ms)
                options.deadline_ns = max(1, lib.moire_now(core.handle) + in_ns)
            if priority is not None:
                filled(options, {"own_priority": 1, "priority": priority})
            made, err, kept = tenant.prepared(arrays, model.inputs)
            handle = ffi.new("moire_query *")
            core.waiting[token] = answered
            accepted = not lib.moire_answers_submit(
                core.queue, tenant.handle, made, tenant.n_inputs, options, 0, token, handle, err
            )
            if not accepted:
                check(err.code, err)
            del kept
            tenant.spare.append((made, err))
        finally:
            model.left(tenant)
            if not accepted:
                core.waiting.pop(token, None)
                model.given(tenant)
        future._stop = _stopper(core, handle[0])
        return future

    async def run_async(
        self,
        name: str,
        inputs: Mapping[str, Any],
        output_names: Optional[Sequence[str]] = None,
        *,
        deadline_ms: Optional[float] = None,
        priority: Optional[int] = None,
    ) -> list[Array]:
        """As submit(), awaited; cancelling the task cancels the query."""
        return await asyncio.wrap_future(
            self.submit(name, inputs, output_names, deadline_ms=deadline_ms, priority=priority)
        )

    def drain(self) -> None:
        """Waits until nothing accepted is unanswered.  Futures are done a moment later."""
        with self._core as handle:
            lib.moire_drain(handle)

    def record_to(self, path: str | os.PathLike[str]) -> None:
        """Writes what the runtime has done to a file for `moire whatif`; made with `record`."""
        err = ffi.new("moire_error *")
        with self._core as handle:
            check(lib.moire_record(handle, path_bytes(path), err), err)

    def stats(self, name: Optional[str] = None) -> dict[str, Any]:
        """Statistics of the runtime, or of a model: fields as in moire_stats.h.

        Times are ns, sizes bytes.  A histogram is told by count, sum_ns, max_ns and quantiles
        p50_ns, p90_ns, p99_ns.  Those of a model that has several shapes loaded are a list under
        "shapes", and their counts are summed in "counts".
        """
        if name is None:
            with self._core as handle:
                return runtime_stats(handle)
        return tenant_stats(self.model(name), self._core)

    def close(self, drain: bool = True) -> None:
        """Answers what is accepted (drain), or ends it with Closed; frees everything.

        All futures are done when it returns, unless a callback of one called it.
        """
        self._core.close(drain)
        self._end.detach()

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


_DEVICE_FIELDS = frozenset(
    field[len("device_") :]
    for field, _ in ffi.typeof("moire_config").fields
    if field.startswith("device_")
)


def _device_fields(device: Optional[str], options: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Fields of moire_config for the options of a device."""
    if options and not device:
        raise errors.InvalidArgument("device_options go with device")
    for name in options or {}:
        if name not in _DEVICE_FIELDS:
            there = ", ".join(sorted(_DEVICE_FIELDS))
            raise errors.InvalidArgument(f"device_options has no {name!r}; there are {there}")
    return {f"device_{name}": value for name, value in (options or {}).items()}


def _ns(name: str, ms: float) -> int:
    """Milliseconds, 10^9 (12 days) at most, in ns."""
    if not isinstance(ms, numbers.Real) or not abs(ms) <= 1e9:
        raise errors.InvalidArgument(f"{name} cannot be {ms!r}: give milliseconds")
    return round(ms * 1e6)


def _settle(future: QueryFuture, node: Any, chosen: Sequence[int]) -> None:
    """Ends a future by its answer, unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if node.code:
        future.set_exception(failure(node.code, text(node.text)))
        return
    try:
        outputs = outputs_of(node, chosen)
    except Exception as why:  # such as a lack of memory: the future must end
        future.set_exception(why)
        return
    late = node.deadline_ns and node.end_ns > node.deadline_ns
    future.timing = Timing(
        max(0, node.start_ns - node.arrival_ns) / 1e6,
        node.compute_ns / 1e6,
        (node.end_ns - node.arrival_ns) / 1e6,
        not late,
    )
    future.set_result(outputs)


def _stopper(core: Core, query: int) -> Callable[[], None]:
    """What tells the library that nobody wants the answer of a query any more."""

    def stop() -> None:
        try:
            with core as handle:
                lib.moire_cancel(handle, query)
        except errors.Closed:
            pass  # it is answered, or about to be

    return stop
