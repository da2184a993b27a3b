"""conformance_http.py - requests over HTTP that Triton and moire are asked alike.

A case is (name, how, request).  how: "same": the answers are equal; "form": they have the same members and types.
"""
import gzip
import json
import struct
import zlib

CASES = []
X = [[1.0, 2.0, 3.0, 4.0]]
READY = {"method": "GET", "path": "/v2/health/ready", "body": None, "headers": {}}


def add(name, path, body=None, method=None, how="same", **headers):
    if isinstance(body, (dict, list)):
        body = json.dumps(body)
    if isinstance(body, str):
        body = body.encode()
    CASES.append((name, how, {"method": method or ("GET" if body is None else "POST"), "path": path, "body": body,
                              "headers": {k.replace("_", "-"): v for k, v in headers.items()}}))


def tensor(name="x", data=None, shape=None, datatype="FP32", **more):
    made = {"name": name, "shape": [1, 4] if shape is None else shape, "datatype": datatype,
            "data": X if data is None else data, **more}
    return {k: v for k, v in made.items() if v != "none"}


def infer(name, inputs, model="versions", **members):
    members = {"inputs": inputs, **members}
    add("infer: " + name, f"/v2/models/{model}/infer", members)


def binary(name, inputs, tensors, model="versions", length=None, headers=None, **members):
    text = json.dumps({"inputs": inputs, **members}).encode()
    add("binary: " + name, f"/v2/models/{model}/infer", text + b"".join(tensors),
        Inference_Header_Content_Length=str(len(text)) if length is None else length, **(headers or {}))


def raw(name, body, model="versions", length="0"):
    add("raw: " + name, f"/v2/models/{model}/infer", body, Inference_Header_Content_Length=length)


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def strings(*values):
    return b"".join(struct.pack("<I", len(v)) + v for v in values)


def binary_tensor(size, **more):
    return tensor(data="none", parameters={"binary_data_size": size}, **more)


# --- paths -------------------------------------------------------------------------------------------------
def documents():
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/health/nope", "/v2/health", "/", "/v3", "/v2x",
                 "/v2/nope"):
        add("path " + path, path)
    add("server metadata", "/v2", how="form")
    add("server metadata with a slash", "/v2/", how="form")
    add("server metadata by POST", "/v2", "{}")
    add("live by POST", "/v2/health/live", "{}")
    add("live by HEAD", "/v2/health/live", method="HEAD")
    add("live by DELETE", "/v2/health/live", method="DELETE")
    add("live with a query", "/v2/health/live?a=b")
    for what, how in (("", "same"), ("/ready", "same"), ("/config", "form"), ("/stats", "form")):
        label = what.strip("/") or "metadata"
        for of, path in (("a model", "pair"), ("a version", "pair/versions/1"), ("no such model", "nope"),
                         ("no such version", "pair/versions/9"), ("a word as version", "pair/versions/one"),
                         ("version 01", "pair/versions/01"), ("version -1", "pair/versions/-1"),
                         ("a version of 30 digits", "pair/versions/" + "1" * 30), ("an escaped name", "p%61ir"),
                         ("a batched model", "batched"), ("many versions", "versions")):
            add(f"{label} of {of}", f"/v2/models/{path}{what}", how=how)
        add(f"{label} by POST", f"/v2/models/pair{what}", "{}")
    add("all stats", "/v2/models/stats", how="form")
    add("models without a name", "/v2/models/", how="form")
    add("a model with a slash", "/v2/models/pair/")
    add("two slashes", "/v2//models/pair")
    add("nothing of a model", "/v2/models/pair/nope")


