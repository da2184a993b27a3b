/* SPDX-License-Identifier: Apache-2.0
 * test_ops_bad.c - references and input that does not fit: every family refuses with a message that names the
 * node, contents not known yet ask for data, and nothing crashes whatever the attributes say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/kernels/op_case.h"

/* --- every family refuses what does not fit, and says why --- */
struct bad {
    const char *op;
    int opset;
    const char *attrs;
    struct {
        moire_dtype dtype;
        const char *shape;
        double values[8];
        bool unknown;
    } in[5];
    int code;
    const char *says;
};

#define F MOIRE_F32
#define I MOIRE_I64
static const struct bad bad_cases[] = {
    {"Relu", 13, "", {{MOIRE_BOOL, "2", {0}, 0}}, MOIRE_EUNSUPPORTED, "bool"},
    {"Conv", 13, "", {{F, "1x3x8x8", {0}, 0}, {F, "4x2x3x3", {0}, 0}}, MOIRE_ESHAPE, "groups"},
    {"Conv", 13, "group=0", {{F, "1x3x8x8", {0}, 0}, {F, "4x3x3x3", {0}, 0}}, MOIRE_ESHAPE, "groups"},
    {"Conv", 13, "strides=0,1", {{F, "1x3x8x8", {0}, 0}, {F, "4x3x3x3", {0}, 0}}, MOIRE_EINVAL, "strides"},
    {"Conv", 13, "strides=1,1,1", {{F, "1x3x8x8", {0}, 0}, {F, "4x3x3x3", {0}, 0}}, MOIRE_EINVAL, "strides"},
    {"Conv", 13, "pads=-1,0,0,0", {{F, "1x3x8x8", {0}, 0}, {F, "4x3x3x3", {0}, 0}}, MOIRE_EINVAL, "pads"},
    {"Conv", 13, "dilations=9,9", {{F, "1x3x8x8", {0}, 0}, {F, "4x3x3x3", {0}, 0}}, MOIRE_ESHAPE, "larger"},
    {"Conv",
     13,
     "auto_pad:MIDDLE",
     {{F, "1x3x8x8", {0}, 0}, {F, "4x3x3x3", {0}, 0}},
     MOIRE_EINVAL,
     "auto_pad"},
    {"Conv",
     13,
     "kernel_shape=5,5",
     {{F, "1x3x8x8", {0}, 0}, {F, "4x3x3x3", {0}, 0}},
     MOIRE_ESHAPE,
     "weights"},
    {"Conv", 13, "", {{F, "3x8", {0}, 0}, {F, "4x3", {0}, 0}}, MOIRE_ESHAPE, "rank"},
    {"Conv",
     13,
     "",
     {{F, "1x3x8x8", {0}, 0}, {F, "4x3x3x3", {0}, 0}, {F, "3", {0}, 0}},
     MOIRE_ESHAPE,
     "bias"},
    {"ConvTranspose",
     13,
     "output_padding=1,1,1",
     {{F, "1x2x4x4", {0}, 0}, {F, "2x2x3x3", {0}, 0}},
     MOIRE_EINVAL,
     "output_padding"},
    {"ConvTranspose",
     13,
     "pads=9,9,9,9",
     {{F, "1x2x4x4", {0}, 0}, {F, "2x2x3x3", {0}, 0}},
     MOIRE_ESHAPE,
     "empty"},
    {"MaxPool", 12, "", {{F, "1x1x4x4", {0}, 0}}, MOIRE_EINVAL, "kernel_shape"},
    {"MaxPool", 12, "kernel_shape=0,1", {{F, "1x1x4x4", {0}, 0}}, MOIRE_EINVAL, "kernel_shape"},
    {"MaxUnpool",
     11,
     "kernel_shape=2,2 strides=2,2",
     {{F, "1x1x1x1", {5}, 0}, {I, "1x1x1x1", {99}, 0}},
     MOIRE_EINVAL,
     "index"},
    {"MatMul", 13, "", {{F, "2x3", {0}, 0}, {F, "4x2", {0}, 0}}, MOIRE_ESHAPE, "inner"},
    {"MatMul", 13, "", {{F, "2x2x3", {0}, 0}, {F, "3x3x2", {0}, 0}}, MOIRE_ESHAPE, "batch"},
    {"MatMul", 13, "", {{F, "", {0}, 0}, {F, "3x2", {0}, 0}}, MOIRE_ESHAPE, "scalar"},
    {"Gemm", 13, "transA=1", {{F, "2x3", {0}, 0}, {F, "3x2", {0}, 0}}, MOIRE_ESHAPE, "inner"},
    {"Gemm", 13, "", {{F, "2x3", {0}, 0}, {F, "3x2", {0}, 0}, {F, "3", {0}, 0}}, MOIRE_ESHAPE, "C"},
    {"Add", 13, "", {{F, "2x3", {0}, 0}, {F, "2x4", {0}, 0}}, MOIRE_ESHAPE, "broadcast"},
    {"Add", 13, "", {{F, "2", {0}, 0}, {I, "2", {0}, 0}}, MOIRE_EINVAL, "int64"},
    {"Div", 13, "", {{I, "2", {7, 8}, 0}, {I, "2", {1, 0}, 0}}, MOIRE_EINVAL, "division"},
    {"Mod", 13, "", {{I, "2", {7, 8}, 0}, {I, "2", {0, 1}, 0}}, MOIRE_EINVAL, "division"},
    {"Mod", 13, "", {{F, "2", {0}, 0}, {F, "2", {0}, 0}}, MOIRE_EINVAL, "fmod"},
    {"PRelu", 13, "", {{F, "3", {0}, 0}, {F, "2x3", {0}, 0}}, MOIRE_ESHAPE, "slope"},
    {"Where", 9, "", {{MOIRE_BOOL, "2", {0}, 0}, {F, "2", {0}, 0}, {I, "2", {0}, 0}}, MOIRE_EINVAL, "types"},
    {"BatchNormalization",
     13,
     "",
     {{F, "1x3x2x2", {0}, 0}, {F, "3", {0}, 0}, {F, "3", {0}, 0}, {F, "2", {0}, 0}, {F, "3", {0}, 0}},
     MOIRE_ESHAPE,
     "3 elements"},
    {"LayerNormalization", 17, "axis=3", {{F, "2x3", {0}, 0}, {F, "3", {0}, 0}}, MOIRE_EINVAL, "axis"},
    {"GroupNormalization",
     18,
     "num_groups=2",
     {{F, "1x3x2", {0}, 0}, {F, "2", {0}, 0}, {F, "2", {0}, 0}},
     MOIRE_EINVAL,
     "groups"},
    {"LSTM",
     14,
     "",
     {{F, "3x2x2", {0}, 0}, {F, "1x8x2", {0}, 0}, {F, "1x8x3", {0}, 0}},
     MOIRE_ESHAPE,
     "needs"},
    {"LSTM",
     14,
     "hidden_size=5",
     {{F, "3x2x2", {0}, 0}, {F, "1x8x2", {0}, 0}, {F, "1x8x2", {0}, 0}},
     MOIRE_EINVAL,
     "hidden_size"},
    {"GRU",
     14,
     "direction:sideways",
     {{F, "3x2x2", {0}, 0}, {F, "1x6x2", {0}, 0}, {F, "1x6x2", {0}, 0}},
     MOIRE_EINVAL,
     "sideways"},
    {"RNN",
     14,
     "activations+Nothing",
     {{F, "3x2x2", {0}, 0}, {F, "1x2x2", {0}, 0}, {F, "1x2x2", {0}, 0}},
     MOIRE_EUNSUPPORTED,
     "Nothing"},
    {"RNN",
     14,
     "direction:bidirectional activations+Tanh",
     {{F, "3x2x2", {0}, 0}, {F, "2x2x2", {0}, 0}, {F, "2x2x2", {0}, 0}},
     MOIRE_EINVAL,
     "2 functions"},
    {"RNN",
     14,
     "",
     {{F, "3x2x2", {0}, 0},
      {F, "1x2x2", {0}, 0},
      {F, "1x2x2", {0}, 0},
      {F, "-", {0}, 0},
      {MOIRE_I32, "2", {3, 4}, 0}},
     MOIRE_EINVAL,
     "length 4"},
    {"QuantizeLinear", 13, "", {{F, "2x3", {0}, 0}, {F, "2", {0}, 0}}, MOIRE_ESHAPE, "scale"},
    {"QuantizeLinear",
     21,
     "block_size=2 axis=1",
     {{F, "2x3", {0}, 0}, {F, "2x3", {0}, 0}},
     MOIRE_ESHAPE,
     "scale"},
    {"QuantizeLinear", 13, "axis=7", {{F, "2x3", {0}, 0}, {F, "3", {0}, 0}}, MOIRE_EINVAL, "axis"},
    {"DequantizeLinear",
     13,
     "",
     {{MOIRE_U8, "2x3", {0}, 0}, {F, "", {0}, 0}, {MOIRE_I8, "", {0}, 0}},
     MOIRE_EUNSUPPORTED,
     "input 2"},
    {"MatMulInteger", 10, "", {{MOIRE_U8, "2x3", {0}, 0}, {MOIRE_U8, "4x2", {0}, 0}}, MOIRE_ESHAPE, "inner"},
    {"ConvInteger",
     10,
     "group=2",
     {{MOIRE_U8, "1x3x4x4", {0}, 0}, {MOIRE_U8, "2x1x3x3", {0}, 0}},
     MOIRE_ESHAPE,
     "groups"},
    {"LRN", 13, "size=0", {{F, "1x3x2x2", {0}, 0}}, MOIRE_EINVAL, "size"},
    {"Softmax", 13, "axis=2", {{F, "2x3", {0}, 0}}, MOIRE_EINVAL, "axis"},
    {"Reshape", 13, "", {{F, "2x3", {0}, 0}, {I, "2", {-1, -1}, 0}}, MOIRE_ESHAPE, "-1"},
    {"Reshape", 13, "", {{F, "2x3", {0}, 0}, {I, "2", {4, 2}, 0}}, MOIRE_ESHAPE, "[4,2]"},
    {"Reshape", 13, "", {{F, "2x3", {0}, 0}, {I, "3", {6, 1, 0}, 0}}, MOIRE_ESHAPE, "not there"},
    {"Reshape", 13, "", {{F, "2x3", {0}, 0}, {F, "2", {3, 2}, 0}}, MOIRE_EUNSUPPORTED, "int"},
    {"Squeeze", 13, "", {{F, "2x3", {0}, 0}, {I, "1", {0}, 0}}, MOIRE_ESHAPE, "not 1"},
    {"Unsqueeze", 13, "", {{F, "2x3", {0}, 0}, {I, "2", {1, 1}, 0}}, MOIRE_EINVAL, "twice"},
    {"Expand", 13, "", {{F, "2x3", {0}, 0}, {I, "2", {2, 4}, 0}}, MOIRE_ESHAPE, "broadcast"},
    {"Range", 13, "", {{I, "", {0}, 0}, {I, "", {9}, 0}, {I, "", {0}, 0}}, MOIRE_EINVAL, "end"},
    {"ConstantOfShape", 13, "", {{I, "2", {-1, 2}, 0}}, MOIRE_ESHAPE, "shape"},
    {"ConstantOfShape", 13, "", {{I, "2", {1e6, 1e9}, 0}}, MOIRE_ELIMIT, "tensor_bytes"},
    {"Cast", 13, "to=8", {{F, "2", {0}, 0}}, MOIRE_EUNSUPPORTED, "string"},
    {"Transpose", 13, "perm=0,0", {{F, "2x3", {0}, 0}}, MOIRE_EINVAL, "permutation"},
    {"Transpose", 13, "perm=0,2", {{F, "2x3", {0}, 0}}, MOIRE_EINVAL, "permutation"},
    {"Concat", 13, "axis=0", {{F, "2x3", {0}, 0}, {F, "2x4", {0}, 0}}, MOIRE_ESHAPE, "input 1"},
    {"Split", 13, "", {{F, "4", {0}, 0}, {I, "1", {3}, 0}}, MOIRE_ESHAPE, "over"},
    {"Slice",
     13,
     "",
     {{F, "4", {0}, 0}, {I, "1", {0}, 0}, {I, "1", {4}, 0}, {I, "1", {0}, 0}, {I, "1", {0}, 0}},
     MOIRE_EINVAL,
     "step"},
    {"Slice", 13, "", {{F, "4", {0}, 0}, {I, "1", {0}, 0}, {I, "2", {4, 4}, 0}}, MOIRE_EINVAL, "length"},
    {"Tile", 13, "", {{F, "2x2", {0}, 0}, {I, "2", {-1, 2}, 0}}, MOIRE_EINVAL, "repeat"},
    {"Tile", 13, "", {{F, "2x2", {0}, 0}, {I, "2", {9e18, 2}, 0}}, MOIRE_EINVAL, "repeat"},
    {"DepthToSpace", 13, "blocksize=2", {{F, "1x3x2x2", {0}, 0}}, MOIRE_ESHAPE, "blocksize"},
    {"Pad", 13, "", {{F, "2x2", {0}, 0}, {I, "4", {-2, 0, -1, 0}, 0}}, MOIRE_ESHAPE, "leave no"},
    {"Pad", 13, "mode:mirror", {{F, "2x2", {0}, 0}, {I, "4", {0}, 0}}, MOIRE_EINVAL, "mode"},
    {"Gather", 13, "", {{F, "3x2", {0}, 0}, {I, "2", {0, 3}, 0}}, MOIRE_EINVAL, "index 3"},
    {"Gather", 13, "", {{F, "3x2", {0}, 0}, {I, "2", {0, -4}, 0}}, MOIRE_EINVAL, "index -4"},
    {"GatherElements", 13, "", {{F, "2x2", {0}, 0}, {I, "1x2", {0, 2}, 0}}, MOIRE_EINVAL, "index 2"},
    {"GatherND", 13, "", {{F, "2x2", {0}, 0}, {I, "1x2", {0, 2}, 0}}, MOIRE_EINVAL, "index 2"},
    {"ScatterND",
     13,
     "",
     {{F, "2x2", {0}, 0}, {I, "1x2", {2, 0}, 0}, {F, "1", {0}, 0}},
     MOIRE_EINVAL,
     "index 2"},
    {"ScatterND",
     16,
     "reduction:mean",
     {{F, "2", {0}, 0}, {I, "1x1", {0}, 0}, {F, "1", {0}, 0}},
     MOIRE_EINVAL,
     "reduction"},
    {"ScatterElements",
     13,
     "",
     {{F, "2x2", {0}, 0}, {I, "1x1", {5}, 0}, {F, "1x1", {0}, 0}},
     MOIRE_EINVAL,
     "index 5"},
    {"TensorScatter",
     24,
     "",
     {{F, "1x3x2", {0}, 0}, {F, "1x2x2", {0}, 0}, {I, "1", {2}, 0}},
     MOIRE_EINVAL,
     "write index 2 is outside"},
    {"TensorScatter",
     24,
     "axis=0",
     {{F, "1x3", {0}, 0}, {F, "1x3", {0}, 0}},
     MOIRE_EINVAL,
     "that of the batch"},
    {"RotaryEmbedding",
     23,
     "",
     {{F, "1x1x1x2", {0}, 0}, {F, "3x1", {0}, 0}, {F, "3x1", {0}, 0}, {I, "1x1", {3}, 0}},
     MOIRE_EINVAL,
     "index 3"},
    {"Compress", 11, "axis=0", {{F, "2x2", {0}, 0}, {MOIRE_BOOL, "3", {0}, 0}}, MOIRE_ESHAPE, "longer"},
    {"OneHot", 11, "", {{I, "2", {0}, 0}, {I, "", {-1}, 0}, {F, "2", {0}, 0}}, MOIRE_ESHAPE, "depth"},
    {"ReduceSum", 13, "", {{F, "2x3", {0}, 0}, {I, "1", {2}, 0}}, MOIRE_EINVAL, "axis 2"},
    {"ArgMax", 13, "axis=0", {{F, "0x3", {0}, 0}}, MOIRE_ESHAPE, "empty"},
    {"CumSum", 14, "", {{F, "2x3", {0}, 0}, {I, "", {5}, 0}}, MOIRE_EINVAL, "axis 5"},
    {"Resize", 13, "", {{F, "1x1x2x2", {0}, 0}}, MOIRE_EINVAL, "neither"},
    {"Resize",
     13,
     "",
     {{F, "1x1x2x2", {0}, 0}, {F, "-", {0}, 0}, {F, "4", {1, 1, -2, 2}, 0}},
     MOIRE_EINVAL,
     "scale"},
    {"Resize",
     13,
     "mode:magic",
     {{F, "1x1x2x2", {0}, 0}, {F, "-", {0}, 0}, {F, "4", {1, 1, 2, 2}, 0}},
     MOIRE_EUNSUPPORTED,
     "mode"},
    {"TopK", 11, "", {{F, "3", {0}, 0}, {I, "1", {4}, 0}}, MOIRE_EINVAL, "k is 4"},
    {"NonMaxSuppression", 11, "", {{F, "1x2x4", {0}, 0}, {F, "1x1x3", {0}, 0}}, MOIRE_ESHAPE, "boxes"},
    {"RoiAlign",
     16,
     "",
     {{F, "1x1x4x4", {0}, 0}, {F, "1x4", {0}, 0}, {I, "1", {1}, 0}},
     MOIRE_EINVAL,
     "batch index"},
    {"Einsum", 12, "equation:ij,jk->il", {{F, "2x3", {0}, 0}, {F, "3x2", {0}, 0}}, MOIRE_EINVAL, "output"},
    {"Einsum", 12, "equation:ij,jk", {{F, "2x3", {0}, 0}, {F, "4x2", {0}, 0}}, MOIRE_ESHAPE, "fit"},
    {"Einsum", 12, "equation:i?", {{F, "2x3", {0}, 0}}, MOIRE_EINVAL, "equation"},
    {"NegativeLogLikelihoodLoss", 13, "", {{F, "2x3", {0}, 0}, {I, "2", {0, 3}, 0}}, MOIRE_EINVAL, "label 3"},
    {"Det", 11, "", {{F, "2x3", {0}, 0}}, MOIRE_ESHAPE, "square"},
    {"DFT", 17, "inverse=1 onesided=1", {{F, "1x4x1", {0}, 0}}, MOIRE_ESHAPE, "complex"},
    {"DFT", 17, "axis=-1", {{F, "1x4x1", {0}, 0}}, MOIRE_EINVAL, "last axis"},
    {"ReverseSequence", 10, "", {{F, "3x2", {0}, 0}, {I, "2", {4, 1}, 0}}, MOIRE_EINVAL, "length 4"},
    {"Dropout",
     13,
     "",
     {{F, "2", {0}, 0}, {F, "", {0.5}, 0}, {MOIRE_BOOL, "", {1}, 0}},
     MOIRE_EUNSUPPORTED,
     "training"},
    {"HannWindow", 17, "", {{I, "", {-3}, 0}}, MOIRE_EINVAL, "size"},
    /* contents that are not known yet ask for data instead of failing */
    {"Reshape", 13, "", {{F, "2x3", {0}, 0}, {I, "2", {0}, 1}}, MO_NEED_DATA, NULL},
    {"Slice", 13, "", {{F, "4", {0}, 0}, {I, "1", {0}, 1}, {I, "1", {4}, 0}}, MO_NEED_DATA, NULL},
    {"Resize", 13, "", {{F, "1x1x2x2", {0}, 0}, {F, "-", {0}, 0}, {F, "4", {0}, 1}}, MO_NEED_DATA, NULL},
    {"NonZero", 13, "", {{F, "4", {0}, 1}}, MO_NEED_DATA, NULL},
    {"TopK", 13, "", {{F, "4", {0}, 0}, {I, "1", {0}, 1}}, MO_NEED_DATA, NULL},
    {"Range", 13, "", {{I, "", {0}, 0}, {I, "", {0}, 1}, {I, "", {1}, 0}}, MO_NEED_DATA, NULL},
};

