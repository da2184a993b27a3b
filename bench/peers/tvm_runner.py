#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tvm_runner.py - solo latency of TVM for `moire bench latency`, `cold` and `survey`.

TVM without tuned schedules runs plain loops, some fifty times slower than with them, which says nothing about it:
a model is measured that tvm_tune.py has made a program for, and others are left out with the command that does.
Its threads are the runtime's own; their number is fixed when the library is loaded, so it is loaded last."""
import os
import sys

import numpy as np
import onnx

import converted
import runner
import tvm_cache

TYPE = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.INT32: "int32", onnx.TensorProto.INT64: "int64"}


class Tvm:
    def open(self, job):
        tenant = converted.only_tenant(job, "TVM")
        model, threads, ports = tenant["model"], job["threads"], list(converted.inputs_of(tenant, TYPE))
        missing = tvm_cache.why_not(model, ports, threads)
        if missing:
            raise RuntimeError(missing)
        os.environ["TVM_NUM_THREADS"] = str(threads)
        import tvm
        folder = tvm_cache.folder_of(model, ports, threads)
        program = tvm.runtime.load_module(os.path.join(folder, tvm_cache.PROGRAM))
        self.run = tvm.relax.VirtualMachine(program, tvm.cpu())["main"]
        self.inputs = [tvm.runtime.tensor(made_up(dims, kind)) for _, dims, kind in ports]
        self.run(*self.inputs)

    def solo(self, tenant):
        self.run(*self.inputs)

    def close(self):
        pass


def made_up(dims, kind):
    """The values that all runners feed."""
    n = int(np.prod(dims))
    values = np.arange(n) * 2654435761 % 1000 * 1e-3 if kind == "float32" else np.ones(n)
    return values.astype(kind).reshape(dims)


if __name__ == "__main__":
    sys.exit(runner.main(Tvm()))