# --- infer by JSON -----------------------------------------------------------------------------------------
def forms():
    infer("nested", [tensor()])
    infer("flat", [tensor(data=X[0])])
    infer("nested deeper than the shape", [tensor(data=[[[1], [2], [3], [4]]])])
    infer("nested otherwise", [tensor(data=[[1, 2], [3, 4]])])
    infer("half nested", [tensor(data=[1, 2, [3, 4]])])
    infer("whole numbers", [tensor(data=[1, 2, 3, 4])])
    infer("three rows", [tensor(data=[float(i) for i in range(12)], shape=[3, 4])])
    infer("no rows", [tensor(data=[], shape=[0, 4])])
    infer("an id", [tensor()], id="one two")
    infer("an empty id", [tensor()], id="")
    infer("an id that is a number", [tensor()], id=7)
    infer("an id of odd characters", [tensor()], id="\u00e4\"\\\n\u2603")
    infer("parameters of its own", [tensor()], parameters={"a": "b", "n": 1, "f": 1.5, "t": True})
    infer("a parameter that is null", [tensor()], parameters={"a": None})
    infer("a parameter that is an object", [tensor()], parameters={"a": {}})
    infer("parameters that are a list", [tensor()], parameters=[])
    infer("a reserved parameter", [tensor()], parameters={"triton_x": "1"})
    infer("an unknown member", [tensor()], nothing=1)
    infer("an input with an unknown member", [tensor(nothing=1)])
    infer("an input with unknown parameters", [tensor(parameters={"nothing": 1})])
    a, b = tensor("a"), tensor("b", data=[4, 3, 2, 1])
    infer("two inputs", [a, b], "pair")
    infer("inputs in another order", [b, a], "pair")
    infer("one output", [a, b], "pair", outputs=[{"name": "difference"}])
    infer("outputs in another order", [a, b], "pair", outputs=[{"name": "difference"}, {"name": "sum"}])
    infer("an output twice", [a, b], "pair", outputs=[{"name": "sum"}, {"name": "sum"}])
    infer("no outputs", [a, b], "pair", outputs=[])
    infer("an output that is not there", [a, b], "pair", outputs=[{"name": "nope"}])
    infer("an output without a name", [a, b], "pair", outputs=[{}])
    infer("outputs that are no list", [a, b], "pair", outputs={})
    infer("binary outputs", [a, b], "pair", parameters={"binary_data_output": True})
    infer("binary outputs but one", [a, b], "pair", parameters={"binary_data_output": True},
          outputs=[{"name": "sum", "parameters": {"binary_data": False}}, {"name": "difference"}])
    infer("one binary output", [a, b], "pair",
          outputs=[{"name": "sum", "parameters": {"binary_data": True}}, {"name": "difference"}])
    infer("binary_data that is a number", [a, b], "pair", outputs=[{"name": "sum", "parameters": {"binary_data": 1}}])
    infer("output parameters unknown", [a, b], "pair", outputs=[{"name": "sum", "parameters": {"nothing": 1}}])
    for version in ("1", "2", "3"):
        add(f"infer: version {version}", f"/v2/models/versions/versions/{version}/infer", {"inputs": [tensor()]})
    infer("model not there", [tensor()], "nope")
    infer("batch of 4", [tensor(data=list(range(16)), shape=[4, 4])], "batched")
    infer("batch of 5", [tensor(data=list(range(20)), shape=[5, 4])], "batched")
    infer("batch of 0", [tensor(data=[], shape=[0, 4])], "batched")
    infer("no batch dimension", [tensor(shape=[4])], "batched")


def parameters():
    for name, value in (("1", 1), ("3", 3), ("9", 9), ("0", 0), ("-1", -1), ("'1'", "1"), ("1.5", 1.5), ("2^63", 2**63)):
        infer(f"priority {name}", [tensor()], "batched", parameters={"priority": value})
    infer("priority where there are no levels", [tensor()], parameters={"priority": 1})
    for name, value in (("10 s", 10**7), ("0", 0), ("-1", -1), ("'1'", "1"), ("1.5", 1.5)):
        infer(f"timeout {name}", [tensor()], "batched", parameters={"timeout": value})
    infer("timeout where there is no queue policy", [tensor()], parameters={"timeout": 10**7})
    infer("sequence_id", [tensor()], parameters={"sequence_id": 5, "sequence_start": True, "sequence_end": True})
    infer("sequence_id 0", [tensor()], parameters={"sequence_id": 0})
    infer("sequence_id as text", [tensor()], parameters={"sequence_id": "a"})
    infer("sequence_id as a list", [tensor()], parameters={"sequence_id": []})


def classification():
    row = [tensor(data=[0.5, -1, 3, 2])]
    for n in (1, 2, 4, 9, 0, -1, "2", 1.5):
        infer(f"classification {n!r}", row, "labelled", outputs=[{"name": "y", "parameters": {"classification": n}}])
    infer("classification of a batch", [tensor(data=[1, 2, 3, 4, 8, 7, 6, 5], shape=[2, 4])], "labelled",
          outputs=[{"name": "y", "parameters": {"classification": 3}}])
    infer("classification as binary data", row, "labelled",
          outputs=[{"name": "y", "parameters": {"classification": 2, "binary_data": True}}])
    infer("classification of equals", [tensor(data=[1, 1, 1, 1])], "labelled",
          outputs=[{"name": "y", "parameters": {"classification": 4}}])
    infer("classification without labels", row, "batched", outputs=[{"name": "y", "parameters": {"classification": 2}}])
    infer("classification without a batch", row, outputs=[{"name": "y", "parameters": {"classification": 2}}])
    infer("classification of whole numbers", [tensor(data=[3, 9, 5], shape=[3], datatype="INT32")], "same_INT32",
          outputs=[{"name": "y", "parameters": {"classification": 2}}])
    infer("classification of booleans", [tensor(data=[True], shape=[1], datatype="BOOL")], "same_BOOL",
          outputs=[{"name": "y", "parameters": {"classification": 1}}])


