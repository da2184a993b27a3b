"""The command `moire` as functions, which run it and return its JSON as Python objects.

    from moire import commands
    commands.compile("model.onnx", threads=2)
    commands.sim("veltair-mix", machine="cores64", policy=["moire", "fcfs"])
    commands.run("bench", "latency", "model.onnx")      # any verb that takes --json

Arguments are the command's; flags are given by name, with `_` for `-`: True is a flag without a
value, None and False are none, a list is its values with commas, and a dictionary gives the flag
again for each NAME=VALUE, as in `shape={"x": (1, 3)}`.  A flag that is a word of Python's gets `_`
at its end.  `python -m moire help VERB` says which flags a verb has.  The command is a process of
its own; it prints its progress to standard error where `progress` is True.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

from . import errors

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "moire")


def environment() -> dict[str, str]:
    """The command's: what it runs in Python (`moire bench loadgen`) is this Python's, unless VENV says otherwise."""
    return {"VENV": sys.prefix, **os.environ}


def run(verb: str, *arguments: Any, progress: bool = False, **flags: Any) -> Any:
    """Runs `moire VERB ARGUMENT... --FLAG VALUE... --json` and returns its result.

    Raises the `moire.Error` that the command tells of; its `document` has what else it told.
    """
    words = [PATH, verb, *map(_word, arguments), *_flag_words(flags), "--json"]
    errors_to = None if progress else subprocess.PIPE
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=errors_to,
        stdin=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        document = json.loads(done.stdout)
    except ValueError:
        said = (done.stderr or b"").decode("utf-8", "replace").strip()
        raise errors.Failed(
            f"moire {verb}: exit code {done.returncode} and no result"
            + (f": {said}" if said else "")
        ) from None
    if isinstance(document, dict) and isinstance(document.get("error"), dict):
        error = document["error"]
        kind = errors.BY_NAME.get(error.get("code"), errors.Failed)
        raised = kind(f"moire {verb}: {error.get('message')}")
        raised.document = document
        raise raised
    return document


def _word(value: Any) -> str:
    """A path, string, number or list of them as the command reads it."""
    if isinstance(value, (list, tuple)):
        return ",".join(map(_word, value))
    return os.fsdecode(value) if hasattr(value, "__fspath__") else str(value)


def _flag_words(flags: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in flags.items():
        if value is None or value is False:
            continue
        flag = "--" + name.rstrip("_").replace("_", "-")
        if isinstance(value, dict):
            for key, one in value.items():
                words += [flag, f"{key}={_word(one)}"]
        else:
            words += [flag] if value is True else [flag, _word(value)]
    return words


inspect = functools.partial(run, "inspect")
check_model = functools.partial(run, "check-model")
quantize = functools.partial(run, "quantize")
compile = functools.partial(run, "compile")
tune = functools.partial(run, "tune")
profile = functools.partial(run, "profile")
bench = functools.partial(run, "bench")
sim = functools.partial(run, "sim")
plan = functools.partial(run, "plan")
capacity = functools.partial(run, "capacity")
whatif = functools.partial(run, "whatif")
zoo = functools.partial(run, "zoo")
store = functools.partial(run, "store")
devices = functools.partial(run, "devices")
limits = functools.partial(run, "limits")
