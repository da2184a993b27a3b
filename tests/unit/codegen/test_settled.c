/* SPDX-License-Identifier: Apache-2.0
 * test_settled.c - corners where the ONNX specification, its reference and ONNX Runtime differ or are silent:
 * what moire answers, row by row of docs/settled.md.
 *
 * Every row runs as imported, by references, and after the passes with the built-in kernels of every ISA
 * level; then with 17 channels, where kernels work on blocks, and both must agree. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/codegen/onnx_build.h"
#include "tools/moire/verify/ways.h"

enum { MANY = 17, MOST = 4096 };

/* x and every weight count up from 1.  C in a shape is the number of channels. */
static const struct row {
    const char *op, *attributes; /* "name=1,2" numbers, "name:text" */
    const char *x, *weights;     /* shapes; weights NULL: none */
    const char *inputs;          /* behind those: "name=1,2" floats, "name#1,2" int64, "-" absent */
    const char *want;            /* "shape: elements" with one channel; NULL: refused */
    int opset;
} rows[] = {
    /* ConvTranspose: pads below 0 add zeros, and are split like others */
    {"ConvTranspose", "auto_pad:SAME_UPPER strides=2", "1,C,4", "C,1,1", "", "1,1,8: 0 1 0 2 0 3 0 4", 17},
    {"ConvTranspose", "auto_pad:SAME_LOWER strides=2", "1,C,4", "C,1,1", "", "1,1,8: 1 0 2 0 3 0 4 0", 17},
    {"ConvTranspose", "auto_pad:SAME_UPPER strides=3", "1,C,4", "C,1,1", "",
     "1,1,12: 0 1 0 0 2 0 0 3 0 0 4 0", 17},
    {"ConvTranspose", "auto_pad:SAME_LOWER strides=3", "1,C,4", "C,1,1", "",
     "1,1,12: 0 1 0 0 2 0 0 3 0 0 4 0", 17},
    {"ConvTranspose", "auto_pad:SAME_UPPER strides=3", "1,C,4", "C,1,2", "",
     "1,1,12: 0 1 2 0 2 4 0 3 6 0 4 8", 17},
    {"ConvTranspose", "auto_pad:SAME_LOWER strides=3", "1,C,4", "C,1,2", "",
     "1,1,12: 1 2 0 2 4 0 3 6 0 4 8 0", 17},
    {"ConvTranspose", "auto_pad:SAME_UPPER strides=2,1", "1,C,2,2", "C,1,1,1", "", "1,1,4,2: 0 0 1 2 0 0 3 4",
     17},
    {"ConvTranspose", "auto_pad:SAME_UPPER strides=3 output_shape=12", "1,C,4", "C,1,2", "",
     "1,1,12: 0 1 2 0 2 4 0 3 6 0 4 8", 17},
    {"ConvTranspose", "strides=2 output_shape=12", "1,C,4", "C,1,3", "", "1,1,12: 0 1 2 5 4 9 6 13 8 12 0 0",
     17},
    {"ConvTranspose", "strides=3 output_padding=2", "1,C,4", "C,1,1", "", "1,1,12: 1 0 0 2 0 0 3 0 0 4 0 0",
     17},
    {"ConvTranspose", "strides=2 output_padding=3", "1,C,4", "C,1,3", "", NULL, 17},
    {"ConvTranspose", "pads=2,2", "1,C,2", "C,1,3", "", NULL, 17},
    {"ConvTranspose", "pads=-1,-1", "1,C,4", "C,1,2", "", NULL, 17},
    /* Conv: no output without elements, pads are never below 0 */
    {"Conv", "auto_pad:VALID", "1,C,4", "1,C,5", "", NULL, 17},
    {"Conv", "strides=2", "1,C,3", "1,C,4", "", NULL, 17},
    {"Conv", "auto_pad:SAME_UPPER strides=2", "1,C,4", "1,C,1", "", "1,1,2: 1 3", 17},
    {"Conv", "auto_pad:SAME_LOWER strides=3", "1,C,4", "1,C,1", "", "1,1,2: 1 4", 17},
    /* pools whose window reaches further than the padded input: the formula, while it gives 0 or more */
    {"MaxPool", "kernel_shape=5", "1,C,4", NULL, "", "1,1,0:", 22},
    {"AveragePool", "kernel_shape=5", "1,C,4", NULL, "", "1,1,0:", 22},
    {"LpPool", "kernel_shape=5", "1,C,4", NULL, "", "1,1,0:", 22},
    {"MaxPool", "kernel_shape=6 pads=1,0", "1,C,4", NULL, "", "1,1,0:", 12},
    {"MaxPool", "kernel_shape=7 pads=1,1 ceil_mode=1", "1,C,4", NULL, "", "1,1,0:", 22},
    {"AveragePool", "kernel_shape=9 strides=3 ceil_mode=1", "1,C,4", NULL, "", "1,1,0:", 22},
    {"MaxPool", "kernel_shape=7 strides=3 auto_pad:VALID", "1,C,4", NULL, "", "1,1,0:", 22},
    {"MaxPool", "kernel_shape=4,2", "1,C,3,3", NULL, "", "1,1,0,2:", 22},
    {"MaxPool", "kernel_shape=6", "1,C,4", NULL, "", NULL, 22},
    {"AveragePool", "kernel_shape=9 strides=3", "1,C,4", NULL, "", NULL, 22},
    {"MaxPool", "kernel_shape=5,5", "1,C,3,3", NULL, "", NULL, 22},
    /* windows wholly in padding: the neutral element */
    {"MaxPool", "kernel_shape=2 pads=2,2", "1,C,4", NULL, "", "1,1,7: -inf 1 2 3 4 4 -inf", 22},
    {"AveragePool", "kernel_shape=2 pads=2,2", "1,C,4", NULL, "", "1,1,7: 0 1 1.5 2.5 3.5 4 0", 22},
    {"AveragePool", "kernel_shape=2 pads=2,2 count_include_pad=1", "1,C,4", NULL, "",
     "1,1,7: 0 .5 1.5 2.5 3.5 2 0", 22},
    {"LpPool", "kernel_shape=2 pads=2,2 p=1", "1,C,4", NULL, "", "1,1,7: 0 1 3 5 7 4 0", 22},
    {"MaxPool", "kernel_shape=2 pads=3,3 strides=2", "1,C,4", NULL, "", "1,1,5: -inf 1 3 4 -inf", 22},
    {"MaxPool", "kernel_shape=2,1 pads=2,0,2,0", "1,C,1,2", NULL, "", "1,1,4,2: -inf -inf 1 2 1 2 -inf -inf",
     22},
    {"MaxPool", "kernel_shape=2 dilations=5 pads=1,1", "1,C,4", NULL, "", "1,1,1: -inf", 22},
    {"AveragePool", "kernel_shape=2 dilations=5 pads=1,1", "1,C,4", NULL, "", "1,1,1: 0", 22},
    {"MaxPool", "kernel_shape=3 pads=2,2", "1,C,4", NULL, "", "1,1,6: 1 2 3 4 4 4", 22},
    /* SAME with a stride that leaves elements out, and a kernel that covers all */
    {"MaxPool", "kernel_shape=1 strides=2 auto_pad:SAME_UPPER", "1,C,4", NULL, "", "1,1,2: 1 3", 22},
    {"AveragePool", "kernel_shape=1 strides=2 auto_pad:SAME_LOWER", "1,C,4", NULL, "", "1,1,2: 1 3", 22},
    {"MaxPool", "kernel_shape=7 strides=3 auto_pad:SAME_LOWER", "1,C,4", NULL, "", "1,1,2: 4 4", 22},
    {"MaxPool", "kernel_shape=2 auto_pad:SAME_UPPER", "1,C,1", NULL, "", "1,1,1: 1", 22},
    /* ceil_mode */
    {"MaxPool", "kernel_shape=2 strides=3 pads=0,1 ceil_mode=1", "1,C,5", NULL, "", "1,1,2: 2 5", 22},
    {"LpPool", "kernel_shape=2 strides=2 ceil_mode=1 p=1", "1,C,3", NULL, "", "1,1,2: 3 3", 22},
    /* Resize: what is empty, given twice or missing */
    {"Resize", "axes=", "1,C,4", NULL, "- s=", "1,1,4: 1 2 3 4", 18},
    {"Resize", "axes=", "1,C,4", NULL, "- - z#", "1,1,4: 1 2 3 4", 18},
    {"Resize", "axes= mode:linear", "1,C,4", NULL, "- s=", "1,1,4: 1 2 3 4", 18},
    {"Resize", "axes=", "1,C,4", NULL, "- s=1,1,2", "1,1,8: 1 1 2 2 3 3 4 4", 18},
    {"Resize", "", "1,C,4", NULL, "r= s=1,1,2", "1,1,8: 1 1 2 2 3 3 4 4", 13},
    {"Resize", "", "1,C,4", NULL, "r= s= z#1,C,8", "1,1,8: 1 1 2 2 3 3 4 4", 13},
    {"Resize", "axes=-1", "1,C,4", NULL, "- s=2", "1,1,8: 1 1 2 2 3 3 4 4", 18},
    {"Resize", "", "1,C,4", NULL, "- s=1,1,.2", "1,1,0:", 18},
    {"Resize", "", "1,C,4", NULL, "- - z#1,C,0", "1,1,0:", 18},
    {"Resize", "", "0,C,4", NULL, "- s=1,1,2", "0,1,8:", 18},
    {"Resize", "", "1,C,0", NULL, "- s=1,1,2", "1,1,0:", 18},
    {"Resize", "", "1,C,0", NULL, "- - z#1,C,4", NULL, 18},
    {"Resize", "", "1,C,4", NULL, "- s=1,1,2 z#1,C,8", NULL, 18},
    {"Resize", "", "1,C,4", NULL, "- s=1,1,2 z#", NULL, 18},
    {"Resize", "", "1,C,4", NULL, "- s= z#", NULL, 18},
    {"Resize", "", "1,C,4", NULL, "- s=", NULL, 13},
    {"Resize", "axes=2,2", "1,C,4", NULL, "- s=2,2", NULL, 18},
    {"Resize", "coordinate_transformation_mode:tf_crop_and_resize", "1,C,4", NULL, "- s=1,1,2", NULL, 18},
};

