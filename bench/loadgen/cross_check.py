#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cross_check.py - moire's own load generator beside LoadGen, on the same arrivals.

LoadGen's Server draws its arrivals from std::mt19937 and an exponential distribution.  The same seed gives the same
arrivals here; the runner of `moire bench` plays them, in turns with LoadGen.  Both count a query's time from when it was
to arrive.  Each has its process and its copy of the model from the beginning to the end, and warms it up in each turn;
who begins changes from round to round.

A machine's speed changes from second to second by more than the two are apart, so each round is a pair: the table has
the medians of both over the rounds, and of the rounds' quotients the median, between bounds within which it is with
95 % (those ranks of the quotients, after the sign test; of fewer than six rounds the least and the greatest).

    cross_check.py MODEL.onnx --qps Q [--seconds S] [--rounds N] [--threads N] [--moire PATH] [--json]

Run it by the Python of `make loadgen`, on a machine that does nothing else.  Many short rounds say more than a few long.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import mlperf_loadgen
import numpy
import run
from prctl import wake_on_time
from systems import open_system

PERCENTILES = (50, 90, 99)
NEVER = "-1"


def arrivals(seed, qps, n):
    """When LoadGen sends its first n queries, in ns: two numbers of the generator for each gap."""
    raw = numpy.random.RandomState(seed)._bit_generator.random_raw(2 * n)
    uniform = (raw[0::2] + raw[1::2] * 2.0**32) / 2.0**64
    gaps = (-numpy.log(1 - uniform) / qps * 1e9).astype(numpy.int64)
    return numpy.concatenate([[0], numpy.cumsum(gaps)[:-1]])


