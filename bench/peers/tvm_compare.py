#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tvm_compare.py FOLDER [NETWORK...] - moire's generated kernels beside those of TVM's MetaSchedule.

Networks of moire's zoo and, with --layers, single convolutions: both systems get the same minutes to tune, then
take turns on the same input (`moire bench latency --peers tvm`).  A layer is timed as a kernel alone, without the
conversions at the ends of a model: moire's by `moire bench kernels`, TVM's by its own measurements in the search.
FOLDER keeps models, moire's stores and compare.json; what is there is not done again, so parts may be asked for one
after the other.  Run it with the Python of TVM's environment, and with moire built."""
import argparse
import json
import os
import subprocess
import sys
import time

import tvm_cache

HEADS = ("what", "threads", "moire tunes, s", "TVM tunes, s", "TVM's candidates", "moire, ms", "TVM, ms", "ratio")
# name: channels in, out, filter, stride, side, groups; of ResNet-18, ResNet-50 and MobileNet-v2
LAYERS = {
    "7x7/2 3-64 at 224": (3, 64, 7, 2, 224, 1),
    "3x3 64-64 at 56": (64, 64, 3, 1, 56, 1),
    "3x3 256-256 at 14": (256, 256, 3, 1, 14, 1),
    "1x1 256-64 at 56": (256, 64, 1, 1, 56, 1),
    "1x1 512-2048 at 7": (512, 2048, 1, 1, 7, 1),
    "depthwise 3x3 144 at 56": (144, 144, 3, 1, 56, 144),
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("networks", nargs="*")
    p.add_argument("--layers", action="store_true", help="the single layers, too")
    p.add_argument("--minutes", type=float, default=3, help="to tune a network, for each system")
    p.add_argument("--layer-minutes", type=float, default=0.5, help="the same of a layer")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--moire", default="build/moire")
    return p.parse_args()


def run(*command):
    """Standard output of a command; its errors are shown as they come."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"tvm_compare: {' '.join(map(str, command[:4]))}: exit code {done.returncode}")
    return done.stdout


def write_layer(path, shape):
    """A convolution with bias and Relu as an ONNX file; weights of seed 1."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    channels, filters, k, stride, side, groups = shape
    draw, out = numpy.random.default_rng(1), (side + 2 * (k // 2) - k) // stride + 1
    w = draw.standard_normal((filters, channels // groups, k, k)) / (channels // groups * k * k) ** 0.5
    weights = [("w", w), ("b", draw.standard_normal(filters))]
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[k, k], strides=[stride] * 2,
                              pads=[k // 2] * 4, group=groups), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(
        nodes, "layer", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, filters, out, out])],
        [numpy_helper.from_array(a.astype(numpy.float32), name) for name, a in weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)


class Compare:
    def __init__(self, options):
        self.options, self.folder = options, options.folder
        if tvm_cache.version() is None:
            sys.exit("tvm_compare: TVM is not installed here; run `tools/setup --tvm` and use its Python")
        os.makedirs(self.folder, exist_ok=True)
        self.path = os.path.join(self.folder, "compare.json")
        self.rows = []
        if os.path.exists(self.path):
            with open(self.path) as f:
                self.rows = json.load(f)["results"]

    def has(self, what):
        return any(r["what"] == what and r["threads"] == self.options.threads for r in self.rows)

    def store_of(self, model):
        """One for each model: layers of one must not be found in another's."""
        return f"{model}-store-{self.options.threads}"

    def tune(self, model, minutes):
        """Seconds that moire took, and what TVM tells of its search."""
        o, start = self.options, time.monotonic()
        run(o.moire, "compile", model, "--store", self.store_of(model), "--budget", 60 * minutes, "--cores", o.threads)
        took = time.monotonic() - start
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tvm_tune.py")
        return took, json.loads(run(sys.executable, script, os.path.realpath(model), "--threads", o.threads,
                                    "--minutes", minutes))


    def keep(self, row):
        self.rows.append(row)
        with open(self.path + ".new", "w") as f:
            json.dump({"command": " ".join(sys.argv), "results": self.rows}, f, indent=1)
        os.replace(self.path + ".new", self.path)

    def bench(self, command, model, *flags):
        out = os.path.join(self.folder, "bench.json")
        run(self.options.moire, "bench", command, model, "--threads", self.options.threads, "--store",
            self.store_of(model), "--output", out, *flags)
        with open(out) as f:
            return json.load(f)

    def network(self, name):
        model = os.path.join(self.folder, name + ".onnx")
        if not os.path.exists(model):
            run(self.options.moire, "zoo", "build", name, "-o", model)
        took, tvm = self.tune(model, self.options.minutes)
        document = self.bench("latency", model, "--peers", "tvm")
        times = {row["system"]: row for row in document["results"]}
        if "tvm" not in times:
            sys.exit("tvm_compare: " + document["left_out"][0]["why"])
        self.keep({**self.row(name, took, tvm), "experiment": document["experiment"],
                   "moire_ms": times["moire"]["min_ms"], "moire_median_ms": times["moire"]["median_ms"],
                   "tvm_ms": times["tvm"]["min_ms"], "tvm_median_ms": times["tvm"]["median_ms"]})

    def layer(self, name, shape):
        model = os.path.join(self.folder, name.replace("/", "s").replace(" ", "-") + ".onnx")
        write_layer(model, shape)
        took, tvm = self.tune(model, self.options.layer_minutes)
        document = self.bench("kernels", model)
        layer = next(row for row in document["results"] if "Conv" in row["layer"])
        self.keep({**self.row(name, took, tvm), "experiment": document["experiment"],
                   "moire_ms": layer["min_ms"], "moire_kernel": layer["kernel"], "tvm_ms": tvm["best"][0]["ms"]})

    def row(self, what, took, tvm):
        return {"what": what, "threads": self.options.threads, "moire_tunes_s": took, "tvm_tunes_s": tvm["seconds"],
                "tvm": tvm}


def line(cells):
    return "| " + " | ".join(cells) + " |"


def table(rows):
    """Rows of compare.json as Markdown; a ratio above 1: moire is faster."""
    lines = [line(HEADS), "|---" * len(HEADS) + "|"]
    for r in rows:
        lines.append(line([r["what"], str(r["threads"]), f"{r['moire_tunes_s']:.0f}", f"{r['tvm_tunes_s']:.0f}",
                           str(r["tvm"]["trials"]), f"{r['moire_ms']:.3f}", f"{r['tvm_ms']:.3f}",
                           f"{r['tvm_ms'] / r['moire_ms']:.2f}"]))
    return "\n".join(lines)


def main():
    options = arguments()
    compare = Compare(options)
    for name in options.networks:
        if not compare.has(name):
            compare.network(name)
    for name, shape in LAYERS.items() if options.layers else ():
        if not compare.has(name):
            compare.layer(name, shape)
    print(table(compare.rows))


if __name__ == "__main__":
    main()
