/* SPDX-License-Identifier: Apache-2.0
 * quantize_case.c - see quantize_case.h. */
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/numbers.h"
#include "tests/unit/codegen/quantize_case.h"

int quantize_case_make(void **state) {
    struct quantize_case *p = calloc(1, sizeof *p);
    const int64_t n = 3 * CASE_SIDE * CASE_SIDE;
    uint64_t random = 7;
    assert_non_null(p);
    p->env = mo_env_default();
    snprintf(p->folder, sizeof p->folder, "/tmp/moire-quantize-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->model, sizeof p->model, "%s/model.onnx", p->folder);
    snprintf(p->state, sizeof p->state, "%s/state.part", p->folder);
    p->values = malloc((size_t)(n * CASE_SAMPLES) * sizeof *p->values);
    assert_non_null(p->values);
    for (int64_t i = 0; i < n * CASE_SAMPLES; i++)
        p->values[i] = (float)(mo_splitmix(&random) >> 40) * 0x1p-23f - 0.7f; /* -0.7 to 1.3 */
    for (int s = 0; s < CASE_SAMPLES; s++) {
        p->in[s] = (moire_tensor){.dtype = MOIRE_F32,
                                  .rank = 4,
                                  .shape = {1, 3, CASE_SIDE, CASE_SIDE},
                                  .data = p->values + s * n,
                                  .bytes = (size_t)n * sizeof(float)};
        p->sample[s].in = &p->in[s];
    }
    p->name[0] = "x";
    p->samples = (struct mo_model_samples){.n = CASE_SAMPLES, .n_in = 1, .name = p->name, .at = p->sample};
    *state = p;
    return 0;
}

int quantize_case_remove(void **state) {
    struct quantize_case *p = *state;
    unlink(p->model);
    unlink(p->state);
    int rc = rmdir(p->folder);
    free(p->values);
    free(p);
    return rc;
}

/* --- models --- */

struct mo_bv case_begin(struct mo_build *b) {
    return mo_b_image(b, "x", 3, CASE_SIDE, CASE_SIDE);
}

static struct mo_bv conv(struct mo_build *b, struct mo_bv x, int64_t out, int k, int64_t groups) {
    return mo_b_conv(b, x,
                     (struct mo_conv_spec){.out = out, .k = k, .pad = k / 2, .groups = groups, .bias = true});
}

void case_residual(struct mo_build *b) {
    struct mo_bv x =
        mo_b_conv_bn_relu(b, case_begin(b), (struct mo_conv_spec){.out = CASE_CHANNELS, .k = 3, .pad = 1});
    struct mo_bv y = mo_b_conv_bn_relu(b, x, (struct mo_conv_spec){.out = CASE_CHANNELS, .k = 3, .pad = 1});
    y = mo_b_bn(b, mo_b_conv(b, y, (struct mo_conv_spec){.out = CASE_CHANNELS, .k = 1}), 1);
    x = mo_b_relu(b, mo_b_add(b, y, x));
    mo_b_result(b, mo_b_gemm(b, mo_b_flatten(b, mo_b_global_pool(b, x)), 10), "y", true);
}

void case_excited(struct mo_build *b) {
    struct mo_bv x = mo_b_silu(b, conv(b, case_begin(b), CASE_CHANNELS, 3, 1));
    struct mo_bv d = mo_b_silu(b, conv(b, x, CASE_CHANNELS, 3, CASE_CHANNELS));
    struct mo_bv gate =
        conv(b, mo_b_silu(b, conv(b, mo_b_global_pool(b, d), CASE_CHANNELS, 1, 1)), CASE_CHANNELS, 1, 1);
    x = mo_b_add(b, conv(b, mo_b_mul(b, d, mo_b_sigmoid(b, gate)), CASE_CHANNELS, 1, 1), x);
    mo_b_result(b, conv(b, x, 8, 1, 1), "y", false);
}

void case_joined(struct mo_build *b) {
    struct mo_bv x = mo_b_relu(b, conv(b, case_begin(b), CASE_CHANNELS, 3, 1));
    const struct mo_bv parts[] = {mo_b_relu(b, conv(b, x, CASE_CHANNELS, 1, 1)),
                                  mo_b_maxpool(b, x, 3, 1, 1, 0, false),
                                  mo_b_leaky(b, conv(b, x, CASE_CHANNELS, 3, 1), 0.1f)};
    x = mo_b_concat(b, parts, 3);
    mo_b_result(b, conv(b, mo_b_maxpool(b, x, 2, 2, 0, 0, false), 8, 3, 1), "y", false);
}

/* x clip(x + 3, 0, 6) / 6 by single nodes */
void case_stepwise(struct mo_build *b) {
    struct mo_bv x = conv(b, case_begin(b), CASE_CHANNELS, 3, 1);
    const char *moved = mo_b_op2(b, "Add", x.name, mo_b_f32(b, "three", 3));
    const char *cut = mo_b_op3(b, "Clip", moved, mo_b_f32(b, "least", 0), mo_b_f32(b, "most", 6));
    x.name = mo_b_op2(b, "Div", mo_b_op2(b, "Mul", x.name, cut), mo_b_f32(b, "six", 6));
    mo_b_result(b, conv(b, x, 8, 3, 1), "y", false);
}

void case_narrow_chain(struct mo_build *b) {
    struct mo_bv x = mo_b_relu(b, conv(b, case_begin(b), CASE_CHANNELS, 1, 1));
    x = mo_b_relu(b, conv(b, x, CASE_CHANNELS, 3, CASE_CHANNELS));
    mo_b_result(b, conv(b, x, 8, 1, 1), "y", false);
}

void case_best(struct mo_build *b) {
    const char *x = mo_b_op1(b, "TopK", case_begin(b).name);
    mo_b_int(b, "k", 5);
    mo_b_another_output(b);
    mo_b_output(b, x, "y", MOIRE_F32, (int64_t[]){-1, 3, CASE_SIDE, 5}, 4);
}

void quantize_case_write(struct quantize_case *p, quantize_case_fn *build, int64_t opset) {
    struct mo_build b;
    moire_error err = {0};
    assert_int_equal(mo_build_start(&p->env, "test", 5, &b, &err), 0);
    b.opset = opset;
    build(&b);
    assert_int_equal(mo_build_write(&b, p->model, &err), 0);
    mo_build_end(&b);
}

/* The outputs of an edit, one after the other; *n of them.  For free(). */
float *quantize_case_run(struct quantize_case *p, struct mo_edit *e, int64_t *n) {
    uint8_t *bytes;
    size_t size;
    moire_error err = {0};
    float *all = NULL;
    assert_int_equal(mo_edit_pack(e, &bytes, &size), 0);
    struct mo_qprobe probe = mo_qprobe_of(&p->env, bytes, size);
    *n = 0;
    for (int s = 0; s < CASE_SAMPLES; s++) {
        if (mo_qprobe_run(&probe, &p->samples, s, &err)) fail_msg("%s", err.message);
        for (int i = 0; i < mo_qprobe_outputs(&probe); i++) {
            moire_tensor t;
            mo_qprobe_output(&probe, i, &t);
            int64_t count = 1;
            for (int d = 0; d < t.rank; d++)
                count *= t.shape[d];
            all = realloc(all, (size_t)(*n + count + 1) * sizeof *all);
            assert_non_null(all);
            memcpy(all + *n, t.data, (size_t)count * sizeof *all);
            *n += count;
        }
    }
    mo_qprobe_close(&probe);
    return all;
}

double case_apart(const float *a, const float *b, int64_t n) {
    double d = 0, s = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        s += (double)a[i] * (double)a[i];
    }
    return s > 0 ? sqrt(d / s) : d > 0;
}
