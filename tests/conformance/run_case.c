/* SPDX-License-Identifier: Apache-2.0
 * run_case.c - one backend test case, run in every way that moire can run a model on cores, or on a fake GPU.
 *
 * A case is skipped only when moire itself says MOIRE_EUNSUPPORTED, with the reason from that message, or
 * when its data contradict its model.  Tolerance: that of the ONNX backend runner (relative 1e-3) with an
 * absolute part of 1e-6 instead of 1e-7, which is what fp32 sums of O(1) terms in another order need.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "tests/conformance/conformance.h"
#include "tests/unit/codegen/used_memory.h"
#include "tools/moire/verify/dataset.h"
#include "tools/moire/verify/ways.h"

static const double RTOL = 1e-3, ATOL = 1e-6;
static const double RTOL_BF16 = 0x1p-7; /* one place: the package truncates where we round to nearest */

static bool exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

/* Data that were computed with an attribute which their model does not have. */
static bool is_contradicted(const char *folder) {
    static const char *const cases[] = {"/test_adam_multiple"}; /* epsilon 1e-2 */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strstr(folder, cases[i])) return true;
    return false;
}

/* "node 3 'n' (Loop): ..." gives Loop; anything else is about types. */
static void reason_of(const char *message, char *out, size_t n) {
    const char *open = strstr(message, "' ("), *close;
    for (const char *inner = open; inner && (inner = strstr(inner + 1, "' (")) != NULL;)
        open = inner; /* the innermost node */
    close = open ? strchr(open, ')') : NULL;
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

int case_compare(const struct mo_dataset *data, int i, const moire_tensor *got, moire_error *err) {
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

/* Built-in kernels of one level, in memory that others have used. */
static int run_planned(const struct mo_env *env, enum mo_isa isa, const char *model,
                       const struct mo_frontend_options *options, const struct mo_dataset *data,
                       moire_tensor *got, int *n, moire_error *err) {
    const struct mo_plan_options generic = {.isa = isa};
    struct mo_graph *g;
    int rc = mo_frontend_load(env, model, options, &g, err);
    if (rc) return rc;
    *n = g->n_outputs;
    if (g->n_inputs == data->n_in && *n <= MO_DATASET_PORTS)
        return run_graph_in_used_memory(g, &generic, data->in, data->n_in, got, err);
    mo_graph_destroy(g);
    return mo_fail(err, MOIRE_EINVAL, "the case has data for %d inputs", data->n_in);
}

static int run_way(const struct mo_env *env, enum mo_way way, enum mo_isa isa, const char *model,
                   const struct mo_dataset *data, moire_error *err) {
    struct mo_frontend_options options = {.shapes = data->shape, .n_shapes = data->n_in, .bundles = true};
    moire_tensor got[MO_DATASET_PORTS] = {{0}};
    struct mo_way_target target = {.way = way, .isa = isa};
    int n, rc;
    if (way == MO_WAY_PLAN)
        rc = run_planned(env, isa, model, &options, data, got, &n, err);
    else
        rc = mo_way_run(env, &target, model, &options, data->in, data->n_in, got, MO_DATASET_PORTS, &n, err);
    if (rc) return rc;
    for (int i = 0; !rc && i < n && i < data->n_out; i++)
        rc = case_compare(data, i, &got[i], err);
    mo_way_free(env, got, n);
    return rc;
}

/* References, then kernels of every level that this processor has. */
static int run_on_cores(const struct mo_env *env, const char *model, const struct mo_dataset *data,
                        const char **where, moire_error *err) {
    int rc = MOIRE_OK;
    for (int way = MO_WAY_REFERENCE; way < MO_WAY_PLAN && !rc; way++) {
        *where = mo_way_name((enum mo_way)way);
        rc = run_way(env, (enum mo_way)way, MO_ISA_BASE, model, data, err);
    }
    for (int isa = mo_isa_next(-1); isa < MO_ISA_COUNT && !rc; isa = mo_isa_next(isa)) {
        *where = mo_isa_name((enum mo_isa)isa);
        rc = run_way(env, MO_WAY_PLAN, (enum mo_isa)isa, model, data, err);
    }
    return rc;
}

static void run_set(const struct mo_env *env, struct case_gpu *gpu, const char *model, const char *folder,
                    struct result *r) {
    struct mo_dataset data;
    moire_error err = {0};
    int read = mo_dataset_open(env, model, folder, &data, &err);
    moire_error data_err = err;
    if (!read && data.contradicts) {
        r->verdict = SKIPPED;
        snprintf(r->reason, sizeof r->reason, "the package's data contradicts its model");
        snprintf(r->message, sizeof r->message, "input %d has not the declared shape", data.contradicts - 1);
    }
    const char *where = "GPU";
    int rc = MOIRE_OK;
    if (r->verdict == PASSED)
        rc = gpu ? case_run_gpu(env, gpu, model, &data, &err) : run_on_cores(env, model, &data, &where, &err);
    /* a model that cannot be run says so itself; only then does unreadable data not matter */
    if (r->verdict == PASSED && read && rc != MOIRE_EUNSUPPORTED) rc = read, err = data_err;
    if (rc) conclude(r, rc, where, err.message);
    mo_dataset_close(&data);
}

void run_case(const struct mo_env *env, struct case_gpu *gpu, const char *folder, struct result *r) {
    char model[1024], set[1024];
    int n = 0;
    snprintf(model, sizeof model, "%s/model.onnx", folder);
    r->verdict = PASSED;
    if (!exists(model)) {
        r->verdict = SKIPPED;
        snprintf(r->reason, sizeof r->reason, "no model in the package");
        return;
    }
    if (is_contradicted(folder)) {
        r->verdict = SKIPPED;
        snprintf(r->reason, sizeof r->reason, "the package's data contradicts its model");
        return;
    }
    for (; n < 100 && r->verdict == PASSED; n++) {
        snprintf(set, sizeof set, "%s/test_data_set_%d", folder, n);
        if (!exists(set)) break;
        run_set(env, gpu, model, set, r);
    }
    if (!n) conclude(r, MOIRE_EIO, "", "no test data");
}
