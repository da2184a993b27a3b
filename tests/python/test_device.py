"""A GPU beside the cores: the plugin of the wheel, on a driver that is none (FAKES) and where there is none at all."""

import os
import re
import subprocess
import sys

import numpy
import pytest
from conftest import linear, random, right

import moire
from moire import commands

FAKES = os.environ.get("FAKES")
fake = pytest.mark.skipif(not FAKES, reason="needs FAKES, the folder of a driver that is none: make python")
FOLDER = os.path.dirname(moire.__file__)


@pytest.fixture(autouse=True)
def fake_gpu(monkeypatch):
    """What the driver that is none says of its GPU."""
    monkeypatch.setenv("MO_FAKE_MEMORY_MIB", "2048")
    monkeypatch.setenv("MO_FAKE_SMS", "32")


def probed(*flags):
    return subprocess.run(
        [commands.PATH, "devices", "--probe", *flags], capture_output=True, text=True, check=True
    ).stdout


def test_the_wheel_has_the_plugin_and_its_process():
    assert os.path.exists(os.path.join(FOLDER, "lib", "libmoire-cuda.so"))
    assert os.access(os.path.join(FOLDER, "libexec", "moire-gpu-child"), os.X_OK)


@fake
@pytest.mark.parametrize("process", ["in", "child"])
def test_a_model_runs_on_the_device(path, tmp_path, process):
    options = {"libraries": FAKES, "process": process, "cache": tmp_path}
    with moire.Runtime(threads=1, device="cuda", device_options=options) as runtime:
        runtime.load(path, "there", device_only=True, qos_ms=1000)
        for seed in range(5):
            x = random(1, 4, seed=seed)
            y, z = runtime.run("there", {"x": x})
            wanted = right(linear(), {"x": x})
            assert numpy.allclose(y, wanted[0], 1e-4, 1e-5) and numpy.allclose(z, wanted[1], 1e-4, 1e-5)


@fake
def test_the_command_finds_the_plugin():
    assert "cuda 0: Fake GPU" in probed("--device-libraries", FAKES)


@pytest.mark.parametrize("device, says", [
    ("cuda", "moire.*Unsupported: .*libcuda.so.1.*moire needs the NVIDIA driver"),
    ("cuda:/none.so", "moire.*Unsupported: .*/none.so"),
])  # fmt: skip
def test_what_is_missing_is_said(device, says):
    """By a process of its own: this one keeps a driver that it has opened once."""
    if "cuda: none" not in probed():
        pytest.skip("there is a GPU")
    words = f"import moire; moire.Runtime(threads=1, device={device!r})"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and re.search(says, done.stderr), done.stderr


def test_options_of_a_device_are_known():
    with pytest.raises(moire.InvalidArgument, match="no 'speed'; there are batch, cache, .*process"):
        moire.Runtime(threads=1, device="cuda", device_options={"speed": 1})
    with pytest.raises(moire.InvalidArgument, match="go with device"):
        moire.Runtime(threads=1, device_options={"process": "in"})
