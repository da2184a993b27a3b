#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""onnxruntime_runner.py - ONNX Runtime under the load of `moire bench`.

Arrangements (intra-op threads of a session, queries at a time, spinning):
  solo             all threads, one, on            latency of one model alone
  fcfs-all         all cores, one, on              FCFS, each query on all cores
  core-per-query   1, as many as cores, -          FCFS, each query on one core
  all-at-once-1t   1, all that arrived, -          every query at once on a thread of its own
  all-at-once-nt   all cores, all, on              every query at once on all cores
  all-at-once-nt-nospin   the same without spinning workers"""
import queue
import sys
import threading
import time

import numpy as np
import onnxruntime as ort

import runner

# intra-op threads (0 = all), queries at a time (0 = all cores, -1 = no bound), spinning
ARRANGEMENTS = {
    "solo": (0, 1, True),
    "fcfs-all": (0, 1, True),
    "core-per-query": (1, 0, False),
    "all-at-once-1t": (1, -1, False),
    "all-at-once-nt": (0, -1, True),
    "all-at-once-nt-nospin": (0, -1, False),
}
AT_ONCE = 64
TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def feed(session, model, shapes):
    made = {}
    for port in session.get_inputs():
        dims = shapes.get(port.name)
        if dims is None:
            dims = [d if isinstance(d, int) else (1 if i == 0 else None) for i, d in enumerate(port.shape)]
        if None in dims:
            raise ValueError(f"{model}: input '{port.name}' needs a shape (--shape {port.name}=...)")
        dtype = TYPES[port.type]
        n = int(np.prod(dims))
        values = np.arange(n) * 2654435761 % 1000 * 1e-3 if dtype is np.float32 else np.ones(n)
        made[port.name] = values.astype(dtype).reshape(dims)
    return made


class OnnxRuntime:
    def open(self, job):
        threads, at_once, spin = ARRANGEMENTS[job["arrangement"]]
        workers = {0: job["threads"], -1: AT_ONCE}.get(at_once, at_once)
        self.sessions, self.feeds = [], []
        for tenant in job["tenants"]:
            options = ort.SessionOptions()
            options.intra_op_num_threads = threads or job["threads"]
            options.inter_op_num_threads = 1
            options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
            options.log_severity_level = 4
            session = ort.InferenceSession(tenant["model"], options, providers=["CPUExecutionProvider"])
            self.sessions.append(session)
            self.feeds.append(feed(session, tenant["model"], tenant.get("shapes", {})))
        self.waiting = queue.SimpleQueue()
        self.busy, self.idle, self.drop = 0, threading.Condition(), False
        self.workers = []
        if job["arrangement"] != "solo":
            self.workers = [threading.Thread(target=self.work, daemon=True) for _ in range(workers)]
        for worker in self.workers:
            worker.start()

    def solo(self, tenant):
        self.sessions[tenant].run(None, self.feeds[tenant])

    def work(self):
        while (query := self.waiting.get()) is not None:
            index, tenant, done = query
            if not self.drop:
                start, code = time.monotonic_ns(), 0
                try:
                    self.solo(tenant)
                except Exception:
                    code = runner.EFAILED
                done(index, start, time.monotonic_ns(), code)
            with self.idle:
                self.busy -= 1
                self.idle.notify_all()

    def issue(self, index, tenant, done):
        with self.idle:
            self.busy += 1
        self.waiting.put((index, tenant, done))

    def stop(self):
        self.drop = True
        with self.idle:
            self.idle.wait_for(lambda: self.busy == 0)
        self.drop = False

    def close(self):
        for _ in self.workers:
            self.waiting.put(None)


if __name__ == "__main__":
    sys.exit(runner.main(OnnxRuntime()))
