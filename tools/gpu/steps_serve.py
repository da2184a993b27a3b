"""steps_serve - scenarios live beside the simulator, one process a model beside them, and changes of plan under load."""
import json
import os

import run as runs
import steps_profile

MOST_S = 120  # of one process on the GPU, its start and the kernels it compiles included


def highest(document):
    """{policy: highest multiple of the rates at which every tenant's goal held}; "none" is 0."""
    return {r["policy"]: r.get("max_load_every_tenant") for r in (document or {}).get("results", [])}


def models_of(scenario):
    return [s["model"] for t in scenario["tenants"] for s in t.get("stages", [t])]


def at_least(document, policy):
    """Highest load that held in what a search had measured when it was cut short; None when none did."""
    rows = [x for r in (document or {}).get("results", []) if r.get("policy") == policy for x in r.get("loads", [])]
    return max([x["load"] for x in rows if (x["worst_tenant"] or 0) >= 0.99], default=None)


def grid(run, promised):
    """Of the search: steps of a twentieth of what the simulator promises, begun there; coarse where it promises nothing."""
    if not promised:
        return ["--step", f"{max(0.005, run.args.max_load / 60):g}", "--max-load", f"{run.args.max_load:g}"]
    step = max(0.01, round(promised / 20, 3))
    return ["--step", f"{step:g}", "--max-load", f"{60 * step:g}", "--expect", f"{promised:g}"]


def times(run):
    return ["--find-max", "0.99", "--seconds", str(run.args.seconds), "--warmup", str(run.args.warmup), "--json"]


def serve(run):
    """The highest rates within the targets: 99 % of every tenant's queries in time.

    A process on the GPU may load for as long as it serves, so what a run does not come to is left for the next one: every
    number is kept as soon as it is there.  The first policy goes through all scenarios before the second one begins."""
    machine = steps_profile.machine_file(run)
    work = []
    for name in run.args.scenarios:
        path = run.scenario(name)
        scenario = json.load(open(path, encoding="utf-8"))
        name = os.path.basename(name).removesuffix(".json")
        unknown = [m for m in models_of(scenario) if not os.path.exists(run.path("profiles", m + ".csv"))]
        if unknown:
            run.miss(name, f"left out: no profile of {', '.join(unknown)}")
            continue
        known = run.data.setdefault("serve", {}).setdefault(name, {"simulated": {}, "live": {}})
        simulate(run, name, path, machine, known)
        work.append((name, path, scenario, known))
    for policy in run.args.policies:
        for name, path, _, known in work:
            live(run, name, path, machine, policy, known)
    for name, _, scenario, known in work:
        if "stages" in scenario["tenants"][0]:
            continue  # an application's stages are one process's
        processes(run, name, scenario, machine, known)
        ours, sliced = known["live"].get("moire-gpu"), known.get("processes", {}).get("held")
        if ours is not None and sliced is not None:
            run.row(f"{name}, moire-gpu against one process a model", f"x {ours:.2f} against x {sliced:.2f}", "more", ours > sliced)


def simulate(run, name, path, machine, known):
    """What the simulator promises each policy, on the grid on which it is measured."""
    for policy in run.args.policies:
        if policy in known["simulated"]:
            continue
        promised, before = None, None
        for _ in range(3):  # coarse, fine, and once more where the grid's end was reached
            before = promised
            text = run.moire("sim", path, "--machine", machine, "--policy", policy, *times(run), *grid(run, promised), limit=20,
                             what=f"{name}, {policy}, simulated")
            promised = highest(runs.load(text)).get(policy)
            if not promised or promised < 0 or (before and promised < 2.9 * before):
                break
        if promised is not None:
            known["simulated"][policy] = max(0, promised)


