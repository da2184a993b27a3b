"""gpu-acceptance - everything that a machine with a GPU can say about moire, by one command in under nine minutes.

Needs `moire`, its plugin, gpu-contact, gpu-isolation and libmoire-fault.so (`make gpu-acceptance`, or a bundle), and Python 3; PyTorch
is measured beside where --python has it.  CUDA's libraries are found in that Python's wheels, in LD_LIBRARY_PATH or in
/usr/local/cuda.  Writes OUT/acceptance.md (the table), OUT/state.json (all data), OUT/machine.json with OUT/profiles
(ready to be committed) and reports, at most 16 MiB in all.

    tools/gpu-acceptance                              all steps; once more: what was not finished
    tools/gpu-acceptance --step 0                     what the plugin assumes of driver and libraries, in half a minute
    tools/gpu-acceptance --steps devices,outputs      only these
    tools/gpu-acceptance --quick --stand-in ...       small sizes, on tests' driver: the steps work, times mean nothing

Exit codes: 0 every goal met, 2 usage, 5 not."""
import argparse
import os
import shutil
import sys

import run as runs
import steps_device
import steps_profile
import steps_serve

# Compiled programs are kept from the first step that needs them: outputs and profile wait for NVRTC, later steps do not.
# name, seconds, what it needs of earlier steps ("gpu": devices found one)
STEPS = [
    ("devices", 10, steps_device.devices, False),
    ("contact", 15, steps_device.contact, True),
    ("zoo", 10, steps_device.zoo, True),
    ("outputs", 85, steps_device.outputs, True),
    ("profile", 105, steps_profile.profile, True),
    ("interference", 30, steps_profile.interference, True),
    ("whole", 40, steps_profile.whole, True),
    ("torch", 60, steps_profile.torch, True),
    ("resize", 20, steps_serve.resize, True),
    ("process", 10, steps_device.process, True),
    ("isolation", 40, steps_device.isolation, True),
    ("serve", 140, steps_serve.serve, True),
]
SERVED = ["lenet", "googlenet", "resnet50", "ssd-mobilenet", "vgg16"]
SCENARIOS = ["gpulet-equal", "gpulet-long-only", "gpulet-short-skew", "game", "traffic"]
# what --quick makes small
SIZES = {"batches": ("1,8,32", "1,2"), "max_batch": (32, 2), "seconds": (1.0, 0.5), "warmup": (0.3, 0.2), "resize_seconds": (15, 2),
         "isolation_seconds": (2.5, 1.5), "workers": (4, 2), "parts": ("0.6,0.8,1.0,1.2", "0.5,1.0"), "resize_load": (0.3, 0.02),
         "max_load": (40.0, 20.0), "precisions": ("fp32,fp16", "fp32,fp16"), "policies": ("moire-gpu,sbp,gpulet-int,sbp-half",) * 2}


def words(text):
    return [w for w in text.split(",") if w]


def parse(root):
    a = argparse.ArgumentParser(prog="gpu-acceptance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    moire = next((p for p in (os.path.join(root, "build", "moire"), os.path.join(root, "bin", "moire")) if os.path.exists(p)), "moire")
    a.add_argument("--moire", default=moire)
    a.add_argument("--device", help="cuda:FILE of the plugin (default: the one beside moire)")
    a.add_argument("--libraries", help="folder of libcuda.so.1 and CUDA's libraries, before all others")
    a.add_argument("--python", default=sys.executable, help="which has PyTorch")
    a.add_argument("--torch-device", default="cuda")
    a.add_argument("--out", default="gpu-acceptance.out")
    a.add_argument("--zoo", help="folder of zoo files, built there when missing (default: a folder beside OUT)")
    a.add_argument("--cache", help="folder of compiled GPU programs, shared by all steps and runs (default: a folder beside OUT)")
    a.add_argument("--models", default=",".join(SERVED), help="profiled and served")
    a.add_argument("--all-models", default="", help="whose outputs are compared (default: the zoo)")
    a.add_argument("--compared", default="resnet50,mobilenet-v2,googlenet,vgg16,ssd-mobilenet,lenet,bert-base", help="with PyTorch")
    a.add_argument("--scenarios", default=",".join(SCENARIOS))
    a.add_argument("--steps", default=",".join(s[0] for s in STEPS))
    a.add_argument("--step", choices=["0"], help="0: only `devices` and `contact`")
    a.add_argument("--budget", type=float, default=530, help="seconds in all")
    a.add_argument("--fresh", action="store_true", help="forget what an earlier run finished")
    a.add_argument("--quick", action="store_true", help="small sizes")
    a.add_argument("--stand-in", action="store_true", help="say that the driver is no real one")
    a.add_argument("--plan", action="store_true", help="print the seconds planned for each step, and end")
    for name, (full, _) in SIZES.items():
        a.add_argument("--" + name.replace("_", "-"), type=type(full), help=f"default {full}")
    args = a.parse_args()
    for name, (full, quick) in SIZES.items():
        if getattr(args, name) is None:
            setattr(args, name, quick if args.quick else full)
    for name in ("models", "all_models", "compared", "scenarios", "steps", "precisions", "policies"):
        setattr(args, name, words(getattr(args, name)))
    if args.step:
        args.steps, args.budget = ["devices", "contact"], min(args.budget, 60)
    args.batches = [int(b) for b in words(args.batches)]
    args.parts = [float(p) for p in words(args.parts)]
    args.moire = os.path.abspath(shutil.which(args.moire) or args.moire)
    args.out = os.path.abspath(args.out)
    args.cache = os.path.realpath(args.cache or args.out.rstrip("/") + ".cache")
    args.zoo = os.path.abspath(args.zoo or args.out.rstrip("/") + ".zoo")
    unknown = [s for s in args.steps if s not in [row[0] for row in STEPS]]
    if unknown:
        a.error(f"no step {', '.join(unknown)}; there are {', '.join(row[0] for row in STEPS)}")
    return args


def plan(args):
    """The steps that were asked for; their seconds fill the budget in the proportions of the table."""
    chosen = [row for row in STEPS if row[0] in args.steps]
    scale = args.budget / sum(row[1] for row in chosen)
    return [(name, seconds * scale, function, gpu) for name, seconds, function, gpu in chosen]


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    args = parse(root)
    chosen = plan(args)
    print("planned: " + ", ".join(f"{name} {seconds:.0f} s" for name, seconds, _, _ in chosen)
          + f"; {sum(row[1] for row in chosen):.0f} s of {args.budget:.0f}")
    if args.plan:
        return 0
    if not os.access(args.moire, os.X_OK):
        sys.exit(f"{args.moire}: not there; `make gpu-acceptance`, or --moire")
    run = runs.Run(args, root)
    plugin = run.beside("libmoire-cuda.so")
    args.device = args.device or ("cuda:" + os.path.abspath(plugin) if plugin else "cuda")
    run.state["command"] = " ".join(["gpu-acceptance"] + sys.argv[1:])
    for i, (name, planned, function, needs_gpu) in enumerate(chosen):
        if needs_gpu and not run.data.get("gpu"):
            print(f"{name}: left out, no GPU")
            continue
        run.step(name, function, planned, sum(row[1] for row in chosen[i + 1:]))
    print(f"table in {run.path('acceptance.md')}")
    good = run.data.get("gpu") and all(row["met"] is not False for row in run.rows())
    return 0 if good else 5


if __name__ == "__main__":
    sys.exit(main())
