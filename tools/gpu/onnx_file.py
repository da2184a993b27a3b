"""onnx_file - reads an ONNX file with nothing but Python, for machines that have PyTorch and no onnx package.

ONNX files are protobuf messages (bench/loadgen/protobuf_wire.py); only the fields that networks of the zoo need are
read, by their numbers in onnx.proto.  Contents of tensors stay where they are in the file (memoryviews)."""
import mmap
import os
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "bench", "loadgen"))  # last: names there hide nothing
from protobuf_wire import BadMessage, fields, integers, signed  # noqa: E402

F32, U8, I8, I32, I64, STRING, BOOL, F16, F64 = 1, 2, 3, 6, 7, 8, 9, 10, 11
SHAPED = {F32: "f", I32: "i", I64: "q", F64: "d"}  # struct letters of types that come as repeated fields too


def text(value):
    return bytes(value).decode()


class Tensor:
    """dims, dtype (numbers of ONNX) and raw: little-endian contents."""

    def __init__(self, message):
        self.dims, self.dtype, self.name, self.raw = [], 0, "", None
        repeated, packed = [], b""
        for number, value in fields(message):
            if number == 1:
                self.dims += integers(value)
            elif number == 2:
                self.dtype = value
            elif number == 8:
                self.name = text(value)
            elif number == 9:
                self.raw = value
            elif number in (4, 10):  # float_data, double_data
                packed += bytes(value)
            elif number in (5, 7):  # int32_data, int64_data
                repeated += integers(value)
        if self.raw is None:
            self.raw = packed or struct.pack(f"<{len(repeated)}{SHAPED.get(self.dtype, 'q')}", *repeated)


class Node:
    """One operator: op, inputs, outputs, attributes {name: int, float, str, list or Tensor}."""

    def __init__(self, message):
        self.inputs, self.outputs, self.op, self.name, self.attributes = [], [], "", "", {}
        for number, value in fields(message):
            if number == 1:
                self.inputs.append(text(value))
            elif number == 2:
                self.outputs.append(text(value))
            elif number == 3:
                self.name = text(value)
            elif number == 4:
                self.op = text(value)
            elif number == 5:
                name, content = attribute(value)
                self.attributes[name] = content


def attribute(message):
    name, kind, one, many = "", 0, {}, []
    for number, value in fields(message):
        if number == 1:
            name = text(value)
        elif number == 20:
            kind = value
        elif number == 7:
            many += [v[0] for v in struct.iter_unpack("<f", bytes(value))]
        elif number == 8:
            many += integers(value)
        else:
            one[number] = value
    if kind == 1:
        return name, struct.unpack("<f", bytes(one[2]))[0]
    if kind == 2:
        return name, signed(one.get(3, 0))
    if kind == 3:
        return name, text(one.get(4, b""))
    if kind == 4:
        return name, Tensor(one[5])
    return name, many


def port(message):
    """(name, dtype, dims) of an input or output; a dim that is open is a str."""
    name, dtype, dims = "", 0, []
    for number, value in fields(message):
        if number == 1:
            name = text(value)
            continue
        tensor = next((v for n, v in fields(value) if n == 1), b"") if number == 2 else b""
        for n, v in fields(tensor):
            if n == 1:
                dtype = v
            elif n == 2:
                dims = [dimension(d) for k, d in fields(v) if k == 1]
    return name, dtype, dims


def dimension(message):
    for number, value in fields(message):
        return signed(value) if number == 1 else text(value)
    return "?"


class Graph:
    """nodes in order, weights {name: Tensor}, inputs [(name, dtype, dims)] without weights, outputs [name], opset."""

    def __init__(self, path):
        with open(path, "rb") as f:
            data = memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        self.nodes, self.weights, self.inputs, self.outputs, self.opset = [], {}, [], [], 0
        graph = None
        for number, value in fields(data):
            if number == 7:
                graph = value
            elif number == 8:
                entry = dict(fields(value))
                if not len(entry.get(1, b"")):
                    self.opset = entry.get(2, 0)
        if graph is None:
            raise BadMessage(f"{path}: no graph in it")
        for number, value in fields(graph):
            if number == 1:
                self.nodes.append(Node(value))
            elif number == 5:
                tensor = Tensor(value)
                self.weights[tensor.name] = tensor
            elif number == 11:
                self.inputs.append(port(value))
            elif number == 12:
                self.outputs.append(port(value)[0])
        self.inputs = [p for p in self.inputs if p[0] not in self.weights]
