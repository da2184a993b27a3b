# SPDX-License-Identifier: Apache-2.0
"""network.py - a server of the Open Inference Protocol as the system under test, over HTTP or gRPC.

It is one that runs already, or a `moire serve` on the loopback that lives as long as the test.  A query waits for its
answer on a thread that keeps its connection.  A connection (over_http.py, over_grpc.py) has is_ready(model), version(),
inputs(model), which are names, datatypes and shapes, and infer(model, feed); what cannot be reached is an OSError.
"""

import json
import os
import signal
import subprocess
import tempfile
import time

from datatypes import TYPES
from prctl import die_with_parent
from samples import Port

CONNECTIONS, READY_S, END_S = 32, 300, 20


def connection_class(over):
    if over == "grpc":
        from over_grpc import GrpcConnection

        return GrpcConnection
    from over_http import HttpConnection

    return HttpConnection


class OwnServer:
    """`moire serve` with one model on a port that is free, the one that such a connection wants."""

    def __init__(self, job, connection):
        self.folder = tempfile.TemporaryDirectory(prefix="moire-loadgen-")
        os.makedirs(os.path.join(self.folder.name, "model", "1"))
        os.symlink(job["model"], os.path.join(self.folder.name, "model", "1", "model.onnx"))
        words = [job["moire"], "serve", "--model-repository", self.folder.name, *connection.port_flags]
        words += ["--metrics-port", "-1", "--threads", str(job["threads"]), "--json"]
        if job["generic_only"]:
            words += ["--store", os.path.join(self.folder.name, "no-store")]
        elif job["store"]:
            words += ["--store", job["store"]]
        os.makedirs(job["output"], exist_ok=True)
        log = os.path.join(job["output"], "serve.log")
        with open(log, "w", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                preexec_fn=die_with_parent)  # fmt: skip
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            self.folder.cleanup()
            raise RuntimeError(f"moire serve ended with code {code} before it was ready; {log} says why")
        self.port = json.loads(line)[connection.port_key]

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.folder.cleanup()


class Network:
    def __init__(self, job, workers):
        self.own = self.workers = None
        self.connection = connection_class(job["over"])
        if job["server"]:
            host, _, port = job["server"].rpartition(":")
            self.host, self.port, self.model = host.strip("[]"), int(port), job["model"]
        else:
            self.own = OwnServer(job, self.connection)
            self.host, self.port, self.model = "127.0.0.1", self.own.port, "model"
        try:
            self.look(job)
        except BaseException:
            self.close()
            raise
        self.alone = self.connection(self.host, self.port)
        self.workers = workers(CONNECTIONS, self.connected)
        self.start, self.at_once = self.workers.start, CONNECTIONS

    def look(self, job):
        """Waits for the model of a server of our own, and asks for its inputs."""
        end = time.monotonic() + READY_S
        while True:
            connection, why = self.connection(self.host, self.port), "no such model is ready"
            try:
                if connection.is_ready(self.model):
                    break
            except (OSError, RuntimeError) as wrong:
                why = str(wrong)
            if not self.own or time.monotonic() > end or self.own.process.poll() is not None:
                raise RuntimeError(f"{self.host}:{self.port}: {why}: '{self.model}'")
            time.sleep(0.05)
        self.version = connection.version()
        self.ports = []
        for name, datatype, shape in connection.inputs(self.model):
            if datatype not in TYPES:
                raise RuntimeError(f"input '{name}' is of type {datatype}, which samples do not have")
            self.ports.append(Port(name, TYPES[datatype], [n if n >= 0 else None for n in shape], job["shapes"]))

    def connected(self):
        connection = self.connection(self.host, self.port)
        return lambda feed: connection.infer(self.model, feed)

    def prepare(self, feed):
        return feed

    def run(self, feed):
        self.alone.infer(self.model, feed)

    def close(self):
        if self.workers:
            self.workers.close()
        if self.own:
            self.own.close()
