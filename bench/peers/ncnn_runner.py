#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ncnn_runner.py - solo latency of ncnn for `moire bench latency`.

ncnn reads its own format, so the ONNX file is first converted with the program of the pnnx package, in f32, in
a temporary folder.  Networks that it cannot convert are left out with its message."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

import ncnn
import numpy as np
import onnx

import converted
import runner

SUFFIX = {onnx.TensorProto.FLOAT: "f32", onnx.TensorProto.INT64: "i64", onnx.TensorProto.INT32: "i32"}


def converter():
    """The program inside the pnnx package; its Python module would need torch."""
    found = [p for root in sys.path for p in glob.glob(os.path.join(root, "pnnx", "pnnx"))]
    if not found:
        raise RuntimeError("the pnnx package, which converts ONNX to ncnn, is not installed")
    return found[0]


class Ncnn:
    def open(self, job):
        tenant = converted.only_tenant(job, "ncnn")
        ports = list(converted.inputs_of(tenant, SUFFIX))
        self.folder = tempfile.mkdtemp(prefix="moire-ncnn-")
        try:
            os.symlink(tenant["model"], os.path.join(self.folder, "m.onnx"))
            shapes = ",".join(f"[{','.join(map(str, d))}]{t}" for _, d, t in ports)
            made = subprocess.run([converter(), "m.onnx", f"inputshape={shapes}", "fp16=0"], cwd=self.folder,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300, check=False)
            base = os.path.join(self.folder, "m.ncnn")
            if made.returncode or not os.path.exists(base + ".param"):
                raise RuntimeError("pnnx could not convert this model")
            self.net = ncnn.Net()
            self.net.opt.use_vulkan_compute = False
            for reduced in ("fp16_packed", "fp16_storage", "fp16_arithmetic", "bf16_storage"):  # fp32, as all
                setattr(self.net.opt, "use_" + reduced, False)
            self.net.opt.num_threads = job["threads"]
            ncnn.set_omp_num_threads(job["threads"])
            if self.net.load_param(base + ".param") or self.net.load_model(base + ".bin"):
                raise RuntimeError("ncnn does not load the converted model")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.inputs = []
        for _, dims, kind in ports:
            n = int(np.prod(dims))
            if kind != "f32" or dims[0] != 1:
                raise RuntimeError("ncnn is fed one f32 image at a time only")
            values = (np.arange(n) * 2654435761 % 1000 * 1e-3).astype(np.float32)
            self.inputs.append(ncnn.Mat(values.reshape(dims[1:])).clone())
        self.run()

    def run(self):
        extractor = self.net.create_extractor()
        for name, value in zip(self.net.input_names(), self.inputs):
            extractor.input(name, value)
        for name in self.net.output_names():
            code, _ = extractor.extract(name)
            if code:
                raise RuntimeError("ncnn fails on the converted model")

    def solo(self, tenant):
        self.run()

    def close(self):
        pass


if __name__ == "__main__":
    sys.exit(runner.main(Ncnn()))
