/* SPDX-License-Identifier: Apache-2.0
 * flag_rows_loadgen.c - the flags of `moire bench loadgen`; see flag_rows.c. */
#include "runtime/base/cores.h"
#include "tools/moire/command_line/flag_rows.h"

static const struct mo_flag rows[] = {
    {"--scenario", "S", ON(LOADGEN), TO(scenario),
     "one query after the other, eight samples at a time, queries at random times, or all samples at once",
     .needed = ON(LOADGEN), .choices = "SingleStream MultiStream Server Offline"},
    {"--qps", "R", ON(LOADGEN), TO(qps),
     "samples a second: those that Server sends; what Offline expects, measured by default", .least = 1e-3,
     .most = 1e7},
    {"--latency-ms", "MS", ON(LOADGEN), TO(qos_ms),
     "of Server: what 99 % must be within; LoadGen's rule for the model by default", .least = 1e-3,
     .most = 1e7},
    {"--seconds", "S", ON(LOADGEN), TO(seconds),
     "shortest time of a run, and only as many queries as early stopping needs; LoadGen's rule by default, "
     "600 and its counts of queries",
     .least = 0.001, .most = 86400},
    {"--samples", "N", ON(LOADGEN), TO(samples),
     "different inputs in memory; LoadGen's rule for the model by default, or 64", .least = 1,
     .most = 1000000},
    {"--batch", "N", ON(LOADGEN), TO(batch),
     "of MultiStream and Offline: samples that become one query of the model, 1 by default", .least = 1,
     .most = 1024},
    {"--seed", "S", ON(LOADGEN), TO(seed), "seed of LoadGen's arrivals and samples; its own by default",
     .least = 1, .most = MO_FLAG_UNBOUNDED},
    {"--threads", "N", ON(LOADGEN), TO(threads), "cores that every system may use; all by default",
     .least = 1, .most = MO_MAX_CORES},
    {"--over", "NET,...", ON(LOADGEN), TO(over),
     "http, grpc: a server that is started for it, or --server, as the system under test; none: in LoadGen's "
     "process, as by default",
     .room = 3},
    {"--server", "HOST:PORT", ON(LOADGEN), TO(server),
     "a server of the Open Inference Protocol that runs already; MODEL is its name there"},
    {"--peers", "P", ON(LOADGEN), TO(peers), "onnxruntime: the same test of it beside", .room = 1},
    {"--shape", "NAME=d,d,...", ON(LOADGEN), TO(shapes),
     "shape of an input that the file leaves open; may be given again"},
    {"--only-generic", NULL, ON(LOADGEN), TO(only_generic),
     "the built-in kernels, without the specialised ones"},
    {"--store", "DIR", ON(LOADGEN), TO(store),
     "folder of compiled variants; $XDG_CACHE_HOME/moire/store or ~/.cache/moire/store by default"},
    {"--models", "DIR", ON(LOADGEN), TO(models), "folder of zoo files, built on first use"},
    {"--output", "DIR", ON(LOADGEN), TO(output_dir),
     "folder of LoadGen's logs (mlperf_log_*); a second system has one of its own in it",
     .needed = ON(LOADGEN), .names = MO_NAMES_OUTPUT_FOLDER, .other = "-o"},
    {"--quiet", NULL, ON(LOADGEN), TO(quiet), "no progress on standard error"},
};

const struct mo_flag_rows mo_flag_rows_loadgen = {rows, (int)(sizeof rows / sizeof *rows)};
