#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""uvicorn_server.py - ONNX Runtime behind uvicorn, as a careful user writes a server by hand: an ASGI application
without a framework, the Open Inference Protocol with binary tensors, and a pool of threads that runs models.

Arrangements (threads of a session, queries at a time):
  core-per-query   1, as many as cores
  all              all cores, one"""
import asyncio
import concurrent.futures
import json

import numpy as np
import uvicorn

import server_spec


class Model:
    def __init__(self, file, threads):
        self.session = server_spec.session(file, threads)
        self.outputs = [(o.name, server_spec.TYPES[o.type][0]) for o in self.session.get_outputs()]
        self.types = {name: dtype for name, dtype in server_spec.TYPES.values()}

    def infer(self, body, json_bytes):
        """Head and tensors of the answer."""
        request = json.loads(body[:json_bytes])
        feed, at = {}, json_bytes
        for tensor in request["inputs"]:
            size = tensor["parameters"]["binary_data_size"]
            values = np.frombuffer(body, self.types[tensor["datatype"]], offset=at,
                                   count=size // self.types[tensor["datatype"]]().itemsize)
            feed[tensor["name"]] = values.reshape(tensor["shape"])
            at += size
        answers = self.session.run(None, feed)
        outputs = [{"name": name, "datatype": datatype, "shape": a.shape,
                    "parameters": {"binary_data_size": a.nbytes}}
                   for (name, datatype), a in zip(self.outputs, answers)]
        return json.dumps({"outputs": outputs}).encode(), [a.tobytes() for a in answers]


class App:
    def __init__(self, told):
        alone = told.arrangement == "all"
        self.pool = concurrent.futures.ThreadPoolExecutor(1 if alone else told.threads)
        threads = told.threads if alone else 1
        self.models = {f"/v2/models/{m['name']}/infer": Model(m["file"], threads) for m in told.models}

    async def answer(self, scope, receive):
        if scope["path"] == "/v2/health/ready":
            return 200, [], b""
        model = self.models.get(scope["path"])
        if model is None:
            return 404, [], b'{"error": "no such path"}'
        parts, more = [], True
        while more:
            message = await receive()
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        body = b"".join(parts)
        length = dict(scope["headers"]).get(b"inference-header-content-length", len(body))
        head, tensors = await asyncio.get_running_loop().run_in_executor(self.pool, model.infer, body, int(length))
        return 200, [(b"inference-header-content-length", b"%d" % len(head))], b"".join([head, *tensors])

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        status, headers, body = await self.answer(scope, receive)
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    spec = server_spec.read()
    uvicorn.run(App(spec), host=spec.host, port=spec.http_port, loop="uvloop", http="httptools", lifespan="off",
                access_log=False, timeout_keep_alive=3600)