/* A shape or list with the number of channels in the place of C. */
static const char *with_channels(const char *text, int channels, char *to, size_t n) {
    size_t at = 0;
    for (; *text && at + 4 < n; text++)
        at += *text == 'C' ? (size_t)snprintf(to + at, n - at, "%d", channels)
                           : (size_t)snprintf(to + at, n - at, "%c", *text);
    to[at] = 0;
    return to;
}

static int parse_floats(const char *text, float *to) {
    int n = 0;
    for (; *(text += strspn(text, ", ")); n++) {
        char *end;
        to[n] = strtof(text, &end);
        text = end;
    }
    return n;
}

static void add_attribute(struct ob *b, char *word) {
    char *value = strpbrk(word, "=:");
    const bool text = *value == ':';
    *value++ = 0;
    if (text)
        ob_string(b, word, value);
    else if (!strcmp(word, "ceil_mode") || !strcmp(word, "p") || !strcmp(word, "count_include_pad"))
        ob_int(b, word, strtol(value, NULL, 10));
    else
        ob_ints(b, word, value);
}

/* A constant, or "-"; its name to `names`. */
static void add_input(struct ob *b, const char *word, int channels, char *names, size_t n) {
    char name[2] = {*word, 0}, values[64], shape[16];
    float floats[8];
    size_t at = strlen(names);
    snprintf(names + at, n - at, " %s", name);
    if (*word == '-') return;
    with_channels(word + 2, channels, values, sizeof values);
    int count = parse_floats(values, floats);
    snprintf(shape, sizeof shape, "%d", count);
    if (word[1] == '#')
        ob_int64s(b, name, values);
    else
        ob_floats(b, name, shape, floats);
}

