/* SPDX-License-Identifier: Apache-2.0
 * test_import_bad.c - what the importer refuses: one small sound model, one change a case, one check a case.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "codegen/frontend.h"
#include "tests/unit/base/fault_sys.h"
#include "tests/unit/codegen/onnx_build.h"

/* x [N,3,8,8] -> Conv(w) -> Relu -> y */
static struct ob *sound(void) {
    struct ob *b = ob_create(13);
    ob_input(b, "x", MOIRE_F32, "N,3,8,8");
    ob_random(b, "w", "4,3,3,3");
    ob_node(b, "Conv", "x w", "t");
    ob_ints(b, "pads", "1,1,1,1");
    ob_node(b, "Relu", "t", "y");
    ob_output(b, "y");
    return b;
}

static int import(const void *bytes, size_t n, const struct mo_env *env, moire_error *err) {
    struct mo_graph *g = NULL;
    int rc = mo_frontend_parse(env, bytes, n, NULL, NULL, &g, err);
    assert_true((rc == MOIRE_OK) == (g != NULL));
    mo_graph_destroy(g);
    return rc;
}

/* --- changes, each undoing one thing that is sound --------------------------------------------------- */

static Onnx__TensorProto *w(struct ob *b) {
    return b->tensors[0];
}
static Onnx__TypeProto *x_type(struct ob *b) {
    return b->inputs[0]->type;
}
static Onnx__NodeProto *conv(struct ob *b) {
    return b->nodes[0];
}

