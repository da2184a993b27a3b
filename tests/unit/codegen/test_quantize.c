/* SPDX-License-Identifier: Apache-2.0
 * test_quantize.c - every step from a model of floats to one of 8-bit numbers changes as much as it may:
 * preparing changes nothing, converting a little, and what was asked to stay stays. */
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
#include "codegen/quantize/quantize.h"
#include "codegen/quantize/upgrade.h"
#include "models/build.h"
#include "runtime/base/numbers.h"
#include "tests/unit/base/fault_sys.h"

enum { C = 16, SIDE = 12, SAMPLES = 3 };

struct place {
    struct mo_env env;
    char folder[64], model[100], state[100];
    float *values;
    moire_tensor in[SAMPLES];
    struct mo_sample sample[SAMPLES];
    const char *name[1];
    struct mo_samples samples;
};

static int make_place(void **state) {
    struct place *p = calloc(1, sizeof *p);
    const int64_t n = 3 * SIDE * SIDE;
    uint64_t random = 7;
    assert_non_null(p);
    p->env = mo_env_default();
    snprintf(p->folder, sizeof p->folder, "/tmp/moire-quantize-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->model, sizeof p->model, "%s/model.onnx", p->folder);
    snprintf(p->state, sizeof p->state, "%s/state.part", p->folder);
    p->values = malloc((size_t)(n * SAMPLES) * sizeof *p->values);
    assert_non_null(p->values);
    for (int64_t i = 0; i < n * SAMPLES; i++)
        p->values[i] = (float)(mo_splitmix(&random) >> 40) * 0x1p-23f - 0.7f; /* -0.7 to 1.3 */
    for (int s = 0; s < SAMPLES; s++) {
        p->in[s] = (moire_tensor){.dtype = MOIRE_F32,
                                  .rank = 4,
                                  .shape = {1, 3, SIDE, SIDE},
                                  .data = p->values + s * n,
                                  .bytes = (size_t)n * sizeof(float)};
        p->sample[s].in = &p->in[s];
    }
    p->name[0] = "x";
    p->samples = (struct mo_samples){.n = SAMPLES, .n_in = 1, .name = p->name, .at = p->sample};
    *state = p;
    return 0;
}

static int remove_place(void **state) {
    struct place *p = *state;
    unlink(p->model);
    unlink(p->state);
    int rc = rmdir(p->folder);
    free(p->values);
    free(p);
    return rc;
}

/* --- models --- */

static struct mo_bv begin(struct mo_build *b) {
    return mo_b_image(b, "x", 3, SIDE, SIDE);
}

static struct mo_bv conv(struct mo_build *b, struct mo_bv x, int64_t out, int k, int64_t groups) {
    return mo_b_conv(b, x, (struct mo_conv_spec){.out = out, .k = k, .pad = k / 2, .groups = groups, .bias = true});
}

static void residual(struct mo_build *b) {
    struct mo_bv x = mo_b_conv_bn_relu(b, begin(b), (struct mo_conv_spec){.out = C, .k = 3, .pad = 1});
    struct mo_bv y = mo_b_conv_bn_relu(b, x, (struct mo_conv_spec){.out = C, .k = 3, .pad = 1});
    y = mo_b_bn(b, mo_b_conv(b, y, (struct mo_conv_spec){.out = C, .k = 1}), 1);
    x = mo_b_relu(b, mo_b_add(b, y, x));
    mo_b_result(b, mo_b_gemm(b, mo_b_flatten(b, mo_b_global_pool(b, x)), 10), "y", true);
}

static void excited(struct mo_build *b) {
    struct mo_bv x = mo_b_silu(b, conv(b, begin(b), C, 3, 1));
    struct mo_bv d = mo_b_silu(b, conv(b, x, C, 3, C));
    struct mo_bv gate = conv(b, mo_b_silu(b, conv(b, mo_b_global_pool(b, d), C, 1, 1)), C, 1, 1);
    x = mo_b_add(b, conv(b, mo_b_mul(b, d, mo_b_sigmoid(b, gate)), C, 1, 1), x);
    mo_b_result(b, conv(b, x, 8, 1, 1), "y", false);
}

static void joined(struct mo_build *b) {
    struct mo_bv x = mo_b_relu(b, conv(b, begin(b), C, 3, 1));
    const struct mo_bv parts[] = {mo_b_relu(b, conv(b, x, C, 1, 1)), mo_b_maxpool(b, x, 3, 1, 1, 0, false),
                                  mo_b_leaky(b, conv(b, x, C, 3, 1), 0.1f)};
    x = mo_b_concat(b, parts, 3);
    mo_b_result(b, conv(b, mo_b_maxpool(b, x, 2, 2, 0, 0, false), 8, 3, 1), "y", false);
}

/* x clip(x + 3, 0, 6) / 6 by single nodes */
static void stepwise(struct mo_build *b) {
    struct mo_bv x = conv(b, begin(b), C, 3, 1);
    const char *moved = mo_b_op2(b, "Add", x.name, mo_b_f32(b, "three", 3));
    const char *cut = mo_b_op3(b, "Clip", moved, mo_b_f32(b, "least", 0), mo_b_f32(b, "most", 6));
    x.name = mo_b_op2(b, "Div", mo_b_op2(b, "Mul", x.name, cut), mo_b_f32(b, "six", 6));
    mo_b_result(b, conv(b, x, 8, 3, 1), "y", false);
}

static void narrow_chain(struct mo_build *b) {
    struct mo_bv x = mo_b_relu(b, conv(b, begin(b), C, 1, 1));
    x = mo_b_relu(b, conv(b, x, C, 3, C));
    mo_b_result(b, conv(b, x, 8, 1, 1), "y", false);
}

typedef void build_fn(struct mo_build *b);

static void write_model(struct place *p, build_fn *build, int64_t opset) {
    struct mo_build b;
    moire_error err = {0};
    assert_int_equal(mo_build_start(&p->env, "test", 5, &b, &err), 0);
    b.opset = opset;
    build(&b);
    assert_int_equal(mo_build_write(&b, p->model, &err), 0);
    mo_build_end(&b);
}

/* The outputs of an edit, one after the other; *n of them.  For free(). */
static float *run_edit(struct place *p, struct mo_edit *e, int64_t *n) {
    uint8_t *bytes;
    size_t size;
    moire_error err = {0};
    float *all = NULL;
    assert_int_equal(mo_edit_pack(e, &bytes, &size), 0);
    struct mo_qprobe probe = mo_qprobe_of(&p->env, bytes, size);
    *n = 0;
    for (int s = 0; s < SAMPLES; s++) {
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

static double apart(const float *a, const float *b, int64_t n) {
    double d = 0, s = 0;
    for (int64_t i = 0; i < n; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        s += (double)a[i] * (double)a[i];
    }
    return s > 0 ? sqrt(d / s) : d > 0;
}

/* --- preparing --- */

static void old_moves(struct mo_build *b) {
    const char *x = begin(b).name, *wide, *parts, *last;
    wide = mo_b_op1(b, "Clip", x);
    mo_b_float(b, "min", -0.5f);
    mo_b_float(b, "max", 0.75f);
    wide = mo_b_op1(b, "Pad", wide);
    mo_b_ints(b, "pads", (int64_t[]){0, 0, 1, 1, 0, 0, 1, 1}, 8);
    mo_b_float(b, "value", 0.25f);
    wide = mo_b_op1(b, "Slice", wide);
    mo_b_ints(b, "starts", (int64_t[]){1, 0}, 2);
    mo_b_ints(b, "ends", (int64_t[]){13, 12}, 2);
    mo_b_ints(b, "axes", (int64_t[]){2, 3}, 2);
    wide = mo_b_op1(b, "Dropout", wide);
    mo_b_float(b, "ratio", 0.5f);
    parts = mo_b_op1(b, "Split", wide);
    mo_b_ints(b, "split", (int64_t[]){1, 2}, 2);
    mo_b_int(b, "axis", 1);
    last = mo_b_another_output(b);
    parts = mo_b_op1(b, "Squeeze", parts);
    mo_b_ints(b, "axes", (int64_t[]){1}, 1);
    parts = mo_b_op1(b, "Unsqueeze", parts);
    mo_b_ints(b, "axes", (int64_t[]){1}, 1);
    last = mo_b_op2(b, "Mul", last, parts);
    last = mo_b_op1(b, "ReduceSum", last);
    mo_b_ints(b, "axes", (int64_t[]){1}, 1);
    mo_b_output(b, last, "y", MOIRE_F32, (int64_t[]){-1, 1, 12, 12}, 4);
}

static void old_softmax(struct mo_build *b) {
    const char *x = mo_b_op1(b, "Softmax", begin(b).name); /* over all but the first dimension */
    x = mo_b_op1(b, "LogSoftmax", x);
    mo_b_int(b, "axis", 3);
    mo_b_output(b, x, "y", MOIRE_F32, (int64_t[]){-1, 3, SIDE, SIDE}, 4);
}

static void old_best(struct mo_build *b) {
    const char *x = mo_b_op1(b, "TopK", begin(b).name);
    mo_b_int(b, "k", 5);
    mo_b_another_output(b);
    mo_b_output(b, x, "y", MOIRE_F32, (int64_t[]){-1, 3, SIDE, 5}, 4);
}

static void upgrading_changes_no_result(void **state) {
    static const struct {
        build_fn *build;
        int64_t opset;
    } cases[] = {{old_moves, 9},   {old_softmax, 7}, {old_softmax, 12}, {old_best, 9},
                 {old_best, 7},    {residual, 9},    {joined, 11},      {excited, 12},
                 {residual, 13}};
    struct place *p = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mo_edit e;
        moire_error err = {0};
        int64_t n, m;
        write_model(p, cases[i].build, cases[i].opset);
        assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
        float *before = run_edit(p, &e, &n);
        if (mo_upgrade(&e, NULL)) fail_msg("case %zu: %s", i, err.message);
        assert_true(e.model->opset_import[0]->version >= MO_QUANTIZE_OPSET);
        float *after = run_edit(p, &e, &m);
        assert_int_equal(n, m);
        if (apart(before, after, n) > 1e-6) fail_msg("case %zu: %g apart", i, apart(before, after, n));
        free(before);
        free(after);
        mo_edit_close(&e);
    }
}

static void norms_go_into_filters(void **state) {
    struct place *p = *state;
    struct mo_edit e;
    struct mo_norm_list facts;
    moire_error err = {0};
    int64_t n, m;
    write_model(p, residual, 13);
    assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
    float *before = run_edit(p, &e, &n);
    assert_int_equal(mo_fold_norms(&e, &facts), 0);
    float *after = run_edit(p, &e, &m);
    assert_int_equal(facts.n, 3);
    for (size_t i = 0; i < e.graph->n_node; i++)
        assert_string_not_equal(e.graph->node[i]->op_type, "BatchNormalization");
    assert_true(apart(before, after, n) < 1e-5);
    free(before);
    free(after);
    mo_edit_close(&e);
}

/* How unlike the largest weights of a layer's outputs are: the largest over the smallest. */
static double unlike(struct mo_edit *e, int layer) {
    int at = 0;
    for (size_t i = 0; i < e->graph->n_node; i++) {
        const Onnx__NodeProto *node = e->graph->node[i];
        if (strcmp(node->op_type, "Conv") || at++ != layer) continue;
        int64_t n;
        const float *w = mo_edit_floats(e, node->input[1], &n);
        double least = INFINITY, most = 0;
        for (int64_t o = 0; o < C; o++) {
            double largest = 0;
            for (int64_t k = 0; k < n / C; k++)
                largest = fmax(largest, fabs((double)w[o * (n / C) + k]));
            least = fmin(least, largest), most = fmax(most, largest);
        }
        return most / least;
    }
    return 0;
}

static void equalizing_changes_no_result(void **state) {
    struct place *p = *state;
    struct mo_edit e;
    moire_error err = {0};
    int64_t n, m;
    write_model(p, narrow_chain, 13);
    assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
    /* filters that are very unlike, as those of networks with depthwise convolutions are */
    for (size_t i = 0; i < e.graph->n_node; i++) {
        float *w = strcmp(e.graph->node[i]->op_type, "Conv") ? NULL : mo_edit_floats(&e, e.graph->node[i]->input[1], &n);
        for (int64_t o = 0; w && n == 9 * C && o < C; o++)
            for (int k = 0; k < 9; k++)
                w[o * 9 + k] *= (float)(1 << (o % 8));
    }
    const double was = unlike(&e, 1);
    float *before = run_edit(p, &e, &n);
    assert_int_equal(mo_equalize(&e), 2);
    float *after = run_edit(p, &e, &m);
    assert_true(apart(before, after, n) < 1e-5);
    assert_true(unlike(&e, 1) < was / 4);
    free(before);
    free(after);
    mo_edit_close(&e);
}

/* --- ranges --- */

static void ranges_are_those_of_the_values(void **state) {
    (void)state;
    enum { N = 400000 };
    struct mo_tally *t = calloc(1, sizeof *t);
    float *x = malloc(N * sizeof *x), lo, hi;
    uint64_t random = 3;
    assert_non_null(t);
    assert_non_null(x);
    for (int i = 0; i < N; i++)
        x[i] = (float)(mo_splitmix(&random) >> 40) * 0x1p-24f; /* 0 to 1 */
    mo_tally_add(t, x, 1000); /* bins widen after that */
    x[N - 1] = 1000, x[N - 2] = -3, x[N - 3] = NAN;
    mo_tally_add(t, x + 1000, N - 1000);
    assert_int_equal(t->n, N - 1);
    assert_int_equal(t->n_bad, 1);
    int64_t sum = 0;
    for (int i = 0; i < MO_TALLY_BINS; i++)
        sum += t->bin[i];
    assert_int_equal(sum, N - 1);
    mo_tally_range(t, MO_RANGE_MINMAX, &lo, &hi);
    assert_true(lo == -3 && hi == 1000);
    mo_tally_range(t, MO_RANGE_PERCENTILE, &lo, &hi);
    assert_true(hi < 3 && lo >= -1);
    mo_tally_range(t, MO_RANGE_ENTROPY, &lo, &hi);
    assert_true(hi >= 1 && hi <= 1000 && lo <= 0);
    memset(t, 0, sizeof *t);
    mo_tally_range(t, MO_RANGE_ENTROPY, &lo, &hi);
    assert_true(lo == 0 && hi == 0);
    free(t);
    free(x);
}

static void zero_is_a_step_of_every_range(void **state) {
    static const float ranges[][2] = {{0, 6}, {-1, 1}, {-3, 0}, {-0.01f, 100}, {0, 0}, {-1e30f, 1e30f}};
    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        float scale;
        uint8_t zero;
        mo_qrange_steps(ranges[i][0], ranges[i][1], &scale, &zero);
        assert_true(scale > 0 && isfinite(scale));
        assert_true((255 - zero) * scale >= ranges[i][1] - 0.51f * scale);
        assert_true(-zero * scale <= ranges[i][0] + 0.51f * scale);
    }
}

/* --- the whole --- */

static bool go_on(void *ctx, const char *stage, int done, int total) {
    (void)stage, (void)done, (void)total;
    int *left = ctx;
    return !left || --*left != 0;
}

static struct mo_quantize_options usual(void) {
    return (struct mo_quantize_options){
        .per_channel = true, .correct_bias = true, .tolerance = 0.1, .progress = {.tell = go_on}};
}

static int quantize(struct place *p, const struct mo_quantize_options *o, struct mo_quantized *q, moire_error *err) {
    return mo_quantize(&p->env, p->model, &p->samples, o, q, err);
}

/* Layers of the result by operator, when it runs in int8. */
static int count(struct place *p, struct mo_quantized *q, const char *op, bool passes) {
    uint8_t *bytes;
    size_t n;
    moire_error err = {0};
    struct mo_graph *g;
    const struct mo_frontend_options front = {
        .batch = 1, .precision = MO_PRECISION_INT8, .no_passes = !passes};
    assert_int_equal(mo_edit_pack(&q->edit, &bytes, &n), 0);
    if (mo_frontend_parse(&p->env, bytes, n, NULL, &front, &g, &err)) fail_msg("%s", err.message);
    mo_free(&p->env, bytes);
    int found = 0;
    for (int i = 0; i < g->n_nodes; i++)
        found += !strcmp(g->nodes[i]->op_type, op);
    mo_graph_destroy(g);
    return found;
}

static void layers_compute_in_bytes(void **state) {
    static const struct {
        build_fn *build;
        int convs, points;
    } cases[] = {{residual, 3, 7}, {excited, 6, 9}, {joined, 4, 7}, {stepwise, 2, 2}, {narrow_chain, 3, 3}};
    struct place *p = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int form = 0; form < 4; form++) {
            struct mo_quantize_options o = usual();
            struct mo_quantized q;
            moire_error err = {0};
            o.portable = form == 1;
            o.per_channel = form != 2;
            o.narrow = form == 3;
            write_model(p, cases[i].build, i % 2 ? 11 : 13);
            if (quantize(p, &o, &q, &err)) fail_msg("case %zu: %s", i, err.message);
            assert_int_equal(q.n_on, q.layers.n);
            if (!(q.whole.error < 0.08)) fail_msg("case %zu, form %d: error %g", i, form, q.whole.error);
            if (form == 0 && q.n_points != cases[i].points) fail_msg("case %zu: %d points", i, q.n_points);
            assert_int_equal(count(p, &q, "QConv", true), cases[i].convs);
            assert_int_equal(count(p, &q, "Conv", true), 0);
            mo_quantized_close(&q);
        }
}

