"""conformance_grpc.py - calls over gRPC that Triton and moire are asked alike; see conformance_http.py.

A case is (name, how, (method, request)); the request is a message, bytes, or a list of messages for a stream.
"""
import struct

from tritonclient.grpc import service_pb2 as pb

CASES = []


def add(name, method, request, how="same"):
    CASES.append(("grpc " + name, how, (method, request)))


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def parameter(value):
    kind = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}[type(value)]
    return pb.InferParameter(**{kind: value})


def put_parameters(to, values):
    for key, value in values.items():
        to[key].CopyFrom(parameter(value))


def request(model="versions", version="", id="", raw=None, inputs=(("x", "FP32", [1, 4]),), outputs=(), parameters=None,
            contents=None, input_parameters=None, output_parameters=None):
    m = pb.ModelInferRequest(model_name=model, model_version=version, id=id)
    for name, datatype, shape in inputs:
        t = m.inputs.add(name=name, datatype=datatype, shape=shape)
        put_parameters(t.parameters, input_parameters or {})
        if contents:
            t.contents.CopyFrom(pb.InferTensorContents(**contents))
    for name in outputs:
        put_parameters(m.outputs.add(name=name).parameters, output_parameters or {})
    put_parameters(m.parameters, parameters or {})
    if raw is None and not contents:
        raw = [floats(1, 2, 3, 4)] * len(inputs)
    m.raw_input_contents.extend(raw or [])
    return m


def infer(name, **members):
    add("infer: " + name, "ModelInfer", request(**members))


def documents():
    add("live", "ServerLive", pb.ServerLiveRequest())
    add("ready", "ServerReady", pb.ServerReadyRequest())
    add("server metadata", "ServerMetadata", pb.ServerMetadataRequest(), "form")
    for method, kind, how in (("ModelReady", pb.ModelReadyRequest, "same"), ("ModelMetadata", pb.ModelMetadataRequest, "same"),
                              ("ModelConfig", pb.ModelConfigRequest, "form"),
                              ("ModelStatistics", pb.ModelStatisticsRequest, "form")):
        for of, name, version in (("a model", "pair", ""), ("a version", "pair", "1"), ("no such model", "nope", ""),
                                  ("no such version", "pair", "9"), ("a word as version", "pair", "one"),
                                  ("version 01", "pair", "01"), ("a batched model", "batched", ""), ("no name", "", ""),
                                  ("many versions", "versions", "")):
            add(f"{method} of {of}", method, kind(name=name, version=version), how)
    for service in ("", "inference.GRPCInferenceService", "nope"):
        add(f"health of '{service}'", "/grpc.health.v1.Health/Check", b"\n" + bytes([len(service)]) + service.encode())
    add("a method that is not there", "Nope", b"")
    add("a service that is not there", "/nope.Nope/Nope", b"")
    add("malformed", "ModelInfer", b"\xff\xff")
    add("malformed metadata request", "ModelMetadata", b"\x0a\xff")


