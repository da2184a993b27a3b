#!/usr/bin/env python3
"""check_manifests.py - the files of `moire scale kserve` by the schemas that Kubernetes publishes, strictly.

Kinds of Kubernetes by PyPI's kubernetes-validate.  KServe's own kinds have no schema there: their required fields and
known names are looked at by the small ones below, and what they hold of a pod is put into one and checked as that.
server.json must be what `moire serve --check` takes.  Nothing is run on a cluster.

    check_manifests.py --moire build/moire
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

VERSIONS = ("1.27", "1.30", "1.34")  # of Kubernetes

WORDS = {"type": "object", "additionalProperties": {"type": "string"}}
META = {"type": "object", "required": ["name"], "additionalProperties": False,
        "properties": {"name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]{0,49}[a-z0-9])?$"},
                       "annotations": WORDS}}


def of(properties, *required):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


SERVING_RUNTIME = of({
    "apiVersion": {"const": "serving.kserve.io/v1alpha1"}, "kind": {"const": "ServingRuntime"}, "metadata": META,
    "spec": of({
        "annotations": WORDS, "multiModel": {"type": "boolean"},
        "supportedModelFormats": {"type": "array", "minItems": 1, "items": of(
            {"name": {"type": "string"}, "version": {"type": "string"}, "autoSelect": {"type": "boolean"}}, "name")},
        "protocolVersions": {"type": "array", "items": {"enum": ["v1", "v2", "grpc-v2"]}},
        "containers": {"type": "array", "minItems": 1,
                       "items": {"properties": {"name": {"const": "kserve-container"}}}},
    }, "containers", "supportedModelFormats"),
}, "apiVersion", "kind", "metadata", "spec")

INFERENCE_SERVICE = of({
    "apiVersion": {"const": "serving.kserve.io/v1beta1"}, "kind": {"const": "InferenceService"}, "metadata": META,
    "spec": of({"predictor": of({
        "minReplicas": {"type": "integer", "minimum": 1}, "terminationGracePeriodSeconds": {"type": "integer"},
        "topologySpreadConstraints": {"type": "array"}, "volumes": {"type": "array"},
        "model": of({
            "modelFormat": of({"name": {"const": "onnx"}}, "name"), "runtime": {"const": "moire"},
            "protocolVersion": {"const": "v2"},
            "storageUri": {"type": "string", "pattern": "^pvc://models/[a-z0-9-]+$"},
            "volumeMounts": {"type": "array"}, "resources": {"type": "object"}},
            "modelFormat", "runtime", "storageUri", "resources")}, "model")}, "predictor"),
}, "apiVersion", "kind", "metadata", "spec")


def plan(models, file="m.onnx"):
    return {"plan": 1, "qps": 10, "routing": "deadline",
            "models": [{"name": m, "file": file, "qos_ms": q, "qps": 5, "replicas": 2, "attainment": 0.99}
                       for m, q in models.items()],
            "nodes": [{"name": f"n{i}", "cores": 7, "memory_mb": 9000,
                       "models": [{"name": m, "qps": 1.5 + k} for k, m in enumerate(models)]} for i in range(2)]}


PLANS = {
    "one": plan({"resnet50": 50}),
    "names": plan({"Res_Net.50": 12.5, "9layers": 0, "b" * 49: 1e-3}),
    "a path with signs": plan({"m": 5}, "a b/\u00e4: {x} 'y' \"z\" \\ # & * - ? | > % @ `.onnx"),
}


def written(moire, document, folder):
    path = os.path.join(folder, "plan.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(document, f)
    done = subprocess.run([moire, "scale", "kserve", path, "-o", folder, "--json"], check=True, capture_output=True)
    return json.loads(done.stdout)["files"]


class Check:
    def __init__(self, moire):
        import jsonschema
        import kubernetes_validate
        import yaml
        self.moire, self.schema, self.kubernetes, self.yaml = moire, jsonschema, kubernetes_validate, yaml
        self.n = 0

    def strict(self, document):
        for version in VERSIONS:
            self.kubernetes.validate(document, version, strict=True)
            self.n += 1

    def pod(self, runtime, service):
        """What KServe makes of both: the runtime's container with the model's fields, in the predictor's pod."""
        predictor = dict(service["spec"]["predictor"])
        model = predictor.pop("model")
        predictor.pop("minReplicas")
        container = dict(runtime["spec"]["containers"][0], resources=model["resources"],
                         volumeMounts=model["volumeMounts"])
        self.strict({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
                     "spec": dict(predictor, containers=[container])})
        wants = model["resources"]
        assert wants["requests"] == wants["limits"] and int(wants["limits"]["cpu"]) >= 1, wants
        names = {v["name"] for v in predictor["volumes"]}
        assert all(m["name"] in names for m in model["volumeMounts"])

    def server(self, settings, folder):
        """The settings, with a model where they say it is."""
        path = os.path.join(folder, "server.json")
        document = json.loads(settings)
        assert document["models"][0]["path"] == "/mnt/models/model.onnx"
        document["models"][0]["path"] = os.path.join(folder, "model.onnx")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(document, f)
        os.makedirs(os.path.join(folder, "empty"), exist_ok=True)
        done = subprocess.run([self.moire, "serve", "--check", os.path.join(folder, "empty"), "--config", path],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def model(self, runtime, documents, folder):
        kinds = {d["kind"]: d for d in documents}
        assert set(kinds) == {"ConfigMap", "InferenceService", "HorizontalPodAutoscaler", "PodDisruptionBudget"}
        for kind, document in kinds.items():
            if kind != "InferenceService":
                self.strict(document)
        service = kinds["InferenceService"]
        self.schema.validate(service, INFERENCE_SERVICE)
        self.pod(runtime, service)
        name = service["metadata"]["name"]
        scaler = kinds["HorizontalPodAutoscaler"]["spec"]
        assert scaler["scaleTargetRef"]["name"] == f"{name}-predictor"
        assert scaler["minReplicas"] <= scaler["maxReplicas"]
        labels = kinds["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]
        assert labels == {"serving.kserve.io/inferenceservice": name}
        self.server(kinds["ConfigMap"]["data"]["server.json"], folder)

    def plan(self, document):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([self.moire, "zoo", "build", "lenet", "-o", os.path.join(folder, "model.onnx")], check=True,
                           stdout=subprocess.DEVNULL)
            files = written(self.moire, document, folder)
            read = {}
            for name in files:
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    read[name] = list(self.yaml.safe_load_all(f))
            runtime = read.pop("runtime.yaml")[0]
            self.schema.validate(runtime, SERVING_RUNTIME)
            assert len(read.pop("prometheus-adapter.yaml")[0]["rules"]) == 2
            assert len(read) == len(document["models"])
            for documents in read.values():
                self.model(runtime, documents, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", required=True)
    moire = os.path.abspath(parser.parse_args().moire)
    try:
        check = Check(moire)
    except ImportError as why:
        print(f"check_manifests: skipped, {why}: tools/setup --peers installs it")
        print(f"0 passed, 0 failed, {len(PLANS)} skipped")
        return 0
    bad = 0
    for name, document in PLANS.items():
        try:
            check.plan(document)
            print(f"ok      {name}")
        except Exception as e:
            bad += 1
            print(f"FAILED  {name}: {type(e).__name__}: {str(e)[:600]}")
    print(f"{check.n} checks by schemas of Kubernetes {', '.join(VERSIONS)}")
    print(f"{len(PLANS) - bad} passed, {bad} failed")
    return bad > 0


sys.exit(main())
