/* SPDX-License-Identifier: Apache-2.0
 * bench_alone.c - the commands of `moire bench` that run one thing at a time: models, layers, the machine. */
#define _GNU_SOURCE
#include <string.h>
#include "bench/alone/cold.h"
#include "bench/kernels/kernels.h"
#include "bench/kernels/machine_measure.h"
#include "models/zoo.h"
#include "tools/moire/tolerance.h"
#include "tools/moire/verbs/bench_common.h"

/* The models of the command line; the word "zoo" becomes all its names. */
static int pick_models(const struct mo_options *o, struct mo_words *out, moire_error *err) {
    int rows;
    const struct mo_zoo_model *zoo = mo_zoo_table(&rows);
    out->n = 0;
    for (int i = 0; i < o->operands.n; i++) {
        const bool all = !strcmp(o->operands.word[i], "zoo");
        for (int k = 0; k < (all ? rows : 1); k++) {
            if (out->n == MO_OPTION_ROOM)
                return mo_fail(err, MOIRE_ELIMIT, "more than %d models", MO_OPTION_ROOM);
            out->word[out->n++] = all ? zoo[k].name : o->operands.word[i];
        }
    }
    return MOIRE_OK;
}

int mo_bench_pick_families(const struct mo_options *o, struct mo_words *out, moire_error *err) {
    /* `all` stops short of the last, which needs programs that were tuned before */
    static const char *const known[] = {"openvino", "onnxruntime", "ncnn", "mnn", "tvm"};
    enum { KNOWN = sizeof known / sizeof *known, ALL = KNOWN - 1 };
    out->n = 0;
    for (int i = 0; i < o->peers.n; i++) {
        const int before = out->n;
        for (size_t k = 0; k < KNOWN && out->n < (int)KNOWN; k++)
            if (!strcmp(o->peers.word[i], known[k]) || (k < ALL && !strcmp(o->peers.word[i], "all")))
                out->word[out->n++] = known[k];
        if (out->n == before && strcmp(o->peers.word[i], "none") != 0)
            return mo_flag_bad(err, "--peers", o->peers.word[i],
                               "must be openvino, onnxruntime, ncnn, mnn, tvm, all or none");
    }
    return MOIRE_OK;
}

/* Times on more threads than there are cores would stand in the table as if they were on as many. */
int mo_bench_pick_threads(const struct mo_bench_session *s, const struct mo_options *o, int by_default,
                          int *out, int *n, moire_error *err) {
    *n = o->thread_counts.n ? o->thread_counts.n : 1;
    out[0] = by_default;
    for (int i = 0; i < o->thread_counts.n; i++)
        if ((out[i] = (int)o->thread_counts.value[i]) > s->cores)
            return mo_fail(err, MOIRE_EINVAL, "--threads %d: only %d cores are usable here", out[i],
                           s->cores);
    return MOIRE_OK;
}

/* What `latency` and `cold` have in common; the two lists must live as long as the options. */
static int pick(struct mo_bench_session *s, const struct mo_options *o, struct mo_words *models,
                struct mo_words *families, struct mo_bench_latency_options *l, moire_error *err) {
    int code = pick_models(o, models, err);
    if (!code) code = mo_bench_pick_families(o, families, err);
    *l = (struct mo_bench_latency_options){.models = models->word,
                                           .n_models = models->n,
                                           .shapes = o->shapes.shape,
                                           .n_shapes = o->shapes.n,
                                           .spec = {.moire = !o->only_generic,
                                                    .generic = o->generic || o->only_generic,
                                                    .families = families->word,
                                                    .n_families = families->n}};
    return code ? code : mo_bench_pick_threads(s, o, s->cores, l->threads, &l->n_threads, err);
}

int mo_bench_run_cold(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                      moire_error *err) {
    struct mo_words models, families;
    struct mo_bench_latency_options l;
    int code = pick(s, o, &models, &families, &l, err);
    return code ? code : mo_bench_cold(s, &l, document, err);
}

int mo_bench_run_latency(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                         moire_error *err) {
    struct mo_words models, families;
    struct mo_bench_latency_options l;
    int code = mo_settle_check(o, err);
    if (!code) code = pick(s, o, &models, &families, &l, err);
    if (code) return code;
    l.spec.seconds = o->seconds > 0 ? o->seconds : 2;
    l.spec.slices = 5;
    l.save = o->output;
    l.resume = o->resume;
    l.profile = o->profile;
    l.tolerance = o->tolerance;
    return mo_bench_latency(s, &l, document, err);
}

int mo_bench_run_kernels(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                         moire_error *err) {
    struct mo_words models;
    int code = pick_models(o, &models, err);
    struct mo_bench_kernels_options k = {.models = models.word,
                                         .n_models = models.n,
                                         .shapes = o->shapes.shape,
                                         .n_shapes = o->shapes.n,
                                         .onednn = o->peers.n && !strcmp(o->peers.word[0], "onednn"),
                                         .exact = o->exact,
                                         .seconds = o->seconds > 0 ? o->seconds : 0.15,
                                         .slices = 5,
                                         .save = o->output,
                                         .resume = o->resume};
    if (!code) code = mo_bench_pick_threads(s, o, 1, k.threads, &k.n_threads, err);
    return code ? code : mo_bench_kernels(s, &k, document, err);
}

int mo_bench_run_machine(struct mo_bench_session *s, const struct mo_options *o, json_t **document,
                         moire_error *err) {
    (void)o;
    return mo_bench_machine(s, document, err);
}
