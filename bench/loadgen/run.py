#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""run.py JOB RESULT - one system under one scenario of MLPerf's LoadGen; `moire bench loadgen` starts it.

JOB says what to test (bench/loadgen/loadgen.c writes it), RESULT gets the row, or {"error": ...}.  LoadGen is the
package mlcommons-loadgen as it is: it makes the load, measures and judges.  Its rules are those that it has inside
(mlperf.conf) for the model's name, unless the job says otherwise.  A query that fails ends the test at once.
"""

import collections
import json
import os
import sys
import threading
import time

from prctl import die_with_parent, wake_on_time

SAMPLES, LOOK_S = 64, 1.0
FEWEST = {"SingleStream": 64, "MultiStream": 662}  # queries: without so many early stopping has no estimate
PACKAGES = {"mlperf_loadgen": "mlcommons-loadgen", "grpc": "grpcio", "moire": "dist/moire-*.whl (make wheel)"}


class Slot:
    """Room for one query under way: what is to be told of it is made beforehand, and only gets the query's numbers."""

    def __init__(self, feeder, batch):
        self.feeder, self.done = feeder, self.came
        self.responses = [loadgen.QuerySampleResponse(0, 0, 0) for _ in range(batch)]
        self.told = self.responses

    def take(self, part):
        self.told = self.responses if len(part) == len(self.responses) else self.responses[: len(part)]
        for response, (number, _) in zip(self.told, part):
            response.id = number

    def came(self, wrong):
        try:
            if wrong:
                raise wrong
            loadgen.QuerySamplesComplete(self.told)
            self.feeder.leave(self)
        except BaseException as failed:
            self.feeder.fail(failed)


class Feeder:
    """Between LoadGen and a system: queries that are more than it takes at once wait here, oldest first.

    Only LoadGen's thread makes queries wait.  Others take a slot only for one that waits, and before it leaves: where
    that thread sees none waiting, the slots that it then sees are its own to take, without the lock."""

    def __init__(self, system, samples, batch, fail):
        self.system, self.samples, self.batch, self.fail = system, samples, batch, fail
        self.waiting, self.lock = collections.deque(), threading.Lock()
        self.free = [Slot(self, batch) for _ in range(system.at_once)]

    def issue(self, queries):
        try:
            if len(queries) == self.batch == 1 and not self.waiting and self.free:
                self.start([(queries[0].id, queries[0].index)], self.free.pop())
                return
            samples = [(query.id, query.index) for query in queries]
            for i in range(0, len(samples), self.batch):
                self.waiting.append(samples[i : i + self.batch])
            self.pump()
        except BaseException as wrong:  # LoadGen's thread is no place for an exception
            self.fail(wrong)

    def start(self, part, slot):
        slot.take(part)
        self.system.start(self.samples.query([index for _, index in part]), slot.done)

    def pump(self):
        while True:
            with self.lock:
                if not self.waiting or not self.free:
                    return
                slot = self.free.pop()  # before the query leaves: who sees that none waits may take a slot
                part = self.waiting.popleft()
            self.start(part, slot)

    def leave(self, slot):
        self.free.append(slot)
        if self.waiting:
            self.pump()


class OneAtATime:
    """A query is answered when issue() returns."""

    def __init__(self, system, samples, fail):
        self.system, self.samples, self.fail = system, samples, fail

    def issue(self, queries):
        try:
            for query in queries:
                self.system.run(self.samples.query([query.index]))
                loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(query.id, 0, 0)])
        except BaseException as wrong:
            self.fail(wrong)


def step_ahead(ahead):
    """Where the machine allows, LoadGen sends before the system computes, as the generator of `moire bench serve` does:
    clients do not queue for a server's cores.  Threads that are started meanwhile do not inherit it."""
    how = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK if ahead else os.SCHED_OTHER
    try:
        os.sched_setscheduler(0, how, os.sched_param(1 if ahead else 0))
    except PermissionError:
        pass