static void what_was_asked_to_stay_stays(void **state) {
    struct place *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantized q;
    moire_error err = {0};
    write_model(p, residual, 13);
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    char keep[200];
    snprintf(keep, sizeof keep, "%s,%s", q.layer_name[0], q.layer_name[3]);
    mo_quantized_close(&q);
    o.keep = keep;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(q.n_on, 2);
    assert_int_equal(count(p, &q, "QConv", true), 2);
    assert_int_equal(count(p, &q, "Conv", true), 1);
    mo_quantized_close(&q);
    o.keep = "no-such-layer";
    assert_int_equal(quantize(p, &o, &q, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "no-such-layer"));
    mo_quantized_close(&q);
}

static void layers_beyond_the_tolerance_stay_floats(void **state) {
    struct place *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantized q;
    moire_error err = {0};
    write_model(p, excited, 13);
    o.tolerance = 0;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(q.n_on, 0);
    assert_int_equal(count(p, &q, "QuantizeLinear", false), 0);
    assert_true(q.whole.error == 0);
    mo_quantized_close(&q);
    o.tolerance = 1;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    const double all = q.whole.error;
    assert_int_equal(q.n_on, q.layers.n);
    mo_quantized_close(&q);
    o.tolerance = all * 0.7;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_true(q.whole.error <= o.tolerance);
    assert_true(q.n_on < q.layers.n);
    mo_quantized_close(&q);
}

