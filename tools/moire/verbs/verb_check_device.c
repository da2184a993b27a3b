/* SPDX-License-Identifier: Apache-2.0
 * verb_check_device.c - `moire check-device`: do GPUs answer as the cores do, and how soon.
 *
 * Every model is loaded twice through the public calls, on cores and on the device alone, and asked the same;
 * the device is asked everything at once, so that it runs batches, and then one query after the other. */
#define _GNU_SOURCE
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/load/session.h"
#include "runtime/base/numbers.h"
#include "runtime/graph/graph.h"
#include "tools/moire/verbs/bench_common.h"
#include "runtime/ops/trial.h"

static const char about[] =
    "Runs each model on the GPU and on the cores, on the same random inputs, some of them as one batch, and\n"
    "compares: the largest error of an output relative to its range must stay below 1e-3 (fp32) or 2e-2 "
    "(tf32,\n"
    "fp16, bf16).  Prints also the median latency of single queries, copies included; and, for each batch "
    "and\n"
    "number of SMs, how many convolutions, products of matrices and other operations run by cuDNN, by "
    "cuBLASLt,\n"
    "by generated kernels and by cores.\n";

static const char notes[] = "Exit code 5: outputs differ.\n"
                            "\n"
                            "Examples:\n"
                            "  moire check-device resnet50 bert-base --device cuda --precision fp16\n";

enum {
    QUERIES = 9,
    BATCH = 4, /* at most: a program is compiled for each batch 1, 2, 4, which takes seconds on a GPU */
    SINGLES = 21,
    WAYS = 160, /* rows, at most: four for each batch and size of let */
    PORTS = MO_BENCH_MAX_INPUTS
};

/* One model on one runtime. */
struct side {
    moire_runtime *runtime;
    moire_tenant *tenant;
};

/* Tensors of all queries; outputs of the cores, and of the device. */
struct trial {
    struct mo_region *region;
    int n_in, n_out, failed;
    moire_tensor in[QUERIES][PORTS], want[QUERIES][PORTS], got[QUERIES][PORTS];
    char message[160];
};

/* What is slower than it could be, and what took how long. */
static void say(void *user, int level, const char *line) {
    (void)user;
    if (level <= MOIRE_LOG_INFO) fprintf(stderr, "moire: %s\n", line);
}

static int start(const struct mo_options *o, bool device, struct side *s, moire_error *err) {
    char cache[1024];
    moire_config c;
    moire_config_init(&c);
    c.device = device ? o->device : NULL;
    c.log = device ? say : NULL;
    c.device_process = o->process;
    c.device_libraries = o->libraries;
    c.device_cache = mo_path_device_cache(o->cache, cache, sizeof cache);
    c.device_precision = o->precision;
    c.device_batch = BATCH;
    c.generic_only = 1;
    return moire_runtime_create(&c, &s->runtime, err);
}

static int load(struct side *s, const struct mo_bench_tenant *m, bool device, moire_error *err) {
    moire_tenant_config c;
    moire_tenant_config_init(&c);
    c.shapes = m->shapes;
    c.n_shapes = m->n_shapes;
    c.device_only = device;
    return moire_load(s->runtime, m->model, &c, &s->tenant, err);
}

/* --- tensors -------------------------------------------------------------------------------------------- */
static int make(struct trial *t, const moire_port *port, moire_tensor *out, moire_error *err) {
    struct mo_shape shape = {.rank = port->rank};
    *out = (moire_tensor){.dtype = port->dtype, .rank = port->rank};
    if (port->rank < 0) return mo_fail(err, MOIRE_ESHAPE, "'%s' has an open shape (--shape)", port->name);
    for (int i = 0; i < port->rank; i++)
        out->shape[i] = shape.d[i] = port->shape[i];
    out->bytes = (size_t)mo_shape_count(&shape) * mo_dtype_bytes(port->dtype);
    out->data = mo_region_alloc(t->region, out->bytes + 1);
    return out->data ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}

static int make_all(struct trial *t, const moire_tenant *m, moire_error *err) {
    uint64_t seed = 1;
    moire_port port;
    int code = MOIRE_OK;
    t->n_in = moire_n_inputs(m);
    t->n_out = moire_n_outputs(m);
    if (t->n_in > PORTS || t->n_out > PORTS)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d inputs or outputs", PORTS);
    for (int q = 0; q < QUERIES && !code; q++) {
        for (int i = 0; i < t->n_in && !code; i++) {
            moire_input(m, i, &port);
            code = make(t, &port, &t->in[q][i], err);
            if (!code) mo_trial_random(&t->in[q][i], &seed);
        }
        for (int i = 0; i < t->n_out && !code; i++) {
            moire_output(m, i, &port);
            code = make(t, &port, &t->want[q][i], err);
            if (!code) code = make(t, &port, &t->got[q][i], err);
        }
    }
    return code;
}

