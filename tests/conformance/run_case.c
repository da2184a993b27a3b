/* SPDX-License-Identifier: Apache-2.0
 * run_case.c - one backend test case, run in every way that moire can run a model.
 *
 * A case is skipped only when moire itself says MOIRE_EUNSUPPORTED; the reason is taken from that message, so
 * there is no list of exceptions to maintain.  Tolerance: that of the ONNX backend runner (relative 1e-3)
 * with an absolute part of 1e-6 instead of 1e-7, which is what fp32 sums of O(1) terms in another order need.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "codegen/frontend.h"
#include "runtime/ops/interpret.h"
#include "runtime/plan/plan.h"
#include "tests/conformance/conformance.h"
#include "tools/moire/dataset.h"

static const double RTOL = 1e-3, ATOL = 1e-6;
static const double RTOL_BF16 = 0x1p-7; /* one place: the package truncates where we round to nearest */

enum way { REFERENCE, PASSES, PLAN, WAYS };
static const char *const way_names[] = {"reference", "reference after passes", "plan"};

static bool exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

/* "node 3 'n' (Loop): ..." gives Loop; anything else is about types. */
static void reason_of(const char *message, char *out, size_t n) {
    const char *open = strstr(message, "' ("), *close = open ? strstr(open, "): ") : NULL;
    if (close)
        snprintf(out, n, "%.*s", (int)(close - open - 3), open + 3);
    else
        snprintf(out, n, "types: strings, sequences, optionals, maps");
}

static void conclude(struct result *r, int code, const char *where, const char *message) {
    r->verdict = code == MOIRE_EUNSUPPORTED ? SKIPPED : FAILED;
    snprintf(r->message, sizeof r->message, "%s%s%s", where, *where ? ": " : "", message);
    if (r->verdict == SKIPPED) reason_of(message, r->reason, sizeof r->reason);
}

static int compare(const struct mo_dataset *data, int i, const moire_tensor *got, moire_error *err) {
    struct mo_difference d;
    if (data->out[i].dtype == MOIRE_NONE) return MOIRE_OK;
    double rtol = data->out[i].dtype == MOIRE_BF16 ? RTOL_BF16 : RTOL;
    if (mo_tensors_agree(&data->out[i], got, rtol, ATOL, &d)) return MOIRE_OK;
    if (d.shape) {
        char want[120], have[120];
        struct mo_shape w = {.rank = data->out[i].rank}, g = {.rank = got->rank};
        memcpy(w.d, data->out[i].shape, sizeof w.d);
        memcpy(g.d, got->shape, sizeof g.d);
        return mo_fail(err, MOIRE_EFAILED, "output %d: %s (%s%s, not %s%s)", i, d.shape,
                       mo_dtype_name(got->dtype), mo_shape_text(&g, have, sizeof have),
                       mo_dtype_name(data->out[i].dtype), mo_shape_text(&w, want, sizeof want));
    }
    return mo_fail(err, MOIRE_EFAILED, "output %d: %lld elements differ, first at %lld: %.9g, not %.9g", i,
                   (long long)d.n_bad, (long long)d.first_bad, d.got, d.want);
}

static int interpret(const struct mo_graph *g, const struct mo_dataset *data, moire_error *err) {
    struct mo_value out[MO_DATASET_PORTS] = {{0}};
    int rc = mo_interpret(g, data->in, data->n_in, out, err);
    for (int i = 0; !rc && i < g->n_outputs && i < data->n_out; i++) {
        moire_tensor got = {.dtype = out[i].dtype, .rank = out[i].shape.rank, .data = out[i].data};
        memcpy(got.shape, out[i].shape.d, sizeof got.shape);
        rc = compare(data, i, &got, err);
    }
    mo_interpret_free(g->env, out, g->n_outputs);
    return rc;
}

static int run_instance(const struct mo_plan *plan, const struct mo_dataset *data, moire_error *err) {
    struct mo_instance *instance;
    void *scratch = mo_alloc(plan->env, (size_t)plan->scratch_bytes + 64);
    int rc = scratch ? mo_instance_create(plan, &instance, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (rc) {
        mo_free(plan->env, scratch);
        return rc;
    }
    for (int i = 0; !rc && i < data->n_in; i++)
        rc = mo_instance_set_input(instance, i, &data->in[i], err);
    if (!rc && (rc = mo_instance_run(instance, 0, plan->n_steps, 0, 1, NULL, NULL, scratch)))
        mo_fail(err, rc, "%s", mo_instance_message(instance));
    for (int i = 0; !rc && i < plan->graph->n_outputs && i < data->n_out; i++) {
        moire_tensor got;
        rc = mo_instance_output(instance, i, &got);
        rc = rc ? mo_fail(err, rc, "output %d is not there", i) : compare(data, i, &got, err);
    }
    mo_instance_destroy(instance);
    mo_free(plan->env, scratch);
    return rc;
}

/* Consumes the graph. */
static int run_plan(struct mo_graph *g, const struct mo_dataset *data, moire_error *err) {
    struct mo_plan *plan;
    struct mo_plan_options options = {.isa = mo_isa_detect()};
    int rc = mo_plan_build(g, &options, &plan, err);
    if (rc) return rc;
    rc = run_instance(plan, data, err);
    mo_plan_destroy(plan);
    return rc;
}

static int run_way(const struct mo_env *env, enum way way, const char *model, const struct mo_dataset *data,
                   moire_error *err) {
    struct mo_frontend_options options = {
        .shapes = data->shape, .n_shapes = data->n_in, .no_passes = way == REFERENCE};
    struct mo_graph *g;
    int rc = mo_frontend_load(env, model, &options, &g, err);
    if (rc) return rc;
    if (g->n_inputs != data->n_in)
        rc = mo_fail(err, MOIRE_EFORMAT, "the model lists other inputs than its data");
    if (!rc && way == PLAN) return run_plan(g, data, err);
    if (!rc) rc = interpret(g, data, err);
    mo_graph_destroy(g);
    return rc;
}

static void run_set(const struct mo_env *env, const char *model, const char *folder, struct result *r) {
    struct mo_dataset data;
    moire_error err = {0};
    int read = mo_dataset_open(env, model, folder, &data, &err);
    moire_error data_err = err;
    if (!read && data.contradicts) {
        r->verdict = SKIPPED;
        snprintf(r->reason, sizeof r->reason, "the package's data contradicts its model");
        snprintf(r->message, sizeof r->message, "input %d has not the declared shape", data.contradicts - 1);
    }
    for (int way = 0; way < WAYS && r->verdict == PASSED; way++) {
        int rc = run_way(env, (enum way)way, model, &data, &err);
        /* a model that cannot be run says so itself; only then does unreadable data not matter */
        if (read && rc != MOIRE_EUNSUPPORTED) rc = read, err = data_err;
        if (rc) conclude(r, rc, way_names[way], err.message);
    }
    mo_dataset_close(&data);
}

void run_case(const struct mo_env *env, const char *folder, struct result *r) {
    char model[1024], set[1024];
    int n = 0;
    snprintf(model, sizeof model, "%s/model.onnx", folder);
    r->verdict = PASSED;
    if (!exists(model)) {
        r->verdict = SKIPPED;
        snprintf(r->reason, sizeof r->reason, "no model in the package");
        return;
    }
    for (; n < 100 && r->verdict == PASSED; n++) {
        snprintf(set, sizeof set, "%s/test_data_set_%d", folder, n);
        if (!exists(set)) break;
        run_set(env, model, set, r);
    }
    if (!n) conclude(r, MOIRE_EIO, "", "no test data");
}
