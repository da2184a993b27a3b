"""steps_profile - time by batch and SMs, pairs and the model of interference, and PyTorch beside."""
import json
import os
import re

import run as runs


def read_profile(path):
    """{batch: {share in permille: us}} of a profile; empty when it is not there."""
    table, shares = {}, []
    for line in open(path, encoding="utf-8") if os.path.exists(path) else []:
        cells = line.strip().split(",")
        if cells[0] == "batch":
            shares = [int(c) for c in cells[2:]]
        elif len(cells) > 2 and cells[1] == "us":
            table[int(cells[0])] = {s: float(c) for s, c in zip(shares, cells[2:]) if c}
    return table


def sizes(units):
    """Of lets: 1, 2, 3, 4, 6, 8, 12, 16: enough for a curve, and a third of the time of all."""
    return sorted({n for n in (1, 2, 3, 4, 6, 8, 12, 16) if n < units} | {units})


def profile(run):
    """The curves of the models that are served, one process a model, each with its part of what is left."""
    gpu, folder = run.data["gpu"], run.path("profiles")
    os.makedirs(folder, exist_ok=True)
    units = ",".join(map(str, sizes(gpu["units"])))
    for i, m in enumerate(run.args.models):
        run.moire("profile", m, *run.on_device(), "--output", folder, "--repetitions", "10", "--units", units, "--resume",
                  "--max-batch", str(run.args.max_batch), *run.models_flag(), limit=run.left() / (len(run.args.models) - i),
                  what=f"profile of {m}")
        curve(run, m, read_profile(os.path.join(folder, m + ".csv")))


def curve(run, model, table):
    if not table:
        return run.miss(model, "no profile")
    batch = max(table)
    rate = {s: batch * 1e6 / us for s, us in table[batch].items()}
    knee = min(s for s in rate if rate[s] >= 0.9 * max(rate.values()))
    run.row(f"{model}, batch {batch}", " ".join(f"{s / 10:.0f}%:{r:.0f}/s" for s, r in sorted(rate.items())),
            f"nine tenths of the rate from {knee / 10:.0f} % of the SMs on")


def whole(run):
    """The other precisions and the other CNNs on the whole GPU, for the comparison with PyTorch."""
    gpu = run.data["gpu"]
    for precision in run.args.precisions:
        names = [m for m in run.args.compared if precision != "fp32" or m not in run.args.models]
        folder = run.path("profiles-" + precision)
        os.makedirs(folder, exist_ok=True)
        if names:
            run.moire("profile", *names, *run.on_device(), "--output", folder, "--repetitions", "20", "--units",
                      str(gpu["units"]), "--precision", precision, "--resume", "--max-batch", str(max(run.args.batches)),
                      *run.models_flag(), limit=run.left(), what=f"whole GPU, {precision}")
        times = {m: ours(run, m, precision) for m in run.args.compared}
        run.row(f"{precision}, ms of a query alone", ", ".join(f"{m} {t[1]:.3f}" for m, t in times.items() if 1 in t))


def interference(run):
    """Every two of the models side by side; the linear model fitted to half of the pairs and tested on the others."""
    folder = run.path("profiles")
    there = [m for m in run.args.models if os.path.exists(os.path.join(folder, m + ".csv"))]
    pairs = os.path.join(folder, "pairs.csv")
    units = ",".join(map(str, sizes(run.data["gpu"]["units"])))
    run.moire("profile", *there, *run.on_device(), "--output", folder, "--pairs", pairs, "--repetitions", "10", "--units",
              units, "--resume", "--max-batch", str(run.args.max_batch), *run.models_flag(), what="pairs")
    if not os.path.exists(pairs):
        return run.miss("pairs", "not measured")
    fit = runs.load(run.moire("interference", "fit", pairs, "--json", limit=30))
    if not fit:
        return run.miss("model of interference", "not fitted")
    run.data["interference"] = fit["experiment"].get("constants_all")
    for r in fit["results"]:
        run.row(f"{'fitted' if r['model'] == 'fitted' else 'no interference'}: error on the other half of "
                f"{fit['experiment']['pairs']} pairs", f"90 % within {100 * r['p90']:.1f} %, 95 % within {100 * r['p95']:.1f} %",
                "10.3 and 14.0 % in gpu-let's paper" if r["model"] == "fitted" else "")


