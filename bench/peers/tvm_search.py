# SPDX-License-Identifier: Apache-2.0
"""tvm_search.py - TVM's MetaSchedule with a budget in seconds, and the program that its best schedules make.

How a network gets to the search: batch normalisations are folded into convolutions, convolutions read NHWC with
filters HWIO (a 3x3 layer of 64 channels at 56 x 56 took 2.6 ms after 16 candidates in NCHW and 1.8 in NHWC),
operators are fused, and filters may be laid out anew by the search (the layout is applied when the program is
built, as filters are constants). Searched are convolutions and products; what is left, pools and means, runs as
the plain loops that LLVM makes of them.

The search differs from MetaSchedule's defaults in two things, both so that more candidates are tried in a short
time. Candidates are built and timed in this process; the default hands them to other processes in files.
Generations and rounds of measurements are smaller where a task has less than half a minute. The cost model
(XGBoost) and the rules are the default."""
import time
from concurrent.futures import ThreadPoolExecutor

import onnx
import tvm
from tvm import relax
from tvm.ir.utils import derived_object
from tvm.relax.frontend.onnx import from_onnx, onnx_frontend
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.meta_schedule.builder.local_builder import default_build
from tvm.s_tir.meta_schedule.runner.local_runner import LocalRunnerFuture, default_alloc_argument, default_run_evaluator

SEARCHED = ["conv2d", "conv1d", "matmul"]
EVERYTHING = 1 << 20  # trials: never reached, the clock ends the search
LEAST, MOST = 4, 64  # candidates of one task measured at a time
FEWEST, DEFAULT = 64, 512  # candidates of a generation


def target_of(threads):
    """This machine as LLVM sees it: -mcpu brings its features."""
    cpu = tvm.get_global_func("target.llvm_get_system_cpu")()
    return tvm.target.Target({"kind": "llvm", "mcpu": str(cpu), "num-cores": threads})


def fusible_clip(_, builder, inputs, attributes, parameters):
    """Clip as two operators that layouts pass through and that are fused.  The importer's own is opaque to both:
    each clip of MobileNet-v2 would be a pass of its own with two transpositions."""
    result = inputs[0]
    for bound, operator in zip(inputs[1:], (relax.op.maximum, relax.op.minimum)):
        if bound is not None:
            result = builder.emit(operator(result, bound))
    return result


def read(model, ports, target):
    """The ONNX file as fused TIR functions; ports: [(name, dims, type)]."""
    shapes = {name: list(dims) for name, dims, _ in ports}
    onnx_frontend.Clip._impl_v13 = classmethod(fusible_clip)
    network = from_onnx(onnx.load(model), shape_dict=shapes, keep_params_in_input=False)
    before = [
        relax.transform.CanonicalizeBindings(),
        relax.transform.FoldBatchnormToConv2D(),
        relax.transform.DecomposeOpsForInference(),
        relax.transform.FoldConstant(),
        relax.transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "HWIO"]}),
        relax.transform.Normalize(),
        relax.transform.FoldConstant(),
        relax.get_pipeline("zero"),
        relax.transform.AttachAttrLayoutFreeBuffers(),
    ]
    with target:
        return tvm.transform.Sequential(before)(network)


class Bench:
    """Candidates that have been built and not yet timed, by the name that the search knows them by."""

    def __init__(self):
        self.built, self.n = {}, 0

    def put(self, module):
        self.n += 1
        self.built[f"candidate-{self.n}"] = module
        return f"candidate-{self.n}"


@derived_object
class InPlaceBuilder(ms.builder.PyBuilder):
    def __init__(self, bench, workers):
        super().__init__()
        self.bench, self.pool = bench, ThreadPoolExecutor(workers)

    def one(self, given):
        try:
            return default_build(given.mod, given.target, None), None
        except Exception as e:  # a schedule that does not compile is one of the search's answers
            return None, str(e)[-300:]

    def build(self, build_inputs):
        made = list(self.pool.map(self.one, build_inputs))
        return [ms.builder.BuilderResult(self.bench.put(module) if module else None, why) for module, why in made]


@derived_object
class InPlaceRunner(ms.runner.PyRunner):
    def __init__(self, bench):
        super().__init__()
        self.bench = bench
        self.config = ms.runner.EvaluatorConfig(number=1, repeat=3, min_repeat_ms=5, enable_cpu_cache_flush=False)

    def one(self, given):
        module = self.bench.built.pop(str(given.artifact_path))
        info = [argument.as_json() for argument in given.args_info]
        try:
            arguments = default_alloc_argument(tvm.cpu(), info, 1)
            return LocalRunnerFuture(res=default_run_evaluator(module, tvm.cpu(), self.config, arguments))
        except Exception as e:
            return LocalRunnerFuture(error_message=str(e)[-300:])

    def run(self, runner_inputs):
        return [self.one(given) for given in runner_inputs]


@derived_object
class Clock(ms.measure_callback.PyMeasureCallback):
    """Ends the search by an exception: it knows no other end than a number of trials.  The first round measures
    every task before it tells of any: what is told of the last ones would be lost if it ended amid that."""

    def __init__(self, until, tasks, progress):
        super().__init__()
        self.until, self.tasks, self.progress = until, tasks, progress
        self.trials, self.seen, self.up = 0, set(), False

    def apply(self, task_scheduler, task_id, measure_candidates, builder_results, runner_results):
        self.trials += len(measure_candidates)
        self.progress(self.trials, task_id, [f"{r.error_msg}" for r in runner_results if r.error_msg])
        self.seen.add(int(task_id))
        if time.monotonic() > self.until and len(self.seen) == self.tasks:
            self.up = True
            raise TimeoutError("the time is up")


def strategy(seconds):
    """MetaSchedule's search for a task that has so many seconds."""
    return ms.search_strategy.EvolutionarySearch(
        population_size=int(min(max(16 * seconds, FEWEST), DEFAULT)), init_measured_ratio=0.2,
        init_min_unmeasured=30, max_fail_count=3, genetic_num_iters=3, genetic_mutate_prob=0.85,
        genetic_max_fail_count=10, eps_greedy=0.05)


def search(network, target, folder, until, workers, progress):
    """Searches until `until` (time.monotonic()); the database grows in `folder`.  Returns tasks and trials."""
    tasks = [task for task in ms.relax_integration.extract_tasks(network, target)
             if any(word in task.task_name for word in SEARCHED)]
    if not tasks:
        return 0, 0
    each = (until - time.monotonic()) / len(tasks)  # seconds
    contexts, weights = ms.relax_integration.extracted_tasks_to_tune_contexts(
        tasks, folder, strategy=strategy(each), num_threads=workers, seed=1)
    bench, clock = Bench(), Clock(until, len(contexts), progress)
    try:
        ms.tune.tune_tasks(
            tasks=contexts, task_weights=weights, work_dir=folder, max_trials_global=EVERYTHING,
            num_trials_per_iter=int(min(max(2 * each, LEAST), MOST)), builder=InPlaceBuilder(bench, workers),
            runner=InPlaceRunner(bench),
            measure_callbacks=[ms.measure_callback.AddToDatabase(), ms.measure_callback.UpdateCostModel(), clock])
    except Exception:
        if not clock.up:
            raise
    return len(tasks), clock.trials


def build(network, target, folder):
    """The program that the database's best schedules make."""
    with target, tvm.transform.PassContext(opt_level=3):
        after = [
            relax.transform.MetaScheduleApplyDatabase(folder),
            relax.transform.SplitLayoutRewritePreproc(),
            relax.transform.FoldConstant(),
        ]
        return tvm.compile(tvm.transform.Sequential(after)(network), target=target)
