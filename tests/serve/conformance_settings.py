"""conformance_settings.py - settings of traces and of the log, shared memory, over HTTP and gRPC; see conformance_http.py.

Each case leaves the settings as they were at the start, or the next one does.
"""
import os

from tritonclient.grpc import service_pb2 as pb

from conformance_grpc import add as add_call
from conformance_grpc import floats, request
from conformance_http import add


def settings():
    for path in ("trace/setting", "models/pair/trace/setting", "models/nope/trace/setting", "logging"):
        add(f"get {path}", f"/v2/{path}")
    for name, change in (("a rate", {"trace_rate": "7"}), ("a count", {"trace_count": "5"}),
                         ("standard", {"trace_rate": None, "trace_count": None}), ("a file", {"trace_file": "x"}),
                         ("a rate as a number", {"trace_rate": 3}), ("a rate of letters", {"trace_rate": "x"}),
                         ("a rate below 0", {"trace_rate": "-3"}), ("the rate again", {"trace_rate": None}),
                         ("a level as text", {"trace_level": "OFF"}), ("a level that is none", {"trace_level": ["NOPE"]}),
                         ("off", {"trace_level": ["OFF"]}), ("times without a file", {"trace_level": ["TIMESTAMPS"]}),
                         ("null", {"trace_level": None}), ("an unknown one", {"nope": "1"}), ("nothing", {})):
        add(f"set trace: {name}", "/v2/trace/setting", change)
    add("set trace: no JSON", "/v2/trace/setting", "{")
    add("set trace of a model", "/v2/models/pair/trace/setting", {"trace_rate": "9"})
    add("trace of another model", "/v2/models/versions/trace/setting")
    add("set trace of a model to the server's", "/v2/models/pair/trace/setting", {"trace_rate": None})
    add("trace by DELETE", "/v2/trace/setting", method="DELETE")
    for name, change in (("verbose", {"log_verbose_level": 1}), ("quiet", {"log_info": False, "log_warning": False}),
                         ("standard", {"log_info": True, "log_warning": True, "log_verbose_level": 0}),
                         ("a file", {"log_file": "x"}), ("a time", {"log_format": "ISO8601"}),
                         ("a format that is none", {"log_format": "x"}), ("no time", {"log_format": "default"}),
                         ("a level of text", {"log_verbose_level": "1"}), ("a level below 0", {"log_verbose_level": -1}),
                         ("info 1", {"log_info": 1}), ("an unknown one", {"nope": 1}), ("nothing", {})):
        add(f"set log: {name}", "/v2/logging", change)
    add("set log: no JSON", "/v2/logging", "{")


def calls():
    def trace(name, model="", **values):
        m = pb.TraceSettingRequest(model_name=model)
        for key, value in values.items():
            m.settings[key].value.extend(value)
        add_call("trace: " + name, "TraceSetting", m)

    def log(name, **values):
        m = pb.LogSettingsRequest()
        for key, value in values.items():
            kind = {bool: "bool_param", int: "uint32_param", str: "string_param"}[type(value)]
            setattr(m.settings[key], kind, value)
        add_call("log: " + name, "LogSettings", m)

    trace("get")
    trace("of a model", "pair")
    trace("of no model", "nope")
    trace("a rate", trace_rate=["7"])
    trace("standard", trace_rate=[])
    trace("two rates", trace_rate=["7", "8"])
    trace("a file", trace_file=["x"])
    trace("off", trace_level=["OFF"])
    log("get")
    log("verbose", log_verbose_level=1)
    log("standard", log_verbose_level=0)
    log("a file", log_file="x")
    log("a format that is none", log_format="x")
    log("info as a number", log_info=1)


KEY = "/moire-conformance"


