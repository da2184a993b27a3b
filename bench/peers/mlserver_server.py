#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mlserver_server.py - starts MLServer with ONNX Runtime in a runtime of its own (mlserver_model.py).

Arrangements (threads of a session, queries at a time):
  pool      1, as many as cores, in the server's process
  workers   1, one in each of as many worker processes as cores"""
import json
import os
import sys

import server_spec


def write(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        json.dump(value, f)


def main():
    told = server_spec.read()
    workers = told.threads if told.arrangement == "workers" else 0
    write(os.path.join(told.folder, "settings.json"), {
        "debug": False, "host": told.host, "http_port": told.http_port, "grpc_port": told.grpc_port,
        "metrics_endpoint": None, "parallel_workers": workers, "gzip_enabled": False,
        "grpc_max_message_length": 1 << 26, "environments_dir": told.folder,
        "_custom_rest_server_settings": {"timeout_keep_alive": 3600}})
    for model in told.models:
        write(os.path.join(told.folder, model["name"], "model-settings.json"), {
            "name": model["name"], "implementation": "mlserver_model.OnnxModel",
            "parameters": {"uri": os.path.abspath(model["file"]),
                           "extra": {"threads": 1, "at_once": 1 if workers else told.threads}}})
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
    os.chdir(told.folder)
    program = os.path.join(os.path.dirname(sys.executable), "mlserver")
    os.execv(program, [program, "start", told.folder])


main()
