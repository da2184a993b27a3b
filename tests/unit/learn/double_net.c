/* SPDX-License-Identifier: Apache-2.0
 * double_net.c - see double_net.h. */
#include "tests/unit/learn/double_net.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

const struct mo_env *learn_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

struct double_net double_net_of(const struct mo_net *net) {
    struct double_net out = {.size = net->size};
    assert_true(net->n <= DOUBLE_VALUES);
    for (size_t i = 0; i < net->n; i++)
        out.values[i] = net->values[i];
    return out;
}

void double_forward(const struct double_net *net, const double *x, double *out) {
    double now[DOUBLE_WIDTH], next[DOUBLE_WIDTH];
    const double *w = net->values;
    for (int i = 0; i < net->size[0]; i++)
        now[i] = x[i];
    for (int l = 0; l < MO_NET_LAYERS; l++) {
        const int in = net->size[l], n = net->size[l + 1];
        const double *b = w + in * n;
        for (int j = 0; j < n; j++) {
            next[j] = b[j];
            for (int i = 0; i < in; i++)
                next[j] += now[i] * w[i * n + j];
        }
        for (int j = 0; j < n; j++)
            now[j] = l < MO_NET_LAYERS - 1 && next[j] < 0 ? 0 : next[j];
        w = b + n;
    }
    for (int j = 0; j < net->size[MO_NET_LAYERS]; j++)
        out[j] = now[j];
}

void check_slope(const char *what, double *values, size_t n, const float *slope, double (*loss)(void *ctx),
                 void *ctx) {
    const double h = 1e-6;
    double by[DOUBLE_VALUES], most = 0;
    assert_true(n <= DOUBLE_VALUES);
    for (size_t i = 0; i < n; i++) {
        const double was = values[i];
        values[i] = was + h;
        by[i] = loss(ctx);
        values[i] = was - h;
        by[i] = (by[i] - loss(ctx)) / (2 * h);
        values[i] = was;
        most = fmax(most, fabs(by[i]));
    }
    if (!(most > 1e-3)) fail_msg("%s: no slope is larger than %g", what, most);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(slope[i] - by[i]) <= 1e-3 * fabs(by[i]) + 1e-4 * most))
            fail_msg("%s: value %zu: slope %.9g, by differences %.9g", what, i, (double)slope[i], by[i]);
}