static void no_graph(struct ob *b) {
    b->model.graph = NULL;
}
static void no_outputs(struct ob *b) {
    b->graph.n_output = 0;
}
static void no_opset(struct ob *b) {
    b->opsets[0]->domain = ob_text(b, "other");
}
static void opset_zero(struct ob *b) {
    b->opsets[0]->version = 0;
}
static void opset_future(struct ob *b) {
    b->opsets[0]->version = 99;
}
static void unknown_op(struct ob *b) {
    conv(b)->op_type = ob_text(b, "Konv");
}
static void unknown_domain(struct ob *b) {
    conv(b)->domain = ob_text(b, "com.example");
}
static void no_op_type(struct ob *b) {
    conv(b)->op_type = ob_text(b, "");
}
static void domain_of_the_passes(struct ob *b) {
    conv(b)->domain = ob_text(b, "moire");
    conv(b)->op_type = ob_text(b, "MatMul");
}
static void control_flow(struct ob *b) {
    conv(b)->op_type = ob_text(b, "If");
}
static void dangling_input(struct ob *b) {
    conv(b)->input[0] = ob_text(b, "nowhere");
}
static void required_input_absent(struct ob *b) {
    conv(b)->input[0] = ob_text(b, "");
}
static void too_few_inputs(struct ob *b) {
    conv(b)->n_input = 1;
}
static void too_many_inputs(struct ob *b) {
    ob_node(b, "Relu", "x w x w", "extra");
}
static void too_many_outputs(struct ob *b) {
    ob_node(b, "Relu", "x", "e1 e2");
}
static void no_node_outputs(struct ob *b) {
    conv(b)->n_output = 0;
}
static void duplicate_output(struct ob *b) {
    ob_node(b, "Relu", "x", "t");
}
static void output_shadows_input(struct ob *b) {
    ob_node(b, "Relu", "t", "x");
}
static void output_shadows_weight(struct ob *b) {
    ob_node(b, "Relu", "t", "w");
}
static void duplicate_weight(struct ob *b) {
    ob_random(b, "w", "4,3,3,3");
}
static void duplicate_input(struct ob *b) {
    ob_input(b, "x", MOIRE_F32, "N,3,8,8");
}
static void unnamed_weight(struct ob *b) {
    w(b)->name = ob_text(b, "");
}
static void unnamed_input(struct ob *b) {
    b->inputs[0]->name = ob_text(b, "");
}
static void cycle(struct ob *b) {
    conv(b)->input[0] = ob_text(b, "y");
}
static void self_cycle(struct ob *b) {
    conv(b)->input[0] = ob_text(b, "t");
}
static void missing_output(struct ob *b) {
    b->outputs[0]->name = ob_text(b, "z");
}
static void string_output(struct ob *b) {
    ob_node(b, "Constant", "", "s");
    ob_string(b, "value_string", "hello");
    ob_output(b, "s");
}
static void string_weight_used(struct ob *b) {
    w(b)->data_type = MOIRE_STRING;
}
static void string_input(struct ob *b) {
    x_type(b)->tensor_type->elem_type = MOIRE_STRING;
}
static void unread_string_input(struct ob *b) {
    ob_input(b, "s", MOIRE_STRING, "1");
}
static void complex_input(struct ob *b) {
    x_type(b)->tensor_type->elem_type = 14;
}
static void unknown_type_input(struct ob *b) {
    x_type(b)->tensor_type->elem_type = 77;
}
static void untyped_input(struct ob *b) {
    b->inputs[0]->type = NULL;
}
static void sequence_input(struct ob *b) {
    Onnx__TypeProto__Sequence *s = ob_alloc(b, sizeof *s);
    onnx__type_proto__sequence__init(s);
    x_type(b)->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    x_type(b)->sequence_type = s;
}
static void input_rank(struct ob *b) {
    ob_input(b, "big", MOIRE_F32, "1,1,1,1,1,1,1,1,1");
}
static void input_unbound(struct ob *b) {
    ob_input(b, "open", MOIRE_F32, "N,H");
}
static void input_no_shape(struct ob *b) {
    ob_input(b, "open", MOIRE_F32, NULL);
}
static void input_too_big(struct ob *b) {
    ob_input(b, "big", MOIRE_F32, "4294967296,4294967296");
}
static void input_overflow(struct ob *b) {
    ob_input(b, "big", MOIRE_F32, "4611686018427387904,4");
}
static void weight_rank(struct ob *b) {
    ob_random(b, "v", "1,1,1,1,1,1,1,1,1");
}
static void weight_negative(struct ob *b) {
    w(b)->dims[0] = -4;
}
static void weight_short(struct ob *b) {
    w(b)->raw_data.len -= 4;
}
static void weight_long(struct ob *b) {
    w(b)->dims[0] = 3;
}
static void weight_overflow(struct ob *b) {
    w(b)->dims[0] = w(b)->dims[1] = w(b)->dims[2] = INT64_MAX / 2;
}
static void weight_huge(struct ob *b) {
    w(b)->dims[0] = 1LL << 40;
}
static void weight_type(struct ob *b) {
    w(b)->data_type = 15;
}
static void weight_no_data(struct ob *b) {
    w(b)->has_raw_data = 0;
}
static void weight_twice(struct ob *b) {
    static float one = 1;
    w(b)->n_float_data = 1;
    w(b)->float_data = &one;
}
static void weight_typed_short(struct ob *b) {
    weight_twice(b);
    w(b)->has_raw_data = 0;
}
static void weight_wrong_list(struct ob *b) {
    static int64_t one = 1;
    w(b)->has_raw_data = 0;
    w(b)->n_int64_data = 1;
    w(b)->int64_data = &one;
}
static void weight_segment(struct ob *b) {
    w(b)->segment = ob_alloc(b, sizeof *w(b)->segment);
    onnx__tensor_proto__segment__init(w(b)->segment);
}
static void weight_external(struct ob *b) {
    static Onnx__StringStringEntryProto e, *list[] = {&e};
    static char key[] = "location", value[] = "w.bin";
    onnx__string_string_entry_proto__init(&e);
    e.key = key;
    e.value = value;
    w(b)->has_data_location = 1;
    w(b)->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    w(b)->n_external_data = 1;
    w(b)->external_data = list;
}
static void sparse_weight(struct ob *b) {
    static Onnx__SparseTensorProto s, *list[] = {&s};
    onnx__sparse_tensor_proto__init(&s);
    b->graph.n_sparse_initializer = 1;
    b->graph.sparse_initializer = list;
}
static void sparse_constant(struct ob *b) {
    ob_node(b, "Constant", "", "c");
    ob_attr(b, "sparse_value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR);
}
static void empty_constant(struct ob *b) {
    ob_node(b, "Constant", "", "c");
}
static void constant_no_tensor(struct ob *b) {
    ob_node(b, "Constant", "", "c");
    ob_attr(b, "value", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR);
}
static void constant_two_values(struct ob *b) {
    ob_node(b, "Constant", "", "c");
    ob_int(b, "value_int", 1);
    ob_float(b, "value_float", 1);
}
static void constant_two_outputs(struct ob *b) {
    ob_node(b, "Constant", "", "c d");
    ob_int(b, "value_int", 1);
}
static void attribute_twice(struct ob *b) {
    ob_node(b, "Relu", "x", "r");
    ob_int(b, "a", 1);
    ob_int(b, "a", 2);
}
static void attribute_unnamed(struct ob *b) {
    ob_node(b, "Relu", "x", "r");
    ob_int(b, "", 1);
}
static void attribute_reference(struct ob *b) {
    ob_node(b, "Relu", "x", "r");
    ob_attr(b, "a", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT)->ref_attr_name = ob_text(b, "outer");
}
static void conv_channels(struct ob *b) {
    w(b)->dims[1] = 1, w(b)->dims[0] = 12;
}
static void conv_rank(struct ob *b) {
    w(b)->n_dims = 2, w(b)->dims[0] = 12, w(b)->dims[1] = 9;
}
static void conv_pads_count(struct ob *b) {
    conv(b)->attribute[0]->n_ints = 3;
}
static void conv_pads_negative(struct ob *b) {
    conv(b)->attribute[0]->ints[0] = -40;
}
static void conv_group(struct ob *b) {
    ob_node(b, "Conv", "x w", "c");
    ob_int(b, "group", 2);
    ob_output(b, "c");
}
static void conv_group_zero(struct ob *b) {
    ob_node(b, "Conv", "x w", "c");
    ob_int(b, "group", 0);
    ob_output(b, "c");
}
static void conv_stride_zero(struct ob *b) {
    ob_node(b, "Conv", "x w", "c");
    ob_ints(b, "strides", "0,0");
    ob_output(b, "c");
}
static void conv_dilation_huge(struct ob *b) {
    ob_node(b, "Conv", "x w", "c");
    ob_ints(b, "dilations", "4611686018427387904,2");
    ob_output(b, "c");
}
static void conv_bad_auto_pad(struct ob *b) {
    ob_node(b, "Conv", "x w", "c");
    ob_string(b, "auto_pad", "SOMETIMES");
    ob_output(b, "c");
}
static void conv_int_input(struct ob *b) {
    x_type(b)->tensor_type->elem_type = MOIRE_I64;
}
static void reshape_mismatch(struct ob *b) {
    ob_int64s(b, "to", "7,-1");
    ob_node(b, "Reshape", "x to", "r");
    ob_output(b, "r");
}
static void transpose_perm(struct ob *b) {
    ob_node(b, "Transpose", "x", "r");
    ob_ints(b, "perm", "0,0,1,2");
    ob_output(b, "r");
}
static void concat_axis(struct ob *b) {
    ob_node(b, "Concat", "x x", "r");
    ob_int(b, "axis", 9);
    ob_output(b, "r");
}
static void concat_without_axis(struct ob *b) {
    ob_node(b, "Concat", "x x", "r");
    ob_output(b, "r");
}
static void concat_axis_string(struct ob *b) {
    concat_without_axis(b);
    ob_string(b, "axis", "1");
}
static void transpose_perm_int(struct ob *b) {
    ob_node(b, "Transpose", "x", "r");
    ob_int(b, "perm", 1);
    ob_output(b, "r");
}
static void leaky_alpha_int(struct ob *b) {
    ob_node(b, "LeakyRelu", "x", "r");
    ob_int(b, "alpha", 1);
    ob_output(b, "r");
}
static void cast_to_nothing(struct ob *b) {
    ob_node(b, "Cast", "x", "r");
    ob_output(b, "r");
}
static void split_count(struct ob *b) {
    b->opsets[0]->version = 18;
    ob_node(b, "Split", "x", "r s");
    ob_int(b, "axis", 2);
    ob_int(b, "num_outputs", 4);
    ob_output(b, "r");
}
static void add_shapes(struct ob *b) {
    ob_random(b, "v", "5");
    ob_node(b, "Add", "x v", "r");
    ob_output(b, "r");
}
static void add_types(struct ob *b) {
    ob_int64s(b, "v", "5");
    ob_node(b, "Add", "x v", "r");
    ob_output(b, "r");
}
static void fold_divides_by_zero(struct ob *b) {
    ob_int64s(b, "a", "5");
    ob_int64s(b, "z", "0");
    ob_node(b, "Div", "a z", "r");
    ob_output(b, "r");
}
static void gather_out_of_range(struct ob *b) {
    ob_int64s(b, "i", "70");
    ob_node(b, "Gather", "w i", "r");
    ob_output(b, "r");
}
static void expand_huge(struct ob *b) {
    ob_int64s(b, "to", "1000000,1000000,1000000");
    ob_scalar(b, "one", 1);
    ob_node(b, "Expand", "one to", "r");
    ob_output(b, "r");
}
static void old_broadcast(struct ob *b) {
    b->opsets[0]->version = 6;
    ob_node(b, "Add", "x x", "r");
    ob_int(b, "broadcast", 1);
    ob_int(b, "axis", 9);
    ob_output(b, "r");
}
static void long_name(struct ob *b) {
    char *name = ob_alloc(b, 5001);
    memset(name, 'n', 5000);
    conv(b)->name = name;
}

static const struct bad_case {
    const char *name;
    void (*change)(struct ob *b);
    int code;
    const char *text; /* part of the message */
} cases[] = {
    {"no graph", no_graph, MOIRE_EFORMAT, "no graph"},
    {"no outputs", no_outputs, MOIRE_EFORMAT, "no outputs"},
    {"opset missing", no_opset, MOIRE_EFORMAT, "opset_import"},
    {"opset 0", opset_zero, MOIRE_EUNSUPPORTED, "opset 0"},
    {"opset 99", opset_future, MOIRE_EUNSUPPORTED, "opset 99"},
    {"unknown operator", unknown_op, MOIRE_EUNSUPPORTED, "node 0 't' (Konv)"},
    {"unknown domain", unknown_domain, MOIRE_EUNSUPPORTED, "com.example"},
    {"no operator type", no_op_type, MOIRE_EFORMAT, "no operator type"},
    {"domain of the passes", domain_of_the_passes, MOIRE_EUNSUPPORTED, "domain 'moire'"},
    {"control flow", control_flow, MOIRE_EFORMAT, "node 0 't' (If): takes one input"},
    {"dangling input", dangling_input, MOIRE_EFORMAT, "'nowhere'"},
    {"required input absent", required_input_absent, MOIRE_EFORMAT, "input 0 is required"},
    {"too few inputs", too_few_inputs, MOIRE_EFORMAT, "1 inputs"},
    {"too many inputs", too_many_inputs, MOIRE_EFORMAT, "4 inputs"},
    {"too many outputs", too_many_outputs, MOIRE_EFORMAT, "2 outputs"},
    {"node without outputs", no_node_outputs, MOIRE_EFORMAT, "0 outputs"},
    {"output defined twice", duplicate_output, MOIRE_EFORMAT, "already defined"},
    {"output shadows input", output_shadows_input, MOIRE_EFORMAT, "already defined"},
    {"output shadows weight", output_shadows_weight, MOIRE_EFORMAT, "already defined"},
    {"weight defined twice", duplicate_weight, MOIRE_EFORMAT, "already defined"},
    {"input listed twice", duplicate_input, MOIRE_EFORMAT, "already defined"},
    {"unnamed weight", unnamed_weight, MOIRE_EFORMAT, "no name"},
    {"unnamed input", unnamed_input, MOIRE_EFORMAT, "no name"},
    {"cycle", cycle, MOIRE_EFORMAT, "cycle"},
    {"cycle of one", self_cycle, MOIRE_EFORMAT, "cycle"},
    {"graph output undefined", missing_output, MOIRE_EFORMAT, "graph output 'z'"},
    {"string output", string_output, MOIRE_EUNSUPPORTED, "string"},
    {"string weight", string_weight_used, MOIRE_EUNSUPPORTED, "strings"},
    {"string input", string_input, MOIRE_EUNSUPPORTED, "strings"},
    {"unread string input", unread_string_input, MOIRE_EUNSUPPORTED, "input 's'"},
    {"complex input", complex_input, MOIRE_EUNSUPPORTED, "complex"},
    {"unknown element type", unknown_type_input, MOIRE_EUNSUPPORTED, "not supported"},
    {"untyped input", untyped_input, MOIRE_EUNSUPPORTED, "not supported"},
    {"sequence input", sequence_input, MOIRE_EUNSUPPORTED, "sequences"},
    {"input rank 9", input_rank, MOIRE_ELIMIT, "rank 9"},
    {"input open", input_unbound, MOIRE_ESHAPE, "--shape open=1,<H>"},
    {"input of unknown rank", input_no_shape, MOIRE_ESHAPE, "--shape open=d,d,..."},
    {"input too big", input_too_big, MOIRE_ELIMIT, "tensor_bytes"},
    {"input overflows", input_overflow, MOIRE_ELIMIT, "tensor_bytes"},
    {"weight rank 9", weight_rank, MOIRE_ELIMIT, "rank 9"},
    {"weight dimension negative", weight_negative, MOIRE_EFORMAT, "negative dimension"},
    {"weight too short", weight_short, MOIRE_EFORMAT, "bytes of raw data"},
    {"weight too long", weight_long, MOIRE_EFORMAT, "bytes of raw data"},
    {"weight overflows", weight_overflow, MOIRE_ELIMIT, "tensor_bytes"},
    {"weight huge", weight_huge, MOIRE_ELIMIT, "tensor_bytes"},
    {"weight type", weight_type, MOIRE_EUNSUPPORTED, "element type 15"},
    {"weight without data", weight_no_data, MOIRE_EFORMAT, "0 values"},
    {"weight raw and typed", weight_twice, MOIRE_EFORMAT, "twice"},
    {"weight list too short", weight_typed_short, MOIRE_EFORMAT, "1 values in float_data"},
    {"weight in the wrong list", weight_wrong_list, MOIRE_EFORMAT, "0 values in float_data"},
    {"weight in segments", weight_segment, MOIRE_EUNSUPPORTED, "segments"},
    {"external data from memory", weight_external, MOIRE_EFORMAT, "'w.bin'"},
    {"sparse initializer", sparse_weight, MOIRE_EUNSUPPORTED, "sparse"},
    {"sparse constant", sparse_constant, MOIRE_EUNSUPPORTED, "sparse"},
    {"constant without value", empty_constant, MOIRE_EUNSUPPORTED, "value"},
    {"constant without tensor", constant_no_tensor, MOIRE_EFORMAT, "holds no tensor"},
    {"constant with two values", constant_two_values, MOIRE_EUNSUPPORTED, "one dense value"},
    {"constant with two outputs", constant_two_outputs, MOIRE_EFORMAT, "one output"},
    {"attribute twice", attribute_twice, MOIRE_EFORMAT, "given twice"},
    {"attribute unnamed", attribute_unnamed, MOIRE_EFORMAT, "no name"},
    {"attribute reference", attribute_reference, MOIRE_EFORMAT, "function"},
    {"conv channels", conv_channels, 0, "Conv"},
    {"conv weight rank", conv_rank, 0, "Conv"},
    {"conv pads count", conv_pads_count, 0, "pads"},
    {"conv pads negative", conv_pads_negative, 0, "Conv"},
    {"conv group", conv_group, 0, "Conv"},
    {"conv group 0", conv_group_zero, 0, "Conv"},
    {"conv stride 0", conv_stride_zero, 0, "Conv"},
    {"conv dilation huge", conv_dilation_huge, 0, "Conv"},
    {"conv auto_pad", conv_bad_auto_pad, 0, "auto_pad"},
    {"conv of integers", conv_int_input, 0, "Conv"},
    {"reshape to another size", reshape_mismatch, 0, "Reshape"},
    {"transpose perm", transpose_perm, 0, "Transpose"},
    {"concat axis", concat_axis, MOIRE_EFORMAT, "node 'r' (Concat)"},
    {"concat without axis", concat_without_axis, MOIRE_EFORMAT, "axis is required"},
    {"concat axis no number", concat_axis_string, MOIRE_EFORMAT,
     "'r' (Concat): attribute 'axis' must be an int"},
    {"transpose perm no list", transpose_perm_int, MOIRE_EFORMAT, "'perm' must be a list of integers"},
    {"alpha an integer", leaky_alpha_int, MOIRE_EFORMAT, "'alpha' must be a float"},
    {"cast to nothing", cast_to_nothing, MOIRE_EFORMAT, "attribute to is required"},
    {"split into 4, 2 outputs", split_count, MOIRE_EFORMAT, "4 sizes for 2 outputs"},
    {"add shapes", add_shapes, 0, "Add"},
    {"add types", add_types, 0, "Add"},
    {"folding divides by zero", fold_divides_by_zero, MOIRE_EFORMAT, "Div"},
    {"gather out of range", gather_out_of_range, MOIRE_EFORMAT, "Gather"},
    {"expand to 10^18", expand_huge, MOIRE_ELIMIT, "tensor_bytes"},
    {"broadcast before opset 7", old_broadcast, MOIRE_EFORMAT, "axis (9)"},
    {"long name", long_name, MOIRE_ELIMIT, "name_bytes"},
};

/* Each case fails for its own reason, and the sound model does not fail. */
static void every_case_is_refused(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ob *b = sound();
        cases[i].change(b);
        size_t n;
        const uint8_t *bytes = ob_pack(b, &n);
        moire_error err = {0};
        int rc = import(bytes, n, &b->env, &err);
        bool code = cases[i].code ? rc == cases[i].code : rc < 0;
        if (!code || !strstr(err.message, cases[i].text)) {
            print_error("%s: code %d, \"%s\"\n", cases[i].name, rc, rc ? err.message : "accepted");
            wrong++;
        }
        ob_destroy(b);
    }
    assert_int_equal(wrong, 0);
    assert_true(sizeof cases / sizeof *cases >= 60);
}

