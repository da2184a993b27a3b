#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""runner.py - the protocol of `moire bench` for systems reached from Python; see bench/peers/README.md.

A backend has open(job), solo(tenant), issue(index, tenant, done), stop() and close(); done(index, start, end)
may be called from any thread."""
import ctypes
import json
import os
import queue
import sys
import threading
import time

NEVER = (1 << 63) - 1
LEAD_NS, UNDER_WAY_NS, TICK_S, LOOK_EVERY, MAX_SOLO = 20_000_000, 20_000_000, 0.002, 32, 4000
EFAILED = -12
OVER, MISSED = 1, 2  # bits of Drive.over


class Drive:
    """Plays one schedule, open loop, and closed loops beside it; latency is counted by the conductor from the
    scheduled arrival.  Queries of the k-th closed loop have indices from n + k room on."""

    def __init__(self, backend, path, qos):
        with open(path) as f:
            head = f.readline().split()
            self.arrivals = [tuple(map(int, line.split(","))) for line in f]
        self.warmup, self.window, self.total = (int(head[i]) for i in (5, 7, 9))
        self.room, closed = (int(head[13]), head[15]) if len(head) > 15 else (0, "")
        self.loops = [tuple(map(int, loop.split(":"))) for loop in closed.split(",") if loop]
        self.n = len(self.arrivals)
        slots = self.n + len(self.loops) * self.room
        self.backend, self.qos = backend, qos
        self.records = [[-1, -1, -1, 0] for _ in range(slots)]
        self.over = bytearray(slots)
        self.n_done = self.misses = self.first = 0
        self.missed_of = [0] * len(qos)
        self.lock = threading.Lock()
        self.owed = queue.SimpleQueue()  # numbers of loops that may ask
        self.asked = [0] * len(self.loops)
        for k, (_, outstanding) in enumerate(self.loops):
            for _ in range(outstanding):
                self.owed.put(k)

    def counts(self, i):
        return i < self.n and self.warmup <= self.arrivals[i][0] < self.warmup + self.window

    def due(self, i):
        return self.arrivals[i][0] + self.qos[self.arrivals[i][1]]

    def done(self, i, start, end, code=0):
        record = self.records[i]
        record[1], record[2], record[3] = start - self.t0, end - self.t0 if code == 0 else -1, code
        with self.lock:
            self.n_done += 1
            if self.counts(i) and (code != 0 or record[2] > self.due(i)):
                self.miss(i)
            self.over[i] |= OVER
        if i >= self.n and code == 0:  # one that fails is not asked again
            self.owed.put((i - self.n) // self.room)

    def miss(self, i):
        """Once a query, whoever sees it first; with the lock held."""
        if self.counts(i) and not self.over[i] & MISSED:
            self.over[i] |= MISSED
            self.misses += 1
            self.missed_of[self.arrivals[i][1]] += 1

    def is_lost(self, give_up, issued, now):
        """Counts what is overdue without an answer; True when more has been missed than may be."""
        if give_up[0] < 0:
            return False
        with self.lock:
            for i in range(self.first, issued):
                if not self.over[i] & OVER and self.due(i) + UNDER_WAY_NS < now:
                    self.miss(i)
            while self.first < issued and (self.over[self.first] or not self.counts(self.first)):
                self.first += 1
        return self.misses > give_up[0] or any(n > most for n, most in zip(self.missed_of, give_up[1:]))

    def play(self, give_up):
        step_ahead(True)
        try:
            return self.generate(give_up)
        finally:
            step_ahead(False)

    def now(self):
        return time.monotonic_ns() - self.t0

    def ask(self, k):
        """The next query of a closed loop."""
        if self.asked[k] == self.room:
            raise RuntimeError(f"a closed loop had more than {self.room} answers")
        i = self.n + k * self.room + self.asked[k]
        self.asked[k] += 1
        self.records[i][0] = self.now()
        self.backend.issue(i, self.loops[k][0], self.done)

    def sleep_until(self, at):
        """Closed loops go on meanwhile.  Returns the time."""
        while (now := self.now()) < 0 or now < at or not self.owed.empty():
            if not self.loops or now < 0:
                time.sleep((at - now if now >= 0 else -now) * 1e-9)
                continue
            try:
                self.ask(self.owed.get(timeout=max(at - now, 0) * 1e-9))
            except queue.Empty:
                pass
        return now

    def generate(self, give_up):
        self.t0 = time.monotonic_ns() + LEAD_NS
        cut = NEVER
        for i, (at, tenant) in enumerate(self.arrivals):
            now = self.sleep_until(at)
            if i % LOOK_EVERY == 0 and self.is_lost(give_up, i, now):
                cut = now
                break
            self.records[i][0] = now
            self.backend.issue(i, tenant, self.done)
        else:
            if self.loops:
                self.sleep_until(self.total)
            while self.n_done < self.n + sum(self.asked) and self.now() < self.total:
                time.sleep(TICK_S)
        self.backend.stop()
        return cut

    def write(self, path, cut):
        with open(path, "w") as f:
            f.write(f"# moire records 1 cut_ns {cut}\n")
            for i, r in enumerate(self.records):
                f.write(f"{i},{r[0]},{r[1]},{r[2]},{r[3]}\n")


def step_ahead(ahead):
    """The generator runs ahead of the system under test where the machine allows, as in bench/load/drive.c."""
    try:
        policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK if ahead else os.SCHED_OTHER
        os.sched_setscheduler(0, policy, os.sched_param(1 if ahead else 0))
    except OSError:
        pass


def solo(backend, tenant, ms):
    backend.solo(tenant)
    took = []
    start = now = time.monotonic_ns()
    while len(took) < MAX_SOLO and (not took or now - start <= ms * 1_000_000):
        begin = now
        backend.solo(tenant)
        now = time.monotonic_ns()
        took.append(now - begin)
    return took


def one_line(e):
    return " ".join(str(e).split())[:300]


def first(backend, job, load_ns):
    start = time.monotonic_ns()
    for tenant in range(len(job["tenants"])):
        backend.solo(tenant)
    return f"first {load_ns} {time.monotonic_ns() - start}"


def answer(backend, job, line, load_ns):
    command, _, arguments = line.partition(" ")
    if command == "solo":
        tenant, ms = map(int, arguments.split())
        took = solo(backend, tenant, ms)
        return f"solo {len(took)} " + " ".join(map(str, took))
    if command == "first":
        return first(backend, job, load_ns)
    if command == "serve":
        schedule, records, give_up = arguments.split("\t")
        drive = Drive(backend, schedule, [t["qos_ns"] for t in job["tenants"]])
        cut = drive.play([int(n) for n in give_up.split(",")])
        drive.write(records, cut)
        return f"served {len(drive.arrivals)}"
    return f"error -1 no command '{command}'"


def main(backend):
    """The command loop; returns the exit code."""
    ctypes.CDLL(None).prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: the generator must wake on time
    with open(sys.argv[1]) as f:
        job = json.load(f)
    start = time.monotonic_ns()
    try:
        backend.open(job)
    except Exception as e:  # whatever a peer throws is a message to the conductor
        print(f"error {EFAILED} {one_line(e)}", flush=True)
        return 4
    load_ns = time.monotonic_ns() - start
    print("ready", flush=True)
    for line in sys.stdin:
        line = line.rstrip("\n")
        if line == "quit":
            break
        try:
            print(answer(backend, job, line, load_ns), flush=True)
        except Exception as e:
            print(f"error {EFAILED} {one_line(e)}", flush=True)
    backend.close()
    return 0
