/* SPDX-License-Identifier: Apache-2.0
 * bench_alone.c - the commands of `moire bench` that run one thing at a time: models, layers, the machine. */
#define _GNU_SOURCE
#include <string.h>
#include "bench/load/cold.h"
#include "bench/kernels/kernels.h"
#include "bench/kernels/machine_measure.h"
#include "models/zoo.h"
#include "tools/moire/bench_options.h"

/* The word "zoo" becomes all its names. */
static int pick_models(struct mo_bench_options *o, const char *command, moire_error *err) {
    const char *given[MO_BENCH_MAX_MODELS];
    int n = o->latency.n_models, rows;
    const struct mo_zoo_model *zoo = mo_zoo_table(&rows);
    if (n == 0) return mo_fail(err, MOIRE_EINVAL, "%s needs a file or a zoo name", command);
    memcpy(given, o->models, sizeof given);
    o->latency.n_models = 0;
    for (int i = 0; i < n; i++) {
        const bool all = !strcmp(given[i], "zoo");
        for (int k = 0; k < (all ? rows : 1); k++) {
            if (o->latency.n_models == MO_BENCH_MAX_MODELS)
                return mo_fail(err, MOIRE_ELIMIT, "more than %d models", MO_BENCH_MAX_MODELS);
            o->models[o->latency.n_models++] = all ? zoo[k].name : given[i];
        }
    }
    return MOIRE_OK;
}

static int pick_families(struct mo_bench_options *o, moire_error *err) {
    static const char *const known[] = {"openvino", "onnxruntime", "ncnn", "mnn"};
    enum { KNOWN = sizeof known / sizeof *known };
    char *parts[KNOWN];
    int n = o->peers ? mo_bench_split((char *)o->peers, parts, KNOWN) : 0;
    if (n < 0) return mo_bench_bad_flag(err, "--peers", NULL, "too many names");
    for (int i = 0; i < n; i++) {
        const int before = o->latency.spec.n_families;
        for (size_t k = 0; k < KNOWN && o->latency.spec.n_families < (int)KNOWN; k++)
            if (!strcmp(parts[i], known[k]) || !strcmp(parts[i], "all"))
                o->families[o->latency.spec.n_families++] = known[k];
        if (o->latency.spec.n_families == before && strcmp(parts[i], "none") != 0)
            return mo_bench_bad_flag(err, "--peers", parts[i],
                                     "must be openvino, onnxruntime, ncnn, mnn, all or none");
    }
    o->latency.spec.families = o->families;
    return MOIRE_OK;
}

/* Times on more threads than there are cores would stand in the table as if they were on as many. */
static int check_threads(const struct mo_bench_session *s, const struct mo_bench_options *o,
                         moire_error *err) {
    for (int i = 0; i < o->latency.n_threads; i++)
        if (o->latency.threads[i] > s->cores)
            return mo_fail(err, MOIRE_EINVAL, "--threads %d: only %d cores are usable here",
                           o->latency.threads[i], s->cores);
    return MOIRE_OK;
}

/* What `latency` and `cold` have in common. */
static int pick(struct mo_bench_session *s, struct mo_bench_options *o, const char *command,
                moire_error *err) {
    int code = pick_models(o, command, err);
    if (!code) code = pick_families(o, err);
    if (!code) code = check_threads(s, o, err);
    if (code) return code;
    o->latency.models = o->models;
    o->latency.shapes = o->shapes;
    if (!o->latency.n_threads) o->latency.threads[o->latency.n_threads++] = s->cores;
    o->latency.spec.moire = !o->only_generic;
    o->latency.spec.generic = o->generic || o->only_generic;
    s->exact = o->exact;
    return MOIRE_OK;
}

int mo_bench_run_cold(struct mo_bench_session *s, struct mo_bench_options *o, json_t **document,
                      moire_error *err) {
    int code = pick(s, o, "cold", err);
    return code ? code : mo_bench_cold(s, &o->latency, document, err);
}

int mo_bench_run_latency(struct mo_bench_session *s, struct mo_bench_options *o, json_t **document,
                         moire_error *err) {
    int code = pick(s, o, "latency", err);
    if (code) return code;
    o->latency.spec.seconds = o->seconds > 0 ? o->seconds : 2;
    o->latency.spec.slices = 5;
    o->latency.save = o->output;
    o->latency.resume = o->resume;
    o->latency.profile = o->profile;
    return mo_bench_latency(s, &o->latency, document, err);
}

int mo_bench_run_kernels(struct mo_bench_session *s, struct mo_bench_options *o, json_t **document,
                         moire_error *err) {
    int code = pick_models(o, "kernels", err);
    if (!code) code = check_threads(s, o, err);
    if (code) return code;
    if (o->peers && strcmp(o->peers, "onednn") != 0 && strcmp(o->peers, "none") != 0)
        return mo_bench_bad_flag(err, "--peer", o->peers, "must be onednn or none");
    s->generic = o->generic || o->only_generic;
    struct mo_bench_kernels_options kernels = {.models = o->models,
                                               .n_models = o->latency.n_models,
                                               .shapes = o->shapes,
                                               .n_shapes = o->latency.n_shapes,
                                               .threads = {1},
                                               .n_threads = 1,
                                               .onednn = o->peers && !strcmp(o->peers, "onednn"),
                                               .exact = o->exact,
                                               .seconds = o->seconds > 0 ? o->seconds : 0.15,
                                               .slices = 5,
                                               .save = o->output,
                                               .resume = o->resume};
    if (o->latency.n_threads) {
        kernels.n_threads = o->latency.n_threads;
        memcpy(kernels.threads, o->latency.threads, sizeof kernels.threads);
    }
    return mo_bench_kernels(s, &kernels, document, err);
}

int mo_bench_run_machine(struct mo_bench_session *s, struct mo_bench_options *o, json_t **document,
                         moire_error *err) {
    if (o->latency.n_models)
        return mo_fail(err, MOIRE_EINVAL, "machine measures no models: '%s'", o->models[0]);
    o->json = true;
    return mo_bench_machine(s, document, err);
}