class Runner:
    """`moire bench runner`, by the protocol of bench/peers/README.md."""

    def __init__(self, options, folder):
        tenant = {"name": "model", "model": os.path.abspath(options.model), "qos_ns": 0, "class": 0, "priority": 0}
        job = {"arrangement": "moire", "threads": options.threads, "generic": False, "exact": False, "trace": False}
        job["tenants"] = [{**tenant, "shed_late": False, "shapes": {}}]
        path = os.path.join(folder, "job.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(job, file)
        self.folder = folder
        self.process = subprocess.Popen(
            [options.moire, "bench", "runner", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True
        )
        self.read("ready")

    def read(self, wanted):
        line = self.process.stdout.readline().rstrip("\n")
        if not line.startswith(wanted):
            raise SystemExit(f"cross_check: the runner answers '{line}', not '{wanted}'")

    def ask(self, command, wanted):
        print(command, file=self.process.stdin, flush=True)
        self.read(wanted)

    def serve(self, times):
        """Milliseconds of each query from its arrival to its answer."""
        schedule, records = (os.path.join(self.folder, name) for name in ("schedule", "records"))
        window = int(times[-1]) + 1
        with open(schedule, "w", encoding="utf-8") as file:
            total = window + 60 * 10**9
            print(f"# moire schedule 1 warmup_ns 0 window_ns {window} total_ns {total} n {len(times)}", file=file)
            file.writelines(f"{at},0\n" for at in times)
        self.ask(f"solo 0 {round(1000 * run.LOOK_S)}", "solo")  # warm, as LoadGen's system is
        self.ask("\t".join([f"serve {schedule}", records, NEVER]), "served")
        rows = numpy.loadtxt(records, delimiter=",", comments="#", dtype=numpy.int64)
        if (rows[:, 4] != 0).any() or (rows[:, 3] < 0).any():
            raise SystemExit("cross_check: queries of the runner have failed")
        return (rows[:, 3] - times) / 1e6

    def close(self):
        print("quit", file=self.process.stdin, flush=True)
        self.process.wait()


class LoadGen:
    """LoadGen's Server in this process."""

    def __init__(self, options, folder):
        self.job = {"system": "moire", "model": os.path.abspath(options.model), "name": "none", "scenario": "Server"}
        self.job |= {"qps": options.qps, "latency_ms": 60000, "seconds": options.seconds, "samples": 1, "batch": 1}
        self.job |= {"threads": options.threads, "generic_only": False, "store": None, "shapes": {}, "over": None}
        self.job |= {"server": None, "moire": options.moire, "output": os.path.join(folder, "logs")}
        self.system = open_system(self.job)

    def serve(self, seed):
        """The row of a run on that seed's arrivals."""
        return run.test(self.job | {"seed": seed}, self.system, self.fail)

    @staticmethod
    def fail(wrong):
        """Ends the process: LoadGen cannot be stopped."""
        print(f"cross_check: a query of LoadGen's failed: {wrong}", file=sys.stderr, flush=True)
        os._exit(1)


def round_of(options, theirs, runner, seed):
    """A turn of each on the same arrivals."""
    times = arrivals(seed, options.qps, round(2 * options.qps * options.seconds) + 100)
    times = times[: int(numpy.searchsorted(times, 1e9 * options.seconds)) + 1]
    turns = {"loadgen": lambda: theirs.serve(seed), "moire": lambda: runner.serve(times)}
    got = {who: turns[who]() for who in (turns if seed % 2 else reversed(turns))}
    took, row = numpy.sort(got["moire"]), got["loadgen"]
    # as LoadGen takes them: the sample below which so many lie
    ours = {p: float(took[min(len(took) * p // 100, len(took) - 1)]) for p in PERCENTILES}
    return {
        "seed": seed, "queries": row["queries"], "loadgen": {p: row[f"p{p}_ms"] for p in PERCENTILES},
        "moire_queries": len(took), "moire": ours,
    }  # fmt: skip


def bounds(sorted_values):
    """Between which of them the median of their distribution lies with 95 %."""
    n, low, tail = len(sorted_values), -1, 0.0
    while tail + math.comb(n, low + 1) / 2**n <= 0.025:
        low += 1
        tail += math.comb(n, low) / 2**n
    return sorted_values[max(low, 0)], sorted_values[n - 1 - max(low, 0)]


def summary(rounds):
    rows = []
    for p in PERCENTILES:
        theirs, ours = (statistics.median(r[who][p] for r in rounds) for who in ("loadgen", "moire"))
        apart = sorted(r["loadgen"][p] / r["moire"][p] - 1 for r in rounds)
        row = {"percentile": p, "loadgen_ms": theirs, "moire_ms": ours, "apart": statistics.median(apart)}
        rows.append(row | dict(zip(("from", "to"), bounds(apart))))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--qps", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=4, help="of a turn")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--moire", default="build/moire")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    run.loadgen, rounds = mlperf_loadgen, []
    wake_on_time()
    with tempfile.TemporaryDirectory(prefix="moire-cross-") as folder:
        theirs, runner = LoadGen(options, folder), Runner(options, folder)
        for seed in range(1, options.rounds + 1):
            rounds.append(round_of(options, theirs, runner, seed))
            print(f"round {seed} of {options.rounds}: {rounds[-1]['queries']} queries", file=sys.stderr, flush=True)
        runner.close()
        theirs.system.close()
    rows = summary(rounds)
    if options.json:
        print(json.dumps({"model": options.model, "qps": options.qps, "rounds": rounds, "summary": rows}, indent=1))
        return
    print(f"{os.path.basename(options.model)}, {options.qps:g} queries/s, {sum(r['queries'] for r in rounds)} queries")
    print(f"{'':6}{'LoadGen ms':>12}{'moire ms':>12}{'apart':>11}{'between':>18}")
    for row in rows:
        times = f"p{row['percentile']:<5}{row['loadgen_ms']:12.3f}{row['moire_ms']:12.3f}"
        print(times + "".join(f"{100 * row[key]:9.1f} %" for key in ("apart", "from", "to")))


if __name__ == "__main__":
    main()
