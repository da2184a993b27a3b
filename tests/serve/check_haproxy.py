#!/usr/bin/env python3
"""check_haproxy.py - HAProxy in front of three `moire serve`, by the files of `moire scale haproxy`.

All nodes are restarted in turn under load: no query fails, and none runs twice, by the ids in the servers' logs.  One
is killed: what fails says so, and nothing runs twice.  With --namespaces HAProxy and each node have a network of their
own, and the link of one is cut, too: what it had taken fails before the link is mended, the others go on, and it is
used again when the link is back.  Needs Debian's haproxy, and namespaces; says so where they are missing.

    check_haproxy.py --moire build/moire [--namespaces]
"""
import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import haproxy_bed  # noqa: E402
import network_bed  # noqa: E402

TARGETS_MS = {"lenet": 50, "digits": 200}
HANG_S = 40  # nothing here waits so long, on a machine however busy; a client waits for 60 before it gives up


def make(moire, folder, places):
    """Models beside the folders of the nodes' files, and a bed that nobody has started."""
    path = os.path.join(folder, "lenet.onnx")
    subprocess.run([moire, "zoo", "build", "lenet", "-o", path], check=True, stdout=subprocess.DEVNULL)
    return haproxy_bed.Bed(moire, folder, {name: (path, qos) for name, qos in TARGETS_MS.items()}, places)


def outputs(record):
    return json.loads(record.answer)["outputs"][0]["data"]


def once(bed, records, unlogged=0):
    """Every query that was answered was answered by one node, and no node answered one twice.

    A node that is killed may have answered queries whose lines in its log were not written yet: so many at most.
    """
    by_node = collections.Counter(i for node in bed.nodes for i in node.answered())
    twice = [i for i, n in by_node.items() if n > 1]
    assert not twice, f"ran twice: {twice[:5]}"
    lost = [r.id for r in records if r.status == 200 and by_node[r.id] != 1]
    assert len(lost) <= unlogged, f"answered by nobody: {lost[:5]}"


def same_answers(records):
    right = {}
    for r in records:
        if r.status == 200:
            values = outputs(r)
            assert len(values) == 10 and values == right.setdefault(r.model, values), r


def bodies():
    return {"lenet": haproxy_bed.infer_body(seed=1), "digits": haproxy_bed.infer_body(seed=2)}


def routes(bed):
    """By the model; what changes one node only is not let through."""
    assert bed.get("/v2/health/ready") == 200 and bed.get("/v2") == 200
    assert bed.get("/v2/models/digits") == 200
    assert bed.get("/v2/models/none") == 404
    for path in ("/metrics", "/", "/v2/repository/index", "/v2/models/lenet/trace/setting", "/v2/logging"):
        assert bed.get(path) == 403, path


def agents(bed):
    """HAProxy hears the agents: room for more, and that a node is to end, which it does by a second signal."""
    bed.until(lambda: all(n["agent_status"] == "L7OK" and n["status"] == "UP" for n in bed.seen("lenet").values()),
              "up by their agents")
    assert {n["weight"] for n in bed.seen("digits").values()} <= {str(w) for w in range(1, 101)}
    node = bed.nodes[0]
    assert node.stop() == 0
    node.flags = ("--drain-seconds", "60")
    node.start()
    bed.until(lambda: bed.seen("lenet")["n0"]["status"] == "UP", "up again")
    node.process.send_signal(signal.SIGTERM)
    bed.until(lambda: bed.seen("lenet")["n0"]["status"].startswith("DRAIN"), "left alone", 50)
    assert bed.get("/v2/models/lenet/ready", node) == 400 and bed.get("/v2/models/lenet", node) == 200
    assert node.stop() == 0
    node.flags = ()
    node.start()
    bed.until(lambda: bed.seen("lenet")["n0"]["status"] == "UP", "up once more")


