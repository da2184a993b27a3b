"""examples/asyncio_server.py: clients at once, wrong requests, hanging up, the server's end.

Nothing here waits for a time: every wait ends when something has come, and HANGS_AFTER only ends a test that hangs."""

import asyncio
import importlib.util
import json
import os
import re
import signal
import sys

import numpy
import pytest
from conftest import FLOAT, linear, model, random, right
from onnx import helper

import moire

EXAMPLE = os.path.join(os.path.dirname(__file__), "../../examples/asyncio_server.py")
HANGS_AFTER = 120


def example():
    spec = importlib.util.spec_from_file_location("asyncio_server", EXAMPLE)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def deep():
    """A small input and many layers: some ten milliseconds a query."""
    w = numpy.eye(1024, dtype=numpy.float32)
    names = ["x", *(f"m{k}" for k in range(199)), "y"]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in zip(names, names[1:])]
    return model(nodes, [("x", FLOAT, [8, 1024])], [("y", FLOAT, [8, 1024])], [("w", w)])


def served(data, client):
    """What `client(server, port)`, a coroutine, returns; the server has stopped then, and nothing is open."""

    async def run(runtime):
        server = example().Server(runtime, runtime.load(data, "model"))
        port = await server.start(0)
        result = await client(server, port)
        await server.stop()
        return result

    with moire.Runtime(threads=2) as runtime:
        result = asyncio.run(asyncio.wait_for(run(runtime), HANGS_AFTER))
        runtime.drain()
        counts = runtime.stats()["counts"]
        assert counts["open"] == 0
        return result, counts


def request(number, x):
    return json.dumps({"id": number, "inputs": {"x": x.tolist()}}).encode() + b"\n"


def test_many_clients_at_once():
    data = linear()

    async def client(port, k):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        want = {number: random(1, 4, seed=1000 * k + number) for number in range(150)}  # more than may be open
        writer.writelines(request(number, x) for number, x in want.items())
        for _ in range(150):
            reply = json.loads(await reader.readline())
            x = want.pop(reply["id"])  # once: a second reply finds nothing
            for name, y in zip(("y", "z"), right(data, {"x": x})):
                assert numpy.allclose(reply["outputs"][name], y, 1e-4, 1e-5)
        writer.close()
        return not want

    async def clients(server, port):
        return await asyncio.gather(*(client(port, k) for k in range(6)))

    done, counts = served(data, clients)
    assert all(done) and counts["ok"] == 900


def test_wrong_requests_are_said():
    lines = {
        b"no json": "InvalidArgument",
        b"[1]": "InvalidArgument",
        b'{"id": 1}': "InvalidArgument",
        b'{"id": 1, "inputs": {}}': "InvalidArgument",
        b'{"id": 1, "inputs": {"x": [[1, 2, 3]]}}': "ShapeError",
        b'{"id": 1, "inputs": {"x": [[1, 2, 3], [4]]}}': "InvalidArgument",
        b'{"id": 1, "inputs": {"x": "four"}}': "InvalidArgument",
        b"[" * 100000: "InvalidArgument",
        b"\xff\xfe": "InvalidArgument",
    }

    async def client(server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for line, error in lines.items():
            writer.write(line + b"\n")
            reply = json.loads(await reader.readline())
            assert reply["error"] == error and reply["message"], (line[:50], reply)
        writer.write(request(7, random(1, 4)))
        reply = json.loads(await reader.readline())
        writer.close()
        return reply["id"], "outputs" in reply

    assert served(linear(), client)[0] == (7, True)


def test_open_shapes_are_refused_at_the_start():
    with moire.Runtime(threads=1) as runtime:
        with pytest.raises(moire.ShapeError, match="bind the shape of x"):
            example().Server(runtime, runtime.load(linear(["batch", 4]), "a"))
        example().Server(runtime, runtime.load(linear(["batch", 4]), "b", shapes={"x": (2, 4)}))


def test_a_client_that_hangs_up_cancels_its_queries(deep):
    x = numpy.ones((8, 1024), numpy.float32)

    async def client(server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        writer.writelines(request(number, x) for number in range(60))
        assert "outputs" in json.loads(await reader.readline())
        writer.transport.abort()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        writer.write(request(99, x))
        reply = json.loads(await reader.readline())
        writer.close()
        return reply["id"], numpy.allclose(reply["outputs"]["y"], x)

    result, counts = served(deep, client)
    assert result == (99, True) and counts["cancelled"] > 0


class Process:
    """The example as a program of its own."""

    async def start(self, path):
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, EXAMPLE, str(path), stdout=asyncio.subprocess.PIPE
        )
        self.port = int((await self.process.stdout.readline()).rsplit(b":", 1)[1])

    async def ended(self):
        said, _ = await self.process.communicate()
        assert self.process.returncode == 0
        return tuple(map(int, re.fullmatch(rb"(\d+) submitted, (\d+) ok, (\d+) cancelled\n", said).groups()))


def test_its_end_answers_what_is_in_flight(deep, tmp_path):
    (tmp_path / "deep.onnx").write_bytes(deep)
    x = numpy.ones((8, 1024), numpy.float32)

    async def run():
        server = Process()
        await server.start(tmp_path / "deep.onnx")
        clients = [await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 24) for _ in range(3)]
        for _, writer in clients:
            writer.writelines(request(number, x) for number in range(12))
        replies = [[await reader.readline()] for reader, _ in clients]
        server.process.send_signal(signal.SIGTERM)
        for got, (reader, writer) in zip(replies, clients):
            got += (await reader.read()).splitlines()
            writer.close()
            numbers = [json.loads(reply)["id"] for reply in got]
            assert len(numbers) == len(set(numbers)) and all(b'"outputs"' in reply for reply in got)
        submitted, ok, cancelled = await server.ended()
        assert (submitted, cancelled) == (ok, 0) and ok == sum(map(len, replies))

    asyncio.run(asyncio.wait_for(run(), HANGS_AFTER))


def test_who_reads_no_replies_is_not_waited_for_twice():
    """Such a client is not read from, holds up no other, and stop() only until hurry()."""
    wide = model([helper.make_node("Relu", ["x"], ["y"])], [("x", FLOAT, [1, 32768])], [("y", FLOAT, [1, 32768])])
    x = numpy.full((1, 32768), 1 / 3, numpy.float32)

    async def client(server, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10)
        writer.writelines(request(number, x) for number in range(60))  # 40 MB of replies
        while not any(c.writer.transport.get_write_buffer_size() > 1 << 18 for c in server.clients.values()):
            await asyncio.sleep(0.01)
        reader, other = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        other.write(request(7, x))
        assert json.loads(await reader.readline())["id"] == 7
        stopping = asyncio.create_task(server.stop())
        assert await reader.read() == b""  # the other one has ended
        other.close()
        assert not stopping.done()
        server.hurry()
        await stopping
        writer.transport.abort()
        return not server.clients

    assert served(wide, client)[0]
