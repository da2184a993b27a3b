#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mnn_runner.py - solo latency of MNN for `moire bench latency`.

MNN reads its own format, so the ONNX file is first converted with the converter of the MNN package, in f32, in
a temporary folder and in a process of its own: it ends the process where it gives up.  Networks that it cannot
convert are left out with its last line."""
import os
import shutil
import subprocess
import sys
import tempfile

# The library prints to fd 1, which is the protocol's: only sys.stdout keeps it.
sys.stdout = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

import MNN  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402

import converted  # noqa: E402
import runner  # noqa: E402

TYPE = {
    onnx.TensorProto.FLOAT: (np.float32, MNN.Halide_Type_Float),
    onnx.TensorProto.INT32: (np.int32, MNN.Halide_Type_Int),
    onnx.TensorProto.INT64: (np.int32, MNN.Halide_Type_Int),  # the converter narrows 64-bit integers
}
CONVERT = "import _tools, sys; _tools.mnnconvert(['mnnconvert'] + sys.argv[1:])"


def convert(model, folder):
    out = os.path.join(folder, "m.mnn")
    made = subprocess.run([sys.executable, "-c", CONVERT, "-f", "ONNX", "--modelFile", model, "--MNNModel", out,
                           "--bizCode", "moire"], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if made.returncode or not os.path.exists(out):
        lines = [line for line in (made.stdout + made.stderr).splitlines() if line.strip()]
        raise RuntimeError("MNN could not convert this model: " + (lines[-1] if lines else "no message"))
    return out


class Mnn:
    def open(self, job):
        tenant = converted.only_tenant(job, "MNN")
        folder = tempfile.mkdtemp(prefix="moire-mnn-")
        try:
            self.net = MNN.Interpreter(convert(tenant["model"], folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.session = self.net.createSession({"backend": "CPU", "precision": "high", "numThread": job["threads"]})
        ports = list(converted.inputs_of(tenant, TYPE))
        tensors = self.net.getSessionInputAll(self.session)
        missing = [name for name, _, _ in ports if name not in tensors]
        if missing:
            raise RuntimeError(f"the converted model has no input '{missing[0]}'")
        for name, dims, _ in ports:
            self.net.resizeTensor(tensors[name], dims)
        self.net.resizeSession(self.session)
        self.inputs = []
        for name, dims, (kind, halide) in ports:
            values = np.arange(int(np.prod(dims))) * 2654435761 % 1000 * 1e-3 if kind == np.float32 else np.ones(dims)
            host = MNN.Tensor(dims, halide, values.astype(kind).reshape(dims), MNN.Tensor_DimensionType_Caffe)
            self.inputs.append((tensors[name], host))
        self.outputs = self.net.getSessionOutputAll(self.session).values()
        self.run()

    def run(self):
        for tensor, host in self.inputs:
            tensor.copyFrom(host)
        if self.net.runSession(self.session) not in (0, None):
            raise RuntimeError("MNN fails on the converted model")
        for tensor in self.outputs:
            tensor.getNumpyData()

    def solo(self, tenant):
        self.run()

    def close(self):
        pass


if __name__ == "__main__":
    sys.exit(runner.main(Mnn()))
