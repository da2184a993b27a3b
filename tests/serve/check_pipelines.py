"""check_pipelines.py - ensembles of `moire serve`, with stock clients, against ONNX Runtime chained by hand."""
import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import numpy
import onnx
import onnxruntime
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import serve_bed  # noqa: E402

BOTH = """name: "reader"
platform: "ensemble"
input { name: "IMAGE" data_type: TYPE_UINT8 dims: [ -1, 32, 32, 1 ] }
output { name: "CLASS" data_type: TYPE_INT64 dims: [ -1 ] }
output { name: "SCORE" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "PIXELS" data_type: TYPE_FP32 dims: [ -1, 1, 32, 32 ] }
ensemble_scheduling {
  max_inflight_requests: 4
  step { model_name: "post" model_version: -1
    input_map { key: "scores" value: "scores" }
    output_map { key: "class" value: "CLASS" } output_map { key: "score" value: "SCORE" } }
  step { model_name: "pre" model_version: -1
    input_map { key: "image" value: "IMAGE" } output_map { key: "pixels" value: "PIXELS" } }
  step { model_name: "lenet" model_version: 1
    input_map { key: "input" value: "PIXELS" } output_map { key: "output" value: "scores" } }
}
parameters { key: "qos_ms" value: { string_value: "500" } }
"""


def save(folder, name, nodes, inputs, outputs, constants=()):
    def port(p):
        return helper.make_tensor_value_info(*p)
    graph = helper.make_graph(nodes, name, [port(p) for p in inputs], [port(p) for p in outputs], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, os.path.join(folder, name + ".onnx"))


def make_repository(moire, folder):
    subprocess.run([moire, "zoo", "build", "lenet", "-o", os.path.join(folder, "lenet.onnx")], check=True,
                   stdout=subprocess.DEVNULL)
    scale = onnx.numpy_helper.from_array(numpy.array(255, numpy.float32), "scale")
    save(folder, "pre", [helper.make_node("Cast", ["image"], ["f"], to=TensorProto.FLOAT),
                         helper.make_node("Transpose", ["f"], ["t"], perm=[0, 3, 1, 2]),
                         helper.make_node("Div", ["t", "scale"], ["pixels"])],
         [("image", TensorProto.UINT8, ["N", 32, 32, 1])], [("pixels", TensorProto.FLOAT, ["N", 1, 32, 32])], [scale])
    save(folder, "post", [helper.make_node("Softmax", ["scores"], ["p"], axis=1),
                          helper.make_node("ArgMax", ["p"], ["class"], axis=1, keepdims=0),
                          helper.make_node("ReduceMax", ["p"], ["score"], axes=[1], keepdims=0)],
         [("scores", TensorProto.FLOAT, ["N", 10])],
         [("class", TensorProto.INT64, ["N"]), ("score", TensorProto.FLOAT, ["N"])])
    lenet = onnx.load(os.path.join(folder, "lenet.onnx"))
    name = lenet.graph.output[0].name
    os.makedirs(os.path.join(folder, "reader", "1"))
    with open(os.path.join(folder, "reader", "config.pbtxt"), "w", encoding="utf-8") as f:
        f.write(BOTH.replace('key: "output"', f'key: "{name}"'))
    sessions = {m: onnxruntime.InferenceSession(os.path.join(folder, m + ".onnx"), providers=["CPUExecutionProvider"])
                for m in ("pre", "lenet", "post")}

    def reference(image):
        pixels = sessions["pre"].run(None, {"image": image})[0]
        scores = sessions["lenet"].run(None, {"input": pixels})[0]
        cls, score = sessions["post"].run(None, {"scores": scores})
        return {"CLASS": cls, "SCORE": score, "PIXELS": pixels}
    return reference


def draw(n, seed):
    return numpy.random.default_rng(seed).integers(0, 256, (n, 32, 32, 1), dtype=numpy.uint8)


def same(got, wanted):
    for name, value in wanted.items():
        array = got(name)
        assert array is not None, name
        assert array.dtype == value.dtype and array.shape == value.shape, (name, array.shape, value.shape)
        if value.dtype == numpy.float32:
            assert numpy.abs(array - value).max() <= 1e-5, name
        else:
            assert (array == value).all(), name