static double value(const moire_tensor *t, size_t i) {
    switch (t->dtype) {
    case MOIRE_F32:
        return ((const float *)t->data)[i];
    case MOIRE_I64:
        return (double)((const int64_t *)t->data)[i];
    case MOIRE_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
    }
}

/* Largest difference over the range of what is wanted; NaN where only one is. */
static double error_of(const moire_tensor *want, const moire_tensor *got) {
    double worst = 0, most = 0;
    size_t width = mo_dtype_bytes(want->dtype), n = want->bytes / (width ? width : 1);
    for (size_t i = 0; i < n; i++) {
        double w = value(want, i), g = value(got, i);
        if (isnan(w) && isnan(g)) continue;
        if (isnan(w) || isnan(g)) return NAN;
        if (w != g && !(fabs(w - g) <= worst)) worst = fabs(w - g);
        if (fabs(w) > most) most = fabs(w);
    }
    return most > 0 ? worst / most : worst;
}

/* --- asking --------------------------------------------------------------------------------------------- */
struct asked {
    struct trial *trial;
    int query;
};

static void note(void *user, const moire_answer *a) {
    const struct asked *q = user;
    struct trial *t = q->trial;
    if (a->code && !t->failed) { /* what came first is why */
        t->failed = a->code;
        snprintf(t->message, sizeof t->message, "%.150s", a->message);
    }
    for (int i = 0; i < a->n_outputs; i++)
        memcpy(t->got[q->query][i].data, a->outputs[i].data, t->got[q->query][i].bytes);
}

static int ask_at_once(const struct side *s, struct trial *t, moire_error *err) {
    struct asked asked[QUERIES];
    int code = MOIRE_OK;
    for (int q = 0; q < QUERIES && !code; q++) {
        asked[q] = (struct asked){t, q};
        code = moire_submit(s->tenant, t->in[q], t->n_in, 0, note, &asked[q], NULL, err);
    }
    moire_drain(s->runtime);
    return code || !t->failed ? code : mo_fail(err, t->failed, "%s", t->message);
}

static int ask_singly(const struct side *s, struct trial *t, double *median_ms, moire_error *err) {
    double ms[SINGLES];
    int code = MOIRE_OK;
    for (int i = 0; i < SINGLES && !code; i++) {
        int64_t since = moire_now(s->runtime);
        code = moire_run(s->tenant, t->in[0], t->n_in, t->got[0], t->n_out, err);
        ms[i] = (double)(moire_now(s->runtime) - since) * 1e-6;
    }
    qsort(ms, SINGLES, sizeof *ms, mo_rising);
    *median_ms = ms[SINGLES / 2];
    return code;
}

/* --- one model ------------------------------------------------------------------------------------------ */
static int compare(struct side side[2], struct trial *t, double *error, double *median_ms, moire_error *err) {
    int code = make_all(t, side[0].tenant, err);
    for (int q = 0; q < QUERIES && !code; q++)
        code = moire_run(side[0].tenant, t->in[q], t->n_in, t->want[q], t->n_out, err);
    if (!code) code = ask_at_once(&side[1], t, err);
    *error = 0;
    for (int q = 0; q < QUERIES && !code; q++)
        for (int i = 0; i < t->n_out; i++) {
            double e = error_of(&t->want[q][i], &t->got[q][i]);
            if (!(e <= *error)) *error = e;
        }
    return code ? code : ask_singly(&side[1], t, median_ms, err);
}

/* By what the device computes the model; an empty list when it does not say. */
static json_t *ways_of(const struct side *s) {
    moire_way_row rows[WAYS];
    json_t *list = json_array();
    int n = 0;
    if (moire_ways(s->tenant, rows, WAYS, &n, NULL)) return list;
    for (int i = 0; i < n && i < WAYS; i++) {
        const moire_way_row *w = &rows[i];
        json_array_append_new(list, json_pack("{s:i, s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:i}", "gpu", w->gpu,
                                              "batch", w->batch, "sms", w->sms, "kind", w->kind, "cudnn",
                                              w->cudnn, "cublaslt", w->cublaslt, "generated", w->generated,
                                              "fallen", w->fallen, "cores", w->cores));
    }
    return list;
}