def look(job, system, samples):
    """Warms the system up; samples a second that it answers, given as many at once as LoadGen would give."""
    offline = job["scenario"] == "Offline"
    system.run(samples.query([0]))
    if job["scenario"] == "SingleStream":
        start, n = time.monotonic(), 0
        while (now := time.monotonic()) < start + LOOK_S or not n:
            system.run(samples.query([0]))
            n += 1
        return n / (now - start)
    wrongs, batch = [], job["batch"]
    width = system.at_once if offline else max(1, 8 // batch)
    free = threading.Semaphore(width)

    def done(wrong):
        if wrong:
            wrongs.append(wrong)
        free.release()

    start, n = time.monotonic(), 0
    while time.monotonic() < start + LOOK_S and not wrongs:
        for _ in range(width):
            free.acquire()
            system.start(samples.query([0] * batch), done)
        n += width * batch
        if not offline:  # a query of a stream is answered before the next
            for _ in range(width):
                free.acquire()
            free.release(width)
    for _ in range(width):
        free.acquire()
    if wrongs:
        raise wrongs[0]
    return n / (time.monotonic() - start)


def settings_of(job, rate):
    """LoadGen's settings: its rules for this model, then what the job says, and what it needs to know of the rate."""
    s = loadgen.TestSettings()
    s.FromConfig("", job["name"], job["scenario"], 0)
    s.scenario = getattr(loadgen.TestScenario, job["scenario"])
    s.mode = loadgen.TestMode.PerformanceOnly
    if job["seconds"]:
        s.min_duration_ms = round(1000 * job["seconds"])
        s.min_query_count = FEWEST.get(job["scenario"], 1)
    # It makes the queries of a stream beforehand: rather too many than too few
    s.single_stream_expected_latency_ns = round(0.5e9 / rate)
    s.multi_stream_expected_latency_ns = round(0.5e9 * 8 / rate)
    s.offline_expected_qps = job["qps"] or 1.15 * rate
    s.server_target_qps = job["qps"] or 1
    if job["latency_ms"]:
        s.server_target_latency_ns = round(1e6 * job["latency_ms"])
    if job["seed"]:
        s.schedule_rng_seed = s.sample_index_rng_seed = s.qsl_rng_seed = job["seed"]
    return s


def log_to(folder):
    os.makedirs(folder, exist_ok=True)
    log, where = loadgen.LogSettings(), loadgen.LogOutputSettings()
    where.outdir, where.copy_summary_to_stdout = folder, False
    log.log_output, log.enable_trace = where, False
    return log


def test(job, system, fail):
    import verdict
    from samples import Samples

    samples = Samples(system.ports, system.prepare)
    if job["batch"] > 1 and not all(port.open for port in system.ports):
        raise ValueError(f"--batch {job['batch']}: the model's first dimension is not open, so it takes one sample")
    samples.load([0])
    rate = look(job, system, samples)
    settings = settings_of(job, rate)
    count = job["samples"] or settings.performance_sample_count_override or SAMPLES
    settings.performance_sample_count_override = 0
    alone = job["scenario"] == "SingleStream"
    feeder = OneAtATime(system, samples, fail) if alone else Feeder(system, samples, job["batch"], fail)
    sut = loadgen.ConstructSUT(feeder.issue, lambda: None)
    library = loadgen.ConstructQSL(count, count, samples.load, samples.unload)
    start = time.monotonic()
    step_ahead(job["scenario"] == "Server")
    loadgen.StartTestWithLogSettings(sut, library, settings, log_to(job["output"]), "")
    step_ahead(False)
    took = time.monotonic() - start
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(sut)
    row = {"system": job["system"], "over": job["over"]}
    row |= {"version": system.version, "samples_per_second_before": rate, "seconds": took}
    row |= {"target_qps": settings.server_target_qps if job["scenario"] == "Server" else None}
    row |= {"target_ms": settings.server_target_latency_ns / 1e6 if job["scenario"] == "Server" else None}
    return row | verdict.read(job["scenario"], job["output"])


def write(path, document):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file)


def main():
    die_with_parent()
    wake_on_time()
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)

    def fail(wrong):
        """Ends the process: LoadGen cannot be stopped."""
        text = " ".join(str(wrong).split()) or type(wrong).__name__
        write(sys.argv[2], {"error": f"{job['system']}: a query failed: {text}"})
        os._exit(1)

    try:
        global loadgen
        import mlperf_loadgen as loadgen

        from systems import open_system

        system = open_system(job)
        try:
            row = test(job, system, fail)
        finally:
            system.close()
    except ModuleNotFoundError as missing:
        package = PACKAGES.get(missing.name, missing.name)
        error = f"{sys.executable} has no package '{missing.name}': pip install {package}"
        write(sys.argv[2], {"error": error, "missing": True})
        return 1
    except Exception as wrong:
        write(sys.argv[2], {"error": f"{job['system']}: " + " ".join(str(wrong).split())})
        return 1
    write(sys.argv[2], row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
