#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""onnxruntime_runner.py - ONNX Runtime under the load of `moire bench`.

Arrangements (intra-op threads of a session, queries at a time, spinning):
  solo             all threads, one, on            latency of one model alone
  fcfs-all         all cores, one, on              FCFS, each query on all cores
  core-per-query   1, as many as cores, -          FCFS, each query on one core
  all-at-once-1t   1, all that arrived, -          every query at once on a thread of its own
  all-at-once-nt   all cores, all, on              every query at once on all cores
  all-at-once-nt-nospin   the same without spinning workers
and with a pool for each class, latency-critical and best-effort, FCFS one at a time in each:
  split            half of the cores each, -       nobody takes the other's cores, nor uses those left idle
  split-all        all cores each, off             the kernel shares them evenly
  split-nice       the same, best-effort threads at nice 19
  split-idle       the same, best-effort threads under SCHED_IDLE"""
import os
import queue
import sys
import threading
import time

import numpy as np
import onnxruntime as ort

import runner

HALF = -2  # of the cores, at least one
# of a pool: intra-op threads (0 = all, HALF), queries at a time (0 = all cores, -1 = no bound), spinning, and who
# steps back for other threads; one pool for all tenants, or one for each class
ARRANGEMENTS = {
    "solo": [(0, 1, True, None)],
    "fcfs-all": [(0, 1, True, None)],
    "core-per-query": [(1, 0, False, None)],
    "all-at-once-1t": [(1, -1, False, None)],
    "all-at-once-nt": [(0, -1, True, None)],
    "all-at-once-nt-nospin": [(0, -1, False, None)],
    "split": [(HALF, 1, False, None), (HALF, 1, False, None)],
    "split-all": [(0, 1, False, None), (0, 1, False, None)],
    "split-nice": [(0, 1, False, None), (0, 1, False, "nice")],
    "split-idle": [(0, 1, False, None), (0, 1, False, "idle")],
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


def step_back(how):
    """The calling thread, and those that it starts, leave the cores to others."""
    if how == "nice":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
    elif how == "idle":
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


class Pool:
    """Sessions of some tenants, and the threads that run them.  Both are made by threads that have stepped back
    where the pool does, for a session's own threads inherit that."""

    def __init__(self, row, job, tenants, serves):
        self.threads, at_once, self.spin, self.back = row
        self.waiting = queue.SimpleQueue()
        self.sessions, self.feeds, self.failed = {}, {}, None
        opener = threading.Thread(target=self.open, args=(job, tenants))
        opener.start()
        opener.join()
        if self.failed:
            raise self.failed
        n = {0: job["threads"], -1: AT_ONCE}.get(at_once, at_once) if serves and tenants else 0
        self.workers = [threading.Thread(target=self.work, daemon=True) for _ in range(n)]
        for worker in self.workers:
            worker.start()

    def open(self, job, tenants):
        try:
            step_back(self.back)
            for i in tenants:
                self.open_one(job, i)
        except Exception as e:
            self.failed = e

    def open_one(self, job, i):
        tenant, all_cores = job["tenants"][i], job["threads"]
        options = ort.SessionOptions()
        options.intra_op_num_threads = {0: all_cores, HALF: max(all_cores // 2, 1)}.get(self.threads, self.threads)
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if self.spin else "0")
        options.log_severity_level = 4
        session = ort.InferenceSession(tenant["model"], options, providers=["CPUExecutionProvider"])
        self.sessions[i] = session
        self.feeds[i] = feed(session, tenant["model"], tenant.get("shapes", {}))

    def run(self, tenant):
        self.sessions[tenant].run(None, self.feeds[tenant])

    def work(self):
        step_back(self.back)
        while (answer := self.waiting.get()) is not None:
            answer()

    def close(self):
        for _ in self.workers:
            self.waiting.put(None)


class OnnxRuntime:
    def open(self, job):
        rows = ARRANGEMENTS[job["arrangement"]]
        self.busy, self.idle, self.drop = 0, threading.Condition(), False
        self.pool_of = [min(tenant["class"], len(rows) - 1) for tenant in job["tenants"]]
        self.pools = [
            Pool(row, job, [i for i, of in enumerate(self.pool_of) if of == k], job["arrangement"] != "solo")
            for k, row in enumerate(rows)
        ]

    def solo(self, tenant):
        self.pools[self.pool_of[tenant]].run(tenant)

    def answer(self, index, tenant, done):
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
        self.pools[self.pool_of[tenant]].waiting.put(lambda: self.answer(index, tenant, done))

    def stop(self):
        self.drop = True
        with self.idle:
            self.idle.wait_for(lambda: self.busy == 0)
        self.drop = False

    def close(self):
        for pool in self.pools:
            pool.close()


if __name__ == "__main__":
    sys.exit(runner.main(OnnxRuntime()))
