#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""drive_event_loop.py - clients of examples/event_loop: many at once, wrong lines, hanging up, the server's end.

  drive_event_loop.py EVENT_LOOP RELU.onnx SLOW.onnx

RELU is the case test_relu of ONNX, whose answers are known: 60 values of max(x, 0).  SLOW takes milliseconds a query.
Every wait ends when something is there to read; the time-out of a socket only ends a test that hangs.
"""
import collections
import concurrent.futures
import random
import re
import signal
import socket
import subprocess
import sys
import traceback

HANGS_AFTER = 120
program, relu, slow = sys.argv[1:]


class Server:
    """The program on a free port; at the end of the `with` it has been told to end, and told its counts."""

    def __init__(self, model):
        self.process = subprocess.Popen([program, model, "0"], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])
        self.counts = None

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANGS_AFTER)

    def end(self):
        if self.counts is None:
            self.process.send_signal(signal.SIGTERM)
            said, _ = self.process.communicate(timeout=HANGS_AFTER)
            assert self.process.returncode == 0, f"the server ended with {self.process.returncode}: {said}"
            found = re.fullmatch(r"(\d+) submitted, (\d+) ok, (\d+) cancelled\n", said)
            self.counts = tuple(map(int, found.groups()))
        return self.counts

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
            self.process.wait()
        else:
            self.end()


def ask(client, text):
    client.sendall(text.encode())
    return client.makefile("r").readline()


def relu_line(number, draw):
    x = [draw.uniform(-1, 1) for _ in range(60)]
    return f"{number} {' '.join(f'{v:.6f}' for v in x)}\n", [max(float(f"{v:.6f}"), 0) for v in x]


def check_reply(reply, number, y):
    head, state, *values = reply.split()
    assert (int(head), state) == (number, "ok"), reply
    assert len(values) == 60 and all(abs(float(a) - b) < 1e-6 for a, b in zip(values, y)), reply


def many_clients_at_once():
    def client(k):
        draw, want = random.Random(k), {}
        with server.connect() as made:
            lines = made.makefile("r")
            for i in range(0, 300, 100):  # more than the server lets be open
                text = ""
                for number in range(i, i + 100):
                    line, want[number] = relu_line(number, draw)
                    text += line
                made.sendall(text.encode())
                for _ in range(100):
                    reply = lines.readline()
                    number = int(reply.split()[0])
                    check_reply(reply, number, want.pop(number))  # once: a second reply finds nothing
        return not want

    with Server(relu) as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(client, range(8)))
        assert server.end() == (2400, 2400, 0)


def wrong_lines():
    with Server(relu) as server, server.connect() as client:
        for line in ("", "x 1", "7x 1", "-7 1", "9" * 40 + " 1", "7 1\0 1"):
            assert ask(client, line + "\n").startswith("0 MOIRE_EINVAL a request is a number"), line
        for line in ("7", "7 ", "7 1 2", "7 1,2", "7 one", "7" + " 1" * 61, "7 1 x"):
            assert ask(client, line + "\n").startswith("7 MOIRE_EINVAL give 60 values"), line
        assert ask(client, "7 -1\r\n") == "7 ok" + " 0" * 60 + "\n"
        assert ask(client, "8 0.5\n") == "8 ok" + " 0.5" * 60 + "\n"
        for part in ("9 0.", "2", "5\n"):
            client.sendall(part.encode())
        assert client.makefile("r").readline() == "9 ok" + " 0.25" * 60 + "\n"
        client.sendall(b"7" * 100000)  # no line: the server ends the connection
        try:
            assert client.recv(1) == b""
        except ConnectionResetError:
            pass


def clients_that_hang_up():
    with Server(slow) as server:
        for lines in (1, 2, 5, 20):
            client = server.connect()
            client.sendall("".join(f"{i} 0.5\n" for i in range(lines)).encode())
            client.close()
        with server.connect() as client:
            client.sendall("".join(f"{i} 0.5\n" for i in range(60)).encode())
            assert client.makefile("r").readline().split()[1] == "ok"  # all lines have been read
        with server.connect() as other:  # is served as soon as what nobody waits for is gone
            assert ask(other, "1 0.5\n").startswith("1 ok ")
        submitted, ok, cancelled = server.end()
        assert submitted == ok + cancelled and submitted >= 61 and cancelled > 0, server.counts


def readers_that_are_slow():
    """Who does not read its replies is not read from, and gets them all in the end."""
    with Server(relu) as server, server.connect() as client:
        text = "".join(f"{i} 0.123456789\n" for i in range(20000)).encode()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            sent = pool.submit(client.sendall, text)
            lines = client.makefile("r")
            with server.connect() as other:
                assert ask(other, "1 2\n") == "1 ok" + " 2" * 60 + "\n"
            seen = collections.Counter(lines.readline().split()[0] for _ in range(20000))
            sent.result()
        assert len(seen) == 20000 and set(seen.values()) == {1}


def an_end_with_queries_in_flight():
    with Server(slow) as server:
        clients = [server.connect() for _ in range(3)]
        for client in clients:
            client.sendall("".join(f"{i} 0.5\n" for i in range(12)).encode())
        files = [client.makefile("r") for client in clients]
        first = [file.readline() for file in files]  # now all lines have been read
        server.process.send_signal(signal.SIGTERM)
        for line, file in zip(first, files):
            replies = [line, *file.read().splitlines()]  # to the end of the connection
            assert sorted(int(reply.split()[0]) for reply in replies) == list(range(12)), replies
            assert all(reply.split()[1] == "ok" for reply in replies)
        said, _ = server.process.communicate(timeout=HANGS_AFTER)
        assert (server.process.returncode, said) == (0, "36 submitted, 36 ok, 0 cancelled\n"), said
        server.counts = (36, 36, 0)


def an_end_that_does_not_wait():
    with Server(slow) as server:
        with server.connect() as client:
            client.sendall("".join(f"{i} 0.5\n" for i in range(60)).encode())
            assert client.makefile("r").readline().split()[1] == "ok"  # all lines have been read
            server.process.send_signal(signal.SIGINT)
            server.counts = server.end()  # by the second signal
            submitted, ok, cancelled = server.counts
            assert submitted == 60 == ok + cancelled and cancelled > 0, server.counts


def main():
    tests = [many_clients_at_once, wrong_lines, clients_that_hang_up, readers_that_are_slow,
             an_end_with_queries_in_flight, an_end_that_does_not_wait]
    failed = 0
    for test in tests:
        try:
            test()
        except Exception:
            failed += 1
            print(f"failed: {test.__name__}")
            traceback.print_exc()
    print(f"event_loop: {len(tests) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