/* --- bytes --------------------------------------------------------------------------------------------- */

static void bytes_that_are_no_model(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } raw[] = {
        {"", 0, "empty"},
        {"\x9b\x06", 2, "byte 0: unknown wire type"},
        {"\x00\x00", 2, "byte 0: field number"},
        {"\x3a", 1, "byte 1: the data ends inside a length"},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "inside a number"},
        {"\x3a\x05\x0a", 3, "byte 0: a field runs past"},
        {"\x3a\xff\xff\xff\xff\x7f", 6, "longer than 2 GiB"},
        {"\x3d\x01\x02\x03\x04", 5, "wrong wire type"},
        {"\x12\x03m\0m", 5, "zero byte"},
        {"\xfd\x07\x01\x02", 4, "ends inside a number"},
        {"GIF89a", 6, "malformed"},
    };
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        moire_error err = {0};
        assert_int_equal(import(raw[i].bytes, raw[i].n, &env, &err), MOIRE_EFORMAT);
        if (!strstr(err.message, raw[i].text)) fail_msg("case %zu: %s", i, err.message);
    }
}

/* graph { node { attribute { g { node { ... */
static void nesting_is_bounded(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    static const uint8_t tag[] = {0x0a, 0x2a, 0x32}; /* node, attribute, g */
    uint8_t bytes[600], inner[600];
    size_t n = 0;
    for (int depth = 0; depth < 90; depth++) {
        memcpy(inner, bytes, n);
        bytes[0] = tag[2 - depth % 3];
        bytes[1] = (uint8_t)(n & 127) | 128;
        bytes[2] = (uint8_t)(n >> 7);
        memcpy(bytes + 3, inner, n);
        n += 3;
    }
    memmove(bytes + 3, bytes, n);
    bytes[0] = 0x3a;
    bytes[1] = (uint8_t)(n & 127) | 128;
    bytes[2] = (uint8_t)(n >> 7);
    moire_error err = {0};
    assert_int_equal(import(bytes, n + 3, &env, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "message_depth"));
}

