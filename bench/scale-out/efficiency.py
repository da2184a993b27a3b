"""efficiency.py - what a second replica of Ray Serve adds on a machine of two cores, and who has the cores meanwhile.

Queries a second of one replica and of two, each with a core of its own, and beside that of one and of two processes
that ask the same network by moire.Session without Ray, which is what the machine gives.  All take turns, round by
round, so that a machine that is slower for a while is so for all.  For each a row says how many cores every kind of
process had (processor_time.py): what is not the runtime's is what passing queries on costs.
"""
import os
import statistics
import subprocess
import sys
import time

import haproxy_bed
from processor_time import Account

SESSION = """
import sys, time, numpy, moire
session, x, n = moire.Session(sys.argv[1], threads=1, pin=True), numpy.zeros((1, 1, 32, 32), numpy.float32), 0
session.run(None, {"input": x})
begun = time.monotonic()
while time.monotonic() < begun + float(sys.argv[2]):
    session.run(None, {"input": x})
    n += 1
print(n / (time.monotonic() - begun))
"""


def by_sessions(file, n, seconds):
    """Queries a second of n processes without Ray, each on a core of its own."""
    found = [subprocess.Popen(["taskset", "-c", str(core), sys.executable, "-c", SESSION, file, str(seconds)],
                              stdout=subprocess.PIPE, text=True) for core in sorted(os.sched_getaffinity(0))[:n]]
    return {"qps": round(sum(float(process.communicate()[0]) for process in found), 3)}


def by_replicas(model, n, seconds, at, question):
    """Queries a second of n replicas, by two clients each, between the first answer and the last."""
    from moire.ray import build
    from ray import serve
    args = model | {"replicas": n, "most": n, "qos_ms": 0}
    serve.run(build(args), name=model["name"], route_prefix=f"/v2/models/{model['name']}")
    with haproxy_bed.Load(at, {model["name"]: question}, clients=2 * n) as load:
        load.until(6 * n, 120)
        with Account(time.monotonic) as account:
            begun = time.monotonic()
            time.sleep(seconds)
    serve.delete(model["name"])
    assert all(r.status == 200 for r in load.records), "a query failed"
    times = sorted(r.begun + r.took for r in load.records if begun <= r.begun + r.took < begun + seconds)
    rate = (len(times) - 1) / (times[-1] - times[0])
    return {"qps": round(rate, 3), "queries_a_core_second": round(rate / account.cores["runtime"], 3),
            "cores": account.cores}


def measure(model, seconds, rounds, at, question):
    """{"efficiency": of replicas, ..., "rounds": all that was seen}."""
    import convolutions
    convolutions.write(model["file"], 256, 128)
    found = []
    for _ in range(rounds):
        row = {f"sessions_{n}": by_sessions(model["file"], n, seconds) for n in (1, 2)}
        row |= {f"replicas_{n}": by_replicas(model, n, seconds, at, question) for n in (1, 2)}
        found.append(row)

    def of(what, of_one="qps"):
        return round(statistics.median(r[f"{what}_2"][of_one] / r[f"{what}_1"][of_one] for r in found), 3)

    return {"efficiency": round(of("replicas") / 2, 3), "efficiency_without_ray": round(of("sessions") / 2, 3),
            "efficiency_of_a_core_second": of("replicas", "queries_a_core_second"), "rounds": found}