static void bad_input_is_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_cases / sizeof *bad_cases; i++) {
        const struct bad *b = &bad_cases[i];
        struct op_case c;
        op_case_open(&c, b->op, b->opset);
        op_case_attrs(&c, b->attrs);
        for (int k = 0; k < 5 && b->in[k].shape; k++)
            if (b->in[k].unknown)
                op_case_unknown(&c, b->in[k].dtype, b->in[k].shape);
            else if (b->in[k].dtype == F && b->in[k].values[0] == 0 && b->in[k].values[1] == 0)
                op_case_input(&c, F, b->in[k].shape, NULL);
            else
                op_case_input(&c, b->in[k].dtype, b->in[k].shape, b->in[k].values);
        int rc = op_case_run(&c, c.node->op->min_out > 1 ? c.node->op->min_out : 1);
        if (rc != b->code || (b->says && !strstr(c.err.message, b->says)))
            fail_msg("case %zu, %s %s: code %d, '%s'", i, b->op, b->attrs, rc, c.err.message);
        if (b->says) assert_non_null(strstr(c.err.message, "'the node'"));
        op_case_close(&c);
    }
}

/* No operator crashes or accepts nothing, scalars, or an input of rank 8 where it should not. */
static void odd_ranks_never_crash(void **state) {
    (void)state;
    static const char *const shapes[] = {"", "0", "1", "1x1x1x1x1x1x1x1", "2x0x3"};
    for (int i = 0; mo_op_at(i); i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int type = 0; type < 3; type++) {
                const struct mo_op *op = mo_op_at(i);
                static const moire_dtype types[] = {MOIRE_F32, MOIRE_I64, MOIRE_BOOL};
                struct op_case c;
                if (*op->domain) continue;
                op_case_open(&c, op->name, 13);
                for (int k = 0; k < op->min_in; k++)
                    op_case_input(&c, types[type], shapes[s], NULL);
                (void)op_case_run(&c, op->min_out);
                op_case_close(&c);
            }
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    return z ^ z >> 27;
}

