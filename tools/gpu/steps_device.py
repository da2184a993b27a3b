"""steps_device - what is there, the zoo's files, outputs against the CPU, and what a fault costs."""
import json
import os
import time

import run as runs

ISOLATION = {"illegal": "illegal access", "trap": "failed launch", "hang": "hang", "memory": "device memory exhausted"}


def devices(run):
    for name, files in runs.LIBRARIES.items():
        path = run.libraries.get(name)
        run.row(name, path or f"no {' or '.join(files)}", met=bool(path))
    found = runs.load(run.moire("devices", "--device", run.args.device, "--probe", "--json", limit=60, fine=(0, 4, 5))) or []
    gpus = [d for d in found if "units" in d]
    run.data["devices"], run.data["gpu"] = found, gpus[0] if gpus else None
    for d in found:
        if "missing" in d:
            run.miss("GPU", d["missing"])
    for d in gpus:
        run.row(d["name"], f"{d['sms']} SMs, {d['units']} units of {d['unit_sms']}, driver {d['driver']}, "
                f"{d['memory_gib']:.0f} GiB")
        run.row("SMs seen on lets of one unit", " ".join(map(str, d["sms_seen"])), "lets share none", not d["lets_share_sms"])


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
    commands = [[run.args.moire, "check-device", *names[i::parts], "--device", run.args.device, "--precision", precision, "--json",
                 *run.models_flag()] for precision in run.args.precisions for i in range(parts)]
    answers = together(run, commands, run.left(), "outputs", run.args.workers)
    seen = set()
    for words, text in zip(commands, answers):
        precision = words[words.index("--precision") + 1]
        for r in runs.load(text) or []:
            seen.add((r["model"], precision))
            failed = r.get("failed")
            run.row(f"{r['model']} {precision}", failed or f"{r['error']:.1e}", f"<= {r['limit']:.0e}", bool(r["agrees"]) and not failed)
    for precision in run.args.precisions:
        for name in names:
            if (name, precision) not in seen:
                run.miss(f"{name} {precision}", "not compared")


def isolation(run):
    """Real faults in one tenant's kernels while two others are served, each in a process of its own."""
    program, plugin = run.beside("gpu-isolation"), run.beside("libmoire-fault.so")
    if not program or not plugin:
        return run.miss("isolation", "gpu-isolation or libmoire-fault.so is not there: `make gpu-acceptance`")
    scratch = run.path("scratch")
    os.makedirs(scratch, exist_ok=True)
    for fault, words in ISOLATION.items():
        text = run.command([program, "--device", f"cuda:{os.path.abspath(plugin)}", "--case", fault, "--models", scratch,
                            "--seconds", str(run.args.isolation_seconds)], limit=60, what=words)
        r = runs.load((text or "").strip().splitlines()[-1]) if (text or "").strip() else None
        run.data.setdefault("isolation", {})[fault] = r
        if not r or r.get("hung"):
            run.row(words, "not all queries were answered: " + json.dumps(r), "nothing hangs", False)
            continue
        t = {c["tenant"]: c for c in r["tenants"]}
        sum_of = {k: sum(c[k] for c in t.values()) for k in ("accepted", "answered", "wrong")}
        run.row(f"{words}, {r['process']} process",
                f"{sum_of['answered']} of {sum_of['accepted']} answered, {sum_of['wrong']} wrong; on the GPU alone "
                f"{t['gpu']['failed']} failed; with cores {t['both']['failed']} failed, {t['both']['ok_after']} right afterwards; "
                f"slowest {max(c['slowest_ms'] for c in t.values()):.0f} ms; "
                f"{r['load_message'] or t['fault']['message']}", "nothing hangs, nothing is lost", bool(r["held"]))
