/* SPDX-License-Identifier: Apache-2.0
 * lapack.c - dgels of whatever LAPACK is there; see lapack.h. */
#include "bench/fit/lapack.h"

#include <math.h>
#include <string.h>

enum { MOST_COLUMNS = 16, MOST_ROWS = 1 << 24 };
static const char *const libraries[] = {"libopenblas.so.0", "liblapack.so.3"};
static const double dependent = 1e-10; /* of the largest pivot */

/* The Fortran symbol: everything by address, the length of a text behind the arguments. */
typedef void dgels(const char *trans, const int *m, const int *n, const int *n_rhs, double *a,
                   const int *a_rows, double *b, const int *b_rows, double *work, const int *n_work,
                   int *info, size_t trans_length);

static int solve(dgels *call, int m, int n, double *a, double *b, double *work, int n_work, double *x,
                 moire_error *err) {
    const int one = 1;
    int info = 0;
    double most = 0, least = INFINITY;
    call("N", &m, &n, &one, a, &m, b, &m, work, &n_work, &info, 1);
    for (int i = 0; i < n; i++) { /* the diagonal of R */
        double pivot = fabs(a[(size_t)i * (size_t)m + (size_t)i]);
        most = fmax(most, pivot);
        least = fmin(least, pivot);
    }
    if (info || !(least > dependent * most))
        return mo_fail(err, MOIRE_EINVAL, "least squares: the columns depend on each other");
    memcpy(x, b, (size_t)n * sizeof *x);
    return MOIRE_OK;
}

/* Column by column, as Fortran has it. */
static int with_copies(const struct mo_env *env, dgels *call, int m, int n, const double *a, const double *b,
                       double *x, moire_error *err) {
    const int n_work = 64 * (n + 1);
    const size_t rows = (size_t)m;
    double *columns = mo_alloc(env, rows * (size_t)n * sizeof *columns);
    double *right = mo_alloc(env, rows * sizeof *right);
    double *work = mo_alloc(env, (size_t)n_work * sizeof *work);
    int code =
        columns && right && work ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "least squares: out of memory");
    for (size_t i = 0; !code && i < rows; i++) {
        for (size_t j = 0; j < (size_t)n; j++)
            columns[j * rows + i] = a[i * (size_t)n + j];
        right[i] = b[i];
    }
    if (!code) code = solve(call, m, n, columns, right, work, n_work, x, err);
    mo_free(env, columns);
    mo_free(env, right);
    mo_free(env, work);
    return code;
}

int mo_least_squares(const struct mo_env *env, int m, int n, const double *a, const double *b, double *x,
                     moire_error *err) {
    const struct mo_sys *sys = env->sys;
    char reason[256];
    void *object = NULL;
    dgels *call = NULL;
    if (n < 1 || n > MOST_COLUMNS || m < n || m > MOST_ROWS)
        return mo_fail(err, MOIRE_EINVAL, "least squares: %d rows of %d columns", m, n);
    for (size_t i = 0; !object && i < sizeof libraries / sizeof *libraries; i++)
        object = sys->dl_open(sys->self, libraries[i], reason, sizeof reason);
    if (!object)
        return mo_fail(err, MOIRE_EUNSUPPORTED,
                       "no LAPACK on this machine: install libopenblas0-pthread (or liblapack3)");
    void *symbol = sys->dl_sym(sys->self, object, "dgels_");
    memcpy(&call, &symbol, sizeof call); /* POSIX lets an object pointer hold a function */
    int code = call ? with_copies(env, call, m, n, a, b, x, err)
                    : mo_fail(err, MOIRE_EUNSUPPORTED, "the LAPACK on this machine has no dgels_");
    sys->dl_close(sys->self, object);
    return code;
}
