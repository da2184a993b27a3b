# SPDX-License-Identifier: Apache-2.0
"""datatypes.py - what the Open Inference Protocol calls types of tensors, and how long its answers may take."""

import numpy

ANSWER_S = 300
TYPES = {
    "BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64", "INT8": "int8",
    "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16", "FP32": "float32", "FP64": "float64",
}  # fmt: skip
NAMES = {numpy.dtype(name): word for word, name in TYPES.items()}
