"""check_config.py - `moire serve --config`, --load-model, --exit-on-error, and the folder of `moire zoo repository`."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy
import onnxruntime
import tritonclient.http

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import serve_bed  # noqa: E402


class Configured(serve_bed.Bed):
    """A server by flags alone."""

    def __init__(self, moire, *flags):
        self.process = subprocess.Popen([moire, "serve", "--json", *flags], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        doors = json.loads(self.process.stdout.readline())
        self.http_port, self.grpc_port = doors["http_port"], doors["grpc_port"]
        self.url = f"http://127.0.0.1:{self.http_port}"
        self.http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.http_port}", concurrency=8,
                                                            network_timeout=120)


def write(path, document):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(document, f)
    return path


def infer(http, model, **arrays):
    inputs = []
    for name, a in arrays.items():
        x = tritonclient.http.InferInput(name, a.shape, {"float32": "FP32", "uint8": "UINT8"}[a.dtype.name])
        inputs.append(x.set_data_from_numpy(a))
    return http.infer(model, inputs)


PORTS = {"http_port": 0, "grpc_port": -1, "metrics_port": -1, "threads": 2}


def file_alone(moire, folder):
    """No repository: a model elsewhere, with a target."""
    path = write(os.path.join(folder, "alone.json"), {
        **PORTS, "models": [{"name": "digits", "path": "lenet.onnx", "qos_ms": 50, "max_batch_size": 4}]})
    bed = Configured(moire, "--config", path)
    try:
        bed.wait()
        x = serve_bed.images(2, 1)
        right = onnxruntime.InferenceSession(os.path.join(folder, "lenet.onnx")).run(None, {"input": x})[0]
        assert serve_bed.near(infer(bed.http, "digits", input=x).as_numpy("output"), right)
        config = bed.http.get_model_config("digits")
        assert config["max_batch_size"] == 4 and config["parameters"]["qos_ms"]["string_value"] == "50"
    finally:
        assert bed.stop() == 0


def file_overrides(moire, folder):
    """Beside a repository entries override config.pbtxt, and flags override the file."""
    path = write(os.path.join(folder, "both.json"), {
        **PORTS, "model_repository": "models", "model_control_mode": "none",
        "models": [{"name": "configured", "max_batch_size": 2}]})
    bed = Configured(moire, "--config", path, "--model-control-mode", "explicit", "--load-model", "configured",
                     "--exit-on-error")
    try:
        bed.wait()
        states = {m["name"]: m.get("state") for m in bed.http.get_model_repository_index()}
        assert states == {"configured": "READY", "lenet": None}, states
        config = bed.http.get_model_config("configured")
        assert config["max_batch_size"] == 2 and config["parameters"]["qos_ms"]["string_value"] == "50"
    finally:
        assert bed.stop() == 0


def faults(moire, folder):
    def check(document, *more):
        path = write(os.path.join(folder, "bad.json"), document)
        return subprocess.run([moire, "serve", "--config", path, *more], capture_output=True, text=True, check=False)
    done = check({"models": [{"name": "x", "qosms": 3}]})
    assert done.returncode == 2 and "models[0]: there is no key 'qosms'" in done.stderr, done.stderr
    done = check({"models": [{"name": "nobody"}]}, "--check", os.path.join(folder, "models"))
    assert done.returncode == 2 and "nobody: the repository has no such model" in done.stdout, done.stdout
    done = check({"models": [{"name": "lenet", "class": "fast"}]}, "--check", os.path.join(folder, "models"))
    assert done.returncode == 2 and "class is 'fast'" in done.stdout, done.stdout
    done = check({**PORTS, "models": [{"name": "gone", "path": "gone.onnx"}]}, "--exit-on-error")
    assert done.returncode not in (0, 2) and "--exit-on-error" in done.stderr, (done.returncode, done.stderr)


def applications(moire, folder):
    """game and traffic of gpu-let: answers are ONNX Runtime's, step by step."""
    models = os.path.join(folder, "applications")
    subprocess.run([moire, "zoo", "repository", models], check=True, stderr=subprocess.DEVNULL)
    checked = subprocess.run([moire, "serve", "--check", models], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout

    def run(model, **x):
        session = onnxruntime.InferenceSession(os.path.join(models, model + ".onnx"))
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, x)))
    bed = Configured(moire, "--model-repository", models, "--http-port", "0", "--grpc-port", "-1", "--metrics-port",
                     "-1")
    try:
        bed.wait(240)
        draw = numpy.random.default_rng(5)
        frame = draw.integers(0, 256, (1, 448, 448, 3), dtype=numpy.uint8)
        cut = run("game-cut", frame=frame)
        got = infer(bed.http, "game", frame=frame)
        for i in range(6):
            assert serve_bed.near(got.as_numpy(f"digit{i}"), run("lenet", input=cut[f"digit{i}"])["output"]), i
        assert serve_bed.near(got.as_numpy("image"), run("resnet50", input=cut["image"])["output"])
        image = draw.random((1, 3, 300, 300), dtype=numpy.float32)
        found = run("ssd-mobilenet", image=image)
        got = infer(bed.http, "traffic", image=image)
        assert serve_bed.near(got.as_numpy("boxes"), found["boxes"])
        cut = run("traffic-cut", image=image, **found)
        assert serve_bed.near(got.as_numpy("car"), run("googlenet", input=cut["car"])["output"])
        assert serve_bed.near(got.as_numpy("person"), run("vgg16", input=cut["person"])["output"])
    finally:
        assert bed.stop() == 0


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--moire", default="build/moire")
    moire = p.parse_args().moire
    ok = True
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "models"))
        serve_bed.make_repository(moire, os.path.join(folder, "models"))
        os.symlink(os.path.join(folder, "models", "lenet.onnx"), os.path.join(folder, "lenet.onnx"))
        for name, call in (("a file alone", file_alone), ("a file over a repository", file_overrides),
                           ("faults", faults), ("applications", applications)):
            ok &= serve_bed.run("config: " + name, lambda call=call: call(moire, folder))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