def values():
    def one(datatype, label, data):
        infer(f"{datatype} {label}", [tensor(data=data, shape=[len(data)], datatype=datatype)], f"same_{datatype}")

    for bits in (8, 16, 32, 64):
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        one(f"INT{bits}", "ends", [low, 0, high])
        one(f"INT{bits}", "too high", [high + 1])
        one(f"INT{bits}", "too low", [low - 1])
        one(f"UINT{bits}", "ends", [0, (1 << bits) - 1])
        one(f"UINT{bits}", "too high", [1 << bits])
        one(f"UINT{bits}", "negative", [-1])
    for label, value in (("a fraction", 1.5), ("1.0", 1.0), ("true", True), ("text", "1"), ("null", None)):
        one("INT32", label, [value])
        one("FP32", label, [value])
        one("BOOL", label, [value])
    one("BOOL", "both", [True, False])
    one("BOOL", "0 and 1", [0, 1])
    one("BOOL", "2", [2])
    one("FP32", "extremes", [0.1, -1e-38, 3.4e38, 1e-45, -0.0])
    one("FP32", "too large", [1e39])
    one("FP32", "precise", [1 / 3, 16777217, 123456.789])
    one("FP64", "extremes", [0.1, 1e308, 5e-324, 1 / 3])
    one("FP16", "as JSON", [1.0])
    one("BYTES", "text", ["ab", "", "\u00e4"])
    one("BYTES", "a number", [1])
    for datatype, data in (("FP32", floats(float("nan"))), ("FP32", floats(float("inf"))),
                           ("FP16", struct.pack("<2e", 1.5, -2)), ("BYTES", strings(b"a", b""))):
        shape = [2] if datatype in ("FP16", "BYTES") else [1]
        for out in (False, True):
            binary(f"{datatype} {data.hex()} {'to binary' if out else 'to JSON'}",
                   [binary_tensor(len(data), shape=shape, datatype=datatype)], [data], f"same_{datatype}",
                   outputs=[{"name": "y", "parameters": {"binary_data": out}}])
    for label, data in (("cut", strings(b"abc")[:-1]), ("one too many", strings(b"a", b"b", b"c")),
                        ("a length too large", struct.pack("<I", 9) + b"a" * 5), ("one too few", strings(b"a"))):
        binary(f"BYTES {label}", [binary_tensor(len(data), shape=[2], datatype="BYTES")], [data], "same_BYTES")


def faults():
    infer("wrong input name", [tensor("nope")])
    infer("one input too many", [tensor(), tensor("more")])
    infer("an input twice", [tensor(), tensor()])
    infer("an input is missing", [tensor("a")], "pair")
    infer("other datatype", [tensor(datatype="INT32", data=[1, 2, 3, 4])])
    infer("no such datatype", [tensor(datatype="FP31")])
    infer("a datatype in small letters", [tensor(datatype="fp32")])
    infer("a datatype that is a number", [tensor(datatype=1)])
    infer("BYTES for numbers", [tensor(datatype="BYTES", data=["a", "b", "c", "d"])])
    for name in ("name", "shape", "datatype", "data"):
        infer(f"no {name}", [{k: v for k, v in tensor().items() if k != name}])
    for name, shape in (("no list", 4), ("text", ["1", "4"]), ("a fraction", [1.0, 4.0]), ("negative", [-1, 4]),
                        ("both negative", [-1, -4]), ("another rank", [4]), ("rank 0", []), ("another dimension", [1, 5]),
                        ("larger than the data", [2, 4]), ("huge", [2**40, 4]), ("overflowing", [2**62, 4]),
                        ("beyond 64 bits", [2**64, 4]), ("9 dimensions", [1] * 8 + [4])):
        infer(f"shape {name}", [tensor(shape=shape)])
    infer("too few data", [tensor(data=[1, 2, 3])])
    infer("too many data", [tensor(data=[1, 2, 3, 4, 5])])
    infer("no data at all", [tensor(data=[])])
    infer("data that are a number", [tensor(data=1)])
    infer("data that are an object", [tensor(data={})])
    infer("data of text", [tensor(data=["1", "2", "3", "4"])])
    infer("no inputs", [])
    infer("inputs that are an object", {})
    infer("an input that is a number", [1])
    path = "/v2/models/versions/infer"
    for name, body in (("empty", ""), ("no JSON", "{"), ("a list", "[]"), ("a number", "1"), ("an object", "{}"),
                       ("with an end that is none", json.dumps({"inputs": [tensor()]}) + "x"),
                       ("with two objects", json.dumps({"inputs": [tensor()]}) + "{}"),
                       ("with a comma too many", '{"inputs":[],}'), ("with NaN", '{"inputs":[NaN]}'),
                       ("with a member twice", '{"id":"a","id":"b","inputs":[' + json.dumps(tensor()) + "]}"),
                       ("nested deep", '{"inputs":' + "[" * 3000 + "]" * 3000 + "}")):
        add("body: " + name, path, body)
    add("body: no UTF-8", path, b'{"inputs":[],"id":"\xff\xfe"}')
    add("infer by GET", path)
    add("infer by PUT", path, "{}", method="PUT")


