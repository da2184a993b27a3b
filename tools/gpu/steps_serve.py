"""steps_serve - scenarios live beside the simulator, one process a model beside them, and changes of plan under load."""
import json
import os

import run as runs
import steps_profile


def highest(document):
    """{policy: highest multiple of the rates at which every tenant's goal held}; "none" is 0."""
    return {r["policy"]: r.get("max_load_every_tenant") for r in (document or {}).get("results", [])}


def models_of(scenario):
    return [s["model"] for t in scenario["tenants"] for s in t.get("stages", [t])]


def grid(run, simulated):
    """Step and end of the search: a twentieth of what the simulator promises, up to half as much again."""
    best = max([v for v in simulated.values() if v] or [run.args.max_load / 1.5])
    step = max(0.05, round(best / 20, 2))
    return ["--step", f"{step:g}", "--max-load", f"{step * 30:g}"]


def times(run):
    return ["--find-max", "0.99", "--seconds", str(run.args.seconds), "--warmup", str(run.args.warmup), "--json"]


def serve(run):
    """The highest rates within the targets: 99 % of every tenant's queries in time."""
    machine = steps_profile.machine_file(run)
    work = []
    for name in run.args.scenarios:
        path = run.scenario(name)
        scenario = json.load(open(path, encoding="utf-8"))
        name = os.path.basename(name).removesuffix(".json")
        unknown = [m for m in models_of(scenario) if not os.path.exists(run.path("profiles", m + ".csv"))]
        if unknown:
            run.miss(name, f"left out: no profile of {', '.join(unknown)}")
        else:
            work.append((name, path, scenario))
    for i, (name, path, scenario) in enumerate(work):
        one_scenario(run, name, path, scenario, machine, run.left() / (len(work) - i))


def one_scenario(run, name, path, scenario, machine, seconds):
    policies = run.args.policies
    coarse = ["--step", "0.25", "--max-load", str(run.args.max_load)]
    sim = highest(runs.load(run.moire("sim", path, "--machine", machine, "--policy", ",".join(policies), *times(run), *coarse,
                                      limit=20, what=f"simulated {name}")))
    live, each = {}, seconds / (len(policies) + 1)
    for policy in policies:  # one command a policy: what is late costs only itself
        text = run.moire("bench", "serve", path, "--gpus", machine, "--device", run.args.device, "--policy", policy, *times(run),
                         *grid(run, {policy: sim.get(policy)}), "--quiet", "--report", run.path(f"{name}-{policy}.html"),
                         *run.models_flag(), limit=each, what=f"{name}, {policy}")
        found = highest(runs.load(text)).get(policy)
        live[policy] = found
        if found is None or found < 0:
            run.miss(f"{name}, {policy}", "not measured")
            continue
        promised = sim.get(policy) or 0
        error = found / promised - 1 if promised else float("inf")
        run.row(f"{name}, {policy}", f"x {found:.2f} live, x {promised:.2f} simulated: {100 * error:+.0f} %", "within 10 %",
                abs(error) <= 0.1)
    if "stages" not in scenario["tenants"][0]:
        live["processes"] = processes(run, name, scenario, machine, live, each)
    run.data.setdefault("serve", {})[name] = {"simulated": sim, "live": live}
    ours, sliced = live.get("moire-gpu"), live.get("processes")
    if ours and sliced is not None:
        run.row(f"{name}, moire-gpu against one process a model", f"x {ours:.2f} against x {sliced:.2f}", "more", ours > sliced)


def processes(run, name, scenario, machine, live, seconds):
    """One process a model, all at once on the same multiples of the rates, while the GPU slices time between them."""
    best = max([v for v in live.values() if v] or [run.args.max_load / 1.5])
    loads = [round(best * part, 3) for part in run.args.parts]
    scratch, running, results = run.path("scratch"), [], []
    os.makedirs(scratch, exist_ok=True)
    for i, tenant in enumerate(scenario["tenants"]):
        one = os.path.join(scratch, f"{name}-{i}.json")
        with open(one, "w", encoding="utf-8") as f:
            json.dump({"name": f"{name}-{i}", "about": "one process", "tenants": [tenant]}, f)
        running.append(run.start([run.args.moire, "bench", "serve", one, "--gpus", machine, "--device", run.args.device,
                                  "--policy", "sbp", "--load", ",".join(map(str, loads)), "--seconds", str(run.args.seconds),
                                  "--warmup", str(run.args.warmup), "--quiet", "--json", *run.models_flag()]))
    end = min(seconds, run.left())
    since = runs.time.monotonic()
    for process in running:
        text, _ = run.finish(process, end - (runs.time.monotonic() - since))
        points = [x for r in (runs.load(text) or {}).get("results", []) for x in r["loads"]]
        results.append({x["load"]: x["overall"] for x in points})
    worst = {x: min(r.get(x, 0.0) for r in results) for x in loads if all(x in r for r in results)}
    what = f"{name}, one process a model"
    if not worst:
        return run.miss(what, "not measured")
    held = [x for x, share in worst.items() if share >= 0.99]
    run.row(what, f"x {max(held, default=0):.2f} live; in time at each load: "
            + ", ".join(f"x {x:g} {100 * share:.1f} %" for x, share in worst.items()))
    return max(held, default=0)


def resize(run):
    """Rates that move from model to model: how long a change of plan took, and what it made late."""
    machine = steps_profile.machine_file(run)
    text = run.moire("bench", "serve", run.scenario("gpulet-waves-fast"), "--gpus", machine, "--device", run.args.device,
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