/* Every prefix and every byte changed: an error or a graph, never a crash, and nothing leaks. */
static void truncated_and_flipped(void **state) {
    (void)state;
    struct ob *b = sound();
    struct fault_sys f;
    size_t n;
    uint8_t *bytes = ob_pack(b, &n);
    fault_sys_init(&f);
    struct mo_env env = mo_env_default();
    env.sys = &f.table;
    env.limits.tensor_bytes = 16 << 20;
    moire_error err;
    for (size_t i = 0; i < n; i++)
        import(bytes, i, &env, &err);
    static const uint8_t masks[] = {0x01, 0x80, 0xff, 0x08};
    for (size_t i = 0; i < n; i++)
        for (size_t m = 0; m < sizeof masks; m++) {
            bytes[i] ^= masks[m];
            import(bytes, n, &env, &err);
            bytes[i] ^= masks[m];
        }
    assert_int_equal(import(bytes, n, &env, &err), MOIRE_OK);
    assert_int_equal(fault_sys_live(&f), 0);
    ob_destroy(b);
}

struct sweep {
    struct mo_env env;
    const uint8_t *bytes;
    size_t n;
};

static int import_once(void *ctx) {
    struct sweep *s = ctx;
    moire_error err;
    return import(s->bytes, s->n, &s->env, &err);
}