/* The model of a row; the graph owns it. */
static int parse(const struct mo_env *env, const struct row *r, int channels, bool passes,
                 struct mo_graph **out, moire_error *err) {
    static float ramp[MOST];
    char shape[64], names[64] = "x", words[256];
    for (int i = 0; i < MOST; i++)
        ramp[i] = (float)(i % 31 + 1);
    struct ob *b = ob_create(r->opset);
    ob_input(b, "x", MOIRE_F32, with_channels(r->x, channels, shape, sizeof shape));
    if (r->weights) {
        ob_floats(b, "w", with_channels(r->weights, channels, shape, sizeof shape), ramp);
        snprintf(names, sizeof names, "x w");
    }
    snprintf(words, sizeof words, "%s", r->inputs);
    for (char *at, *w = strtok_r(words, " ", &at); w; w = strtok_r(NULL, " ", &at))
        add_input(b, w, channels, names, sizeof names);
    ob_node(b, r->op, names, "y");
    snprintf(words, sizeof words, "%s", r->attributes);
    for (char *at, *w = strtok_r(words, " ", &at); w; w = strtok_r(NULL, " ", &at))
        add_attribute(b, w);
    ob_output(b, "y");
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    const struct mo_frontend_options options = {.no_passes = !passes};
    int rc = mo_frontend_parse(env, bytes, n, ".", &options, out, err);
    ob_destroy(b);
    return rc;
}

