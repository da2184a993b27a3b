/* SPDX-License-Identifier: Apache-2.0
 * options.h - what a command line of `moire` asked for: one struct for all verbs, filled from the flag table
 * (flag_rows.c) before a verb runs.  A verb reads the fields of the flags that the table gives it; all others
 * are zero. */
#ifndef MO_OPTIONS_H
#define MO_OPTIONS_H
#include <stdbool.h>
#include "runtime/base/env.h"

/* What can be asked for: a verb, or a command of a verb that has several. */
enum mo_command {
    MO_DO_NOTHING, /* ends a list of commands */
    MO_DO_COMPILE,
    MO_DO_TUNE,
    MO_DO_FRONT,
    MO_DO_STORE_SHOW,
    MO_DO_STORE_CHECK,
    MO_DO_STORE_CLEAN,
    MO_DO_RUN,
    MO_DO_INSPECT,
    MO_DO_LATENCY,
    MO_DO_COLD,
    MO_DO_SURVEY,
    MO_DO_LOADGEN,
    MO_DO_KERNELS,
    MO_DO_MACHINE,
    MO_DO_SERVE,
    MO_DO_PLANS,
    MO_DO_INSS,
    MO_DO_WATTWISER,
    MO_DO_FLEXY,
    MO_DO_REPORT,
    MO_DO_RUNNER,
    MO_DO_CLIENT,
    MO_DO_SIM,
    MO_DO_PROFILE,
    MO_DO_EXTEND,
    MO_DO_TABLES,
    MO_DO_GRID,
    MO_DO_WHATIF,
    MO_DO_FIDELITY,
    MO_DO_CAPACITY,
    MO_DO_BLOCKS,
    MO_DO_PLAN,
    MO_DO_TRAIN,
    MO_DO_ZOO_LIST,
    MO_DO_ZOO_BUILD,
    MO_DO_ZOO_REPOSITORY,
    MO_DO_CHECK_MODEL,
    MO_DO_QUANTIZE,
    MO_DO_CHECK_DEVICE,
    MO_DO_SCALE_HAPROXY,
    MO_DO_SCALE_KSERVE,
    MO_DO_SCALE_RAY,
    MO_DO_OCR,
    MO_DO_SERVER,
    MO_DO_TOP,
    MO_DO_STRESS,
    MO_DO_PROXY_LIST,
    MO_DO_PROXY_MEASURE,
    MO_DO_PROXY_FIT,
    MO_DO_INTERFERENCE,
    MO_DO_SHARES,
    MO_DO_DEVICES,
    MO_DO_LIMITS,
    MO_COMMANDS
};

enum { MO_OPTION_ROOM = 64 }; /* entries of a list */

struct mo_words {
    const char *word[MO_OPTION_ROOM];
    int n;
};
struct mo_wholes {
    int64_t value[MO_OPTION_ROOM];
    int n;
};
struct mo_numbers {
    double value[MO_OPTION_ROOM];
    int n;
};
struct mo_shapes {
    moire_shape shape[MO_OPTION_ROOM];
    int n;
};

struct mo_options {
    enum mo_command command;
    int argc; /* the words as they were given, the verb first: what a document says of its origin */
    char **argv;
    char *text; /* a copy of them, cut up; the fields point into it */
    struct mo_words operands;

    /* One field a flag, or for all flags that mean the same; units as in the flag's row. */
    bool ablation, all, cost, dry_run, equalize, every, exact, exit_on_error, fewest, generic, in_turns,
        insecure, json, json_log, load_first, nv_metrics, once, keep_covered, layers, measured,
        no_bias_correction, no_passes, other_cpus, no_scaling, only_generic, per_channel, per_tensor,
        portable, power, probe, profile, quiet, reduce_range, reference, refine, resume, same_core, speed,
        verbose, verify;
    int agent_port, agent_step, candidates, control_port, cores, drain_seconds, draws, episodes, every_nth,
        gpu, grpc_port, http_port, jobs, level, log_verbose, max_batch, metrics_port, poll_seconds, predict,
        repeat, repetitions, rounds, samples, seed_count, splits, tenants, threads, versions;
    int64_t batch, body_bytes, needs, record_events, seed, shape_memory;
    double budget, burst, byte_price, calibrate, expect, find_max, load, max_load, qos_ms, qps, seconds, step,
        target, tolerance, warmup;
    const char *arrivals, *cache, *calibration, *cc, *check, *classifier, *control_mode, *control_unix,
        *columns, *config, *costs, *data, *detector, *device, *dump, *from, *gpus, *grpc_unix, *host, *html,
        *image, *isa, *keep, *kind, *libraries, *listen, *machine, *method, *model, *models, *nodes,
        *objective, *output, *output_dir, *pairs, *planner, *plot, *precision, *pressure, *process, *proxy,
        *recogniser, *record, *replay, *report, *repository, *routing, *scenario, *server, *server_peers,
        *shared_memory, *source, *slow, *stalls, *store, *svg, *tls_ca, *tls_cert, *tls_client_ca, *tls_key,
        *token, *token_file, *to, *trace, *trace_file, *unix_path, *weights;
    struct mo_words against, cases, inputs, learned, load_models, machines, over, peers, planners, policies,
        processes, ties, vary, with;
    struct mo_wholes batches, levels, neighbour, scale, seeds, thread_counts, units;
    struct mo_numbers image_deviation, image_mean, loads;
    struct mo_shapes shapes;
};
#endif