def live(run, name, path, machine, policy, known):
    what, promised = f"{name}, {policy}", known["simulated"].get(policy)
    if policy not in known["live"]:
        text = run.moire("bench", "serve", path, "--gpus", machine, *run.on_device(), "--policy", policy, *times(run),
                         *grid(run, promised), "--quiet", "--report", run.path(f"{name}-{policy}.html"), *run.models_flag(),
                         limit=MOST_S, what=what)
        document = runs.load(text)
        found, least = highest(document).get(policy), at_least(document, policy)
        if found is None or found < 0:
            if document:
                run.miss(what, f"at least x {least:.2f} live: the search was cut short" if least else "no load measured held")
            return
        known["live"][policy] = found
        run.write()
    found = known["live"][policy]
    error = found / promised - 1 if promised else float("inf")
    run.row(what, f"x {found:.2f} live, x {promised or 0:.2f} simulated: {100 * error:+.0f} %", "within 10 %", abs(error) <= 0.1)


def processes(run, name, scenario, machine, known):
    """One process a model, all at once on the same multiples of the rates, while the GPU slices time between them."""
    what = f"{name}, one process a model"
    if "processes" not in known:
        worst = play_processes(run, name, scenario, machine, known)
        if not worst:
            return run.miss(what, "not measured")
        known["processes"] = {"held": max([x for x, share in worst if share >= 0.99], default=0), "worst": worst}
        run.write()
    run.row(what, f"x {known['processes']['held']:.2f} live; in time at each load: "
            + ", ".join(f"x {x:g} {100 * share:.1f} %" for x, share in known["processes"]["worst"]))


def play_processes(run, name, scenario, machine, known):
    """[(load, share in time of the process that fared worst)]; empty when one of them said nothing."""
    best = max([v for k in ("live", "simulated") for v in known[k].values() if v] or [run.args.max_load / 1.5])
    loads = [round(best * part, 3) for part in run.args.parts]
    scratch, running, results = run.path("scratch"), [], []
    since, limit = runs.time.monotonic(), min(MOST_S, run.left())
    if limit < 1:
        return []
    os.makedirs(scratch, exist_ok=True)
    for i, tenant in enumerate(scenario["tenants"]):
        one = os.path.join(scratch, f"{name}-{i}.json")
        with open(one, "w", encoding="utf-8") as f:
            json.dump({"name": f"{name}-{i}", "about": "one process", "tenants": [tenant]}, f)
        running.append(run.start([run.args.moire, "bench", "serve", one, "--gpus", machine, *run.on_device(),
                                  "--policy", "sbp", "--load", ",".join(map(str, loads)), "--seconds", str(run.args.seconds),
                                  "--warmup", str(run.args.warmup), "--quiet", "--json", *run.models_flag()]))
    for process in running:
        text, _ = run.finish(process, limit - (runs.time.monotonic() - since))
        points = [x for r in (runs.load(text) or {}).get("results", []) for x in r["loads"]]
        results.append({x["load"]: x["overall"] for x in points})
    return [(x, min(r[x] for r in results)) for x in loads if all(x in r for r in results)]


def resize(run):
    """Rates that move from model to model: how long a change of plan took, and what it made late."""
    machine = steps_profile.machine_file(run)
    text = run.moire("bench", "serve", run.scenario("gpulet-waves-fast"), "--gpus", machine, *run.on_device(),
                     "--policy", "moire-gpu", "--load", str(run.args.resize_load), "--seconds", str(run.args.resize_seconds),
                     "--quiet", "--json", "--report", run.path("resize.html"), *run.models_flag(), what="waves")
    for r in (runs.load(text) or {}).get("results", []):
        s = r.get("scheduling", {})
        run.data["resize"] = {"scheduling": s, "loads": r["loads"]}
        changes, longest = s.get("reorganised", 0), s.get("ready_max_ms", 0)
        run.row("plans changed while serving", f"{changes}, {s.get('lets_opened', 0)} lets opened; from the wish to the first block "
                f"{s.get('ready_mean_ms', 0):.2f} ms on average, {longest:.2f} ms at most", "< 5 ms", changes > 0 and longest < 5)
        for x in r["loads"]:
            run.row("queries in time meanwhile", f"{100 * x['overall']:.2f} % of {x['n']}", "none late", x["overall"] >= 1)
    if "resize" not in run.data:
        run.miss("waves", "not measured")
