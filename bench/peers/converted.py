# SPDX-License-Identifier: Apache-2.0
"""converted.py - what the runners share whose system reads a format of its own: the one model they are asked
for, and its inputs as the ONNX file declares them."""
import os

import onnx


def only_tenant(job, system):
    """The tenant of a job that measures one model alone; its file by its absolute path, as converters run in folders
    of their own."""
    if job["arrangement"] != "solo" or len(job["tenants"]) != 1:
        raise RuntimeError(f"{system} is measured alone only")
    tenant = job["tenants"][0]
    return tenant | {"model": os.path.abspath(tenant["model"])}


def inputs_of(tenant, types):
    """(name, dims, types[its ONNX type]) of each input.  A batch that the file leaves open is 1; any other open
    dimension needs a shape from the command line."""
    shapes = tenant.get("shapes", {})
    graph = onnx.load(tenant["model"], load_external_data=False).graph
    weights = {w.name for w in graph.initializer}
    for port in graph.input:
        if port.name in weights:
            continue
        tensor = port.type.tensor_type
        dims = shapes.get(port.name) or [d.dim_value or (1 if i == 0 else 0) for i, d in enumerate(tensor.shape.dim)]
        if 0 in dims:
            raise ValueError(f"input '{port.name}' needs a shape (--shape {port.name}=...)")
        if tensor.elem_type not in types:
            raise ValueError(f"input '{port.name}' has a type that this runner does not feed")
        yield port.name, tuple(dims), types[tensor.elem_type]
