/* SPDX-License-Identifier: Apache-2.0
 * cases.c - see cases.h: ragged extents and channels, strides, dilations, groups, batches, every activation
 * and order of epilogue. */
#include "tests/cross/cases.h"

#include <stdlib.h>

const struct cross_case cross_cases[] = {
    {"direct", {1, 32, 14, 14, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0}, {0}, 0},
    {"direct", {2, 40, 7, 7, 56, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_CLIP, 2}, {0}, 0},
    {"direct", {1, 16, 9, 11, 48, 3, 5, 2, 1, 1, 2, 0, 2, 1, 1, 1, MO_ACT_SILU, 1}, {0}, 0},
    {"direct", {2, 64, 6, 9, 96, 3, 3, 1, 2, 1, 1, 1, 1, 1, 0, 2, MO_ACT_GELU, 2}, {0}, 0},
    {"direct", {1, 23, 9, 8, 72, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, MO_ACT_NONE, 2}, {0}, 0},
    {"direct", {2, 64, 6, 9, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_LEAKY, 1}, {0}, 2},
    {"pointwise", {2, 24, 9, 13, 80, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_HSWISH, 1}, {0}, 0},
    {"pointwise", {1, 48, 9, 13, 40, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0, 1, MO_ACT_NONE, 1}, {0}, 0},
    {"pointwise", {1, 33, 1, 1, 20, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_SIGMOID, 0}, {0}, 0},
    {"pointwise", {1, 128, 5, 7, 48, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_GELU_TANH, 0}, {0}, 2},
    {"depthwise", {2, 40, 14, 14, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 40, MO_ACT_CLIP, 0}, {0}, 0},
    {"depthwise", {1, 24, 15, 12, 24, 5, 5, 2, 2, 1, 1, 2, 1, 2, 2, 24, MO_ACT_SILU, 1}, {0}, 0},
    {"first", {2, 3, 23, 20, 40, 7, 7, 2, 2, 1, 1, 3, 3, 3, 3, 1, MO_ACT_HSIGMOID, 0}, {0}, 0},
    {"first", {1, 1, 17, 19, 16, 5, 5, 1, 1, 1, 1, 0, 1, 2, 3, 1, MO_ACT_TANH, 2}, {0}, 0},
    {"winograd", {1, 32, 14, 14, 48, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0}, {0}, 0},
    {"winograd", {2, 20, 7, 9, 40, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, MO_ACT_CLIP, 1}, {0}, 0},
    {"winograd", {1, 40, 10, 23, 72, 3, 3, 1, 1, 1, 1, 2, 0, 0, 2, 1, MO_ACT_LEAKY, 2}, {0}, 0},
    {"winograd", {1, 32, 14, 15, 48, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, MO_ACT_RELU, 0}, {0}, 0},
    {"winograd", {1, 32, 5, 17, 48, 1, 7, 1, 1, 1, 1, 0, 3, 0, 3, 1, MO_ACT_RELU, 1}, {0}, 0},
    {"winograd", {2, 20, 23, 4, 40, 3, 1, 1, 1, 2, 1, 2, 0, 2, 0, 1, MO_ACT_NONE, 0}, {0}, 0},
    {"strassen", {1, 128, 8, 8, 64, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_RELU, 0}, {0}, 0},
    {"strassen", {2, 144, 5, 5, 80, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, MO_ACT_SILU, 1}, {0}, 0},
    {"gemm", {0}, {1, 40, 36, MO_ACT_NONE, 0, 0, 0, 0}, 0},
    {"gemm", {0}, {1, 64, 160, MO_ACT_RELU, 2, 0, 0, 0}, 0},
    {"gemm", {0}, {3, 33, 24, MO_ACT_GELU, 1, 0, 0, 0}, 0},
    {"gemm", {0}, {29, 48, 64, MO_ACT_GELU_TANH, 2, 0, 0, 0}, 0},
    {"gemm", {0}, {6, 64, 52, MO_ACT_RELU, 1, 0, 0, 0}, 4},
    {"gemm", {0}, {29, 40, 36, MO_ACT_RELU, 1, 2, 24, 8}, 0},
    {"gemm", {0}, {17, 33, 24, MO_ACT_GELU, 2, 0, 5, 7}, 0},
};
const int cross_n_cases = sizeof cross_cases / sizeof *cross_cases;

void cross_open(struct cross_layer *layer, const struct cross_case *row) {
    layer->row = row;
    if (!row->conv.n) {
        gemm_case_open(&layer->gemm, &row->gemm);
        layer->graph = layer->gemm.graph, layer->node = layer->gemm.node, layer->args = &layer->gemm.args;
        return;
    }
    if (!conv_case_open(&layer->conv, &row->conv, row->conv.c <= 8 ? MO_PLAIN : MO_C16, 1)) abort();
    layer->graph = layer->conv.graph, layer->node = layer->conv.node, layer->args = &layer->conv.args;
}

void cross_close(struct cross_layer *layer) {
    if (layer->row->conv.n)
        conv_case_close(&layer->conv);
    else
        gemm_case_close(&layer->gemm);
}