static void an_interrupted_one_goes_on(void **state) {
    struct place *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantized q;
    moire_error err = {0};
    uint8_t *whole, *resumed;
    size_t n, m;
    write_model(p, excited, 13);
    o.state = p->state;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(mo_edit_pack(&q.edit, &whole, &n), 0);
    mo_quantized_close(&q);
    int calls = 0, left = -1;
    o.progress.ctx = &left;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    calls = -1 - left;
    mo_quantized_close(&q);
    for (int stop = 1; stop <= calls; stop++) {
        unlink(p->state);
        left = stop;
        int rc = quantize(p, &o, &q, &err);
        mo_quantized_close(&q);
        assert_int_equal(rc, MOIRE_EINTERRUPTED);
        left = -1;
        assert_int_equal(quantize(p, &o, &q, &err), 0);
        assert_true(-1 - left <= calls);
        assert_int_equal(mo_edit_pack(&q.edit, &resumed, &m), 0);
        assert_int_equal(n, m);
        assert_memory_equal(whole, resumed, n);
        mo_free(&p->env, resumed);
        mo_quantized_close(&q);
    }
    mo_free(&p->env, whole);
}

/* Weights so small, and biases so large, that a bias in steps of both scales would not fit int32. */
static void far_biases_fit(void **state) {
    struct place *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantized q;
    struct mo_edit e;
    moire_error err = {0};
    int64_t n;
    write_model(p, narrow_chain, 13);
    assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
    float *w = mo_edit_floats(&e, e.graph->node[0]->input[1], &n);
    for (int64_t i = 0; i < n; i++)
        w[i] *= 1e-9f;
    uint8_t *bytes;
    size_t size;
    assert_int_equal(mo_edit_pack(&e, &bytes, &size), 0);
    FILE *f = fopen(p->model, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    mo_free(&p->env, bytes);
    mo_edit_close(&e);
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(q.n_on, 3);
    assert_true(q.whole.error < 0.08);
    mo_quantized_close(&q);
}

static void mean_errors_of_weights_are_taken_off(void **state) {
    struct place *p = *state;
    double mean[2];
    moire_error err = {0};
    write_model(p, narrow_chain, 13);
    for (int corrects = 0; corrects < 2; corrects++) {
        struct mo_quantize_options o = usual();
        struct mo_quantized q;
        struct mo_edit e;
        int64_t n, m;
        o.correct_bias = corrects;
        o.per_channel = false;
        o.narrow = true;
        assert_int_equal(mo_edit_open(&p->env, p->model, &e, &err), 0);
        float *want = run_edit(p, &e, &n);
        assert_int_equal(quantize(p, &o, &q, &err), 0);
        float *got = run_edit(p, &q.edit, &m);
        mean[corrects] = 0;
        for (int64_t c = 0; c < 8; c++) { /* [sample][channel][pixel] */
            double sum = 0;
            for (int64_t i = 0; i < n; i++)
                if (i / (SIDE * SIDE) % 8 == c) sum += (double)got[i] - (double)want[i];
            mean[corrects] += fabs(sum);
        }
        free(want);
        free(got);
        mo_edit_close(&e);
        mo_quantized_close(&q);
    }
    assert_true(mean[1] < mean[0]);
}

static void without_data_norms_tell_ranges(void **state) {
    struct place *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantized q;
    moire_error err = {0};
    write_model(p, residual, 13);
    o.by_norms = true;
    assert_int_equal(quantize(p, &o, &q, &err), 0);
    assert_int_equal(q.n_by_norms, 3);
    assert_true(q.whole.error < 0.1);
    mo_quantized_close(&q);
}

static void what_cannot_be_quantized_is_said(void **state) {
    struct place *p = *state;
    struct mo_quantize_options o = usual();
    struct mo_quantized q;
    moire_error err = {0};
    write_model(p, old_best, 9);
    assert_int_equal(quantize(p, &o, &q, &err), MOIRE_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "nothing to quantize"));
    mo_quantized_close(&q);
    write_model(p, residual, 13);
    const struct mo_samples none = {0};
    assert_int_equal(mo_quantize(&p->env, p->model, &none, &o, &q, &err), MOIRE_EINVAL);
}