/* Some attributes with values that a hostile model would try. */
static void random_attrs(uint64_t *state, char *out, size_t n) {
    static const char *const names[] = {
        "axis",         "axes",           "kernel_shape",  "strides",    "pads",
        "dilations",    "group",          "perm",          "starts",     "ends",
        "size",         "blocksize",      "keepdims",      "p",          "k",
        "to",           "split",          "batch_dims",    "num_groups", "num_outputs",
        "output_shape", "output_padding", "ceil_mode",     "dtype",      "onesided",
        "upper",        "sampling_ratio", "output_height", "scales",     "start",
        "end",          "time_axis"};
    static const char *const values[] = {
        "0",          "1",     "2", "3", "-1", "-2", "9223372036854775807", "-9223372036854775808",
        "2147483647", "65536", "7"};
    int at = 0;
    *out = 0;
    for (uint64_t i = 0, count = next_random(state) % 5; i < count && at >= 0 && (size_t)at + 200 < n; i++) {
        at += snprintf(out + at, n - (size_t)at, "%s%s=", i ? " " : "", names[next_random(state) % 32]);
        for (uint64_t k = 0, m = next_random(state) % 5; k <= m; k++)
            at += snprintf(out + at, n - (size_t)at, "%s%s", k ? "," : "",
                           values[next_random(state) % 4 ? next_random(state) % 5 : next_random(state) % 11]);
    }
}