static moire_tensor input_of(const struct mo_env *env, const struct mo_graph *g) {
    const struct mo_tensor *t = g->tensors[g->inputs[0]];
    int64_t n = mo_shape_count(&t->shape);
    moire_tensor x = {.dtype = MOIRE_F32, .rank = t->shape.rank, .bytes = (size_t)n * 4};
    memcpy(x.shape, t->shape.d, sizeof x.shape);
    x.data = mo_alloc(env, x.bytes + 4);
    for (int64_t i = 0; i < n; i++)
        ((float *)x.data)[i] = (float)(i + 1);
    return x;
}

/* Whether a tensor is "shape: elements". */
static bool is_as_told(const moire_tensor *t, const char *want) {
    float shape[8], elements[64];
    char text[64];
    const char *colon = strchr(want, ':');
    snprintf(text, sizeof text, "%.*s", (int)(colon - want), want);
    int rank = parse_floats(text, shape), n = parse_floats(colon + 1, elements);
    bool same = rank == t->rank && t->bytes == (size_t)n * 4;
    for (int i = 0; i < rank && same; i++)
        same = t->shape[i] == (int64_t)shape[i];
    for (int i = 0; i < n && same; i++)
        same = ((const float *)t->data)[i] == elements[i];
    return same;
}

static bool agree(const moire_tensor *a, const moire_tensor *b) {
    bool same = a->rank == b->rank && a->bytes == b->bytes && !memcmp(a->shape, b->shape, sizeof a->shape);
    const float *p = a->data, *q = b->data;
    for (size_t i = 0; i < a->bytes / 4 && same; i++)
        same = p[i] == q[i] || fabsf(p[i] - q[i]) <= 1e-5f * fabsf(q[i]);
    return same;
}

static void check_row(const struct mo_env *env, const struct row *r, int channels) {
    moire_error err = {0};
    struct mo_graph *g = NULL;
    moire_tensor want = {0}, got = {0};
    int rc = parse(env, r, channels, false, &g, &err);
    moire_tensor x = rc ? (moire_tensor){0} : input_of(env, g);
    if (!rc) rc = mo_way_run_reference(g, &x, 1, &want, &err);
    mo_graph_destroy(g);
    if (!r->want != !!rc) fail_msg("%s %s, %s: %d %s", r->op, r->attributes, r->inputs, rc, err.message);
    if (!rc && channels == 1 && !is_as_told(&want, r->want))
        fail_msg("%s %s, %s: not %s by the reference", r->op, r->attributes, r->inputs, r->want);
    for (int isa = mo_isa_next(-1); r->want && isa < MO_ISA_COUNT; isa = mo_isa_next(isa)) {
        const struct mo_plan_options options = {.isa = (enum mo_isa)isa};
        if (parse(env, r, channels, true, &g, &err) || mo_way_run_plan(g, &options, &x, 1, &got, &err))
            fail_msg("%s %s, %s: %s", r->op, r->attributes, r->inputs, err.message);
        if (!agree(&got, &want))
            fail_msg("%s %s, %s: kernels of %s differ with %d channels", r->op, r->attributes, r->inputs,
                     mo_isa_name((enum mo_isa)isa), channels);
        mo_way_free(env, &got, 1);
    }
    mo_way_free(env, &want, 1);
    mo_free(env, x.data);
}

static void rows_are_as_settled(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_row(&env, &rows[i], 1);
        check_row(&env, &rows[i], MANY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_as_settled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