def rolling_restart(bed):
    with haproxy_bed.Load(bed.at, bodies()) as load:
        load.until(100)
        for node in bed.nodes:
            node.restart()
            bed.wait("lenet")
            load.until(100)
    failed = [r for r in load.records if r.status != 200]
    assert not failed, f"{len(failed)} of {len(load.records)} failed: {failed[:3]}"
    same_answers(load.records)
    once(bed, load.records)
    used = [len(n.answered()) for n in bed.nodes]
    assert all(used), f"a node had nothing: {used}"
    print(json.dumps({"restarted": len(bed.nodes), "queries": len(load.records), "failed": 0, "by_node": used}))


def killed(bed):
    """What it had taken fails at its client; the others go on, and it is taken back when it is there again."""
    with haproxy_bed.Load(bed.at, bodies()) as load:
        load.until(100)
        bed.nodes[1].stop(signal.SIGKILL)
        dead = time.monotonic()
        load.until(300)
        bed.nodes[1].start()
        bed.wait("lenet")
        load.until(100)
    failed = [r for r in load.records if r.status != 200]
    # one under way on each connection, and one that a socket still took whose process was already ending
    assert len(failed) <= 2 * len(load.threads), f"{len(failed)} failed, {len(load.threads)} were under way"
    # on a connection that has had answers before, HAProxy closes it in place of a 502
    assert all(r.status in (0, 502) and r.begun < dead for r in failed), failed
    same_answers(load.records)
    once(bed, load.records, unlogged=len(load.threads))
    print(json.dumps({"killed": 1, "queries": len(load.records), "failed": len(failed)}))


def parted(bed):
    """The network loses a node that goes on to run, under load, and finds it again."""
    node = bed.nodes[1]
    with haproxy_bed.Load(bed.at, bodies(), clients=8) as load:
        load.until(100)
        bed.places.cut(node.name)
        bed.until(lambda: bed.seen("lenet")[node.name]["status"] == "DOWN", "down", HANG_S)
        alone = time.monotonic()
        bed.until(lambda: len(load.asked_since(alone)) == len(load.threads), "rid of what waits for the lost", HANG_S)
        load.until(300)
        bed.places.mend(node.name)
        bed.until(lambda: bed.seen("lenet")[node.name]["status"] == "UP", "up again")
        had = len(node.answered())
        load.until(300)
        bed.until(lambda: len(node.answered()) > had, "used again")
    failed = [r for r in load.records if r.status != 200]
    assert len(failed) <= len(load.threads), f"{len(failed)} failed, {len(load.threads)} were under way"
    assert all(r.status in (0, 502, 504) and r.begun < alone for r in failed), failed
    longest = max(r.took for r in load.records)
    same_answers(load.records)
    once(bed, load.records)
    print(json.dumps({"parted": 1, "queries": len(load.records), "failed": len(failed), "longest_s": round(longest, 2)}))


def run(moire, namespaces):
    """How many cases passed, and how many there are."""
    cases = [routes, agents, rolling_restart, killed] + [parted] * namespaces
    good = 0
    with tempfile.TemporaryDirectory() as folder:
        bed = make(moire, folder, network_bed.Network() if namespaces else haproxy_bed.Loopback())
        bed.checked()
        with bed:
            bed.wait("lenet")
            bed.wait("digits")
            for case in cases:
                for node in bed.nodes:
                    os.truncate(node.log_path, 0)
                try:
                    case(bed)
                    print(f"ok      {case.__name__}")
                    good += 1
                except Exception as e:  # the other cases run
                    print(f"FAILED  {case.__name__}: {type(e).__name__}: {e}")
    return good, len(cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moire", required=True)
    parser.add_argument("--namespaces", action="store_true", help="a network of its own for each node")
    o = parser.parse_args()
    moire = os.path.abspath(o.moire)
    why = None if haproxy_bed.haproxy() else "there is no haproxy: apt-get install haproxy"
    why = why or (network_bed.enter() if o.namespaces else None)
    if why:
        print(f"check_haproxy: skipped, {why}")
        print(f"0 passed, 0 failed, {4 + o.namespaces} skipped")
        return 0
    good, n = run(moire, o.namespaces)
    print(f"{good} passed, {n - good} failed")
    return good != n


sys.exit(main())