/* The k-th allocation fails, for every k. */
static void out_of_memory_everywhere(void **state) {
    (void)state;
    struct ob *b = sound();
    struct fault_sys f;
    struct sweep s = {.env = mo_env_default()};
    s.bytes = ob_pack(b, &s.n);
    fault_sys_init(&f);
    s.env.sys = &f.table;
    assert_true(fault_sys_sweep(&f, import_once, &s, MOIRE_ENOMEM) > 5);
    ob_destroy(b);
}

static void limits_are_named(void **state) {
    (void)state;
    struct ob *b = sound();
    size_t n;
    const uint8_t *bytes = ob_pack(b, &n);
    moire_error err = {0};
    struct mo_env env = mo_env_default();
    env.limits.nodes = 1;
    assert_int_equal(import(bytes, n, &env, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "limit nodes"));
    env = mo_env_default();
    env.limits.tensors = 2;
    assert_int_equal(import(bytes, n, &env, &err), MOIRE_ELIMIT);
    assert_non_null(strstr(err.message, "limit tensors"));
    ob_destroy(b);
}

static void wrong_shapes_are_refused(void **state) {
    (void)state;
    static const struct {
        moire_shape shape;
        const char *text;
    } bad[] = {
        {{"x", 3, {1, 3, 8}}, "rank 4"},
        {{"x", 4, {1, 4, 8, 8}}, "fixed to 3"},
        {{"x", 4, {-1, 3, 8, 8}}, "negative"},
        {{"x", 99, {0}}, "rank 99"},
        {{"z", 4, {1, 3, 8, 8}}, "has no input 'z', for which a shape is given; its first is 'x'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ob *b = sound();
        size_t n;
        const uint8_t *bytes = ob_pack(b, &n);
        struct mo_frontend_options options = {.shapes = &bad[i].shape, .n_shapes = 1};
        struct mo_graph *g;
        moire_error err = {0};
        assert_int_equal(mo_frontend_parse(&b->env, bytes, n, NULL, &options, &g, &err),
                         bad[i].shape.input[0] == 'z' ? MOIRE_EINVAL : MOIRE_ESHAPE);
        if (!strstr(err.message, bad[i].text)) fail_msg("case %zu: %s", i, err.message);
        ob_destroy(b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_refused),    cmocka_unit_test(bytes_that_are_no_model),
        cmocka_unit_test(nesting_is_bounded),       cmocka_unit_test(truncated_and_flipped),
        cmocka_unit_test(out_of_memory_everywhere), cmocka_unit_test(limits_are_named),
        cmocka_unit_test(wrong_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