# --- PyTorch ------------------------------------------------------------------------------------------------
def ours(run, model, precision):
    """{batch: ms} of moire on the whole GPU."""
    names = ["profiles-" + precision] + (["profiles"] if precision == "fp32" else [])
    for folder in names:
        table = read_profile(run.path(folder, model + ".csv"))
        found = {b: row[1000] / 1000 for b, row in table.items() if 1000 in row}
        if found:
            return found
    return {}


def measure_torch(run):
    files = ",".join(f"{m}={run.model_file(m)}" for m in run.args.compared if run.model_file(m))
    bench = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_bench.py")
    words = [run.args.python, bench, "--files", files, "--batches", ",".join(map(str, run.args.batches)), "--precisions",
             ",".join(run.args.precisions), "--device", run.args.torch_device, "--seconds", f"{max(5, run.left() - 10):.0f}"]
    words += ["--each", "0.01", "--no-compile"] if run.args.quick else []
    text = run.command(words, what="PyTorch", env={"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")})
    return [row for row in map(runs.load, (text or "").splitlines()) if isinstance(row, dict)]


def torch(run):
    """The GPU's own clock on both sides, copies left out, same precision, batch 1, 8 and 32."""
    if run.args.python and not has_torch(run):
        return run.row("PyTorch", f"not there for {run.args.python}")
    measured = measure_torch(run)
    run.data["torch"] = measured
    for row in measured:
        if "missing" in row:
            run.row(row["system"], row["missing"])
        elif "version" in row:
            run.row("version", f"PyTorch {row['version']}, cuDNN {row['cudnn']}")
        elif "failed" in row:
            run.row(f"{row['model']} {row['precision']} batch {row['batch']}, {row['system']}", row["failed"])
    for model in run.args.compared:
        for precision in run.args.precisions:
            for batch in run.args.batches:
                beside(run, model, precision, batch, measured)


def beside(run, model, precision, batch, measured):
    rows = {r["system"]: r["ms"] for r in measured
            if "ms" in r and (r["model"], r["precision"], r["batch"]) == (model, precision, batch)}
    mine = ours(run, model, precision).get(batch)
    what = f"{model} {precision} batch {batch}"
    if not mine or not rows:
        return run.miss(what, "not measured: " + ("moire" if not mine else "PyTorch"))
    best = min(rows.values())
    says = ", ".join(f"{name} {ms:.3f}" for name, ms in rows.items())
    goal = batch == 1 and model not in ("bert-base", "bert-large")
    run.row(what, f"moire {mine:.3f} ms, {batch * 1000 / mine:.0f}/s; {says}: {best / mine:.2f} x the best",
            ">= 1.0" if goal else "", best >= mine if goal else None)


def has_torch(run):
    """As a command of its own: importing it here would take its memory on the GPU."""
    process = run.start([run.args.python, "-c", "import torch"])
    run.finish(process, min(60, run.left()))
    return process.returncode == 0


# --- the machine file ---------------------------------------------------------------------------------------
def link_rate(run):
    """GB/s that copies moved, as the profiles note it."""
    best = 0.0
    for m in run.args.models:
        path = run.path("profiles", m + ".csv")
        found = re.search(r"the link moved ([0-9.]+) GB/s", open(path, encoding="utf-8").read()) if os.path.exists(path) else None
        best = max(best, float(found.group(1)) if found else 0.0)
    return best


def machine_file(run):
    """What targets, plans and the simulator rest on; with profiles/ beside it ready to be committed."""
    gpu, fit = run.data["gpu"], run.data.get("interference")
    entry = {"type": re.sub(r"[^a-z0-9]+", "-", gpu["name"].lower().replace("nvidia ", "")).strip("-"), "units": gpu["units"],
             "min": 1, "align": 1, "max_lets": min(8, gpu["units"]), "memory_mib": gpu["memory_free_gib"] * 1024,
             "copy_gib_s": link_rate(run) / 1.0737, "reorganise_ms": 5, "shared_weights": True, "profiles": "profiles"}
    if fit:
        entry["interference"] = {k: max(0.0, v) if k.endswith(("other", "constant")) else v for k, v in fit.items()}
    document = {"name": entry["type"], "about": f"{gpu['name']}, driver {gpu['driver']}; measured by tools/gpu-acceptance"
                + (" on a stand-in" if run.args.stand_in else ""), "ahead_us": 300, "noise": 0.02, "gpus": [entry]}
    path = run.path("machine.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)
    return path
