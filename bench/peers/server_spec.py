# SPDX-License-Identifier: Apache-2.0
"""server_spec.py - what a script that starts a model server is told; see bench/peers/README.md."""
import argparse
import json
import os

import numpy as np
import onnxruntime as ort

TYPES = {
    "tensor(float)": ("FP32", np.float32),
    "tensor(float16)": ("FP16", np.float16),
    "tensor(double)": ("FP64", np.float64),
    "tensor(int64)": ("INT64", np.int64),
    "tensor(int32)": ("INT32", np.int32),
    "tensor(int8)": ("INT8", np.int8),
    "tensor(uint8)": ("UINT8", np.uint8),
    "tensor(bool)": ("BOOL", np.bool_),
}


def read():
    """The command line, with the arrangement and the models of spec.json."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--folder", required=True)
    for number in ("--http-port", "--grpc-port", "--threads"):
        parser.add_argument(number, type=int, required=True)
    told = parser.parse_args()
    with open(os.path.join(told.folder, "spec.json")) as f:
        spec = json.load(f)
    told.arrangement, told.models = spec["arrangement"], spec["models"]
    return told


def session(file, threads):
    """A careful user's session: so many threads, none of which spins while another model needs the core."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