def shared_memory():
    base = "/v2/systemsharedmemory"

    def register(name, region, **members):
        add(f"memory: register {name}", f"{base}/region/{region}/register", members)

    def ask(name, place, wanted=None, **more):
        x = {"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": place, **more}
        outputs = {} if wanted is None else {"outputs": [{"name": "y", "parameters": wanted}]}
        add(f"memory: infer {name}", "/v2/models/versions/infer", {"inputs": [x], **outputs})

    def place(region="a", size=16, offset=0):
        return {"shared_memory_region": region, "shared_memory_byte_size": size, "shared_memory_offset": offset}

    def call(name, method, message):
        add_call(f"memory: {name}", method, message)

    add("memory: status of nothing", f"{base}/status")
    register("a region", "a", key=KEY, offset=0, byte_size=64)
    add("memory: status", f"{base}/status")
    add("memory: status of one", f"{base}/region/a/status")
    add("memory: status of none", f"{base}/region/zz/status")
    register("it again", "a", key=KEY, offset=0, byte_size=64)
    register("no such key", "b", key=KEY + "-nope", byte_size=64)
    register("too much", "b", key=KEY, byte_size=6400)
    register("past its end", "b", key=KEY, offset=60, byte_size=64)
    register("a negative offset", "b", key=KEY, offset=-1, byte_size=64)
    register("nothing", "b", key=KEY, byte_size=0)
    register("without a size", "b", key=KEY)
    register("without a key", "b", byte_size=64)
    register("a key that leaves the folder", "b", key="/../etc/passwd", byte_size=4)
    add("memory: register with no name", f"{base}/register", "{}")
    ask("from a region", place())
    ask("to a region", place(offset=16), place(offset=32, size=32))
    ask("to the region and back", place(offset=32))
    ask("past the end", place(offset=49))
    ask("a size that is another", place(size=20))
    ask("without a size", {"shared_memory_region": "a"})
    ask("of no region", place("zz"))
    ask("to no region", place(), place("zz"))
    ask("to a region that is too small", place(), place(size=8))
    ask("with data besides", place(), data=[1, 2, 3, 4])
    add("memory: unregister", f"{base}/region/a/unregister", "")
    add("memory: unregister again", f"{base}/region/a/unregister", "")
    ask("of what was unregistered", place())
    add("memory: unregister all", f"{base}/unregister", "")
    add("memory: status by POST", f"{base}/status", "")
    add("memory: CUDA status", "/v2/cudasharedmemory/status")
    add("memory: CUDA register", "/v2/cudasharedmemory/region/a/register",
        {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 4})
    add("memory: CUDA unregister", "/v2/cudasharedmemory/unregister", "")

    call("register a region", "SystemSharedMemoryRegister", pb.SystemSharedMemoryRegisterRequest(name="a", key=KEY, byte_size=64))
    call("status", "SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest())
    call("status of none", "SystemSharedMemoryStatus", pb.SystemSharedMemoryStatusRequest(name="zz"))
    call("register too much", "SystemSharedMemoryRegister", pb.SystemSharedMemoryRegisterRequest(name="b", key=KEY, byte_size=6400))
    call("infer from a region", "ModelInfer", request(raw=[], input_parameters=place()))
    call("infer to a region", "ModelInfer", request(raw=[], input_parameters=place(), outputs=["y"], output_parameters=place(offset=32)))
    call("infer of no region", "ModelInfer", request(raw=[], input_parameters=place("zz")))
    call("infer past the end", "ModelInfer", request(raw=[], input_parameters=place(offset=60)))
    call("infer with raw besides", "ModelInfer", request(input_parameters=place()))
    call("unregister", "SystemSharedMemoryUnregister", pb.SystemSharedMemoryUnregisterRequest(name="a"))
    call("CUDA status", "CudaSharedMemoryStatus", pb.CudaSharedMemoryStatusRequest())
    call("CUDA unregister", "CudaSharedMemoryUnregister", pb.CudaSharedMemoryUnregisterRequest())


class Memory:
    """The shared memory that the cases register; it begins with 1, 2, 3, 4."""

    def __enter__(self):
        with open("/dev/shm" + KEY, "wb") as f:
            f.write(floats(1, 2, 3, 4, *range(12)))

    def __exit__(self, *_):
        os.unlink("/dev/shm" + KEY)


settings()
calls()
shared_memory()
