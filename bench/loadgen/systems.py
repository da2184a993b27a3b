# SPDX-License-Identifier: Apache-2.0
"""systems.py - what LoadGen tests: moire in this process, ONNX Runtime, or a server that a network leads to.

A system has `ports`, `version`, prepare(feed), which makes of inputs by name what the next two take, run(query), which
waits for the answer, and start(query, done), which does not: done(error) is called once, from any thread, with None or
with what went wrong.  `at_once` is how many queries it is given before the first of them is answered; the others wait
with LoadGen, as their time does.
"""

import queue
import threading

from samples import Port

AT_ONCE = 64  # queries that moire has: its policy sees them, and their inputs take memory


def as_it_is(feed):
    return feed


class Moire:
    """The Python package.  One query at a time goes by Session.run, as a program would; others by a runtime, straight."""

    def __init__(self, job):
        import moire

        self.version = moire.__version__
        how = {name: job[name] for name in ("threads", "store", "generic_only")}
        shapes = job["shapes"] or None
        self.runtime = self.session = None
        if job["scenario"] == "SingleStream":
            self.session = moire.Session(job["model"], shapes=shapes, pin=True, **how)
            inputs, self.run, self.prepare = self.session.get_inputs(), self.run_session, as_it_is
        else:
            from direct import Direct

            self.runtime = moire.Runtime(pin=True, **how)
            model = self.runtime.load(job["model"], "model", shapes=shapes)
            direct = Direct(model)
            inputs, self.run, self.start, self.prepare = model.inputs, direct.run, direct.start, direct.prepare
        self.ports = [Port(port.name, port.dtype, port.shape or (None,), job["shapes"]) for port in inputs]
        self.at_once = AT_ONCE

    def run_session(self, feed):
        self.session.run(None, feed)

    def close(self):
        (self.session or self.runtime).close()


class Workers:
    """Queries of a system that can only be waited for, each on a thread: call(feed), of make_call() for each."""

    def __init__(self, n, make_call):
        self.waiting, self.at_once = queue.SimpleQueue(), 2 * n
        self.threads = [threading.Thread(target=self.work, args=(make_call(),), daemon=True) for _ in range(n)]
        for thread in self.threads:
            thread.start()

    def work(self, call):
        while (item := self.waiting.get()) is not None:
            feed, done = item
            try:
                call(feed)
            except Exception as wrong:  # whatever it is, the test has failed
                done(wrong)
            else:
                done(None)

    def start(self, feed, done):
        self.waiting.put((feed, done))

    def close(self):
        for _ in self.threads:
            self.waiting.put(None)
        for thread in self.threads:
            thread.join()


class OnnxRuntime:
    """All threads for one query at a time where a stream waits for each; one thread for each of as many otherwise."""

    def __init__(self, job):
        import numpy
        import onnxruntime

        self.version = onnxruntime.__version__
        streams = job["scenario"] in ("SingleStream", "MultiStream")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = job["threads"] if streams else 1
        options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(job["model"], options, ["CPUExecutionProvider"])
        types = {"float": "float32", "double": "float64"}
        self.ports = []
        for port in self.session.get_inputs():
            name = port.type[len("tensor(") : -1]
            self.ports.append(Port(port.name, numpy.dtype(types.get(name, name)), port.shape, job["shapes"]))
        self.workers = Workers(1 if streams else job["threads"], lambda: self.run)
        self.start, self.at_once, self.prepare = self.workers.start, self.workers.at_once, as_it_is

    def run(self, feed):
        self.session.run(None, feed)

    def close(self):
        self.workers.close()


def open_system(job):
    """The system that the job names."""
    if job["over"]:
        from network import Network

        return Network(job, Workers)
    return {"moire": Moire, "onnxruntime": OnnxRuntime}[job["system"]](job)
