"""serve_bed.py - what the tests of `moire serve` share: a server on a folder of models, and the right answers.

Answers are ONNX Runtime's.
"""
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import numpy
import onnxruntime
import tritonclient.http


class Bed:
    """A server on a folder of models; in a `with`, until its end."""

    def __init__(self, moire, folder, *flags, log=subprocess.DEVNULL, before=None):
        self.process = subprocess.Popen(
            [moire, "serve", "--model-repository", folder, "--http-port", "0", "--grpc-port", "0",
             "--metrics-port", "0", "--json", *flags],
            stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=before)
        self.doors = doors = json.loads(self.process.stdout.readline())
        self.http_port, self.grpc_port = doors["http_port"], doors["grpc_port"]
        self.url = f"http://127.0.0.1:{self.http_port}"
        self.http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.http_port}", concurrency=8)

    def wait(self, seconds=60):
        end = time.monotonic() + seconds
        while not self.http.is_server_ready():
            assert time.monotonic() < end, "not ready"
            time.sleep(0.01)

    def status(self, path, data=None):
        try:
            with urllib.request.urlopen(self.url + path, data) as answer:
                return answer.status
        except urllib.error.HTTPError as e:
            return e.code

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def images(n, seed):
    return numpy.random.default_rng(seed).random((n, 1, 32, 32), dtype=numpy.float32)


def near(a, b):
    return a.shape == b.shape and numpy.abs(a - b).max() <= 1e-4 * max(1, numpy.abs(b).max())


CONFIG = """name: "configured"
max_batch_size: 8
dynamic_batching { priority_levels: 3 default_priority_level: 2
  default_queue_policy { max_queue_size: 512 allow_timeout_override: true } }
parameters { key: "qos_ms" value: { string_value: "50" } }
"""


def make_repository(moire, folder):
    path = os.path.join(folder, "lenet.onnx")
    subprocess.run([moire, "zoo", "build", "lenet", "-o", path], check=True, stdout=subprocess.DEVNULL)
    os.makedirs(os.path.join(folder, "configured", "1"))
    os.symlink(path, os.path.join(folder, "configured", "1", "model.onnx"))
    with open(os.path.join(folder, "configured", "config.pbtxt"), "w", encoding="utf-8") as f:
        f.write(CONFIG)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"input": x})[0]


@contextlib.contextmanager
def running(moire):
    """A server that is ready, its folder, and what its models answer."""
    with tempfile.TemporaryDirectory() as folder:
        reference = make_repository(moire, folder)
        with Bed(moire, folder) as bed:
            bed.wait()
            yield bed, folder, reference


def run(name, call):
    try:
        call()
        print(f"ok      {name}")
        return True
    except Exception as e:  # whatever it is, the other cases run
        print(f"FAILED  {name}: {type(e).__name__}: {e}")
        return False
