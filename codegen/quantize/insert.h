/* SPDX-License-Identifier: Apache-2.0
 * insert.h - puts conversions into a model: the QDQ form that ONNX Runtime and OpenVINO read, too.
 *
 *   x - QuantizeLinear - DequantizeLinear -+
 *   w (int8)        -    DequantizeLinear -+- Conv, MatMul or Gemm - [activation] - QuantizeLinear - ...
 *   b (int32)       -    DequantizeLinear -+
 *
 * Activations are uint8 with one scale and zero point; weights int8 around zero, with one scale or one for
 * each output channel; biases int32 with the product of both scales. */
#ifndef MO_QUANTIZE_INSERT_H
#define MO_QUANTIZE_INSERT_H
#include "codegen/quantize/points.h"

/* What 8 bits cover of a value, and the mean by channel of layers' inputs. */
struct mo_qrange {
    bool known;
    float lo, hi;
    int64_t channels; /* 0: no means */
    const double *mean;
};

struct mo_insertion {
    const struct mo_qlayers *layers;
    const struct mo_points *points;
    const struct mo_qrange *range; /* by value */
    bool per_channel, narrow;      /* narrow: weights of 7 bits, for processors that add pairs in 16 bits */
    bool correct_bias;
};

/* The edit becomes one of a quantized model; the index is that of the new one.  Constants that nobody reads
 * any more are gone. */
int mo_insert(struct mo_edit *e, const struct mo_insertion *in);
/* A copy whose changes leave `from` as it is; shares its constants.  Ends with mo_edit_close(). */
int mo_edit_branch(const struct mo_edit *from, struct mo_edit *out);
/* The scale and zero point that cover a range. */
void mo_qrange_steps(float lo, float hi, float *scale, uint8_t *zero);
#endif
