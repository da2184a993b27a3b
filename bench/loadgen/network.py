# SPDX-License-Identifier: Apache-2.0
"""network.py - a server of the Open Inference Protocol over HTTP as the system under test.

It is one that runs already, or a `moire serve` on the loopback that lives as long as the test.  Tensors go as bytes
behind the JSON.  A query waits for its answer on a thread that keeps its connection.
"""

import http.client
import json
import os
import signal
import subprocess
import tempfile
import time

import numpy

from prctl import die_with_parent
from samples import Port

CONNECTIONS, READY_S, END_S = 32, 300, 20
TYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
    "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
NAMES = {numpy.dtype(name): word for word, name in TYPES.items()}


class Connection:
    def __init__(self, host, port):
        self.http = http.client.HTTPConnection(host, port, timeout=300)

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and body of the answer."""
        self.http.request(method, path, body, headers or {})
        answer = self.http.getresponse()
        return answer.status, answer.headers, answer.read()

    def document(self, path):
        status, _, body = self.ask("GET", path)
        if status != 200:
            raise RuntimeError(f"{path}: status {status}: {body[:200].decode(errors='replace')}")
        return json.loads(body)

    def infer(self, path, feed):
        inputs, parts = [], []
        for name, array in feed.items():
            parts.append(numpy.ascontiguousarray(array).tobytes())
            about = {"name": name, "datatype": NAMES[array.dtype], "shape": array.shape}
            inputs.append({**about, "parameters": {"binary_data_size": len(parts[-1])}})
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        status, _, body = self.ask("POST", path, b"".join([head, *parts]), headers)
        if status != 200:
            raise RuntimeError(f"the server answered with status {status}: {body[:200].decode(errors='replace')}")


class OwnServer:
    """`moire serve` with one model on a port that is free."""

    def __init__(self, job):
        self.folder = tempfile.TemporaryDirectory(prefix="moire-loadgen-")
        os.makedirs(os.path.join(self.folder.name, "model", "1"))
        os.symlink(job["model"], os.path.join(self.folder.name, "model", "1", "model.onnx"))
        words = [job["moire"], "serve", "--model-repository", self.folder.name, "--http-port", "0", "--grpc-port", "-1"]
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
        self.port = json.loads(line)["http_port"]

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
        if job["server"]:
            host, _, port = job["server"].rpartition(":")
            self.host, self.port, self.model = host.strip("[]"), int(port), job["model"]
        else:
            self.own = OwnServer(job)
            self.host, self.port, self.model = "127.0.0.1", self.own.port, "model"
        try:
            self.look(job)
        except BaseException:
            self.close()
            raise
        self.path = f"/v2/models/{self.model}/infer"
        self.alone = Connection(self.host, self.port)
        self.workers = workers(CONNECTIONS, self.connected)
        self.start, self.at_once = self.workers.start, CONNECTIONS

    def look(self, job):
        """Waits for the model of a server of our own, and asks for its inputs."""
        end = time.monotonic() + READY_S
        while True:
            connection, why = Connection(self.host, self.port), "no such model is ready"
            try:
                if connection.ask("GET", f"/v2/models/{self.model}/ready")[0] == 200:
                    break
            except (OSError, http.client.HTTPException) as wrong:
                why = str(wrong)
            if not self.own or time.monotonic() > end or self.own.process.poll() is not None:
                raise RuntimeError(f"{self.host}:{self.port}: {why}: '{self.model}'")
            time.sleep(0.05)
        about = connection.document("/v2")
        self.version = about.get("version", "")
        self.ports = []
        for port in connection.document(f"/v2/models/{self.model}")["inputs"]:
            if port["datatype"] not in TYPES:
                raise RuntimeError(f"input '{port['name']}' is of type {port['datatype']}, which samples do not have")
            shape = [n if n >= 0 else None for n in port["shape"]]
            self.ports.append(Port(port["name"], TYPES[port["datatype"]], shape, job["shapes"]))

    def connected(self):
        connection = Connection(self.host, self.port)
        return lambda feed: connection.infer(self.path, feed)

    def run(self, feed):
        self.alone.infer(self.path, feed)

    def close(self):
        if self.workers:
            self.workers.close()
        if self.own:
            self.own.close()
