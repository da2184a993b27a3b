/* SPDX-License-Identifier: Apache-2.0
 * gpu_cases.c - small models of every kind of operator, and what comparing them needs. */
#include "tests/cuda/gpu_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tools/moire/verify/dataset.h"
#include "tools/moire/verify/ways.h"

struct mo_graph *gpu_case_parse(struct ob *b, const struct mo_frontend_options *options) {
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    struct mo_graph *g;
    moire_error err = {0};
    if (mo_frontend_parse(&b->env, bytes, n, NULL, options, &g, &err)) fail_msg("%s", err.message);
    return g;
}

/* Small numbers for every input of the graph; integers count up. */
void gpu_case_inputs(struct mo_graph *g, moire_tensor *in) {
    uint64_t seed = 5;
    for (int i = 0; i < g->n_inputs; i++) {
        const struct mo_tensor *t = g->tensors[g->inputs[i]];
        int64_t n = mo_shape_count(&t->shape);
        in[i] = (moire_tensor){.dtype = t->dtype, .rank = t->shape.rank};
        memcpy(in[i].shape, t->shape.d, sizeof in[i].shape);
        in[i].bytes = (size_t)n * mo_dtype_bytes(t->dtype);
        in[i].data = mo_region_alloc(g->region, in[i].bytes + 1);
        for (int64_t k = 0; k < n; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            if (t->dtype == MOIRE_F32) ((float *)in[i].data)[k] = (float)(int64_t)(seed >> 40) * 0x1p-23f - 1;
            if (t->dtype == MOIRE_I32) ((int32_t *)in[i].data)[k] = (int32_t)(k % 4);
            if (t->dtype == MOIRE_I64) ((int64_t *)in[i].data)[k] = k % 3;
            if (t->dtype == MOIRE_BOOL) ((uint8_t *)in[i].data)[k] = seed >> 63;
        }
    }
}

void gpu_case_compare(const struct mo_gpu_program *p, const moire_tensor *want, moire_tensor *got,
                      double rtol) {
    for (int i = 0; i < p->n_outputs; i++) {
        struct mo_difference d;
        bool same = mo_tensors_agree(&want[i], &got[i], rtol, rtol * 0.1, &d);
        if (!same && (d.shape || !d.finite || d.max_rel > rtol))
            fail_msg("%s, output %d: %s, off by %g of the range; element %lld is %g, not %g",
                     mo_gpu_precision_name(p->precision), i, d.shape ? d.shape : "values differ", d.max_rel,
                     (long long)d.first_bad, d.got, d.want);
    }
}

/* --- convolutions and pools ----------------------------------------------------------------------------- */

static void conv(struct ob *b, const char *x, const char *weights, const char *y, const char *pads,
                 const char *strides, int group) {
    char name[32], in[80];
    snprintf(name, sizeof name, "w_%s", y);
    ob_random(b, name, weights);
    snprintf(in, sizeof in, "%s %s", x, name);
    ob_node(b, "Conv", in, y);
    if (pads) ob_ints(b, "pads", pads);
    if (strides) ob_ints(b, "strides", strides);
    if (group > 1) ob_int(b, "group", group);
}

static struct ob *convolutions(void) {
    struct ob *b = ob_create(14);
    ob_input(b, "x", MOIRE_F32, "2,6,9,7");
    conv(b, "x", "8,6,3,3", "a", "1,1,1,1", "2,2", 1);
    ob_node(b, "Relu", "a", "a1");
    conv(b, "a1", "16,8,1,1", "p", NULL, NULL, 1);
    ob_node(b, "HardSwish", "p", "p1");
    conv(b, "p1", "16,1,3,3", "d", "1,1,1,1", NULL, 16);
    ob_node(b, "Sigmoid", "d", "d1");
    conv(b, "d1", "16,4,3,3", "g", "1,1,1,1", NULL, 4);
    ob_node(b, "Add", "g d1", "s");
    ob_node(b, "Relu", "s", "s1");
    conv(b, "s1", "5,16,3,2", "u", "1,0,0,1", "1,2", 1);
    ob_output(b, "u");
    return b;
}