struct sweep {
    struct place *p;
    struct fault_sys f;
};

static int quantize_once(void *ctx) {
    struct sweep *s = ctx;
    struct mo_quantize_options o = usual();
    struct mo_quantized q;
    moire_error err = {0};
    struct mo_env env = s->p->env;
    env.sys = &s->f.table;
    int rc = mo_quantize(&env, s->p->model, &s->p->samples, &o, &q, &err);
    mo_quantized_close(&q);
    return rc;
}

static void memory_may_run_out_anywhere(void **state) {
    struct sweep s = {.p = *state};
    fault_sys_init(&s.f);
    s.p->samples.n = 1;
    write_model(s.p, stepwise, 13);
    assert_true(fault_sys_sweep(&s.f, quantize_once, &s, 0) > 10);
    s.p->samples.n = SAMPLES;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(upgrading_changes_no_result),
        cmocka_unit_test(norms_go_into_filters),
        cmocka_unit_test(equalizing_changes_no_result),
        cmocka_unit_test(ranges_are_those_of_the_values),
        cmocka_unit_test(zero_is_a_step_of_every_range),
        cmocka_unit_test(layers_compute_in_bytes),
        cmocka_unit_test(what_was_asked_to_stay_stays),
        cmocka_unit_test(layers_beyond_the_tolerance_stay_floats),
        cmocka_unit_test(an_interrupted_one_goes_on),
        cmocka_unit_test(far_biases_fit),
        cmocka_unit_test(mean_errors_of_weights_are_taken_off),
        cmocka_unit_test(without_data_norms_tell_ranges),
        cmocka_unit_test(what_cannot_be_quantized_is_said),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
