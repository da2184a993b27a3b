# SPDX-License-Identifier: Apache-2.0
"""The light models of the package onnx, for export.py: networks of 2016 to 2018 as their makers published them, with
constants in the place of weights and the first output of each beside.

Their input is the numbers from 0 to n - 1, divided by n, as the package's own runner has it."""
import glob
import os
import shutil

import numpy
import onnx
from onnx import numpy_helper

FOLDER = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")


def first_input(model):
    made = {t.name for t in model.graph.initializer}
    port, = [i for i in model.graph.input if i.name not in made]
    shape = [d.dim_value or 1 for d in port.type.tensor_type.shape.dim]
    n = int(numpy.prod(shape))
    return port.name, (numpy.arange(n).reshape(shape) / n).astype(numpy.float32)


def write(path, folder):
    model = onnx.load(path)
    name, x = first_input(model)
    os.makedirs(f"{folder}/data", exist_ok=True)
    with open(f"{folder}/data/input_0.pb", "wb") as f:
        f.write(numpy_helper.from_array(x).SerializeToString())
    shutil.copy(path.replace(".onnx", "_output_0.pb"), f"{folder}/data/output_0.pb")
    with open(f"{folder}/flags", "w") as f:
        f.write(f"--shape {name}={','.join(map(str, x.shape))}\n")
    shutil.copy(path, f"{folder}/unfinished")
    os.rename(f"{folder}/unfinished", f"{folder}/model.onnx")


FILES = {os.path.basename(p)[:-len(".onnx")]: p for p in sorted(glob.glob(f"{FOLDER}/light_*.onnx"))}
WRITERS = {name: (lambda folder, path=path: write(path, folder)) for name, path in FILES.items()}
