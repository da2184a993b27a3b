#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cross_check.py - moire's own load generator beside LoadGen, on the same arrivals.

LoadGen's Server draws its arrivals from std::mt19937 and an exponential distribution.  The same seed gives the same
arrivals here; the runner of `moire bench` plays them, round by round in turns with LoadGen's own run.  Both count a
query's time from when it was to arrive.  The table has the percentiles of each, the median over the rounds, and how far
they are apart.  LoadGen calls the Python package, the runner the library in C: some 0.1 ms a query lie between them.

    cross_check.py MODEL.onnx --qps Q [--seconds S] [--rounds N] [--threads N] [--moire PATH] [--json]

Run it by the Python of `make loadgen`, on a machine that does nothing else.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
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
        self.ask("solo 0 1000", "solo")  # warm, as LoadGen's system is
        self.ask("\t".join([f"serve {schedule}", records, NEVER]), "served")
        rows = numpy.loadtxt(records, delimiter=",", comments="#", dtype=numpy.int64)
        if (rows[:, 4] != 0).any() or (rows[:, 3] < 0).any():
            raise SystemExit("cross_check: queries of the runner have failed")
        return (rows[:, 3] - times) / 1e6

    def close(self):
        print("quit", file=self.process.stdin, flush=True)
        self.process.wait()


def by_loadgen(options, folder, seed):
    """LoadGen's row of the same model."""
    job = {"system": "moire", "model": os.path.abspath(options.model), "name": "none", "scenario": "Server"}
    job |= {"qps": options.qps, "latency_ms": 60000, "seconds": options.seconds, "samples": 8, "batch": 1}
    job |= {"threads": options.threads, "generic_only": False, "store": None, "shapes": {}, "over": None}
    job |= {"server": None, "moire": options.moire, "seed": seed, "output": os.path.join(folder, "logs")}
    paths = [os.path.join(folder, name) for name in ("loadgen.json", "row.json")]
    with open(paths[0], "w", encoding="utf-8") as file:
        json.dump(job, file)
    subprocess.run([sys.executable, os.path.join(HERE, "run.py"), *paths], check=False)
    with open(paths[1], encoding="utf-8") as file:
        row = json.load(file)
    if "error" in row:
        raise SystemExit(f"cross_check: {row['error']}")
    return row


def round_of(options, folder, seed):
    row = by_loadgen(options, folder, seed)
    times = arrivals(seed, options.qps, row["queries"])
    runner = Runner(options, folder)
    try:
        took = runner.serve(times)
    finally:
        runner.close()
    # as LoadGen takes them: the sample below which so many lie
    took.sort()
    ours = {p: float(took[min(len(took) * p // 100, len(took) - 1)]) for p in PERCENTILES}
    return {"queries": row["queries"], "loadgen": {p: row[f"p{p}_ms"] for p in PERCENTILES}, "moire": ours}


def summary(rounds):
    rows = []
    for p in PERCENTILES:
        theirs, ours = (statistics.median(r[who][p] for r in rounds) for who in ("loadgen", "moire"))
        rows.append({"percentile": p, "loadgen_ms": theirs, "moire_ms": ours, "apart": ours / theirs - 1})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--qps", type=float, required=True)
    parser.add_argument("--seconds", type=float, default=60, help="of a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--moire", default="build/moire")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = []
    with tempfile.TemporaryDirectory(prefix="moire-cross-") as folder:
        for seed in range(1, options.rounds + 1):
            rounds.append(round_of(options, folder, seed))
            print(f"round {seed} of {options.rounds}: {rounds[-1]['queries']} queries", file=sys.stderr, flush=True)
    rows = summary(rounds)
    if options.json:
        print(json.dumps({"model": options.model, "qps": options.qps, "rounds": rounds, "summary": rows}, indent=1))
        return
    print(f"{os.path.basename(options.model)}, {options.qps:g} queries/s, {sum(r['queries'] for r in rounds)} queries")
    print(f"{'':12}{'LoadGen ms':>12}{'moire ms':>12}{'apart':>9}")
    for row in rows:
        print(f"p{row['percentile']:<11}{row['loadgen_ms']:12.3f}{row['moire_ms']:12.3f}{100 * row['apart']:8.1f} %")


if __name__ == "__main__":
    main()
