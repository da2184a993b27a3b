"""conformance_models.py - small ONNX models, as a repository of moire's and, with the same configurations, of Triton's.

Triton's Python backend runs them by ONNX Runtime.
"""
import os

import onnx
from onnx import TensorProto as T
from onnx import helper

ONNX_TYPE = {"FP32": T.FLOAT, "FP64": T.DOUBLE, "FP16": T.FLOAT16, "BOOL": T.BOOL, "BYTES": T.STRING,
             "INT8": T.INT8, "INT16": T.INT16, "INT32": T.INT32, "INT64": T.INT64,
             "UINT8": T.UINT8, "UINT16": T.UINT16, "UINT32": T.UINT32, "UINT64": T.UINT64}
LABELS = "ant\nbee\n\ncat\n"

RUNS_ONNX = '''import os

import onnxruntime
import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        path = os.path.join(args["model_repository"], args["model_version"], "model.onnx")
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        return [self.answer(r) for r in requests]

    def answer(self, request):
        feeds = {i.name: pb.get_input_tensor_by_name(request, i.name).as_numpy() for i in self.session.get_inputs()}
        wanted = [o.name for o in self.session.get_outputs() if o.name in request.requested_output_names()]
        return pb.InferenceResponse([pb.Tensor(n, y) for n, y in zip(wanted, self.session.run(wanted, feeds))])
'''


def port(name, datatype, *dims):
    """A negative dimension is open; the batch is the first where the model has one."""
    return (name, datatype, dims)


def model(nodes, inputs, outputs, constants=()):
    infos = [[helper.make_tensor_value_info(n, ONNX_TYPE[t], [f"d{i}" if d < 0 else d for i, d in enumerate(dims)])
              for n, t, dims in ports] for ports in (inputs, outputs)]
    graph = helper.make_graph([helper.make_node(op, i, o) for op, i, o in nodes], "g", *infos,
                              [helper.make_tensor(n, T.FLOAT, [], [v]) for n, v in constants])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 8
    return made.SerializeToString(), inputs, outputs


def same(datatype, *dims):
    return model([("Identity", ["x"], ["y"])], [port("x", datatype, *dims)], [port("y", datatype, *dims)])


def plus(value):
    return model([("Add", ["x", "c"], ["y"])], [port("x", "FP32", -1, 4)], [port("y", "FP32", -1, 4)], [("c", value)])


def pair():
    ports = [port("a", "FP32", -1, 4), port("b", "FP32", -1, 4)]
    return model([("Add", ["a", "b"], ["sum"]), ("Sub", ["a", "b"], ["difference"])], ports,
                 [port("sum", "FP32", -1, 4), port("difference", "FP32", -1, 4)])


QUEUE = """dynamic_batching { priority_levels: 3 default_priority_level: 2
  default_queue_policy { max_queue_size: 64 allow_timeout_override: true } }
"""
# name: (versions, max_batch_size, label file of output y, more of config.pbtxt)
MODELS = {
    "pair": ({"1": pair()}, 0, None, ""),
    "versions": ({"1": plus(1.0), "2": plus(2.0)}, 0, None, "version_policy { all { } }\n"),
    "batched": ({"1": plus(0.5)}, 4, None, QUEUE),
    "labelled": ({"1": plus(0.0)}, 4, "labels.txt", ""),
    "spare": ({"1": plus(3.0)}, 0, None, ""),
    **{f"same_{t}": ({"1": same(t, -1)}, 0, None, "") for t in ONNX_TYPE},
}


def ports_text(field, ports, batched, labels):
    lines = []
    for name, datatype, dims in ports:
        kind = "STRING" if datatype == "BYTES" else datatype
        label = f' label_filename: "{labels}"' if labels and field == "output" else ""
        lines.append(f'{field} {{ name: "{name}" data_type: TYPE_{kind} dims: {list(dims[1:] if batched else dims)}'
                     f'{label} }}\n')
    return "".join(lines)


def make(folder, for_triton):
    for name, (versions, batch, labels, more) in MODELS.items():
        top = os.path.join(folder, name)
        for version, (data, inputs, outputs) in versions.items():
            os.makedirs(os.path.join(top, version))
            with open(os.path.join(top, version, "model.onnx"), "wb") as f:
                f.write(data)
            if for_triton:
                with open(os.path.join(top, version, "model.py"), "w", encoding="utf-8") as f:
                    f.write(RUNS_ONNX)
        text = (f'backend: "{"python" if for_triton else "onnxruntime"}"\nmax_batch_size: {batch}\n' +
                ports_text("input", inputs, batch, None) + ports_text("output", outputs, batch, labels) + more)
        with open(os.path.join(top, "config.pbtxt"), "w", encoding="utf-8") as f:
            f.write(text)
        if labels:
            with open(os.path.join(top, labels), "w", encoding="utf-8") as f:
                f.write(LABELS)
