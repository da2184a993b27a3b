/* SPDX-License-Identifier: Apache-2.0
 * fold.h - what is done to a model of floats before it is quantized. */
#ifndef MO_QUANTIZE_FOLD_H
#define MO_QUANTIZE_FOLD_H
#include "codegen/quantize/onnx_edit.h"

/* What batch normalization says of a tensor: mean and deviation by channel; NULL where it says nothing. */
struct mo_norm_facts {
    const char *name;
    int64_t channels;
    const float *mean, *deviation;
};
struct mo_norm_list {
    size_t n;
    struct mo_norm_facts *at;
};

/* BatchNormalization behind a convolution goes into its filter and bias.  `facts` lists what each said. */
int mo_fold_norms(struct mo_edit *e, struct mo_norm_list *facts);

/* Cross-layer equalization (Nagel et al., "Data-Free Quantization", ICCV 2019, section 4.1): between two
 * convolutions with nothing but a Relu in between, channels are scaled so that both filters use the same part
 * of their ranges.  The number of pairs that were. */
int mo_equalize(struct mo_edit *e);
#endif
