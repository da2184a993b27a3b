/* SPDX-License-Identifier: Apache-2.0
 * flag_rows.c - the table of flags: name, value, the commands that take it, the field that it sets, and its
 * help.  A new flag is a row here, or for `moire serve`, `moire scale` and `moire bench loadgen` in
 * flag_rows_serve.c, flag_rows_scale.c and flag_rows_loadgen.c, and a field of struct mo_options.
 *
 * Help pages list flags in this order.  A flag that means different things to commands has several rows. Help
 * sentences begin in lower case and end without a full stop: the choices and the initial value come behind.
 */
#include "bench/cluster/cluster_nodes.h"
#include "bench/data/loads.h"
#include "bench/data/scenario.h"
#include "bench/fit/interference_fit.h"
#include "bench/flexy/flexy_bench.h"
#include "bench/inss/inss_bench.h"
#include "bench/learn/inss_train.h"
#include "bench/wattwiser/watt_bench.h"
#include "bench/load/serve.h"
#include "bench/plans/plans.h"
#include "bench/sim/grid.h"
#include "codegen/tune/stress.h"
#include "runtime/base/cores.h"
#include "runtime/gpu/gpu_ops.h"
#include "tools/moire/command_line/flag_rows.h"
#include "variants/store.h"

/* Commands that share flags. */
#define COMPILES    (ON(COMPILE) | ON(TUNE))
#define STORES      (ON(STORE_SHOW) | ON(STORE_CHECK) | ON(STORE_CLEAN))
#define ALONE       (ON(LATENCY) | ON(COLD) | ON(KERNELS))
#define SOLO        (ON(LATENCY) | ON(COLD) | ON(SURVEY))
#define LIVE        (ALONE | ON(SURVEY) | ON(SERVE) | ON(FIDELITY) | ON(PROFILE))
#define TABULATES   (ON(TABLES) | ON(GRID))
#define SCENARIO    (ON(SERVE) | ON(SIM) | TABULATES | ON(CAPACITY) | ON(FIDELITY))
#define ON_A_DEVICE (ON(SERVE) | ON(PROFILE) | ON(CHECK_DEVICE))
#define IMPORTS     (COMPILES | ON(FRONT) | ON(RUN) | ON(INSPECT) | ON(CHECK_MODEL))
#define QUANTIZES   ON(QUANTIZE)
#define PROXIES     (ON(PROXY_MEASURE) | ON(PROXY_FIT))
#define ALL         (~UINT64_C(0))

