"""moire on Ray Serve: replicas that hold a runtime, and the signal by which they are scaled.

`moire scale ray PLAN.json -o DIR` writes an application of it; docs/scaling-out.md goes through
one.  Ray is imported where it is needed, so that everybody else does without.

No query runs twice.  Ray sends a query to another replica only as long as none has taken it; one
that a replica had taken when it died fails at its client (502), who alone knows whether it may be
asked again.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
from typing import Any, Mapping, Optional, Sequence

import numpy

from . import errors
from .runtime import Runtime

# What scale() aims at: queries that wait or run, a core; the share that misses its target.
QUERIES_A_CORE = 2.0
MISSED = 0.05

_TYPES = {
    "BOOL": "?",
    **{f"UINT{n}": f"u{n // 8}" for n in (8, 16, 32, 64)},
    **{f"INT{n}": f"i{n // 8}" for n in (8, 16, 32, 64)},
    **{f"FP{n}": f"f{n // 8}" for n in (16, 32, 64)},
}
_NAMES = {numpy.dtype(code): name for name, code in _TYPES.items()}

_STATUS: tuple[tuple[type[errors.Error], int], ...] = (
    (errors.InvalidArgument, 400),
    (errors.ShapeError, 400),
    (errors.Busy, 429),
    (errors.Shed, 503),
    (errors.Expired, 503),
    (errors.Unloaded, 503),
    (errors.Closed, 503),
)


class Cores:
    """Cores that no other replica of this machine has, until close() or the end of the process.

    Ray counts cores and does not say which, and moire pins its workers: two replicas would take
    the same ones.  Each core is a socket's name that only one process can have.  `ours` is empty
    where there are not enough.
    """

    def __init__(self, n: int, prefix: str = "moire-core"):
        self._held: list[socket.socket] = []
        self.ours: list[int] = []
        for core in sorted(os.sched_getaffinity(0)):
            if len(self.ours) == n:
                break
            name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                name.bind(f"\0{prefix}-{core}")
            except OSError:
                name.close()
                continue
            self._held.append(name)
            self.ours.append(core)
        if len(self.ours) < n:
            self.close()

    def close(self) -> None:
        """Gives them back."""
        for name in self._held:
            name.close()
        self._held, self.ours = [], []

    def runtime(self, threads: int) -> Runtime:
        """A runtime on these cores; where there are none, one that is not pinned."""
        before = os.sched_getaffinity(0)
        try:
            if self.ours:
                os.sched_setaffinity(0, self.ours)  # of this thread, from which workers inherit it
            return Runtime(threads=threads, pin=bool(self.ours))
        finally:
            os.sched_setaffinity(0, before)


class Replica:
    """A model on a runtime of its own, of which Ray Serve makes as many as it needs.

    name, file, qos_ms: as of Runtime.load.  cores: that the runtime has, and no other replica of
    the machine.  load: further arguments of Runtime.load, such as {"shed_late": True}.
    """

    def __init__(
        self,
        name: str,
        file: str,
        qos_ms: float = 0.0,
        cores: int = 1,
        load: Optional[Mapping[str, Any]] = None,
    ):
        self.name, self.cores = name, cores
        self._own = Cores(cores)
        self._runtime = self._own.runtime(cores)
        self._runtime.load(file, name, qos_ms=qos_ms, **dict(load or {}))
        self._before, self._look = {"due": 0, "in_time": 0}, threading.Lock()

    async def infer(
        self,
        inputs: Mapping[str, Any],
        output_names: Optional[Sequence[str]] = None,
        deadline_ms: Optional[float] = None,
    ) -> dict[str, Any]:
        """Outputs by name: for callers in Python, by a deployment handle."""
        outputs = await self._runtime.run_async(
            self.name, inputs, output_names, deadline_ms=deadline_ms
        )
        names = output_names or [port.name for port in self._runtime.model(self.name).outputs]
        return dict(zip(names, outputs))

    async def __call__(self, request: Any) -> Any:
        """Ray calls it for each request of HTTP (Starlette's Request)."""
        status, answer = await self.answer(request.method, request.url.path, request.body)
        return _response(status, answer)

    async def answer(self, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
        """Status and document; body: called where a query's is needed."""
        parts = path.strip("/").split("/")
        if parts[:2] != ["v2", "models"] or len(parts) != 4:
            return 404, {"error": "there is no such path"}
        if parts[2] != self.name:
            return 404, {"error": f"there is no model '{parts[2][:100]}'"}
        if (method, parts[3]) == ("GET", "ready"):
            return 200, {}
        if (method, parts[3]) != ("POST", "infer"):
            return 405, {"error": "that path has another method"}
        return await self.infer_json(await body())

    async def infer_json(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """A request of the Open Inference Protocol, with its tensors in JSON: status and answer."""
        try:
            request = _request(body)
            outputs = await self.infer(
                _inputs(request), request["names"], request["deadline_ms"]
            )
            answer = {"model_name": self.name, "outputs": list(map(_told, outputs.items()))}
            return 200, answer | ({"id": request["id"]} if "id" in request else {})
        except errors.Error as why:
            status = next((s for kind, s in _STATUS if isinstance(why, kind)), 500)
            return status, {"error": str(why)}

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What scale() goes by; Ray asks for it.

        moire_queries: that wait or run, a core.  moire_missed: of those that ended since the last
        look, the share without an answer in time.  moire_pressure: on the caches, 0 to 1.
        """
        told = self._runtime.stats()
        counts = told["counts"]
        lost = sum(counts[k] for k in ("rejected", "expired", "shed", "failed"))
        now = {"due": counts["ok"] + lost, "in_time": counts["in_time"]}
        with self._look:
            before, self._before = self._before, now
        due = now["due"] - before["due"]
        missed = 1 - (now["in_time"] - before["in_time"]) / due if due > 0 else 0.0
        return {
            "moire_queries": counts["open"] / max(1, told["cores"]),
            "moire_missed": max(0.0, missed),
            "moire_pressure": told["pressure"],
        }

    def check_health(self) -> None:
        """Ray asks now and then, and makes a new replica where this raises."""
        self._runtime.stats()

    def close(self) -> None:
        """Answers what is accepted, and ends."""
        self._runtime.close()
        self._own.close()


def scale(context: Any) -> tuple[int, dict[str, Any]]:
    """Ray's autoscaling policy: how many replicas, by what they say of themselves.

    As many as bring the queries of a core to QUERIES_A_CORE and the share that misses its target
    to MISSED, whichever takes more; at most twice as many as there are.  How long Ray waits before
    it follows, and between which bounds, is in its configuration.
    """
    queries, missed = _mean(context, "moire_queries"), _mean(context, "moire_missed")
    if queries is None or missed is None:  # nobody has said anything yet
        return context.target_num_replicas, {}
    there = max(1, context.current_num_replicas)
    wanted = there * max(queries / QUERIES_A_CORE, missed / MISSED)
    return max(1, math.ceil(min(wanted, 2 * there) - 1e-9)), {}


def _mean(context: Any, name: str) -> Optional[float]:
    """Over the replicas that have said it; None where none has."""
    values = list(((context.aggregated_metrics or {}).get(name) or {}).values())
    return sum(values) / len(values) if values else None


class Front:
    """What clients ask that is no model's: health, and that there is no such model."""

    async def __call__(self, request: Any) -> Any:
        """Ray calls it for each request of HTTP (Starlette's Request)."""
        return _response(*self.answer(request.method, request.url.path))

    @staticmethod
    def answer(method: str, path: str) -> tuple[int, dict[str, Any]]:
        """Status and document."""
        if method == "GET" and path in ("/v2/health/live", "/v2/health/ready"):
            return 200, {}
        parts = path.strip("/").split("/")
        if parts[:2] == ["v2", "models"] and len(parts) > 2:
            return 404, {"error": f"there is no model '{parts[2][:100]}'"}
        return 404, {"error": "there is no such path"}


def _response(status: int, answer: Mapping[str, Any]) -> Any:
    from starlette.responses import JSONResponse

    return JSONResponse(answer, status, {"Retry-After": "1"} if status in (429, 503) else None)


def build(args: Mapping[str, Any], replica: type = Replica) -> Any:
    """The application of one model, for the path /v2/models/NAME.

    args has name, file, cores, qos_ms (0: none), replicas, and most (replicas at most; as many as
    replicas: they are not scaled).  Replicas answer by themselves: an ingress before them would
    pass every query on a second time.
    """
    from ray import serve

    cores, least = int(args.get("cores", 1)), int(args.get("replicas", 1))
    most = max(least, int(args.get("most", least)))
    options: dict[str, Any] = {"num_replicas": least}
    if most > least:
        options = {"autoscaling_config": _scaled(least, most)}
    deployment = serve.deployment(
        replica,
        name=args["name"],
        ray_actor_options={"num_cpus": cores},
        max_ongoing_requests=16 * cores,
        max_queued_requests=1024,
        health_check_period_s=2,
        health_check_timeout_s=10,
        **options,
    )
    qos_ms = float(args.get("qos_ms", 0))
    return deployment.bind(args["name"], args["file"], qos_ms, cores, args.get("load"))


def front(args: Any = None) -> Any:
    """The application for the path /, beside those of the models."""
    from ray import serve

    return serve.deployment(
        Front, name="Front", ray_actor_options={"num_cpus": 0}, max_ongoing_requests=1024
    ).bind()


def _scaled(least: int, most: int) -> dict[str, Any]:
    return {
        "min_replicas": least,
        "max_replicas": most,
        "look_back_period_s": 20,
        "upscale_delay_s": 5,
        "downscale_delay_s": 300,
        "policy": {"policy_function": "moire.ray:scale"},
    }


def _request(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError as why:
        raise errors.InvalidArgument(f"the request is no JSON: {why}") from None
    if not isinstance(document, dict) or not isinstance(document.get("inputs"), list):
        raise errors.InvalidArgument("the request must be an object with a list \"inputs\"")
    parameters, outputs = document.get("parameters") or {}, document.get("outputs") or []
    try:
        timeout = float(parameters.get("timeout", 0))
        names = [one["name"] for one in outputs] or None
    except (AttributeError, KeyError, TypeError, ValueError):
        raise errors.InvalidArgument("\"parameters\" or \"outputs\" is malformed") from None
    told = {"inputs": document["inputs"], "names": names}
    told["deadline_ms"] = timeout / 1000 if timeout > 0 else None
    return told | ({"id": document["id"]} if "id" in document else {})


def _inputs(request: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for one in request["inputs"]:
        try:
            kind = _TYPES[one["datatype"]]
            found[one["name"]] = numpy.array(one["data"], dtype=kind).reshape(one["shape"])
        except (KeyError, TypeError, ValueError, OverflowError) as why:
            name = one.get("name") if isinstance(one, dict) else one
            said = f"input {name!r:.80}: {type(why).__name__}: {why}"
            raise errors.InvalidArgument(said) from None
    return found


def _told(output: tuple[str, Any]) -> dict[str, Any]:
    name, array = output
    kind = _NAMES.get(array.dtype)
    if kind is None:
        raise errors.Unsupported(f"output '{name}' of type {array.dtype} has no form in JSON")
    return {
        "name": name,
        "datatype": kind,
        "shape": list(array.shape),
        "data": array.ravel().tolist(),
    }
