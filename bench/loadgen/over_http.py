# SPDX-License-Identifier: Apache-2.0
"""over_http.py - a connection to a server of the Open Inference Protocol by HTTP; tensors go as bytes behind the JSON."""

import http.client
import json

import numpy

from datatypes import NAMES, ANSWER_S


class HttpConnection:
    """As network.py wants one; `port_flags` make a `moire serve` that has this door and no other."""

    port_flags, port_key = ("--http-port", "0", "--grpc-port", "-1"), "http_port"

    def __init__(self, host, port):
        self.http = http.client.HTTPConnection(host, port, timeout=ANSWER_S)

    def ask(self, method, path, body=None, headers=None):
        """Status and body of the answer."""
        self.http.request(method, path, body, headers or {})
        answer = self.http.getresponse()
        return answer.status, answer.read()

    def document(self, path):
        status, body = self.ask("GET", path)
        if status != 200:
            raise RuntimeError(f"{path}: status {status}: {body[:200].decode(errors='replace')}")
        return json.loads(body)

    def is_ready(self, model):
        try:
            return self.ask("GET", f"/v2/models/{model}/ready")[0] == 200
        except http.client.HTTPException as wrong:
            raise ConnectionError(str(wrong)) from wrong

    def version(self):
        return self.document("/v2").get("version", "")

    def inputs(self, model):
        return [(port["name"], port["datatype"], port["shape"]) for port in self.document(f"/v2/models/{model}")["inputs"]]

    def infer(self, model, feed):
        inputs, parts = [], []
        for name, array in feed.items():
            parts.append(numpy.ascontiguousarray(array).tobytes())
            about = {"name": name, "datatype": NAMES[array.dtype], "shape": array.shape}
            inputs.append({**about, "parameters": {"binary_data_size": len(parts[-1])}})
        head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head)), "Content-Type": "application/octet-stream"}
        status, body = self.ask("POST", f"/v2/models/{model}/infer", b"".join([head, *parts]), headers)
        if status != 200:
            raise RuntimeError(f"the server answered with status {status}: {body[:200].decode(errors='replace')}")