static struct ob *dilated_and_padded(void) {
    struct ob *b = ob_create(14);
    ob_input(b, "x", MOIRE_F32, "1,4,12,12");
    conv(b, "x", "4,4,3,3", "a", "2,2,2,2", NULL, 1);
    ob_ints(b, "dilations", "2,2");
    ob_node(b, "Tanh", "a", "a1");
    ob_node(b, "Add", "a1 x", "r");
    conv(b, "r", "6,4,3,3", "c", NULL, "2,2", 1);
    ob_string(b, "auto_pad", "SAME_UPPER");
    conv(b, "c", "6,1,3,3", "d", NULL, "2,2", 6);
    ob_string(b, "auto_pad", "SAME_LOWER");
    ob_node(b, "LeakyRelu", "d", "y");
    ob_output(b, "y");
    return b;
}

static struct ob *one_dimension(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,17");
    conv(b, "x", "8,3,5", "a", "2,2", "2", 1);
    ob_node(b, "Relu", "a", "a1");
    conv(b, "a1", "8,1,3", "d", "1,1", NULL, 8);
    ob_node(b, "MaxPool", "d", "m");
    ob_ints(b, "kernel_shape", "3");
    ob_output(b, "m");
    return b;
}

static struct ob *pools(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,8,11,11");
    ob_node(b, "MaxPool", "x", "a");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "strides", "2,2");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "AveragePool", "a", "c");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "AveragePool", "c", "d");
    ob_ints(b, "kernel_shape", "2,3");
    ob_ints(b, "strides", "2,2");
    ob_ints(b, "pads", "0,1,1,1");
    ob_int(b, "count_include_pad", 1);
    ob_int(b, "ceil_mode", 1);
    ob_node(b, "GlobalAveragePool", "d", "e");
    ob_node(b, "GlobalMaxPool", "c", "f");
    ob_output(b, "d");
    ob_output(b, "e");
    ob_output(b, "f");
    return b;
}

/* --- everything else ------------------------------------------------------------------------------------ */

static struct ob *products(void) {
    struct ob *b = ob_create(20);
    ob_input(b, "x", MOIRE_F32, "2,5,12");
    ob_input(b, "z", MOIRE_F32, "2,7,12");
    ob_random(b, "w", "12,20");
    ob_random(b, "bias", "20");
    ob_node(b, "MatMul", "x w", "a");
    ob_node(b, "Add", "a bias", "a1");
    ob_node(b, "Gelu", "a1", "a2");
    ob_node(b, "Transpose", "z", "zt");
    ob_ints(b, "perm", "0,2,1");
    ob_node(b, "MatMul", "x zt", "c");
    ob_random(b, "g", "9,20");
    ob_node(b, "Flatten", "a2", "f");
    ob_int(b, "axis", 2);
    ob_node(b, "Gemm", "f g", "y");
    ob_int(b, "transB", 1);
    ob_float(b, "alpha", 0.5f);
    ob_output(b, "c");
    ob_output(b, "y");
    return b;
}

static struct ob *moves(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,6,4,5");
    ob_int64s(b, "parts", "2,4");
    ob_int64s(b, "starts", "1,-1");
    ob_int64s(b, "ends", "4,-6");
    ob_int64s(b, "axes", "2,3");
    ob_int64s(b, "steps", "1,-2");
    ob_int64s(b, "pads", "0,1,0,2,0,0,1,0");
    ob_int64s(b, "shape", "2,-1,5");
    ob_int64s(b, "wide", "2,6,3,3");
    ob_node(b, "Split", "x parts", "s t");
    ob_int(b, "axis", 1);
    ob_node(b, "Relu", "s", "s1");
    ob_node(b, "Concat", "t s1", "c");
    ob_int(b, "axis", 1);
    ob_node(b, "Slice", "c starts ends axes steps", "l");
    ob_node(b, "Pad", "l pads", "p");
    ob_node(b, "Transpose", "p", "q");
    ob_ints(b, "perm", "0,3,1,2");
    ob_node(b, "Reshape", "q shape", "r");
    ob_node(b, "ReduceMean", "x", "m");
    ob_ints(b, "axes", "2,3");
    ob_node(b, "Expand", "m wide", "e");
    ob_node(b, "Mul", "e e", "y");
    ob_output(b, "l");
    ob_output(b, "y");
    ob_output(b, "p");
    return b;
}