static int check(struct mo_bench_session *session, const struct mo_options *o, const char *word,
                 struct side side[2], json_t *list, moire_error *err) {
    struct mo_bench_tenant m = {.name = word, .model = word};
    struct trial *t = mo_alloc(session->env, sizeof *t);
    double error = 0, ms = 0, limit = o->precision && strcmp(o->precision, "fp32") != 0 ? 2e-2 : 1e-3;
    if (!t) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; i < o->shapes.n; i++)
        m.shapes[m.n_shapes++] = o->shapes.shape[i];
    t->region = mo_region_create(session->env);
    int code = t->region ? mo_bench_resolve(session, t->region, &m, err)
                         : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; i < 2 && !code; i++)
        code = load(&side[i], &m, i == 1, err);
    if (!code) code = compare(side, t, &error, &ms, err);
    json_t *ways = code ? NULL : ways_of(&side[1]);
    for (int i = 0; i < 2; i++) {
        if (side[i].tenant) moire_unload(side[i].tenant, NULL);
        side[i].tenant = NULL;
    }
    json_t *row =
        json_pack("{s:s, s:f, s:f, s:f, s:b}", "model", word, "error", isfinite(error) ? error : 1e9, "limit",
                  limit, "latency_ms", ms, "agrees", (int)(!code && error <= limit));
    if (ways) json_object_set_new(row, "ways", ways);
    if (code) json_object_set_new(row, "failed", json_string(err->message));
    if (code) json_object_set_new(row, "failed_code", json_integer(code));
    json_array_append_new(list, row);
    mo_region_destroy(t->region);
    mo_free(session->env, t);
    return code == MOIRE_ENOMEM || code == MOIRE_EIO ? code : MOIRE_OK;
}

static int check_all(struct mo_bench_session *session, const struct mo_options *o, json_t *list,
                     moire_error *err) {
    struct side side[2] = {{0}};
    int code = start(o, false, &side[0], err);
    if (!code) code = start(o, true, &side[1], err);
    for (int i = 0; i < o->operands.n && !code; i++)
        code = mo_bench_interrupted(session) ? mo_fail(err, MOIRE_EINTERRUPTED, "interrupted")
                                             : check(session, o, o->operands.word[i], side, list, err);
    for (int i = 0; i < 2; i++)
        if (side[i].runtime) moire_runtime_destroy(side[i].runtime, 1);
    return code;
}

static void print_ways(const json_t *list) {
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)list, i, row) {
        int gpu, batch, sms, cudnn, cublaslt, generated, fallen, cores;
        const char *kind;
        if (json_unpack(row, "{s:i, s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:i}", "gpu", &gpu, "batch", &batch,
                        "sms", &sms, "kind", &kind, "cudnn", &cudnn, "cublaslt", &cublaslt, "generated",
                        &generated, "fallen", &fallen, "cores", &cores) ||
            !(cudnn || cublaslt || generated || cores))
            continue;
        printf("    GPU %d, batch %d, %d SMs, %s: %d by cuDNN, %d by cuBLASLt, %d by generated kernels", gpu,
               batch, sms, kind, cudnn, cublaslt, generated);
        if (cores) printf(", %d by cores, slowly", cores);
        if (fallen) printf(", %d of them for want of a library", fallen);
        printf("\n");
    }
}

/* The table, and what is wrong with it: a model that cannot be run there, or, which counts more, answers that
 * differ. */
static void report(const json_t *list, bool json, moire_error *err) {
    const bool fresh = !err->code; /* nothing has ended it before */
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)list, i, row) {
        const char *failed = json_string_value(json_object_get(row, "failed")),
                   *model = json_string_value(json_object_get(row, "model"));
        const bool agrees = json_is_true(json_object_get(row, "agrees"));
        if (failed && !err->code)
            mo_fail(err, (int)json_integer_value(json_object_get(row, "failed_code")),
                    "%.100s cannot be run there: %.300s", model, failed);
        if (!failed && !agrees && fresh) mo_fail(err, MOIRE_EFAILED, "outputs of %.100s differ", model);
        if (json) continue;
        if (failed)
            printf("%-22s %s\n", model, failed);
        else
            printf("%-22s error %.2e %s %.0e, single query %.3f ms\n", model,
                   json_number_value(json_object_get(row, "error")), agrees ? "<=" : "EXCEEDS",
                   json_number_value(json_object_get(row, "limit")),
                   json_number_value(json_object_get(row, "latency_ms")));
        print_ways(json_object_get(row, "ways"));
    }
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    moire_error err = {0};
    json_t *list = json_array();
    int code = mo_bench_open(env, o, &session, &paths, &err);
    if (!code) {
        code = check_all(&session, o, list, &err);
        mo_bench_session_close(&session);
    }
    if (!code) err = (moire_error){0}; /* of a model that others came after */
    report(list, o->json, &err);
    if (!err.code && o->json) (void)mo_print_json(list, &err);
    code = err.code ? mo_verb_fail_with(o, &err, list) : MO_EXIT_OK;
    json_decref(list);
    return code;
}

const struct mo_verb mo_verb_check_device = {
    .name = "check-device",
    .group = MO_GROUP_MACHINE,
    .summary = "compare what GPUs answer with what cores do",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_CHECK_DEVICE, .operands = "FILE.onnx|NAME ..."}},
    .run = run,
};
