"""steps_device - what is there, the zoo's files, outputs against the CPU, and what a fault costs."""
import json
import os
import time

import run as runs

FAULTS = {"illegal": "illegal access", "trap": "failed launch", "hang": "hang", "memory": "device memory exhausted",
          "lost": "the GPU's process killed"}
# which process has the plugin, and what can happen to it
PROCESSES = {"in": ["illegal", "trap", "hang", "memory"], "child": ["illegal", "trap", "hang", "memory", "lost"]}


def rows_of(text):
    """The rows that a command printed; one that failed puts them beside its error."""
    answer = runs.load(text)
    return answer.get("results", []) if isinstance(answer, dict) else answer or []


def devices(run):
    for name, files in runs.LIBRARIES.items():
        path = run.libraries.get(name)
        run.row(name, path or f"no {' or '.join(files)}", met=bool(path))
    found = rows_of(run.moire("devices", "--device", run.args.device, "--probe", "--json", limit=60, fine=(0, 3, 4, 5)))
    gpus = [d for d in found if "units" in d]
    run.data["devices"], run.data["gpu"] = found, gpus[0] if gpus else None
    for d in found:
        if "missing" in d:
            run.miss("GPU", d["missing"])
    for d in gpus:
        run.row(d["name"], f"{d['sms']} SMs, {d['units']} units of {d['unit_sms']}, driver {d['driver']}, "
                f"{d['memory_gib']:.0f} GiB")
        run.row("SMs seen on lets of one unit", " ".join(map(str, d["sms_seen"])), "lets share none", not d["lets_share_sms"])


def contact(run):
    """What the plugin assumes of driver and libraries, asked one by one; each probe is a process of its own."""
    program = run.beside("gpu-contact")
    if not program:
        return run.miss("contact", "gpu-contact is not there: `make gpu-acceptance`")
    words = [program, "all", run.args.libraries or ""] + (["small"] if run.args.quick else [])
    seen = [row for row in map(runs.load, (run.command(words, what="contact") or "").splitlines()) if isinstance(row, dict)]
    run.data["contact"] = seen
    for row in seen:
        run.row(f"{row['probe']}: {row['what']}", row["result"], met=row.get("ok"))


def together(run, commands, limit, what, workers):
    """Several commands, `workers` at a time: their outputs in order, None for those without time."""
    out, waiting, running = [None] * len(commands), list(enumerate(commands)), []
    end = time.monotonic() + min(limit, run.left())
    while waiting or running:
        while waiting and len(running) < workers and time.monotonic() < end:
            i, words = waiting.pop(0)
            running.append((i, run.start(words)))
        if not running:
            run.miss(what, f"{len(waiting)} commands left out: the time is over")
            return out
        i, process = running.pop(0)
        out[i], in_time = run.finish(process, end - time.monotonic())
        if not in_time:
            run.miss(what, f"cut short: {' '.join(commands[i][1:6])}")
    return out


