#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""asyncio_server.py - a server on asyncio that serves a model: JSON in lines, answers awaited.

  pip install moire-*.whl
  python asyncio_server.py model.onnx --port 7000 [--shape NAME=1,3,224,224] [--deadline-ms 50]
  echo '{"id": 1, "inputs": {"x": [[1, 2, 3, 4]]}}' | nc 127.0.0.1 7000

A request is a line with an object: an `id` of the client's choice, and `inputs` as nested lists.  The reply is a line
with that id and `outputs`, or with `error`, the name of a class of moire.errors, and `message`.  Replies come in the
order in which queries end.  A client that ends its side has hung up, and what it has asked is cancelled.  SIGTERM and
SIGINT let what is accepted be answered first; a second one does not wait.

The event loop never waits for a model: `run_async` submits and is awaited, the interpreter is free while kernels run,
and the task of a request that is cancelled cancels its query.  Shapes are bound when the model is loaded, since the
first query of a new shape would load it, which takes its time."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from typing import Any, Optional

import moire
import numpy

MOST_OPEN = 64  # queries of a client; it is not read from while it has so many
LONGEST_LINE = 1 << 24


class Server:
    """A loaded model, and the clients that are served with it."""

    def __init__(self, runtime: moire.Runtime, model: moire.Model, deadline_ms: Optional[float] = None):
        open_ports = [port.name for port in model.inputs if not port.fixed]
        if open_ports:
            raise moire.ShapeError(f"bind the shape of {', '.join(open_ports)}: --shape NAME=1,3,224,224")
        self.runtime, self.model, self.deadline_ms = runtime, model, deadline_ms
        self.clients: dict[asyncio.Task[Any], Client] = {}
        self.listener: Optional[asyncio.Server] = None
        self.stopping = False

    async def start(self, port: int) -> int:
        """Listens; returns the port, which is a free one where 0 was asked for."""
        self.listener = await asyncio.start_server(self.serve, "127.0.0.1", port, limit=LONGEST_LINE)
        return int(self.listener.sockets[0].getsockname()[1])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, client = asyncio.current_task(), Client(self, reader, writer)
        assert task
        self.clients[task] = client
        if self.stopping:  # it was accepted just before
            client.finish()
        try:
            await client.serve()
        except asyncio.CancelledError:
            pass  # by hurry(): nobody is told any more
        finally:
            del self.clients[task]

    async def stop(self) -> None:
        """Takes no clients and no requests any more; returns when what was accepted is answered and sent."""
        assert self.listener
        self.stopping = True
        self.listener.close()
        for client in self.clients.values():
            client.finish()
        while self.clients:
            await asyncio.wait(list(self.clients))

    def hurry(self) -> None:
        """Cancels what stop() waits for, such as clients that do not read their replies."""
        for task in self.clients:
            task.cancel()

    async def answer(self, line: bytes) -> dict[str, Any]:
        """The reply to a request, whatever is wrong with it."""
        reply: dict[str, Any] = {"id": None}
        try:
            request = json.loads(line)
            if not isinstance(request, dict) or not isinstance(request.get("inputs"), dict):
                raise moire.InvalidArgument("a request is an object with id and inputs")
            reply["id"] = request.get("id")
            inputs = {port.name: array(port, request["inputs"]) for port in self.model.inputs}
            outputs = await self.runtime.run_async(self.model.name, inputs, deadline_ms=self.deadline_ms)
            reply["outputs"] = {p.name: y.tolist() for p, y in zip(self.model.outputs, outputs)}
        except moire.Error as e:
            reply |= {"error": type(e).__name__, "message": str(e)}
        except (ValueError, TypeError, OverflowError, RecursionError) as e:
            reply |= {"error": "InvalidArgument", "message": f"no request: {e}"}
        return reply


class Client:
    """A connection: reads requests, and has a task for each that is open."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.server, self.reader, self.writer = server, reader, writer
        self.tasks: set[asyncio.Task[None]] = set()
        self.room = asyncio.Semaphore(MOST_OPEN)
        self.reading = asyncio.create_task(self.read())
        self.finishing = False

    async def serve(self) -> None:
        """Until the client hangs up or the server stops; then nothing of it is left."""
        try:
            await asyncio.wait([self.reading])
            if self.finishing:
                await asyncio.gather(*self.tasks, return_exceptions=True)
                self.writer.close()  # which sends what is left
                await self.writer.wait_closed()
        except ConnectionError:
            pass  # it hung up just then
        finally:
            self.writer.transport.abort()  # of a closed one: nothing
            for task in (self.reading, *self.tasks):
                task.cancel()
            await asyncio.gather(self.reading, *self.tasks, return_exceptions=True)

    async def read(self) -> None:
        while True:
            await self.room.acquire()
            line = await self.reader.readline()  # ValueError: longer than any request
            if not line.endswith(b"\n"):
                return
            task = asyncio.create_task(self.reply(line))
            self.tasks.add(task)
            task.add_done_callback(self.done)

    def done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        self.room.release()
        if not task.cancelled() and task.exception():
            self.reading.cancel()  # the reply could not be written: the client is gone

    async def reply(self, line: bytes) -> None:
        reply = await self.server.answer(line)
        self.writer.write(json.dumps(reply).encode() + b"\n")
        await self.writer.drain()  # who does not read its replies gets no new ones

    def finish(self) -> None:
        self.finishing = True
        self.reading.cancel()


def array(port: moire.Port, inputs: dict[str, Any]) -> numpy.ndarray[Any, Any]:
    """An input as an array of its type and shape."""
    if port.name not in inputs:
        raise moire.InvalidArgument(f"there is no input '{port.name}'")
    if port.dtype.kind in "iu" and numpy.asarray(inputs[port.name]).dtype.kind not in "iu":
        raise moire.InvalidArgument(f"'{port.name}' takes whole numbers")
    made = numpy.asarray(inputs[port.name], port.dtype)
    if made.shape != port.shape:
        raise moire.ShapeError(f"'{port.name}' has the shape {made.shape}, not {port.shape}")
    return made


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, dims = text.partition("=")
    return name, tuple(map(int, dims.split(",")))


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--shape", type=shape, action="append", default=[])
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--deadline-ms", type=float)
    args = parser.parse_args()
    with moire.Runtime(threads=args.threads) as runtime:
        model = runtime.load(args.model, "model", shapes=dict(args.shape) or None)
        server = Server(runtime, model, args.deadline_ms)
        stopped = asyncio.Event()

        def on_signal() -> None:
            server.hurry() if stopped.is_set() else stopped.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, on_signal)
        print(f"listening on 127.0.0.1:{await server.start(args.port)}", flush=True)
        await stopped.wait()
        await server.stop()
        counts = runtime.stats()["counts"]
        print(f"{counts['submitted']} submitted, {counts['ok']} ok, {counts['cancelled']} cancelled")


if __name__ == "__main__":
    asyncio.run(main())