static struct ob *pointwise(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,4,8");
    ob_input(b, "k", MOIRE_BOOL, "2,1,4,1");
    ob_random(b, "c", "3,1,1");
    ob_scalar(b, "half", 0.5f);
    ob_node(b, "Mul", "x c", "a");
    ob_node(b, "Abs", "a", "a1");
    ob_node(b, "Sqrt", "a1", "a2");
    ob_node(b, "Where", "k a2 half", "w");
    ob_node(b, "Exp", "w", "e");
    ob_node(b, "Div", "x e", "d");
    ob_node(b, "Max", "d half x", "m");
    ob_node(b, "Erf", "m", "f");
    ob_node(b, "Greater", "f half", "g");
    ob_node(b, "Cast", "g", "h");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Sub", "f h", "y");
    ob_node(b, "Softplus", "y", "z");
    ob_output(b, "y");
    ob_output(b, "z");
    return b;
}

static struct ob *rows(void) {
    struct ob *b = ob_create(17);
    ob_input(b, "x", MOIRE_F32, "3,5,70");
    ob_random(b, "scale", "70");
    ob_random(b, "shift", "70");
    ob_node(b, "LayerNormalization", "x scale shift", "n");
    ob_node(b, "Softmax", "n", "s");
    ob_node(b, "LogSoftmax", "n", "t");
    ob_int(b, "axis", 1);
    ob_node(b, "ReduceMax", "n", "m");
    ob_ints(b, "axes", "1");
    ob_int(b, "keepdims", 0);
    ob_node(b, "ReduceL2", "n", "l");
    ob_ints(b, "axes", "-1,0");
    ob_output(b, "s");
    ob_output(b, "t");
    ob_output(b, "m");
    ob_output(b, "l");
    return b;
}

/* --- models --------------------------------------------------------------------------------------------- */

static void batch_norm(struct ob *b, const char *x, const char *channels, const char *y) {
    char names[4][32], in[160];
    static const char *const stems[] = {"scale", "shift", "mean", "var"};
    for (int i = 0; i < 4; i++) {
        snprintf(names[i], sizeof names[i], "%s_%s", stems[i], y);
        Onnx__TensorProto *t = ob_random(b, names[i], channels);
        for (int k = 0; i == 3 && k < (int)(t->raw_data.len / sizeof(float)); k++) {
            float v;
            memcpy(&v, t->raw_data.data + sizeof v * (size_t)k, sizeof v);
            v = v * v + 0.5f;
            memcpy(t->raw_data.data + sizeof v * (size_t)k, &v, sizeof v);
        }
    }
    snprintf(in, sizeof in, "%s %s %s %s %s", x, names[0], names[1], names[2], names[3]);
    ob_node(b, "BatchNormalization", in, y);
}

static struct ob *resnet_like(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,3,32,32");
    conv(b, "x", "16,3,7,7", "a", "3,3,3,3", "2,2", 1);
    batch_norm(b, "a", "16", "a1");
    ob_node(b, "Relu", "a1", "a2");
    ob_node(b, "MaxPool", "a2", "p");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "strides", "2,2");
    ob_ints(b, "pads", "1,1,1,1");
    conv(b, "p", "16,16,3,3", "c", "1,1,1,1", NULL, 1);
    batch_norm(b, "c", "16", "c1");
    ob_node(b, "Relu", "c1", "c2");
    conv(b, "c2", "16,16,3,3", "d", "1,1,1,1", NULL, 1);
    batch_norm(b, "d", "16", "d1");
    ob_node(b, "Add", "d1 p", "s");
    ob_node(b, "Relu", "s", "s1");
    conv(b, "s1", "32,16,1,1", "e", NULL, "2,2", 1);
    batch_norm(b, "e", "32", "e1");
    conv(b, "s1", "32,16,3,3", "f", "1,1,1,1", "2,2", 1);
    batch_norm(b, "f", "32", "f1");
    ob_node(b, "Add", "f1 e1", "t");
    ob_node(b, "Relu", "t", "t1");
    ob_node(b, "GlobalAveragePool", "t1", "g");
    ob_node(b, "Flatten", "g", "v");
    ob_random(b, "fc", "10,32");
    ob_random(b, "fb", "10");
    ob_node(b, "Gemm", "v fc fb", "y");
    ob_int(b, "transB", 1);
    ob_output(b, "y");
    return b;
}

