# SPDX-License-Identifier: Apache-2.0
"""protobuf_wire.py - the wire format of protocol buffers in plain Python: numbers and values of a message's fields.

For few messages of known fields, where neither generated modules nor the package protobuf are wanted: over_grpc.py writes
and reads those of the Open Inference Protocol, tools/gpu/onnx_file.py reads ONNX files.
"""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIXED = {FIXED64: 8, FIXED32: 4}


class BadMessage(ValueError):
    """The bytes are no message."""


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, value):
    """A string, bytes, or a message that is bytes already."""
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def read_varint(data, at):
    """A number, and where the next thing begins."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise BadMessage("a number runs over the end")
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """Number and value of each field: an int, or a part of data, which stays bytes or a memoryview."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        kind = key & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
        else:
            size, at = read_varint(data, at) if kind == BYTES else (FIXED.get(kind, -1), at)
            if size < 0 or at + size > len(data):
                raise BadMessage("a field runs over the end")
            value, at = data[at : at + size], at + size
        yield key >> 3, value


def signed(value):
    """Of an int64."""
    return value - (1 << 64) if value >> 63 else value


def integers(value):
    """Of a repeated int64: packed, or one of them."""
    if isinstance(value, int):
        return [signed(value)]
    found, at = [], 0
    while at < len(value):
        one, at = read_varint(value, at)
        found.append(signed(one))
    return found