def ask_http(client, image, binary=True, **options):
    x = tritonclient.http.InferInput("IMAGE", image.shape, "UINT8")
    x.set_data_from_numpy(image, binary_data=binary)
    wanted = [tritonclient.http.InferRequestedOutput(n, binary_data=binary) for n in ("CLASS", "SCORE", "PIXELS")]
    return client.infer("reader", [x], outputs=wanted, **options)


def ask_grpc(client, image, **options):
    x = tritonclient.grpc.InferInput("IMAGE", image.shape, "UINT8")
    x.set_data_from_numpy(image)
    return client.infer("reader", [x], **options)


def fails(call, text):
    try:
        call()
    except tritonclient.utils.InferenceServerException as e:
        assert text in e.message(), e.message()
        return
    raise AssertionError(f"no fault that says '{text}'")


def answers_are_right(bed, reference):
    grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
    for n in (1, 2, 5):
        for binary in (True, False):
            image = draw(n, n)
            same(ask_http(bed.http, image, binary).as_numpy, reference(image))
        same(ask_grpc(grpc, image).as_numpy, reference(image))
    only = bed.http.infer("reader", [ready_input(draw(1, 7))],
                          outputs=[tritonclient.http.InferRequestedOutput("CLASS")])
    assert [o["name"] for o in only.get_response()["outputs"]] == ["CLASS"]
    grpc.close()


def ready_input(image):
    x = tritonclient.http.InferInput("IMAGE", image.shape, "UINT8")
    x.set_data_from_numpy(image)
    return x


def documents_are_triton_s(bed):
    grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
    meta = bed.http.get_model_metadata("reader")
    assert meta["platform"] == "ensemble" and [i["name"] for i in meta["inputs"]] == ["IMAGE"]
    assert meta["outputs"][2] == {"name": "PIXELS", "datatype": "FP32", "shape": [-1, 1, 32, 32]}
    config = bed.http.get_model_config("reader")
    assert config["platform"] == "ensemble" and config["ensemble_scheduling"]["max_inflight_requests"] == 4
    steps = config["ensemble_scheduling"]["step"]
    assert [s["model_name"] for s in steps] == ["post", "pre", "lenet"] and steps[2]["model_version"] == 1
    over = grpc.get_model_config("reader").config
    assert over.platform == "ensemble" and over.ensemble_scheduling.max_inflight_requests == 4
    assert over.ensemble_scheduling.step[0].output_map["class"] == "CLASS"
    assert grpc.get_model_metadata("reader").platform == "ensemble"
    stats = {s["name"]: s["inference_stats"]["success"]["count"]
             for s in bed.http.get_inference_statistics()["model_stats"]}
    assert stats["reader"] > 0 and stats["pre"] == stats["lenet"] == stats["post"] == stats["reader"], stats
    index = {m["name"]: m["state"] for m in bed.http.get_model_repository_index()}
    assert index == dict.fromkeys(("reader", "pre", "lenet", "post"), "READY"), index
    with urllib.request.urlopen(bed.url + "/metrics") as page:
        text = page.read().decode()
    assert re.search(r'moire_requests_total\{model="reader",version="1",outcome="ok"\} [1-9]', text)
    assert 'moire_target_seconds{model="reader",version="1"} 0.5' in text
    grpc.close()


def wrong_requests_are_named(bed):
    fails(lambda: ask_http(bed.http, numpy.zeros((1, 16, 16, 1), numpy.uint8)), "takes [-1,32,32,1]")
    fails(lambda: bed.http.infer("reader", []), "input 'IMAGE' of model 'reader' is missing")
    fails(lambda: ask_http(bed.http, draw(1, 1), timeout=1), "the deadline of the ensemble has passed")