def infers():
    infer("raw")
    infer("contents", contents={"fp32_contents": [1, 2, 3, 4]})
    infer("both", contents={"fp32_contents": [1, 2, 3, 4]}, raw=[floats(1, 2, 3, 4)])
    infer("contents of another type", contents={"int_contents": [1, 2, 3, 4]})
    infer("contents of two types", contents={"fp32_contents": [1, 2, 3, 4], "int_contents": [1]})
    infer("too few contents", contents={"fp32_contents": [1, 2, 3]})
    infer("too many contents", contents={"fp32_contents": [1, 2, 3, 4, 5]})
    infer("neither", raw=[])
    infer("raw too short", raw=[floats(1, 2, 3)])
    infer("raw too long", raw=[floats(1, 2, 3, 4, 5)])
    infer("more raw than inputs", raw=[floats(1, 2, 3, 4)] * 2)
    infer("an id", id="an id")
    for version in ("1", "2", "3", "x"):
        infer(f"version {version}", version=version)
    infer("model not there", model="nope")
    infer("no model", model="")
    two = (("a", "FP32", [1, 4]), ("b", "FP32", [1, 4]))
    infer("two inputs", model="pair", inputs=two)
    infer("fewer raw than inputs", model="pair", inputs=two, raw=[floats(1, 2, 3, 4)])
    infer("one output", model="pair", inputs=two, outputs=["difference"])
    infer("outputs in another order", model="pair", inputs=two, outputs=["difference", "sum"])
    infer("an output twice", model="pair", inputs=two, outputs=["sum", "sum"])
    infer("an output that is not there", outputs=["nope"])
    infer("wrong input", inputs=(("nope", "FP32", [1, 4]),))
    infer("an input twice", inputs=(("x", "FP32", [1, 4]),) * 2)
    infer("an input is missing", model="pair", inputs=two[:1])
    infer("no inputs", inputs=())
    infer("other datatype", inputs=(("x", "INT32", [1, 4]),))
    infer("no such datatype", inputs=(("x", "FP31", [1, 4]),))
    infer("no datatype", inputs=(("x", "", [1, 4]),))
    for name, shape in (("negative", [-1, 4]), ("another rank", [4]), ("rank 0", []), ("another dimension", [1, 5]),
                        ("larger than the data", [2, 4]), ("overflowing", [2**62, 4]), ("9 dimensions", [1] * 8 + [4])):
        infer(f"shape {name}", inputs=(("x", "FP32", shape),))
    infer("no rows", inputs=(("x", "FP32", [0, 4]),), raw=[b""])
    infer("batch of 5", model="batched", inputs=(("x", "FP32", [5, 4]),), raw=[floats(*range(20))])
    infer("classification", model="labelled", outputs=["y"], output_parameters={"classification": 2})
    infer("classification as text", model="labelled", outputs=["y"], output_parameters={"classification": "2"})
    infer("classification 0", model="labelled", outputs=["y"], output_parameters={"classification": 0})
    infer("classification without labels", outputs=["y"], output_parameters={"classification": 2})
    for name, values in (("of its own", {"a": "b", "n": 1, "f": 1.5, "t": True}), ("priority 1", {"priority": 1}),
                         ("priority 9", {"priority": 9}), ("priority -1", {"priority": -1}),
                         ("priority as text", {"priority": "1"}), ("timeout", {"timeout": 10**7}),
                         ("timeout -1", {"timeout": -1}), ("timeout as text", {"timeout": "1"}),
                         ("sequence_id", {"sequence_id": 5, "sequence_start": True, "sequence_end": True}),
                         ("sequence_id as text", {"sequence_id": "a"}), ("reserved", {"triton_x": "1"}),
                         ("binary_data_output", {"binary_data_output": True})):
        infer("parameters " + name, model="batched", parameters=values)


def types():
    for datatype, field, data in (("BOOL", "bool_contents", [True, False]), ("INT8", "int_contents", [-128, 127]),
                                  ("INT16", "int_contents", [-1, 1]), ("INT32", "int_contents", [-2**31, 1]),
                                  ("INT64", "int64_contents", [-2**63, 1]), ("UINT8", "uint_contents", [0, 255]),
                                  ("UINT16", "uint_contents", [0, 65535]), ("UINT32", "uint_contents", [0, 2**32 - 1]),
                                  ("UINT64", "uint64_contents", [0, 2**64 - 1]), ("FP64", "fp64_contents", [0.1, 2]),
                                  ("FP16", "fp32_contents", [1, 2]), ("BYTES", "bytes_contents", [b"a", b""])):
        infer(f"{datatype} contents", model=f"same_{datatype}", inputs=(("x", datatype, [2]),), contents={field: data})
    infer("INT8 out of range", model="same_INT8", inputs=(("x", "INT8", [1]),), contents={"int_contents": [300]})
    infer("UINT8 out of range", model="same_UINT8", inputs=(("x", "UINT8", [1]),), contents={"uint_contents": [300]})
    infer("FP16 raw", model="same_FP16", inputs=(("x", "FP16", [2]),), raw=[struct.pack("<2e", 1, 2)])
    infer("BYTES raw", model="same_BYTES", inputs=(("x", "BYTES", [1]),), raw=[b"\1\0\0\0a"])
    infer("BYTES cut", model="same_BYTES", inputs=(("x", "BYTES", [1]),), raw=[b"\5\0\0\0a"])
    infer("BOOL raw", model="same_BOOL", inputs=(("x", "BOOL", [2]),), raw=[b"\1\0"])


def streams():
    add("stream", "ModelStreamInfer", [request(id="1"), request(id="2", version="1"), request(id="3")])
    add("stream with an error", "ModelStreamInfer", [request(id="1"), request(model="nope", id="2"), request(id="3")])
    add("stream of nothing", "ModelStreamInfer", [])


def repository():
    add("index", "RepositoryIndex", pb.RepositoryIndexRequest(), "form")
    add("index of the ready", "RepositoryIndex", pb.RepositoryIndexRequest(ready=True), "form")
    add("unload", "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="spare"))
    add("infer on an unloaded model", "ModelInfer", request(model="spare"))
    add("metadata of an unloaded model", "ModelMetadata", pb.ModelMetadataRequest(name="spare"))
    add("load", "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="spare"))
    add("load no such model", "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name="nope"))
    add("unload no such model", "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(model_name="nope"))
    m = pb.RepositoryModelLoadRequest(model_name="spare")
    m.parameters["nothing"].string_param = "1"
    add("load with a parameter unknown", "RepositoryModelLoad", m)


for group in (documents, infers, types, streams, repository):
    group()
