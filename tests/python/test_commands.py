"""The command that comes with the package: as a module, and as functions that return its JSON."""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import linear, random

import moire
from moire import commands


def module(*words):
    return subprocess.run(
        [sys.executable, "-m", "moire", *words], capture_output=True, text=True, timeout=60
    )


def test_the_module_is_the_command():
    assert module("--version").stdout.split() == ["moire", moire.__version__]
    assert "usage: moire" in module("help").stdout
    assert module("inspect", "/none.onnx").returncode == 4


def test_libraries_are_the_wheel_s():
    """Those that Debian has, and others may not, come along."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = {line.split()[-1] for line in maps if "/" in line}
    for name in ("libmoire", "libhwloc", "libjansson", "libprotobuf-c"):
        found = [file for file in mapped if os.path.basename(file).startswith(name)]
        assert found and all("/site-packages/moire" in file for file in found), (name, found)


def test_results_are_objects(path):
    told = commands.inspect(path)
    assert told["inputs"] == [{"name": "x", "type": "float32", "shape": [1, 4]}]
    assert commands.check_model(path)["runs"] is True
    assert {row["name"] for row in commands.zoo("list")} >= {"lenet", "resnet50"}


def test_flags_of_every_kind(tmp_path):
    file = tmp_path / "open.onnx"
    file.write_bytes(linear(["batch", 4]))
    told = commands.run("run", file, shape={"x": (3, 4)}, repeat=2, exact=True, seed=None)
    assert told["runs"] == 2 and told["outputs"][0]["shape"] == [3, 3]


def test_the_simulator_has_its_scenarios():
    told = commands.sim(
        "veltair-mix", machine="cores64", policy=["moire", "fcfs"], load=0.5, seconds=1
    )
    assert {run["policy"] for run in told["results"]} == {"moire", "fcfs"}
    other = commands.sim("veltair-mix", machine="cores64", seconds=1, with_={"cores": 32})
    assert other["experiment"]["machine"]["cores"] == 32


def test_a_failure_is_the_error_that_it_tells():
    with pytest.raises(moire.FileError, match="moire inspect: cannot read '/none.onnx'") as caught:
        commands.inspect("/none.onnx")
    assert caught.value.document["error"]["exit"] == 4
    with pytest.raises(moire.InvalidArgument, match="no flag '--nix-nax'"):
        commands.inspect("/none.onnx", nix_nax=True)
    with pytest.raises(moire.Failed, match="no result"):
        commands.run("help")


@pytest.mark.skipif(not shutil.which("gcc"), reason="compiling needs gcc")
def test_a_session_runs_compiled_kernels(path, tmp_path):
    store = tmp_path / "store"
    told = commands.compile(path, store=store, candidates=1)
    assert told["experiment"]["store"] == str(store)
    with moire.Session(path, threads=1, store=store) as session:
        assert session.run(None, {"x": random(1, 4)})[0].shape == (1, 3)