/* Any operator, any attributes, any small inputs: an answer or an error, never a crash or an endless loop. */
static void random_operators_never_crash(void **state) {
    (void)state;
    static const char *const shapes[] = {"",    "1", "2",     "2x3", "1x2x4x4", "2x2x3x3",
                                         "0x2", "4", "1x1x5", "3x3", "8"};
    static const moire_dtype types[] = {MOIRE_F32, MOIRE_F32,  MOIRE_F32, MOIRE_I64,
                                        MOIRE_I64, MOIRE_BOOL, MOIRE_F16, MOIRE_U8};
    uint64_t random = 1;
    int n_ops = 1;
    while (mo_op_at(n_ops))
        n_ops++;
    for (int round = 0; round < 20000; round++) {
        const struct mo_op *op = mo_op_at((int)(next_random(&random) % (uint64_t)n_ops));
        struct op_case c;
        char attrs[1200];
        if (*op->domain) continue;
        op_case_open(&c, op->name, 7 + (int)(next_random(&random) % 14));
        c.env.limits.tensor_bytes = 1 << 16;
        random_attrs(&random, attrs, sizeof attrs);
        op_case_attrs(&c, attrs);
        const char *shape = shapes[next_random(&random) % 11];
        int n_in = op->min_in + (int)(next_random(&random) % 3);
        if (op->max_in >= 0 && n_in > op->max_in) n_in = op->max_in;
        for (int k = 0; k < n_in; k++) {
            double values[64];
            for (int i = 0; i < 64; i++) {
                uint64_t r = next_random(&random);
                values[i] = r % 16 ? (double)(int)(r / 16 % 9) - 3 : r % 32 ? 9.2e18 : (double)NAN;
            }
            if (next_random(&random) % 2) shape = shapes[next_random(&random) % 11];
            op_case_input(&c, types[next_random(&random) % 8], shape, values);
        }
        int n_out = op->min_out + (op->max_out != op->min_out && next_random(&random) % 2);
        int rc = op_case_run(&c, n_out);
        if (rc < 0 && !*c.err.message) fail_msg("%s %s: code %d without a message", op->name, attrs, rc);
        op_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(odd_ranks_never_crash),
        cmocka_unit_test(random_operators_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