static struct ob *mobilenet_like(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "1,3,24,24");
    ob_scalar(b, "zero", 0);
    ob_scalar(b, "six", 6);
    conv(b, "x", "8,3,3,3", "a", "1,1,1,1", "2,2", 1);
    ob_node(b, "Clip", "a zero six", "a1");
    conv(b, "a1", "32,8,1,1", "e", NULL, NULL, 1);
    ob_node(b, "Clip", "e zero six", "e1");
    conv(b, "e1", "32,1,3,3", "d", "1,1,1,1", "1,1", 32);
    ob_node(b, "Clip", "d zero six", "d1");
    ob_node(b, "GlobalAveragePool", "d1", "q");
    conv(b, "q", "4,32,1,1", "q1", NULL, NULL, 1);
    ob_node(b, "Relu", "q1", "q2");
    conv(b, "q2", "32,4,1,1", "q3", NULL, NULL, 1);
    ob_node(b, "HardSigmoid", "q3", "q4");
    ob_node(b, "Mul", "d1 q4", "d2");
    conv(b, "d2", "8,32,1,1", "p", NULL, NULL, 1);
    ob_node(b, "Add", "p a1", "y");
    ob_output(b, "y");
    return b;
}

/* Branches that are concatenated, as in SqueezeNet and GoogLeNet. */
static struct ob *branches(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,8,13,13");
    conv(b, "x", "8,8,1,1", "s", NULL, NULL, 1);
    ob_node(b, "Relu", "s", "s1");
    conv(b, "s1", "16,8,1,1", "e", NULL, NULL, 1);
    ob_node(b, "Relu", "e", "e1");
    conv(b, "s1", "12,8,3,3", "f", "1,1,1,1", NULL, 1);
    ob_node(b, "Relu", "f", "f1");
    ob_node(b, "MaxPool", "s1", "m");
    ob_ints(b, "kernel_shape", "3,3");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Concat", "e1 f1 m", "c");
    ob_int(b, "axis", 1);
    conv(b, "c", "10,36,1,1", "y", NULL, NULL, 1);
    ob_node(b, "GlobalAveragePool", "y", "g");
    ob_node(b, "Softmax", "g", "z");
    ob_int(b, "axis", 1);
    ob_output(b, "z");
    return b;
}

/* Heads of two levels, brought to one list of boxes. */
static struct ob *ssd_like(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "2,8,10,10");
    ob_int64s(b, "shape", "0,-1,4");
    conv(b, "x", "16,8,3,3", "l", "0,0,1,1", "2,2", 1);
    ob_node(b, "Relu", "l", "l1");
    conv(b, "x", "8,8,3,3", "h", "1,1,1,1", NULL, 1);
    conv(b, "l1", "12,16,1,1", "k", NULL, NULL, 1);
    ob_node(b, "Transpose", "h", "h1");
    ob_ints(b, "perm", "0,2,3,1");
    ob_node(b, "Transpose", "k", "k1");
    ob_ints(b, "perm", "0,2,3,1");
    ob_node(b, "Reshape", "h1 shape", "h2");
    ob_node(b, "Reshape", "k1 shape", "k2");
    ob_node(b, "Concat", "h2 k2", "y");
    ob_int(b, "axis", 1);
    ob_output(b, "y");
    return b;
}

static void heads(struct ob *b, const char *x, const char *y, const char *perm) {
    char w[32], in[96], part[32], shaped[64];
    snprintf(w, sizeof w, "w%s", y);
    snprintf(part, sizeof part, "p%s", y);
    ob_random(b, w, "32,32");
    snprintf(in, sizeof in, "%s %s", x, w);
    ob_node(b, "MatMul", in, part);
    snprintf(w, sizeof w, "b%s", y);
    ob_random(b, w, "32");
    snprintf(in, sizeof in, "%s %s", part, w);
    snprintf(shaped, sizeof shaped, "a%s", y);
    ob_node(b, "Add", in, shaped);
    snprintf(in, sizeof in, "%s heads", shaped);
    snprintf(shaped, sizeof shaped, "s%s", y);
    ob_node(b, "Reshape", in, shaped);
    ob_node(b, "Transpose", shaped, y);
    ob_ints(b, "perm", perm);
}