def zoo(run):
    """The models' files, which every later command finds there."""
    os.makedirs(run.args.zoo, exist_ok=True)
    listed = runs.load(run.moire("zoo", "list", "--json", limit=60)) or []
    names = run.args.all_models or [m["name"] for m in listed]
    run.data["zoo"] = names
    run.data["files"] = {m["name"]: m["in_folder"] for m in listed}
    first = sorted(names, key=lambda name: -next((m["params"] for m in listed if m["name"] == name), 0))
    missing = [m for m in first if not run.model_file(m)]
    commands = [[run.args.moire, "zoo", "build", m, "-o", os.path.join(run.args.zoo, run.data["files"][m])] for m in missing]
    since = time.monotonic()
    together(run, commands, run.left(), "zoo", max(1, (os.cpu_count() or 2) // 2))
    bad = [m for m in names if not run.model_file(m)]
    run.row("models written", f"{len(missing)} of {len(names)} in {time.monotonic() - since:.0f} s", met=not bad)
    if bad:
        run.miss("models not there", ", ".join(bad))


def outputs(run):
    """Every model on the GPU and on the cores; several processes at a time, so nothing here is a measurement of time."""
    names = run.data.get("zoo", [])
    parts = min(len(names), run.args.workers)
    commands = [[run.args.moire, "check-device", *names[i::parts], *run.on_device(), "--precision", precision, "--json",
                 *run.models_flag()] for precision in run.args.precisions for i in range(parts)]
    answers = together(run, commands, run.left(), "outputs", run.args.workers)
    seen = set()
    for words, text in zip(commands, answers):
        precision = words[words.index("--precision") + 1]
        for r in rows_of(text):
            seen.add((r["model"], precision))
            failed = r.get("failed")
            run.row(f"{r['model']} {precision}", failed or f"{r['error']:.1e}", f"<= {r['limit']:.0e}", bool(r["agrees"]) and not failed)
    for precision in run.args.precisions:
        for name in names:
            if (name, precision) not in seen:
                run.miss(f"{name} {precision}", "not compared")


def isolation(run):
    """Real faults in one tenant's kernels while two others are served, in this process and in one of the plugin's own."""
    program, plugin = run.beside("gpu-isolation"), run.beside("libmoire-fault.so")
    if not program or not plugin:
        return run.miss("isolation", "gpu-isolation or libmoire-fault.so is not there: `make gpu-acceptance`")
    scratch = run.path("scratch")
    os.makedirs(scratch, exist_ok=True)
    common = [program, "--device", f"cuda:{os.path.abspath(plugin)}", "--cache", run.args.cache, "--models", scratch, "--seconds",
              str(run.args.isolation_seconds)]
    for process, faults in PROCESSES.items():
        for fault in faults:
            what = f"{FAULTS[fault]}, {'this' if process == 'in' else 'own'} process"
            text = run.command([*common, "--process", process, "--case", fault], limit=60, what=what)
            lines = (text or "").strip().splitlines()
            faulted(run, what, fault, process, runs.load(lines[-1]) if lines else None)


def faulted(run, what, fault, process, r):
    run.data.setdefault("isolation", {})[f"{fault}, {process}"] = r
    if not r or r.get("hung"):
        return run.row(what, "not all queries were answered: " + json.dumps(r), "nothing hangs", False)
    t = {c["tenant"]: c for c in r["tenants"]}
    accepted, answered, wrong = (sum(c[k] for c in t.values()) for k in ("accepted", "answered", "wrong"))
    back = f", the GPU back after {t['gpu']['back_ms']:.0f} ms" if t["gpu"]["ok_again"] else ""
    run.row(what, f"{answered} of {accepted} answered, {wrong} wrong; on the GPU alone {t['gpu']['failed']} failed{back}; with cores "
            f"{t['both']['failed']} failed, {t['both']['ok_after']} right afterwards; slowest "
            f"{max(c['slowest_ms'] for c in t.values()):.0f} ms; {r['load_message'] or t['fault']['message'] or t['gpu']['message']}",
            "nothing hangs, nothing is lost", bool(r["held"]))


def process(run):
    """Single queries with the plugin in this process, and in one of its own: what the queues between them cost."""
    seen = {}
    for where in PROCESSES:
        text = run.moire("check-device", *run.args.models[:2], *run.on_device(), "--device-process", where, "--json",
                         *run.models_flag(), what=f"{where} process", fine=(0, 3, 4, 5))
        seen[where] = {r["model"]: r for r in rows_of(text)}
    run.data["process"] = seen
    for model in run.args.models[:2]:
        rows = [seen[where].get(model) for where in PROCESSES]
        failed = [r["failed"] for r in rows if r and r.get("failed")]
        if failed or not all(rows):
            run.miss(f"{model}, both processes", failed[0] if failed else "not measured")
            continue
        inside, child = rows
        run.row(f"{model}, a query alone", f"{inside['latency_ms']:.3f} ms in this process, {child['latency_ms']:.3f} ms in its own; "
                f"error {child['error']:.1e}", f"same answers, <= {child['limit']:.0e}", bool(inside["agrees"] and child["agrees"]))
