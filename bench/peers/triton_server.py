#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""triton_server.py - starts Triton, of the package nvidia-pytriton, with ONNX Runtime in its Python backend
(triton_model.py): that package has no other backend.

Arrangements (threads of a session, queries at a time):
  1t         1, one of each model
  nt         all cores, one of each model
  limited    1, as many as cores by the rate limiter
  batching   1, one of each model, with dynamic batching: requests that wait are joined, 8 at most"""
import glob
import os
import shutil
import sys

import server_spec

MOST = 8  # of a batch


def port(kind, p, dims):
    return f'{kind} [{{ name: "{p.name}" data_type: TYPE_{server_spec.TYPES[p.type][0]} dims: {list(dims)} }}]\n'


def dims_of(p, given, batches):
    dims = given or [d if isinstance(d, int) else -1 for d in p.shape]
    return dims[1:] if batches else dims


def write_model(repository, model, told):
    session = server_spec.session(model["file"], 1)
    first = session.get_inputs()[0].shape[0]
    batches = told.arrangement == "batching" and not isinstance(first, int)
    text = f'name: "{model["name"]}"\nbackend: "python"\nmax_batch_size: {MOST if batches else 0}\n'
    for p in session.get_inputs():
        text += port("input", p, dims_of(p, None if batches else model["shapes"].get(p.name), batches))
    for p in session.get_outputs():
        text += port("output", p, dims_of(p, None, batches))
    limit = 'rate_limiter { resources [{ name: "core" global: true count: 1 }] }' * (told.arrangement == "limited")
    text += f"instance_group [{{ count: 1 kind: KIND_CPU {limit} }}]\n"
    text += "dynamic_batching { }\n" * batches
    threads = told.threads if told.arrangement == "nt" else 1
    for key, value in (("file", os.path.abspath(model["file"])), ("threads", threads)):
        text += f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}\n'
    folder = os.path.join(repository, model["name"])
    os.makedirs(os.path.join(folder, "1"))
    with open(os.path.join(folder, "config.pbtxt"), "w") as f:
        f.write(text)
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "triton_model.py"),
                os.path.join(folder, "1", "model.py"))


def main():
    told = server_spec.read()
    repository = os.path.join(told.folder, "models")
    for model in told.models:
        write_model(repository, model, told)
    packages = glob.glob(os.path.join(sys.prefix, "lib", "python3*", "site-packages"))[0]
    server = os.path.join(packages, "pytriton", "tritonserver")
    argv = [os.path.join(server, "bin", "tritonserver"), "--model-repository", repository,
            "--backend-directory", os.path.join(server, "backends"), "--allow-metrics", "false",
            "--http-address", told.host, "--http-port", str(told.http_port),
            "--grpc-address", told.host, "--grpc-port", str(told.grpc_port)]
    if told.arrangement == "limited":
        argv += ["--rate-limit", "execution_count", "--rate-limit-resource", f"core:{told.threads}"]
    os.environ["LD_LIBRARY_PATH"] = os.path.join(packages, "nvidia_pytriton.libs")
    os.environ["PATH"] = os.path.join(sys.prefix, "bin") + ":" + os.environ["PATH"]
    os.execv(argv[0], argv)


main()