def many_at_once(bed, reference):
    wrong = []

    def client(seed):
        http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{bed.http_port}")
        try:
            for i in range(40):
                image = draw(1 + (seed + i) % 2, 100 * seed + i)
                same(ask_http(http, image).as_numpy, reference(image))
        except Exception as e:  # said below
            wrong.append(e)
        http.close()
    threads = [threading.Thread(target=client, args=(s,)) for s in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong


def loads_and_unloads(moire, folder, reference):
    bed = serve_bed.Bed(moire, folder, "--model-control-mode", "explicit")
    try:
        bed.wait()
        http = bed.http
        assert all(m.get("state") != "READY" for m in http.get_model_repository_index())
        http.load_model("reader")  # and what it needs
        same(ask_http(http, draw(1, 3)).as_numpy, reference(draw(1, 3)))
        http.unload_model("post")
        assert not http.is_model_ready("reader") and http.is_model_ready("pre")
        fails(lambda: ask_http(http, draw(1, 3)), "model 'post' of step 0 is not loaded")
        http.load_model("post")
        same(ask_http(http, draw(1, 3)).as_numpy, reference(draw(1, 3)))
        http.unload_model("reader")
        assert http.is_model_ready("pre")
        http.load_model("reader")
        http.unload_model("reader", unload_dependents=True)
        assert all(m.get("state") != "READY" for m in http.get_model_repository_index())
        grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
        grpc.load_model("reader")
        same(ask_grpc(grpc, draw(2, 4)).as_numpy, reference(draw(2, 4)))
        grpc.unload_model("reader", unload_dependents=True)
        assert not [m for m in grpc.get_model_repository_index().models if m.state == "READY"]
        grpc.close()
    finally:
        assert bed.stop() == 0


def faults_are_said(moire, folder):
    def check(config):
        with open(path, "w", encoding="utf-8") as f:
            f.write(config)
        done = subprocess.run([moire, "serve", "--check", folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout
    path = os.path.join(folder, "reader", "config.pbtxt")
    with open(path, encoding="utf-8") as f:
        right = f.read()
    assert check(right)[0] == 0, check(right)[1]
    cases = (('model_name: "post"', 'model_name: "nobody"', "there is no model 'nobody'"),
             ('key: "scores"', 'key: "points"', "model 'post' has no input 'points'"),
             ("TYPE_UINT8", "TYPE_INT8", "tensor 'IMAGE' is INT8"),
             ("[ -1, 32, 32, 1 ]", "[ -1, 32, 32 ]", "but input 'image' of model 'pre' (step 1) takes UINT8"),
             ('value: "IMAGE"', 'value: "SCORE"', "waits for itself, in a circle"),
             ('value: "CLASS"', 'value: "KIND"', "tensor 'CLASS' is no input and comes from no step"),
             ('model_name: "pre"', 'model_name: "reader"', "step 1 is the ensemble itself"))
    for was, becomes, says in cases:
        code, out = check(right.replace(was, becomes))
        assert code == 2 and says in out, (becomes, out)
    with open(path, "w", encoding="utf-8") as f:
        f.write(right)


def reload_under_load(moire, folder, reference):
    """A member is replaced while the ensemble is asked: every answer is right."""
    bed = serve_bed.Bed(moire, folder)
    wrong, ends = [], threading.Event()

    def client():
        http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{bed.http_port}")
        try:
            while not ends.is_set():
                same(ask_http(http, draw(1, 9)).as_numpy, wanted)
        except Exception as e:  # said below
            wrong.append(e)
        http.close()
    try:
        bed.wait()
        wanted = reference(draw(1, 9))
        thread = threading.Thread(target=client)
        thread.start()
        for _ in range(5):
            os.utime(os.path.join(folder, "pre.onnx"))
            bed.process.send_signal(1)  # SIGHUP
            time.sleep(0.2)
        ends.set()
        thread.join()
        assert not wrong, wrong
    finally:
        assert bed.stop() == 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--moire", default="build/moire")
    moire = p.parse_args().moire
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        reference = make_repository(moire, folder)
        bed = serve_bed.Bed(moire, folder)
        try:
            bed.wait()
            for name, call in (("answers", lambda: answers_are_right(bed, reference)),
                               ("documents", lambda: documents_are_triton_s(bed)),
                               ("wrong requests", lambda: wrong_requests_are_named(bed)),
                               ("many at once", lambda: many_at_once(bed, reference))):
                ok &= serve_bed.run("pipelines: " + name, call)
        finally:
            ok &= bed.stop() == 0
        ok &= serve_bed.run("pipelines: loads and unloads", lambda: loads_and_unloads(moire, folder, reference))
        ok &= serve_bed.run("pipelines: reload under load", lambda: reload_under_load(moire, folder, reference))
        ok &= serve_bed.run("pipelines: faults", lambda: faults_are_said(moire, folder))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
