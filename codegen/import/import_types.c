/* SPDX-License-Identifier: Apache-2.0
 * import_types.c - the types of the attributes that operators here read.
 *
 * A name means one type in all operators of ONNX that take it, so one table serves them all; left out is
 * `value`, a tensor or a number.  Operators read an attribute of another type as one that is absent, and
 * would compute with its default what the file does not say: hence files with such attributes are refused.
 * tools/lint-rules compares the lists with what runtime/ops reads. */
#include <string.h>
#include "codegen/import/import.h"

static const char *const ints[] = {
    "align_corners",
    "allowzero",
    "antialias",
    "axis",
    "batch_axis",
    "batch_dims",
    "block_size",
    "blocksize",
    "broadcast",
    "ceil_mode",
    "center_point_box",
    "count_include_pad",
    "detect_negative",
    "detect_positive",
    "dtype",
    "end",
    "exclude_outside",
    "exclusive",
    "fmod",
    "group",
    "hidden_size",
    "ignore_index",
    "input_forget",
    "interleaved",
    "inverse",
    "is_causal",
    "is_test",
    "k",
    "k_zero",
    "keepdims",
    "kv_num_heads",
    "largest",
    "layout",
    "left_window_size",
    "new_axis",
    "max_gram_length",
    "max_skip_count",
    "min_gram_length",
    "linear_before_reset",
    "noop_with_empty_axes",
    "num_groups",
    "num_heads",
    "num_outputs",
    "num_scan_inputs",
    "onesided",
    "output_datatype",
    "output_dtype",
    "output_height",
    "output_width",
    "p",
    "periodic",
    "q_num_heads",
    "q_zero",
    "qk_matmul_output_mode",
    "reverse",
    "right_window_size",
    "rotary_embedding_dim",
    "sampling_ratio",
    "scores_zero",
    "select_last_index",
    "size",
    "sorted",
    "spatial",
    "start",
    "storage_order",
    "time_axis",
    "to",
    "training_mode",
    "transA",
    "transB",
    "upper",
    "v_zero",
    "weights_zero",
    "x_zero",
    "y_zero",
    NULL,
};
static const char *const floats[] = {
    "alpha",
    "beta",
    "bias",
    "clip",
    "cubic_coeff_a",
    "decay_factor",
    "epsilon",
    "extrapolation_value",
    "gamma",
    "inner",
    "k_scale",
    "lambd",
    "max",
    "min",
    "momentum",
    "norm_coefficient",
    "norm_coefficient_post",
    "q_scale",
    "scale",
    "scores_scale",
    "softcap",
    "spatial_scale",
    "v_scale",
    "weights_scale",
    "x_scale",
    "y_scale",
    NULL,
};
static const char *const strings[] = {
    "approximate", "auto_pad",     "coordinate_transformation_mode",
    "direction",   "equation",     "keep_aspect_ratio_policy",
    "mode",        "nearest_mode", "padding_mode",
    "reduction",   NULL,
};
static const char *const int_lists[] = {"ngram_counts",
                                        "ngram_indexes",
                                        "pool_int64s",
                                        "directions",
                                        "scan_input_axes",
                                        "scan_input_directions",
                                        "scan_output_axes",
                                        "scan_output_directions",
                                        "axes",
                                        "dilations",
                                        "ends",
                                        "kernel_shape",
                                        "output_padding",
                                        "output_shape",
                                        "pads",
                                        "perm",
                                        "split",
                                        "starts",
                                        "strides",
                                        "x_scale",
                                        "y_scale",
                                        NULL};
static const char *const float_lists[] = {"activation_alpha", "activation_beta", "scales", "weights", NULL};
static const char *const string_lists[] = {"activations", NULL};
static const char *const graphs[] = {"body", "else_branch", "then_branch", NULL};

static const struct row {
    enum mo_attr_type type;
    const char *what;
    const char *const *names;
} rows[] = {
    {MO_ATTR_INT, "an integer", ints},
    {MO_ATTR_FLOAT, "a float", floats},
    {MO_ATTR_STRING, "a string", strings},
    {MO_ATTR_INTS, "a list of integers", int_lists},
    {MO_ATTR_FLOATS, "a list of floats", float_lists},
    {MO_ATTR_STRINGS, "a list of strings", string_lists},
    {MO_ATTR_GRAPH, "a graph", graphs},
};

const char *mo_attr_type_wanted(const struct mo_attr *attr) {
    /* an empty list: files of the first ONNX versions do not say of what */
    if (attr->type == MO_ATTR_INTS && !attr->n) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (const char *const *name = rows[i].names; *name; name++)
            if (!strcmp(*name, attr->name)) return rows[i].type == attr->type ? NULL : rows[i].what;
    return NULL;
}
