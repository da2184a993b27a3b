# SPDX-License-Identifier: Apache-2.0
"""over_grpc.py - a connection to a server of the Open Inference Protocol by gRPC; tensors go as raw bytes.

The transport is the package grpcio's.  The few messages are written and read by protobuf_wire.py, by the numbers of the
protocol's fields (serve/grpc/inference.proto), so that no generated module is needed; tests/python/test_loadgen.py
compares them with protobuf's own.
"""

import grpc
import numpy

from datatypes import ANSWER_S, NAMES
from protobuf_wire import BYTES, field, fields, integers, varint

# one HTTP/2 connection each, and messages of any size
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def infer_request(model, feed):
    """ModelInferRequest."""
    parts, raw = [field(1, model)], []
    for name, array in feed.items():
        shape = field(3, b"".join(varint(n) for n in array.shape))
        parts.append(field(5, field(1, name) + field(2, NAMES[array.dtype]) + shape))
        data = numpy.ascontiguousarray(array).tobytes()
        raw += [varint(7 << 3 | BYTES), varint(len(data)), data]
    return b"".join(parts + raw)


def tensor_of(data):
    """Name, datatype and shape of a TensorMetadata."""
    name, datatype, shape = "", "", []
    for number, value in fields(data):
        if number == 1:
            name = value.decode()
        elif number == 2:
            datatype = value.decode()
        elif number == 3:
            shape += integers(value)
    return name, datatype, shape


class GrpcConnection:
    """As network.py wants one; `port_flags` make a `moire serve` that has this door and no other."""

    port_flags, port_key = ("--http-port", "-1", "--grpc-port", "0"), "grpc_port"

    def __init__(self, host, port):
        self.channel = grpc.insecure_channel(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", OPTIONS)
        self.calls = {}

    def ask(self, method, message=b""):
        """The answer's bytes."""
        if method not in self.calls:
            self.calls[method] = self.channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
        try:
            return self.calls[method](message, timeout=ANSWER_S)
        except grpc.RpcError as wrong:
            kind = ConnectionError if wrong.code() == grpc.StatusCode.UNAVAILABLE else RuntimeError
            raise kind(f"the server answered {method} with {wrong.code().name}: {wrong.details()[:200]}") from None

    def is_ready(self, model):
        return (1, 1) in fields(self.ask("ModelReady", field(1, model)))

    def version(self):
        return dict(fields(self.ask("ServerMetadata"))).get(2, b"").decode()

    def inputs(self, model):
        about = self.ask("ModelMetadata", field(1, model))
        return [tensor_of(value) for number, value in fields(about) if number == 4]

    def infer(self, model, feed):
        self.ask("ModelInfer", infer_request(model, feed))
