/* SPDX-License-Identifier: Apache-2.0
 * sgemm.c - see sgemm.h.
 *
 * The plain loops add multiples of rows of B to a row of C, four at a time and sixteen columns at a time,
 * which compilers turn into vectors.  Factors of zero are left out: after a ReLU they are half of all, and
 * weights are finite. */
#include "runtime/learn/sgemm.h"

#include <string.h>

enum { LANES = 16, AT_ONCE = 4 };
static const char library[] = "libopenblas.so.0";

int mo_sgemm_open(const struct mo_env *env, struct mo_sgemm *out, moire_error *err) {
    const struct mo_sys *sys = env->sys;
    char reason[256];
    void (*set_threads)(int) = NULL;
    *out = (struct mo_sgemm){.sys = sys, .object = sys->dl_open(sys->self, library, reason, sizeof reason)};
    if (!out->object)
        return mo_fail(err, MOIRE_EUNSUPPORTED,
                       "no OpenBLAS on this machine, and training needs it: install libopenblas0-pthread");
    void *call = sys->dl_sym(sys->self, out->object, "sgemm_");
    void *threads = sys->dl_sym(sys->self, out->object, "openblas_set_num_threads");
    memcpy(&out->call, &call, sizeof call); /* POSIX lets an object pointer hold a function */
    memcpy(&set_threads, &threads, sizeof threads);
    if (!call || !threads) {
        mo_sgemm_close(out);
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s of this machine has no sgemm_", library);
    }
    set_threads(1);
    return MOIRE_OK;
}

void mo_sgemm_close(struct mo_sgemm *sgemm) {
    if (sgemm->object) sgemm->sys->dl_close(sgemm->sys->self, sgemm->object);
    *sgemm = (struct mo_sgemm){0};
}

/* to[n] += x[0] rows[0][n] + ... + x[3] rows[3][n] */
static void add_rows(float *restrict to, int n, const float x[AT_ONCE], const float *const rows[AT_ONCE]) {
    const float *restrict r0 = rows[0], *restrict r1 = rows[1], *restrict r2 = rows[2],
                          *restrict r3 = rows[3];
    const float x0 = x[0], x1 = x[1], x2 = x[2], x3 = x[3];
    int j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++)
            to[j + l] = to[j + l] + x0 * r0[j + l] + x1 * r1[j + l] + x2 * r2[j + l] + x3 * r3[j + l];
    for (; j < n; j++)
        to[j] = to[j] + x0 * r0[j] + x1 * r1[j] + x2 * r2[j] + x3 * r3[j];
}

/* One row of C when rows of B lie one after the other. */
static void row_of_rows(const struct mo_matrix_product *p, const float *a, int step, float *to) {
    const float *rows[AT_ONCE];
    float x[AT_ONCE];
    int n = 0;
    for (int k = 0; k < p->k; k++) {
        float factor = a[(size_t)k * (size_t)step];
        if (factor == 0) continue;
        x[n] = factor;
        rows[n++] = p->b + (size_t)k * (size_t)p->ldb;
        if (n < AT_ONCE) continue;
        add_rows(to, p->n, x, rows);
        n = 0;
    }
    if (!n) return;
    for (; n < AT_ONCE; n++) {
        x[n] = 0;
        rows[n] = rows[0];
    }
    add_rows(to, p->n, x, rows);
}

/* One row of C when columns of B do. */
static void row_of_columns(const struct mo_matrix_product *p, const float *a, int step, float *to) {
    for (int j = 0; j < p->n; j++) {
        const float *b = p->b + (size_t)j * (size_t)p->ldb;
        float sum = 0;
        for (int k = 0; k < p->k; k++)
            sum += a[(size_t)k * (size_t)step] * b[k];
        to[j] += sum;
    }
}

static void plain(const struct mo_matrix_product *p) {
    for (int i = 0; i < p->m; i++) {
        const float *a = p->a + (size_t)i * (size_t)(p->a_across ? 1 : p->lda);
        const int step = p->a_across ? p->lda : 1;
        float *to = p->c + (size_t)i * (size_t)p->ldc;
        if (!p->add) memset(to, 0, (size_t)p->n * sizeof *to);
        if (p->b_across)
            row_of_columns(p, a, step, to);
        else
            row_of_rows(p, a, step, to);
    }
}

void mo_multiply(const struct mo_sgemm *sgemm, const struct mo_matrix_product *p) {
    const float one = 1, keep = p->add ? 1 : 0;
    if (!sgemm->call) {
        plain(p);
        return;
    }
    /* Fortran sees each matrix transposed, and C' = op(B)' op(A)' */
    sgemm->call(p->b_across ? "T" : "N", p->a_across ? "T" : "N", &p->n, &p->m, &p->k, &one, p->b, &p->ldb,
                p->a, &p->lda, &keep, p->c, &p->ldc, 1, 1);
}
