"""processor_time.py - where a machine's processor time goes while something is measured: each process of Ray, the
replicas' runtimes and what Python does around them, clients, everything else.

A process is known by its command line, which Ray writes.  What ended in between, and the kernel's own work, is what is
left of the time that the kernel says all cores were busy: "short-lived programs".
"""
import collections
import os
import re

TICK = os.sysconf("SC_CLK_TCK")
KINDS = [(re.compile(pattern), kind) for pattern, kind in (
    (r"ray::ProxyActor|haproxy", "proxy"),
    (r"ray::ServeController", "controller"),
    (r"ray::ServeReplica:[^:]*:Ingress", "ingress"),
    (r"ray::ServeReplica", "replica"),
    (r"raylet/raylet", "raylet"),
    (r"gcs_server", "GCS"),
    (r"dashboard/agent|runtime_env/agent", "agents"),
    (r"dashboard/dashboard|log_monitor|_private/monitor", "dashboard and monitors"),
    (r"ray::|default_worker|setup_worker", "idle workers"),
)]


def stat_of(path):
    """The name and the ticks of a process or thread; None: it has ended."""
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            head, _, rest = f.read().rpartition(")")
    except OSError:
        return None
    field = rest.split()
    return head.partition("(")[2], int(field[11]) + int(field[12])


def kind_of(pid, driver):
    if pid == driver:
        return "clients"
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            line = f.read().replace("\0", " ")
    except OSError:
        return None
    return next((kind for pattern, kind in KINDS if pattern.search(line)), "other programs")


def threads_of(pid):
    """{(process, thread): (is it moire's worker, ticks)} of a replica."""
    try:
        names = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return {}
    seen = {name: stat_of(f"/proc/{pid}/task/{name}/stat") for name in names}
    return {(pid, int(n)): (stat[0].startswith("moire"), stat[1]) for n, stat in seen.items() if stat}


def look(driver):
    """{(process, thread or 0): (kind, ticks)}, and the ticks of all cores: busy, idle, taken by the host."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        pid = int(name)
        kind, stat = kind_of(pid, driver), stat_of(f"/proc/{pid}/stat")
        if kind == "replica":
            for key, (own, ticks) in threads_of(pid).items():
                found[key] = "runtime" if own else "replica's Python", ticks
        elif kind and stat:
            found[pid, 0] = kind, stat[1]
    with open("/proc/stat", encoding="utf-8") as f:
        user, nice, system, idle, wait, hard, soft, stolen = map(int, f.readline().split()[1:9])
    return found, {"busy": user + nice + system + hard + soft, "idle": idle + wait, "stolen": stolen}


class Account:
    """In a `with`, around what is measured; `cores` then has how many cores each kind had in the mean."""

    def __init__(self, clock, driver=None):
        self.clock, self.driver, self.cores = clock, driver or os.getpid(), {}

    def __enter__(self):
        self.begun, self.before = self.clock(), look(self.driver)
        return self

    def __exit__(self, *_):
        (after, machine), (before, was) = look(self.driver), self.before
        unit = TICK * (self.clock() - self.begun)
        spent = collections.Counter()
        for key, (kind, ticks) in after.items():
            spent[kind] += ticks - (before[key][1] if key in before else 0)
        spent["short-lived programs"] = max(0, machine["busy"] - was["busy"] - sum(spent.values()))
        self.cores = {kind: round(ticks / unit, 4) for kind, ticks in spent.most_common() if ticks}
        self.cores |= {name: round((machine[name] - was[name]) / unit, 4) for name in machine}
