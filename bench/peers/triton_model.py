# SPDX-License-Identifier: Apache-2.0
"""triton_model.py - a model of Triton's Python backend that runs an ONNX file by ONNX Runtime.  Requests that Triton
has joined (dynamic batching) are run as one."""
import json

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        options = ort.SessionOptions()
        options.intra_op_num_threads = int(parameters["threads"])
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = ort.InferenceSession(parameters["file"], options, providers=["CPUExecutionProvider"])
        self.inputs = [i.name for i in self.session.get_inputs()]
        self.outputs = [o.name for o in self.session.get_outputs()]

    def execute(self, requests):
        feeds = [[pb.get_input_tensor_by_name(r, name).as_numpy() for name in self.inputs] for r in requests]
        if len(requests) == 1:
            return [self.response(self.session.run(None, dict(zip(self.inputs, feeds[0]))))]
        joined = {name: np.concatenate([f[i] for f in feeds]) for i, name in enumerate(self.inputs)}
        answers = self.session.run(None, joined)
        ends = np.cumsum([f[0].shape[0] for f in feeds])[:-1]
        return [self.response(parts) for parts in zip(*(np.split(a, ends) for a in answers))]

    def response(self, answers):
        return pb.InferenceResponse(
            output_tensors=[pb.Tensor(name, np.ascontiguousarray(a)) for name, a in zip(self.outputs, answers)])
