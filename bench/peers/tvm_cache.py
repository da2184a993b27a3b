# SPDX-License-Identifier: Apache-2.0
"""tvm_cache.py - where tuned programs of TVM are kept, and how they are asked for; needs no TVM.

A program fits one model, its inputs' shapes, one number of threads, one kind of CPU and one version of TVM: all of
them are in the name of its folder, so that nothing stale is ever found.  The folder has the database of the search
(`database_*.json`), the program (`program.so`) and what the search took (`about.json`), which is written last: a
folder without it is one whose search was interrupted."""
import hashlib
import importlib.metadata
import json
import os

ABOUT, PROGRAM = "about.json", "program.so"


def version():
    """TVM's version, or None where it is not installed."""
    try:
        return importlib.metadata.version("apache-tvm")
    except importlib.metadata.PackageNotFoundError:
        return None


def default_folder():
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "moire", "tvm")


def cpu_name():
    """The CPU as the kernel names it: its model, and what it can do."""
    with open("/proc/cpuinfo") as f:
        lines = [line.split(":", 1)[1].strip() for line in f if line.startswith(("model name", "flags", "Features"))]
    return " ".join(lines[:2])


def folder_of(model, ports, threads, root=None):
    """The folder of a model's program; ports: [(input, dims, type)], no dimension open.  It need not exist."""
    key = hashlib.sha256()
    with open(model, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            key.update(block)
    key.update(json.dumps([[[name, list(dims)] for name, dims, _ in ports], threads, cpu_name(), version()]).encode())
    return os.path.join(root or default_folder(), key.hexdigest()[:24])


def about(folder):
    """What the search took, as a dictionary; None where there is no finished program."""
    try:
        with open(os.path.join(folder, ABOUT)) as f:
            return json.load(f)
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def keep(folder, told):
    """Marks the folder's program as finished."""
    unfinished = os.path.join(folder, ABOUT + ".new")
    with open(unfinished, "w") as f:
        json.dump(told, f, indent=1)
    os.replace(unfinished, os.path.join(folder, ABOUT))


def why_not(model, ports, threads, root=None):
    """None where the model can be measured, else why not and what to do."""
    if version() is None:
        return "TVM is not installed here; run `tools/setup --tvm`"
    if about(folder_of(model, ports, threads, root)) is None:
        shapes = "".join(f" --shape {name}={','.join(map(str, dims))}" for name, dims, _ in ports)
        return (f"TVM has no program tuned for {threads} thread{'s' if threads > 1 else ''}; run "
                f"`bench/peers/tvm_tune.py {model} --threads {threads} --minutes M{shapes}`")
    return None
