#!/usr/bin/env python3
"""torch_bench - PyTorch (eager, torch.compile, CUDA graphs) and ONNX Runtime on networks of the zoo, beside moire.

    torch_bench.py --files resnet50=models/resnet50-r2.onnx,... --batches 1,8,32 --precisions fp32,fp16 --seconds 100

One JSON object a line as soon as it is measured: {"model", "precision", "batch", "system", "ms"} with the median of at least
ten runs, or "failed" in place of "ms".  fp32 is fp32 (no TF32).  On a GPU its own clock is read (events), without copies,
as `moire profile --device` does; with --device cpu, for tests of this program, the wall clock.  What is asked for first is
measured first: eager and graphs of every model, then torch.compile, batch 1 before the others; nothing begins when the time
is nearly over."""
import argparse
import json
import os
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_file  # noqa: E402
import torch_net  # noqa: E402

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LEAST_S = {"compile": 12.0}  # a system is not begun with less left


class Bench:
    def __init__(self, args):
        self.args, self.end = args, time.monotonic() + args.seconds
        self.cuda = args.device != "cpu"
        self.nets = {}
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True

    def left(self):
        return self.end - time.monotonic()

    def once(self, call):
        """Milliseconds of one call."""
        if not self.cuda:
            since = time.perf_counter()
            call()
            return 1e3 * (time.perf_counter() - since)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)

    def median(self, call):
        for _ in range(3):
            call()
        if self.cuda:
            torch.cuda.synchronize()
        until, times = time.monotonic() + self.args.each, []
        while len(times) < 10 or (time.monotonic() < until and len(times) < 200):
            times.append(self.once(call))
            if len(times) >= 3 and self.left() < 0:
                break
        return sorted(times)[len(times) // 2]

    def net(self, model, precision):
        if (model, precision) not in self.nets:
            self.nets.clear()  # one at a time: a GPU may be small
            graph = onnx_file.Graph(self.args.files[model])
            net = torch_net.Net(graph, self.args.device, DTYPES[precision]).eval()
            self.nets[model, precision] = (graph, net)
        return self.nets[model, precision]

    def inputs(self, graph, net, batch):
        return [x.to(self.args.device, net.dtype if x.is_floating_point() else x.dtype)
                for x in torch_net.inputs_of(graph, batch, self.args.sequence)]

    def report(self, model, precision, batch, system, measure):
        row = {"model": model, "precision": precision, "batch": batch, "system": system}
        if self.left() < LEAST_S.get(system, 0.5):
            return
        try:
            row["ms"] = measure()
        except Exception as e:  # one system that cannot run a network is a row, not the end
            row["failed"] = f"{type(e).__name__}: {e}".splitlines()[0][:160]
        print(json.dumps(row), flush=True)

    def graphs(self, net, x):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                net(*x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            net(*x)
        return self.median(graph.replay)

    def channels_last(self, net, x):
        """The layout of convolutions that tensor cores like best."""
        net.weights = {k: v.contiguous(memory_format=torch.channels_last) if v.dim() == 4 else v for k, v in net.weights.items()}
        return [v.contiguous(memory_format=torch.channels_last) if v.dim() == 4 else v for v in x]

    def plain(self, model, precision):
        graph, net = self.net(model, precision)
        for layout in ("", "-nhwc"):
            if layout and not any(v.dim() == 4 for v in net.weights.values()):
                break
            for batch in self.args.batches:
                x = self.inputs(graph, net, batch)
                x = self.channels_last(net, x) if layout else x
                net.specialise(*x)
                self.report(model, precision, batch, "eager" + layout, lambda: self.median(lambda: net(*x)))
                if self.cuda:
                    self.report(model, precision, batch, "graphs" + layout, lambda: self.graphs(net, x))

    def compiled(self, model, precision, batch):
        graph, net = self.net(model, precision)
        x = self.inputs(graph, net, batch)
        net.specialise(*x)
        torch._dynamo.reset()
        mode = "max-autotune-no-cudagraphs" if self.args.autotune else "reduce-overhead" if self.cuda else "default"
        self.report(model, precision, batch, "compile", lambda: self.median(lambda: torch.compile(net, mode=mode)(*x)))

    def onnxruntime(self):
        try:
            import onnxruntime
        except ImportError:
            return print(json.dumps({"system": "onnxruntime", "missing": "not installed"}), flush=True)
        provider = "CUDAExecutionProvider" if self.cuda else "CPUExecutionProvider"
        if provider not in onnxruntime.get_available_providers():
            return print(json.dumps({"system": "onnxruntime", "missing": "no GPU build here"}), flush=True)
        for model, path in self.args.files.items():
            session = onnxruntime.InferenceSession(path, providers=[(provider, {"use_tf32": 0} if self.cuda else {})])
            graph = onnx_file.Graph(path)
            for batch in self.args.batches:
                feed = session.io_binding()
                for (name, _, _), x in zip(graph.inputs, torch_net.inputs_of(graph, batch, self.args.sequence)):
                    value = onnxruntime.OrtValue.ortvalue_from_numpy(x.numpy(), "cuda" if self.cuda else "cpu", 0)
                    feed.bind_ortvalue_input(name, value)
                for name in graph.outputs:
                    feed.bind_output(name, "cuda" if self.cuda else "cpu")
                self.report(model, "fp32", batch, "onnxruntime", lambda: self.wall(lambda: session.run_with_iobinding(feed)))

    def wall(self, call):
        cuda, self.cuda = self.cuda, False  # its stream is its own: the wall clock around a call that waits
        try:
            return self.median(call)
        finally:
            self.cuda = cuda

    @staticmethod
    def guarded(model, precision, function, *args):
        """A model that PyTorch cannot run is a row, and the others go on."""
        try:
            function(*args)
        except Exception as e:
            print(json.dumps({"system": "torch", "model": model, "precision": precision, "batch": 0, "failed": str(e)[:300]}), flush=True)

    def run(self):
        both = [(m, p) for p in self.args.precisions for m in self.args.files]
        with torch.inference_mode():
            for model, precision in both:
                if self.left() > 1:
                    self.guarded(model, precision, self.plain, model, precision)
            self.onnxruntime()
            for batch in self.args.batches if self.args.compile else []:
                for model, precision in both:
                    if self.left() > LEAST_S["compile"]:
                        self.guarded(model, precision, self.compiled, model, precision, batch)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--files", required=True, help="NAME=FILE.onnx,...")
    a.add_argument("--device", default="cuda")
    a.add_argument("--batches", default="1,8,32")
    a.add_argument("--precisions", default="fp32,fp16")
    a.add_argument("--sequence", type=int, default=384)
    a.add_argument("--seconds", type=float, default=100)
    a.add_argument("--each", type=float, default=0.15, help="seconds of one measurement, once ten runs are done")
    a.add_argument("--autotune", action="store_true", help="torch.compile searches kernels (slow)")
    a.add_argument("--no-compile", dest="compile", action="store_false")
    args = a.parse_args()
    args.files = dict(word.split("=", 1) for word in args.files.split(","))
    args.batches = [int(b) for b in args.batches.split(",")]
    args.precisions = args.precisions.split(",")
    if args.device != "cpu" and not torch.cuda.is_available():
        print(json.dumps({"system": "torch", "missing": f"PyTorch {torch.__version__} sees no GPU"}))
        return
    print(json.dumps({"system": "torch", "version": torch.__version__, "cudnn": torch.backends.cudnn.version()}), flush=True)
    Bench(args).run()


if __name__ == "__main__":
    main()