static const struct mo_flag rows[] = {
    /* --- models and their inputs --- */
    {"--shape", "NAME=d,d,...", IMPORTS | QUANTIZES, TO(shapes),
     "shape of an input that the file leaves open; may be given again for another"},
    {"--shape", "NAME=d,d,...", ALONE | ON(PROFILE) | ON(CHECK_DEVICE), TO(shapes),
     "shape of an input that the file leaves open; may be given again", .room = MO_BENCH_MAX_INPUTS},
    {"--input", "NAME=FILE.npy", ON(RUN), TO(inputs),
     "contents of an input; inputs left out are filled from the seed", .repeats = true},
    {"--batch", "N", ON(INSPECT), TO(batch), "first dimension where it is open, 1 by default", .least = 1,
     .most = MO_FLAG_UNBOUNDED},
    {"--batch", "N,...", ON(SURVEY), TO(batches), "batch sizes, 1 by default", .least = 1, .most = 1024,
     .room = 8},
    {"--data", "DIR", ON(CHECK_MODEL), TO(data),
     "runs on input_K.pb (or <input name>.npy) and compares with output_K.pb (or <output name>.npy), as the "
     "ONNX backend tests do"},
    {"--data", "DIR", QUANTIZES, TO(data), "samples to find ranges on; without it inputs are drawn"},
    {"--det", "FILE", ON(OCR) | ON(ZOO_REPOSITORY), TO(detector), "the detector (ONNX)", .needed = ON(OCR)},
    {"--cls", "FILE", ON(OCR) | ON(ZOO_REPOSITORY), TO(classifier), "the orientation classifier (ONNX)",
     .needed = ON(OCR)},
    {"--rec", "FILE", ON(OCR) | ON(ZOO_REPOSITORY), TO(recogniser), "the recogniser (ONNX)",
     .needed = ON(OCR)},
    {"--models", "DIR", LIVE | ON(CHECK_DEVICE), TO(models), "folder of zoo files, built on first use"},
    {"--store", "DIR", ON(CHECK_MODEL), TO(store),
     "with --verify and --layers: compiled variants of that folder as well"},
    {"--store", "DIR", LIVE | (IMPORTS & ~ON(CHECK_MODEL)) | STORES | ON(OCR), TO(store),
     "folder of compiled variants; $XDG_CACHE_HOME/moire/store or ~/.cache/moire/store by default"},
    {"--verify", NULL, ON(CHECK_MODEL), TO(verify),
     "runs on random inputs and compares the kernels with the reference"},
    {"--layers", NULL, ON(CHECK_MODEL), TO(layers),
     "runs every distinct layer alone, on random and adversarial inputs (zeros of both signs, denormals, "
     "large "
     "values, NaN, infinities), and compares its kernels with the reference; the error limit is a tenth of "
     "the tolerance"},
    {"--tolerance", "T", ON(CHECK_MODEL), TO(tolerance), "largest error relative to the output's range",
     .initial = "0.001", .most = 1e6},
    {"--generic", NULL,
     ON(RUN) | ON(INSPECT) | ON(OCR) | ON(KERNELS) | ON(SERVE) | ON(FIDELITY) | ON(PROFILE), TO(generic),
     "built-in kernels only, even where compiled variants exist"},
    {"--generic", NULL, ON(LATENCY) | ON(COLD), TO(generic), "the built-in kernels besides"},
    {"--only-generic", NULL, ALONE | ON(SURVEY), TO(only_generic),
     "the built-in kernels, without the specialised ones"},
    {"--reference", NULL, ON(RUN), TO(reference), "every layer by its plain C reference (slow; the oracle)"},
    {"--no-passes", NULL, ON(RUN), TO(no_passes), "the graph as imported, without fusion and layout passes"},
    {"--exact", NULL, COMPILES | ON(FRONT), TO(exact),
     "for models run with --exact: no algorithm that rounds more than the sum of products"},
    {"--exact", NULL, ON(RUN) | ON(INSPECT) | ON(CHECK_MODEL) | ALONE | ON(SERVE), TO(exact),
     "models loaded with `exact`: sums as ONNX writes them, no Winograd, no Strassen"},
    {"--precision", "P", ON(RUN) | ON(INSPECT) | ON(CHECK_MODEL) | COMPILES | ON(FRONT) | SOLO, TO(precision),
     "what layers compute with; auto: what the model is in, 8 bits and halves where this processor is fast "
     "at them",
     .initial = "auto", .choices = "auto int8 bf16 fp16 fp32"},
    {"--isa", "LEVEL", COMPILES, TO(isa), "instruction set of the kernels; what the machine has by default",
     .choices = "base avx2 avx512 neon"},
    {"--isa", "LEVEL", ON(RUN), TO(isa), "at most this instruction set", .choices = "base avx2 avx512 neon"},

    /* --- quantization --- */
    {"--method", "M", QUANTIZES, TO(method), "what of a tensor's values 8 bits cover",
     .initial = "percentile", .choices = "minmax percentile entropy"},
    {"--per-channel", NULL, QUANTIZES, TO(per_channel),
     "one scale for each output channel of weights, as by default"},
    {"--per-tensor", NULL, QUANTIZES, TO(per_tensor), "one scale for all weights of a layer"},
    {"--keep", "LAYER,...", QUANTIZES, TO(keep),
     "layers that stay float32, by the name of the node or its output"},
    {"--tolerance", "T", ON(RUN) | ON(LATENCY), TO(tolerance),
     "with --precision auto: what outputs may differ by from float32's, in parts of their range; the fastest "
     "precision within it is used, by measurement; 0: nothing is rounded without being told",
     .initial = "0", .most = 1},
    {"--tolerance", "T", QUANTIZES, TO(tolerance),
     "what outputs may differ by, relative to their size; the costliest layers stay float32 until it is so",
     .initial = "0.05", .least = 0, .most = MO_FLAG_UNBOUNDED},
    {"--samples", "N", QUANTIZES, TO(samples), "at most so many samples", .initial = "100", .least = 1,
     .most = 100000},
    {"--equalize", NULL, QUANTIZES, TO(equalize),
     "scales channels between convolutions first, so that filters use their ranges alike; for --per-tensor"},
    {"--no-bias-correction", NULL, QUANTIZES, TO(no_bias_correction),
     "leaves the mean error of rounded weights in the results"},
    {"--reduce-range", NULL, QUANTIZES, TO(reduce_range),
     "weights of 7 bits, for other runtimes on processors without VNNI, whose sums of two products may "
     "overflow"},
    {"--portable", NULL, QUANTIZES, TO(portable),
     "conversions before every activation but Relu and Clip: ONNX Runtime needs them to compute in int8"},
    {"--image-mean", "R,G,B", QUANTIZES, TO(image_mean),
     "taken off images, whose pixels are 0 to 1; ImageNet's by default", .least = -1000, .most = 1000,
     .room = 3},
    {"--image-deviation", "R,G,B", QUANTIZES, TO(image_deviation),
     "images are divided by it; ImageNet's by default", .least = 1e-6, .most = 1000, .room = 3},

    /* --- compilation --- */
    {"--threads", "N", COMPILES, TO(threads), "compilers that run at a time; all allowed cores by default",
     .least = 1, .most = 64},
    {"--budget", "SECONDS", COMPILES, TO(budget),
     "stop after about this time: first two candidates of every layer, largest first, then more where they "
     "promise most; without it 12 candidates of every layer",
     .least = 0.001, .most = 1e7},
    {"--cc", "CC", COMPILES, TO(cc), "C compiler; the first of gcc, clang, cc by default"},
    {"--candidates", "N", COMPILES, TO(candidates), "most candidates of a layer", .least = 1, .most = 20},
    {"--byte-price", "N", COMPILES, TO(byte_price),
     "microseconds that a layer may lose to save 1 MB of packed weights: the larger, the less memory; 0 for "
     "the fastest kernels of a "
     "model that has the machine to itself",
     .initial = "36", .most = 1e6},
    {"--cores", "N", COMPILES, TO(cores),
     "cores that a layer may get; all allowed ones by default.  Where the fastest kernel has fewer units "
     "than "
     "these, a second that feeds them is looked for and kept too",
     .least = 1, .most = MO_MAX_CORES},
    {"--refine", NULL, COMPILES, TO(refine), "try more candidates of layers that the store already has"},
    {"--versions", "N", ON(COMPILE), TO(versions),
     "also keep versions for several levels of pressure: see `moire tune`", .least = 1,
     .most = MO_STORE_VERSIONS},
    {"--versions", "N", ON(TUNE), TO(versions),
     "most versions of a layer.  Layers whose versions were chosen for another number are searched anew, "
     "unless this number would choose the same",
     .initial = "5", .least = 2, .most = MO_STORE_VERSIONS},
    {"--qos", "MS", COMPILES, TO(qos_ms),
     "with versions: target of the model; layers share it by operation count.  Without it a layer may take "
     "twice its best time",
     .least = 0.001, .most = 1e7},
    {"--keep-covered", NULL, COMPILES, TO(keep_covered),
     "with versions: keep also those that others cover on this machine; another machine, whose profiles "
     "`moire profile` and `moire extend` make from these, may need them"},
    {"--verbose", NULL, COMPILES, TO(verbose), "say why candidates are rejected"},
    {"--all", NULL, COMPILES, TO(all),
     "every model that the store knows, as it was compiled before: for a new processor or version of moire"},
    {"--all", NULL, ON(FRONT), TO(all), "also the implementations that were sampled and not kept, and why"},
    {"--html", "FILE", ON(FRONT), TO(html), "a page with the fronts and the times by pressure, drawn",
     .names = MO_NAMES_OUTPUT},
    {"--dry-run", NULL, ON(STORE_CLEAN), TO(dry_run), "list what would go"},
    {"--other-cpus", NULL, ON(STORE_CLEAN), TO(other_cpus),
     "what lies there for other processors, and only that; it asks nothing"},

    /* --- machines, policies and planners --- */
    {"--machine", "FILE|NAME", ON(SIM) | ON(PLAN) | ON(TRAIN), TO(machine),
     "the machine: a file, or a name in bench/machines", .needed = ON(PLAN) | ON(TRAIN)},
    {"--machine", "FILE|NAME", TABULATES | ON(BLOCKS) | ON(CAPACITY), TO(machine),
     "the machine: a file, or a name in bench/machines", .initial = "cores64"},
    {"--machine", "FILE|NAME", ON(WATTWISER), TO(machine),
     "GPUs of one type, a file or a name in bench/machines", .initial = "gpus4-mi50"},
    {"--machine", "FILE|NAME", ON(WHATIF), TO(machine),
     "a file or a name in bench/machines: its costs beside the kernels; else 3 us a block"},
    {"--machine", "M", ON(PLANS), TO(machines),
     "a machine with GPUs, a file or a name in bench/machines; may be given again", .repeats = true,
     .room = MO_PLANS_MACHINES},
    {"--vary", "KEY=V,V,...", ON(GRID), TO(vary),
     "a key of the machine file and its values; may be given again for another.  Those that are named above "
     "by "
     "default",
     .repeats = true, .room = MO_BENCH_AXES},
    {"--with", "KEY=VALUE", ON(SIM) | TABULATES, TO(with),
     "that value in place of the machine file's, for instance resize_us=50 or contention=factor:1.8; may be "
     "given again",
     .repeats = true, .room = MO_BENCH_WITH},
    {"--from", "MACHINE", ON(EXTEND), TO(from), "where the models were measured (`moire profile`)",
     .needed = ON(EXTEND)},
    {"--to", "MACHINE", ON(EXTEND), TO(to), "the machine to write profiles for", .needed = ON(EXTEND)},
    {"--tie", "MODEL,...", ON(EXTEND), TO(ties), "models that are known on both", .needed = ON(EXTEND),
     .room = 8},
    {"--model", "M", ON(INTERFERENCE), TO(model), "gpu-let's linear model, or InSS's latency model",
     .initial = "linear", .choices = "linear inss"},
    {"--against", "MACHINE", ON(INTERFERENCE), TO(against),
     "tests the constants of that machine's GPUs on the same pairs; may be given again", .repeats = true,
     .room = MO_INTERFERENCE_MODELS},
    {"--cores", "N", ON(INSPECT), TO(cores),
     "also: which layers cannot give each of N cores a share, and why", .least = 1, .most = MO_MAX_CORES},
    {"--cores", "N", ON(WHATIF), TO(cores), "cores, as recorded by default", .least = 1, .most = 1024},
    {"--policy", "P,...", ON(SERVE), TO(policies), "policies of moire, or none",
     .initial = "moire,fcfs,fcfs-1", .room = MO_BENCH_MAX_POLICIES},
    {"--policy", "P,...", ON(SIM), TO(policies),
     "policies; bound: an upper limit for any scheduler; offline: the best schedule found with all arrivals "
     "known",
     .initial = "moire,fcfs,fcfs-1", .room = MO_BENCH_MAX_POLICIES},
    {"--policy", "P,...", ON(TABLES), TO(policies), "all by default, `offline` and `bound`",
     .room = MO_BENCH_MAX_POLICIES},
    {"--policy", "P,...", ON(GRID), TO(policies),
     "policies; others are compared with `layerwise`.  By default the paper's: model-wise, layerwise, "
     "planaria, "
     "veltair-as, veltair-ac and veltair",
     .room = MO_BENCH_MAX_POLICIES},
    {"--policy", "P,...", ON(FIDELITY), TO(policies), "policies", .initial = "moire,lanes,fcfs",
     .room = MO_BENCH_MAX_POLICIES},
    {"--policy", "P,...", ON(WATTWISER), TO(policies),
     "policies on GPUs; by default WattWiser's four and moire-energy", .room = MO_WATT_POLICIES},
    {"--policy", "P,...", ON(INSS), TO(policies),
     "systems: policies on GPUs, or planners with the plain server; by default inss, its rivals and "
     "moire-gpu",
     .room = MO_INSS_BENCH_SYSTEMS},
    {"--policy", "P,...", ON(FLEXY), TO(policies),
     "systems: those of the paper and of moire, all by default; flexy-K and priority-K keep K devices",
     .room = MO_FLEXY_BENCH_SYSTEMS},
    {"--policy", "P", ON(CAPACITY), TO(policies), "the policy", .initial = "moire", .room = 1},
    {"--policy", "P,...", ON(WHATIF), TO(policies), "policies, as recorded by default",
     .room = MO_BENCH_MAX_POLICIES},
    {"--against", "P", ON(SERVE), TO(against),
     "the first of --policy and this policy in turns, on the same arrivals: what lies between them",
     .room = 1},
    {"--neighbour", "LEVEL,...", ON(SERVE), TO(neighbour),
     "each of --policy that chooses versions by pressure against itself without that choice: with no "
     "neighbour, "
     "beside one of `moire stress` at each of these levels, 1 to 5, and beside one that changes among them",
     .least = 1, .most = MO_STRESS_LEVELS - 1, .room = MO_BENCH_MAX_NEIGHBOUR},
    {"--rounds", "N", ON(SERVE), TO(rounds), "with --neighbour: pairs of turns under each of its conditions",
     .initial = "5", .least = 2, .most = 1000},
    {"--objective", "O", ON(SERVE) | ON(SIM) | ON(TABLES) | ON(CAPACITY), TO(objective),
     "in place of the scenario's: what counts when not all can be in time", .choices = "every all weighted"},
    {"--stalls", "RATE:MS-MS", ON(SERVE), TO(stalls),
     "each core stands still so many times a second, for that long: a thread of real-time priority keeps it"},
    {"--slow", "FACTOR:FAST:SLOW", ON(SERVE), TO(slow),
     "now and then everything takes FACTOR times its time; mean seconds of fast and of slow times"},
    {"--ablation", NULL, ON(TABLES), TO(ablation),
     "the policies are moire, moire less one part each, and the bound"},
    {"--planner", "P", ON(PLAN), TO(planner),
     "moire-gpu, ideal, beam, gpulet-int, gpulet, igniter, gslice, sbp-half, sbp, mps, as others released "
     "them "
     "gpulet-released, sbp-paper, ideal-partitions, or inss, which was trained",
     .initial = "moire-gpu", .other = "--policy"},
    {"--weights", "FILE.mo", ON(PLAN) | ON(SIM) | ON(INSS) | ON(SERVE), TO(weights),
     "what inss was trained to (`moire train`); the machine's own by default"},
    {"--models", "A,B,...", ON(TRAIN), TO(learned),
     "models to learn with: names of profiles of the machine's GPUs", .needed = ON(TRAIN),
     .room = MO_INSS_WORLD_MODELS},
    {"--episodes", "N", ON(TRAIN), TO(episodes), "episodes of 100 decisions, those before --resume included",
     .initial = "1600", .least = 1, .most = MO_INSS_EPISODES},
    {"--tenants", "N", ON(TRAIN), TO(tenants),
     "learn with N tenants that are always the same, of the models in turn; by default they are drawn anew",
     .least = 1, .most = MO_INSS_CROWD},
    {"--needs", "S", ON(TRAIN) | ON(INSS), TO(needs),
     "seed of who needs how much: of --tenants (1 by default), of all runs (each run's own by default)",
     .least = 1, .most = 1LL << 53},
    {"--load", "L", ON(TRAIN), TO(load),
     "GPUs that each of --tenants needs in the mean, at most; 0.2 by default", .least = 0.001, .most = 10},
    {"--planner", "P,...", ON(PLANS), TO(planners), "all by default", .room = MO_PLANS_PLANNERS},
    {"--burst", "Z", ON(PLAN), TO(burst),
     "a batch holds the mean of a duty cycle and Z standard deviations, 0 by default", .most = 1e9},
    {"--fewest", NULL, ON(PLAN), TO(fewest),
     "the first GPUs of the machine, as few as the planner serves all with"},
    {"--budget", "N", ON(PLAN), TO(budget), "let evaluations of a bounded search", .least = 1, .most = 1e9},
    {"--every", "N", ON(PLANS), TO(every_nth), "every N-th of the loads", .initial = "1", .least = 1,
     .most = MO_LOADS_GRID},
    {"--no-scaling", NULL, ON(PLANS), TO(no_scaling), "without the time of a plan by GPUs and models"},
    {"--peers", "P,...", SOLO, TO(peers),
     "openvino, onnxruntime, ncnn, mnn or all of these; tvm, for models that bench/peers/tvm_tune.py has "
     "tuned"},
    {"--in-turns", NULL, ON(SERVE), TO(in_turns), "all systems with a seed before the next"},
    {"--peers", "P,...", ON(SERVE), TO(peers),
     "openvino, onnxruntime, all, or single ones: openvino-{latency,throughput}, "
     "ort-{fcfs-all,core-per-query}, ort-all-at-once-{1t,nt,nt-nospin} and, by class, "
     "ort-split{,-all,-nice,-idle}; with --over triton, mlserver, onnxruntime-uvicorn, or an arrangement of "
     "them"},
    {"--over", "NET,...", ON(SERVE), TO(over),
     "networks that queries come by, http and grpc, to servers that are started for it; none: in one process",
     .room = MO_BENCH_MAX_OVER},
    {"--server-peers", "DIR", ON(SERVE), TO(server_peers), "where bench/serve-peers has set up model servers",
     .initial = ".venv-serve-peers"},
    {"--peer", "onednn", ON(KERNELS), TO(peers), "the same layers on oneDNN beside", .choices = "onednn none",
     .other = "--peers"},

    /* --- arrivals and loads --- */
    {"--load", "L,...", ON(SERVE) | ON(SIM), TO(loads), "loads, 0.5 by default", .least = 0.001, .most = 1000,
     .room = MO_BENCH_MAX_LOADS},
    {"--load", "L,...", ON(TABLES), TO(loads),
     "of the tables in which all policies have the same load; 0.25, 0.5, 0.75 and 1 of what `layerwise` "
     "holds "
     "by default",
     .least = 0.001, .most = 1000, .room = MO_BENCH_MAX_LOADS},
    {"--load", "L,...", ON(FIDELITY), TO(loads),
     "by default 0.5, 0.7 and 0.9 of the highest load at which 95 % are in time, which is simulated for each "
     "policy with what blocks took in its recording",
     .least = 0.001, .most = 1000, .room = MO_BENCH_MAX_LOADS},
    {"--case", "C,...", ON(INSS), TO(cases),
     "steps, bursts, longer, shorter, unseen: all by default; on 64 GPUs there is steps alone",
     .room = MO_INSS_BENCH_CASES},
    {"--case", "C,...", ON(FLEXY), TO(cases), "W1, W2, W3, bursts: all by default",
     .room = MO_FLEXY_BENCH_CASES},
    {"--load", "F,...", ON(FLEXY), TO(loads),
     "load factors: at 1 the jobs need one of the four devices, at 0.25 all; ten of 0.125 to 4 by default",
     .least = 0.01, .most = 100, .room = MO_FLEXY_BENCH_LOADS},
    {"--load", "L,...", ON(INSS), TO(loads),
     "GPUs that a model needs in the mean, rising; 0.1, 0.2, 0.3 by default, the middle one on 64 GPUs",
     .least = 0.001, .most = 10, .room = MO_INSS_BENCH_LOADS},
    {"--load", "L", ON(PLAN), TO(load), "multiple of the scenario's rates", .initial = "1", .most = 1e9},
    {"--load", "L", ON(PLANS), TO(load), "multiple of the loads", .initial = "1", .least = 0.01, .most = 100},
    {"--qps", "R", ON(CAPACITY), TO(qps), "queries a second of all tenants together", .least = 1e-6,
     .most = 1e9},
    {"--target", "SHARE", ON(CAPACITY), TO(target), "share that must be in time", .initial = "0.95",
     .least = 0.01, .most = 1},
    {"--every", NULL, ON(CAPACITY), TO(every), "of every tenant's queries, not of all"},
    {"--nodes", "FILE", ON(CAPACITY), TO(nodes), "many machines: which models go where, and how that serves"},
    {"--routing", "R", ON(CAPACITY), TO(routing), "with --nodes: how queries are sent to machines",
     .initial = "deadline", .choices = "random outstanding two deadline all"},
    {"--scale", "N,...", ON(CAPACITY), TO(scale),
     "with --nodes, in place of --qps: the highest rate of so many machines like the first", .least = 1,
     .most = MO_CLUSTER_MAX_NODES, .room = 16},
    {"--find-max", "SHARE", ON(SERVE) | ON(SIM), TO(find_max),
     "highest load at which SHARE of all queries, and of every tenant's, is in time", .least = 0.01,
     .most = 1},
    {"--find-max", "SHARE", TABULATES, TO(find_max), "share that must be in time", .initial = "0.95",
     .least = 0.01, .most = 1},
    {"--step", "S", ON(SERVE) | ON(SIM), TO(step), "grid of that search", .initial = "0.05", .least = 0.005,
     .most = 100},
    {"--step", "S", TABULATES, TO(step), "grid of the search", .initial = "0.025", .least = 0.005,
     .most = 100},
    {"--max-load", "L", ON(SERVE) | ON(SIM), TO(max_load), "end of that grid", .initial = "1.2",
     .least = 0.01, .most = 1000},
    {"--max-load", "L", TABULATES, TO(max_load), "end of that grid", .initial = "1.6", .least = 0.01,
     .most = 1000},
    {"--expect", "L", ON(SERVE) | ON(SIM), TO(expect),
     "where that search begins, 0.5 by default; near the answer it is short", .least = 0.001, .most = 1000},
    {"--arrivals", "PROCESS", ON(SERVE) | ON(SIM) | ON(CAPACITY) | ON(GRID), TO(arrivals),
     "poisson (default), uniform (equal gaps), gamma:CV or mmpp:CV (bursts of the same index of "
     "dispersion)"},
    {"--arrivals-list", "A,...", ON(TABLES), TO(processes), "arrival processes, one table each",
     .initial = "poisson,gamma:4,mmpp:4", .room = 32},
    {"--seconds", "S", ON(SIM) | ON(CAPACITY), TO(seconds),
     "simulated time that counts, 10 by default; a probe of `sim --find-max` 60, or more for rare tenants",
     .least = 0.001, .most = 86400},
    {"--seconds", "S", ON(WATTWISER), TO(seconds),
     "simulated time of a run, its steps equally long; 20 a step by default", .least = 0.001, .most = 86400},
    {"--seconds", "S", ON(INSS), TO(seconds),
     "simulated time that counts, of each run: 300 by default, on 64 GPUs 60; the paper's is 1800",
     .least = 0.001, .most = 86400},
    {"--seconds", "S", TABULATES, TO(seconds), "simulated time of a probe, 60 by default", .least = 0.001,
     .most = 86400},
    {"--seconds", "S", ON(FIDELITY), TO(seconds), "time of a run that counts, 12 by default", .least = 0.001,
     .most = 86400},
    {"--seconds", "S", ON(SERVE) | ON(LATENCY) | ON(SURVEY) | ON(KERNELS), TO(seconds),
     "measured time of one run (serve, 10; a probe of --find-max 30, up to 4 times that until each tenant "
     "expects 100 queries), of each system (latency, 2; survey, 1) or of a layer "
     "(kernels, 0.15)",
     .least = 0.001, .most = 86400},
    {"--seconds", "S", ON(DEVICES), TO(seconds), "between the two looks of --power", .initial = "1",
     .least = 0.001, .most = 3600},
    {"--seconds", "S", ON(STRESS), TO(seconds), "stop after S seconds; without it on SIGINT or SIGTERM",
     .least = 0.001, .most = 1e7},
    {"--warmup", "S", ON(SERVE) | ON(SIM), TO(warmup), "time before it that does not count", .initial = "1",
     .most = 3600},
    {"--seeds", "N", ON(SIM), TO(seed_count),
     "seeds 1 to N; the summary then has means and 95 % confidence intervals", .least = 1,
     .most = MO_BENCH_MAX_SEEDS},
    {"--seeds", "N", ON(INSS) | ON(WATTWISER) | ON(FLEXY), TO(seed_count), "seeds 1 to N, 10 by default",
     .least = 1, .most = MO_INSS_BENCH_SEEDS},
    {"--seeds", "N", TABULATES, TO(seed_count), "seeds 1 to N, 10 by default", .least = 1,
     .most = MO_BENCH_MAX_SEEDS},
    {"--seed", "K,...", SCENARIO & ~TABULATES, TO(seeds),
     "seeds of the arrivals, 1 by default; every system gets the same arrivals", .most = 9000000000000000,
     .room = MO_BENCH_MAX_SEEDS},
    {"--seed", "S", ON(RUN) | ON(CHECK_MODEL) | QUANTIZES, TO(seed), "seed of generated inputs",
     .initial = "1", .most = MO_FLAG_UNBOUNDED},
    {"--seed", "S", ON(ZOO_BUILD), TO(seed), "seed of the weights; the same seed gives the same file",
     .initial = "1", .most = MO_FLAG_UNBOUNDED},
    {"--seed", "S", ON(PLANS), TO(seed), "seed of the models whose plans are timed", .initial = "1",
     .most = MO_FLAG_UNBOUNDED},
    {"--seed", "S", ON(TRAIN), TO(seed), "seed of the training", .initial = "1", .most = 1LL << 53},
    {"--seed", "N", ON(INTERFERENCE), TO(seed), "seed of the split", .initial = "1", .least = 1,
     .most = MO_FLAG_UNBOUNDED},
    {"--splits", "N", ON(INTERFERENCE), TO(splits),
     "halves drawn to see how far the error depends on the draw", .initial = "20", .least = 1, .most = 1000},
    {"--draws", "N", ON(WHATIF), TO(draws), "the mean of so many simulations, 1 by default", .least = 1,
     .most = 1024},
    {"--calibrate", "S", ON(SERVE), TO(calibrate), "solo time measured of each model and system",
     .initial = "0.6", .least = 0.01, .most = 600},
    {"--calibration", "FILE", ON(SERVE) | ON(SIM), TO(calibration),
     "take QoS targets and solo times from an earlier result"},
    {"--replay", "TRACE", ON(SIM), TO(replay), "a recorded run in place of a scenario"},
    {"--measured", NULL, ON(SIM) | ON(WHATIF), TO(measured),
     "in a replay: blocks take and cost what they did in the recording, tenant by tenant, not what the "
     "profiles say"},
    {"--costs", "TRACE", ON(SIM) | ON(WHATIF), TO(costs),
     "in a replay: what they did in another recording of the same tenants"},
    {"--speed", NULL, ON(SIM) | ON(WHATIF), TO(speed),
     "in a replay: and the machine as fast, moment by moment, as it was in the recording, with the blocks "
     "that "
     "stalled; the core count must be the recorded one"},

    /* --- measuring --- */
    {"--threads", "N,...", ALONE | ON(SURVEY), TO(thread_counts),
     "thread counts, all cores (1 for kernels) by default", .least = 1, .most = 1024, .room = 8},
    {"--threads", "N", ON(PROFILE), TO(thread_counts), "at most so many cores, all by default", .least = 1,
     .most = 1024, .room = 8},
    {"--threads", "N", ON(RUN), TO(threads), "cores that work on the query together", .initial = "1",
     .least = 1, .most = 1024},
    {"--threads", "N", ON(OCR), TO(threads), "cores to use; all by default", .least = 1, .most = 1024},
    {"--threads", "N", ON(SERVE), TO(threads),
     "cores that every system may use, all by default; a neighbour has those that are left", .least = 1,
     .most = MO_MAX_CORES},
    {"--threads", "N", ON(STRESS), TO(threads), "walkers; one a core by default", .least = 1, .most = 256},
    {"--level", "N", ON(STRESS), TO(level), "0 (asleep) to 5", .initial = "5", .most = MO_STRESS_LEVELS - 1},
    {"--kind", "KIND", ON(STRESS), TO(kind),
     "what the buffers fill: private caches (l2), the shared one (l3) or memory", .initial = "l3",
     .choices = "l2 l3 memory"},
    {"--same-core", NULL, ON(STRESS), TO(same_core),
     "on the victim's own core: every millisecond a part of its private cache is overwritten, twice the "
     "cache "
     "at level 5.  The default where only one core is allowed"},
    {"--repeat", "K", ON(RUN), TO(repeat), "runs K times and reports the shortest and median time",
     .least = 1, .most = 1000000},
    {"--repetitions", "N", ON(PROFILE), TO(repetitions), "repetitions, of which the shortest counts",
     .initial = "20", .least = 1, .most = 100000},
    {"--profile", NULL, ON(LATENCY), TO(profile), "moire's time by layer besides"},
    {"--profile", NULL, ON(RUN), TO(profile),
     "time, rate and kernel of every layer, against what the machine can do at most (measured first); half a "
     "second of runs unless --repeat says how many"},
    {"--pressure", "L,...", ON(PROFILE), TO(levels),
     "levels of the neighbour besides 0, rising, 1 to 5; none by default", .least = 1,
     .most = MO_STRESS_LEVELS - 1},
    {"--predict", "CORES", ON(PROFILE), TO(predict),
     "also columns for more cores than there are, up to that many: the time on the most cores, by how each "
     "version's units divide among them (`moire compile --cores`); barriers and what cores do to each "
     "other's "
     "memory stay as they were measured",
     .least = 1, .most = MO_MAX_CORES},
    {"--pressure", "SOURCE", ON(SERVE), TO(pressure),
     "papi, resctrl, slowdown or auto (`moire proxy list`); what --record records"},
    {"--proxy", "FILE", ON(SERVE), TO(proxy),
     "pressure of moire's runs from counters, by a file of `moire proxy fit`"},
    {"--source", "NAME", ON(PROXY_MEASURE), TO(source),
     "papi, resctrl, slowdown or auto, the first that works (default)"},
    {"--rounds", "N", ON(PROXY_MEASURE), TO(rounds), "windows of 24 ms at each level", .initial = "40",
     .least = 1, .most = 10000},
    {"--use", "C,...", ON(PROXY_FIT), TO(columns), "only these columns; all that change by default"},
    {"--cost", NULL, ON(SIM), TO(cost), "measure what decisions cost (real time, so not the same each time)"},
    {"--jobs", "N", ON(SIM) | TABULATES | ON(PLANS) | ON(INSS) | ON(WATTWISER) | ON(FLEXY), TO(jobs),
     "worker processes, one a core of this machine by default", .least = 1, .most = 64},

    /* --- GPUs --- */
    {"--device", "D", ON(DEVICES) | ON_A_DEVICE, TO(device),
     "the plugin of the GPUs: cuda, or cuda:FILE for one that is not beside moire",
     .needed = ON(CHECK_DEVICE)},
    {"--device-process", "WHERE", ON(DEVICES) | ON_A_DEVICE, TO(process),
     "where the plugin runs: in (this process), child (one of its own) or child:FILE"},
    {"--device-libraries", "DIR[:DIR]", ON(DEVICES) | ON_A_DEVICE, TO(libraries),
     "where libcuda.so.1, NVML, NVRTC, cuDNN and cuBLASLt are looked for before the loader's search"},
    {"--device-cache", "DIR", ON_A_DEVICE, TO(cache),
     "folder of compiled GPU programs (\"\": keep none); $XDG_CACHE_HOME/moire/gpu or ~/.cache/moire/gpu by "
     "default"},
    {"--device-cache", "DIR", STORES, TO(cache),
     "folder of compiled GPU programs (\"\": none); with --store none by default, else "
     "$XDG_CACHE_HOME/moire/gpu or ~/.cache/moire/gpu"},
    {"--gpus", "MACHINE", ON(SERVE), TO(gpus),
     "with --device: the machine file of these GPUs, whose profiles plans, targets and rates rest on, as in "
     "`moire sim`"},
    {"--gpus", "N", ON(INSS), TO(gpus), "GPUs: 4, with ten models, or 64, with 8 to 160 models",
     .initial = "4", .choices = "4 64"},
    {"--gpu", "N", ON(PROFILE), TO(gpu), "which of its GPUs", .initial = "0", .most = 63},
    {"--max-batch", "N", ON(PROFILE), TO(max_batch), "largest batch on a GPU", .initial = "32", .least = 1,
     .most = 256},
    {"--precision", "P", ON_A_DEVICE, TO(precision), "on GPUs: fp32 (default), tf32, fp16 or bf16"},
    {"--units", "U,...", ON(PROFILE), TO(units), "sizes of lets, in units, rising; all by default",
     .least = 1, .most = MO_GPU_UNITS, .room = MO_GPU_UNITS},
    {"--pairs", "FILE.csv", ON(PROFILE), TO(pairs), "measure pairs of models on the GPU too",
     .names = MO_NAMES_OUTPUT},
    {"--power", NULL, ON(DEVICES), TO(power),
     "shows what each device draws and by what that is known, and what clocks the cores may have"},
    {"--probe", NULL, ON(DEVICES), TO(probe),
     "opens a let on every unit and runs a kernel that notes its SMs: shows that lets share none"},

    /* --- results --- */
    {"--record", "FILE", ON(SERVE), TO(record), "the trace of moire's last run, for `moire whatif`",
     .names = MO_NAMES_OUTPUT},
    {"--report", "FILE.html",
     ON(SERVE) | ON(SIM) | TABULATES | ON(PLANS) | ON(INSS) | ON(WATTWISER) | ON(FLEXY) | ON(REPORT) |
         QUANTIZES,
     TO(report), "a self-contained page with plots", .names = MO_NAMES_OUTPUT},
    {"--trace", "FILE.json", ON(SERVE) | ON(REPORT), TO(trace),
     "the timeline as a Chrome trace (opens in Perfetto)", .names = MO_NAMES_OUTPUT},
    {"--trace", "FILE.json", ON(RUN), TO(trace),
     "--profile, and its times as a Chrome trace, by worker (opens in Perfetto)", .names = MO_NAMES_OUTPUT},
    {"--svg", "FILE", ON(INSPECT) | ON(RUN) | ON(PLAN), TO(svg),
     "a drawing: the graph of layers (run: --profile, coloured by time); lets and duty cycles",
     .names = MO_NAMES_OUTPUT},
    {"--plot", "FILE.svg", ON(INTERFERENCE), TO(plot), "distribution of the errors",
     .names = MO_NAMES_OUTPUT},
    {"--output-dir", "DIR", ON(RUN), TO(output_dir), "writes every output as DIR/<output name>.npy",
     .names = MO_NAMES_OUTPUT_FOLDER},
    {"--dump", "DIR", ON(OCR), TO(dump), "writes input and output of every network call as .npy files",
     .names = MO_NAMES_OUTPUT_FOLDER},
    {"--output", "DIR", ON(PROFILE), TO(output), "folder of the files, which must exist",
     .needed = ON(PROFILE), .names = MO_NAMES_OUTPUT_FOLDER, .other = "-o"},
    {"--output", "DIR", ON(EXTEND), TO(output), "folder of the files; that of the profiles of TO by default",
     .names = MO_NAMES_OUTPUT_FOLDER, .other = "-o"},
    {"--output", "PATH", ON(ZOO_BUILD), TO(output), "file to write; a folder for `all`",
     .needed = ON(ZOO_BUILD), .other = "-o"},
    {"--output", "OUT.onnx", QUANTIZES, TO(output), "the model", .needed = QUANTIZES,
     .names = MO_NAMES_OUTPUT, .other = "-o"},
    {"--output", "FILE", PROXIES, TO(output),
     "where the samples or the proxy go; the runtime takes the proxy: `moire bench serve --proxy`, "
     "config.proxy of an embedding",
     .needed = ON(PROXY_MEASURE), .names = MO_NAMES_OUTPUT, .other = "-o"},
    {"--output", "FILE.mo", ON(TRAIN), TO(output), "the policy", .needed = ON(TRAIN),
     .names = MO_NAMES_OUTPUT, .other = "-o"},
    {"--output", "FILE.json",
     ALONE | ON(SURVEY) | ON(MACHINE) | ON(SERVE) | ON(PLANS) | ON(INSS) | ON(WATTWISER) | ON(FLEXY) |
         ON(SIM) | TABULATES | ON(WHATIF) | ON(FIDELITY) | ON(PLAN) | ON(INTERFERENCE),
     TO(output), "the result document to a file besides; one that takes long grows step by step",
     .names = MO_NAMES_OUTPUT, .other = "-o"},
    {"--resume", NULL,
     ON(LATENCY) | ON(SURVEY) | ON(KERNELS) | ON(INSS) | ON(WATTWISER) | ON(FLEXY) | TABULATES |
         ON(FIDELITY) | ON(PROFILE),
     TO(resume), "skip what the file of --output holds already"},
    {"--resume", NULL, ON(TRAIN), TO(resume), "go on from the checkpoint beside the policy"},
    {"--json", NULL, ALL & ~ON(RUNNER), TO(json), "the result as JSON on standard output"},
    {"--quiet", NULL,
     ALONE | ON(SURVEY) | SCENARIO | ON(MACHINE) | ON(PLANS) | ON(INSS) | ON(WATTWISER) | ON(FLEXY) |
         ON(REPORT) | ON(TRAIN) | QUANTIZES,
     TO(quiet), "no progress on standard error"},
};

const struct mo_flag_rows mo_flag_rows = {rows, (int)(sizeof rows / sizeof *rows)};

/* --- all of them --- */
static const struct mo_flag_rows *const tables[] = {&mo_flag_rows, &mo_flag_rows_serve, &mo_flag_rows_scale,
                                                    &mo_flag_rows_loadgen};
enum { TABLES = sizeof tables / sizeof *tables };

int mo_n_flags(void) {
    int n = 0;
    for (int i = 0; i < TABLES; i++)
        n += tables[i]->n;
    return n;
}

const struct mo_flag *mo_flag_at(int index) {
    int i = 0;
    for (; i + 1 < TABLES && index >= tables[i]->n; i++)
        index -= tables[i]->n;
    return &tables[i]->row[index];
}