# --- binary data -------------------------------------------------------------------------------------------
def binaries():
    data = floats(*X[0])
    binary("one input", [binary_tensor(16)], [data])
    binary("to binary", [binary_tensor(16)], [data], parameters={"binary_data_output": True})
    binary("beside JSON", [binary_tensor(16, name="b"), tensor("a")], [data], "pair")
    binary("size too small", [binary_tensor(12)], [data])
    binary("size too large", [binary_tensor(20)], [data + b"abcd"])
    binary("fewer bytes than it says", [binary_tensor(16)], [data[:8]])
    binary("bytes behind the last", [binary_tensor(16)], [data, b"abcd"])
    binary("a size that is text", [binary_tensor("16")], [data])
    binary("a negative size", [binary_tensor(-16)], [data])
    binary("data besides", [tensor(parameters={"binary_data_size": 16})], [data])
    binary("header too large", [binary_tensor(16)], [data], length="99999")
    binary("header too small", [binary_tensor(16)], [data], length="10")
    binary("header of letters", [binary_tensor(16)], [data], length="abc")
    binary("header negative", [binary_tensor(16)], [data], length="-1")
    binary("header huge", [binary_tensor(16)], [data], length="9" * 30)
    text = json.dumps({"inputs": [binary_tensor(16)]})
    add("binary: no header", "/v2/models/versions/infer", text.encode() + data)
    raw("one row", data, "batched")
    raw("two inputs", data, "pair")
    raw("a size that is none", data[:-1], "batched")
    raw("a type of 8 bits", b"\1\2\3", "same_UINT8")
    raw("nothing", b"", "batched")
    raw("strings", strings(b"abc"), "same_BYTES")


def codings():
    body = json.dumps({"inputs": [tensor()]}).encode()
    path = "/v2/models/versions/infer"
    for name, coding, data in (("gzip", "gzip", gzip.compress(body)), ("deflate", "deflate", zlib.compress(body)),
                               ("gzip that is none", "gzip", body), ("identity", "identity", body),
                               ("br", "br", body), ("a cut gzip", "gzip", gzip.compress(body)[:-12])):
        add("coding: " + name, path, data, Content_Encoding=coding)
    large = json.dumps({"inputs": [tensor(data=[1.0] * 4000, shape=[1000, 4])]})
    for accepted in ("gzip", "deflate", "gzip, deflate", "br", "*", "identity"):
        add(f"coding: accept {accepted}", path, large, Accept_Encoding=accepted)
    add("content type text", path, body, Content_Type="text/plain")
    add("expect 100-continue", path, body, Expect="100-continue")
    add("expect something else", path, body, Expect="nothing")


def repository():
    add("index", "/v2/repository/index", "{}", how="form")
    add("index of the ready", "/v2/repository/index", {"ready": True}, how="form")
    add("index with nothing", "/v2/repository/index", "", how="form")
    add("index of no JSON", "/v2/repository/index", "{")
    add("index of a list", "/v2/repository/index", "[]")
    add("index of a text as ready", "/v2/repository/index", {"ready": "yes"})
    add("index by GET", "/v2/repository/index")
    spare = "/v2/repository/models/spare/"
    add("unload", spare + "unload", "{}")
    add("ready of an unloaded model", "/v2/models/spare/ready")
    add("metadata of an unloaded model", "/v2/models/spare")
    add("infer on an unloaded model", "/v2/models/spare/infer", {"inputs": [tensor()]})
    add("stats of an unloaded model", "/v2/models/spare/stats")
    add("unload again", spare + "unload", "{}")
    add("unload dependents", spare + "unload", {"parameters": {"unload_dependents": True}})
    add("load", spare + "load", "{}")
    add("load again", spare + "load", "")
    add("load with no JSON", spare + "load", "{")
    add("load with a list", spare + "load", "[]")
    add("load with a parameter unknown", spare + "load", {"parameters": {"nothing": "1"}})
    add("load with a configuration", spare + "load", {"parameters": {"config": "{\"backend\": \"python\"}"}})
    add("load with a file alone", spare + "load", {"parameters": {"file:1/model.onnx": "AAAA"}})
    add("load no such model", "/v2/repository/models/nope/load", "{}")
    add("unload no such model", "/v2/repository/models/nope/unload", "{}")
    add("load by GET", spare + "load")


for group in (documents, forms, parameters, classification, values, faults, binaries, codings, repository):
    group()