static struct ob *bert_like(int batch) {
    struct ob *b = ob_create(17);
    char shape[32];
    snprintf(shape, sizeof shape, "%d,6", batch);
    ob_input(b, "ids", MOIRE_I64, shape);
    ob_input(b, "seen", MOIRE_I64, shape);
    ob_random(b, "table", "5,32");
    ob_random(b, "scale", "32");
    ob_random(b, "shift", "32");
    ob_int64s(b, "heads", "0,0,4,8");
    ob_int64s(b, "flat", "0,0,32");
    ob_int64s(b, "one", "1,2");
    ob_scalar(b, "c1", 1);
    ob_scalar(b, "low", -100);
    ob_scalar(b, "depth", 2.8284271f);
    ob_node(b, "Gather", "table ids", "e");
    ob_node(b, "LayerNormalization", "e scale shift", "x");
    ob_node(b, "Unsqueeze", "seen one", "u");
    ob_node(b, "Cast", "u", "u1");
    ob_int(b, "to", MOIRE_F32);
    ob_node(b, "Sub", "c1 u1", "u2");
    ob_node(b, "Mul", "u2 low", "mask");
    heads(b, "x", "q", "0,2,1,3");
    heads(b, "x", "k", "0,2,3,1");
    heads(b, "x", "v", "0,2,1,3");
    ob_node(b, "MatMul", "q k", "score");
    ob_node(b, "Div", "score depth", "scaled");
    ob_node(b, "Add", "scaled mask", "masked");
    ob_node(b, "Softmax", "masked", "p");
    ob_node(b, "MatMul", "p v", "o");
    ob_node(b, "Transpose", "o", "o1");
    ob_ints(b, "perm", "0,2,1,3");
    ob_node(b, "Reshape", "o1 flat", "o2");
    ob_random(b, "wo", "32,32");
    ob_node(b, "MatMul", "o2 wo", "o3");
    ob_node(b, "Add", "o3 x", "o4");
    ob_node(b, "LayerNormalization", "o4 scale shift", "y");
    ob_output(b, "y");
    return b;
}

static struct ob *attention(void) {
    return bert_like(1);
}

static struct ob *attention_of_three(void) {
    return bert_like(3);
}

const struct gpu_case gpu_cases[] = {
    {"convolutions", convolutions},
    {"dilated_and_padded", dilated_and_padded},
    {"one_dimension", one_dimension},
    {"pools", pools},
    {"products", products},
    {"moves", moves},
    {"pointwise", pointwise},
    {"rows", rows},
    {"resnet_like", resnet_like},
    {"mobilenet_like", mobilenet_like},
    {"branches", branches},
    {"ssd_like", ssd_like},
    {"attention", attention},
    {"attention_of_three", attention_of_three},
    {"resampled", gpu_case_resampled},
    {"volumes", gpu_case_volumes},
    {"plain_products", gpu_case_plain_products},
    {"chosen", gpu_case_chosen},
    {"recurrent", gpu_case_recurrent},
    {"quantized", gpu_case_quantized},
    {"einsums", gpu_case_einsums},
    {"sampled", gpu_case_sampled},
    {"losses", gpu_case_losses},
    {"signals", gpu_case_signals},
    {"labelled", gpu_case_labelled},
    {NULL, NULL},
};

struct mo_gpu_program *gpu_case_lower(const char *name, struct ob **model, struct mo_graph **graph,
                                      moire_tensor *in, moire_tensor *want) {
    const struct mo_gpu_options options = {.precision = MO_GPU_FP32, .model = 1, .max_segments = 4};
    struct mo_gpu_program *program = NULL;
    moire_error err = {0};
    *model = NULL;
    for (const struct gpu_case *k = gpu_cases; k->name; k++)
        if (strcmp(k->name, name) == 0) *model = k->build();
    assert_non_null(*model);
    *graph = gpu_case_parse(*model, NULL);
    gpu_case_inputs(*graph, in);
    if (mo_way_run_reference(*graph, in, 1, want, &err)) fail_msg("%s", err.message);
    if (mo_gpu_lower(*graph, &options, &program, &err)) fail_msg("%s", err.message);
    return program;
}
