# SPDX-License-Identifier: Apache-2.0
"""mlserver_model.py - a runtime of MLServer that runs a model by ONNX Runtime, off its event loop; all models of a
process share a pool of threads."""
import asyncio
import concurrent.futures

import mlserver
from mlserver.codecs import NumpyCodec

import server_spec

POOL = {}


class OnnxModel(mlserver.MLModel):
    async def load(self):
        parameters = self.settings.parameters
        at_once = parameters.extra["at_once"]
        self.pool = POOL.setdefault(at_once, concurrent.futures.ThreadPoolExecutor(at_once))
        self.session = server_spec.session(parameters.uri, parameters.extra["threads"])
        return True

    def run(self, payload):
        feed = {i.name: NumpyCodec.decode_input(i) for i in payload.inputs}
        answers = self.session.run(None, feed)
        return [NumpyCodec.encode_output(o.name, a) for o, a in zip(self.session.get_outputs(), answers)]

    async def predict(self, payload):
        outputs = await asyncio.get_running_loop().run_in_executor(self.pool, self.run, payload)
        return mlserver.types.InferenceResponse(model_name=self.name, outputs=outputs)
