/* SPDX-License-Identifier: Apache-2.0
 * test_infer_message.c - messages of gRPC: infer requests and answers, messages made of JSON, and bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "serve/grpc/infer_message.h"
#include "serve/grpc/messages.h"

typedef Inference__ModelInferRequest__InferInputTensor input_message;

/* A request of one input, which the test fills. */
struct bed {
    Inference__ModelInferRequest request;
    input_message input, *inputs[1];
    Inference__InferTensorContents contents;
    ProtobufCBinaryData raw;
    int64_t shape[2];
    struct ms_request out;
    moire_error err;
};
static void fill(struct bed *b, const char *type, int64_t rows, int64_t columns) {
    *b = (struct bed){.shape = {rows, columns}};
    inference__model_infer_request__init(&b->request);
    inference__model_infer_request__infer_input_tensor__init(&b->input);
    inference__infer_tensor_contents__init(&b->contents);
    b->inputs[0] = &b->input;
    b->request.n_inputs = 1;
    b->request.inputs = b->inputs;
    b->input.name = (char *)(uintptr_t) "x";
    b->input.datatype = (char *)(uintptr_t)type;
    b->input.n_shape = 2;
    b->input.shape = b->shape;
}
static int read_request(struct bed *b) {
    return ms_infer_message_read(&b->request, &b->out, &b->err);
}

static void raw_contents(void **state) {
    float x[6] = {1, 2, 3, 4, 5, 6};
    struct bed b;
    (void)state;
    fill(&b, "FP32", 2, 3);
    b.raw = (ProtobufCBinaryData){.len = sizeof x, .data = (uint8_t *)x};
    b.request.n_raw_input_contents = 1;
    b.request.raw_input_contents = &b.raw;
    assert_int_equal(read_request(&b), MOIRE_OK);
    assert_ptr_equal(b.out.input[0].tensor.data, x); /* no copy */
    assert_int_equal(b.out.input[0].tensor.bytes, sizeof x);
    ms_request_close(&b.out);
    b.raw.len--;
    assert_int_equal(read_request(&b), MOIRE_EINVAL);
    assert_non_null(strstr(b.err.message, "23 bytes"));
    b.raw.len++;
    b.input.contents = &b.contents;
    assert_int_equal(read_request(&b), MOIRE_EINVAL);
}

static void narrow_types(void **state) {
    int32_t whole[2] = {-128, 127};
    uint32_t positive[2] = {0, 65535};
    protobuf_c_boolean truth[2] = {1, 0};
    struct bed b;
    (void)state;
    fill(&b, "INT8", 1, 2);
    b.input.contents = &b.contents;
    b.contents.n_int_contents = 2;
    b.contents.int_contents = whole;
    assert_int_equal(read_request(&b), MOIRE_OK);
    assert_memory_equal(b.out.input[0].tensor.data, ((int8_t[]){-128, 127}), 2);
    ms_request_close(&b.out);
    whole[1] = 128;
    assert_int_equal(read_request(&b), MOIRE_EINVAL);
    assert_non_null(strstr(b.err.message, "element 1 is 128"));

    fill(&b, "UINT16", 1, 2);
    b.input.contents = &b.contents;
    b.contents.n_uint_contents = 2;
    b.contents.uint_contents = positive;
    assert_int_equal(read_request(&b), MOIRE_OK);
    assert_memory_equal(b.out.input[0].tensor.data, ((uint16_t[]){0, 65535}), 4);
    ms_request_close(&b.out);
    b.contents.n_bool_contents = 2; /* elements in a second list */
    b.contents.bool_contents = truth;
    assert_int_equal(read_request(&b), MOIRE_EINVAL);

    b.input.datatype = (char *)(uintptr_t) "BOOL";
    b.contents.n_uint_contents = 0;
    assert_int_equal(read_request(&b), MOIRE_OK);
    assert_memory_equal(b.out.input[0].tensor.data, ((uint8_t[]){1, 0}), 2);
    ms_request_close(&b.out);
}

static void malformed_requests(void **state) {
    static const struct {
        const char *type;
        int64_t rows, columns;
        int code;
    } rows[] = {{"FP99", 1, 1, MOIRE_EINVAL},  {"BYTES", 1, 1, MOIRE_EINVAL},
                {"FP32", -1, 1, MOIRE_EINVAL}, {"FP32", INT64_MAX, INT64_MAX, MOIRE_EINVAL},
                {"FP32", 1, 1, MOIRE_EINVAL},  {"FP16", 1, 1, MOIRE_EINVAL},
                {"INT64", 1, 2, MOIRE_EINVAL}};
    struct bed b;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fill(&b, rows[i].type, rows[i].rows, rows[i].columns);
        if (i > 4) b.input.contents = &b.contents; /* none, of a type that has none, too few */
        assert_int_equal(read_request(&b), rows[i].code);
        assert_non_null(strstr(b.err.message, "x"));
    }
    fill(&b, "FP32", 0, 3); /* nothing is all there is */
    assert_int_equal(read_request(&b), MOIRE_OK);
    ms_request_close(&b.out);
    b.request.n_raw_input_contents = 2;
    assert_int_equal(read_request(&b), MOIRE_EINVAL);
}

static void answers(void **state) {
    float y[2] = {3, 4};
    struct ms_response r = {.model = "m", .version = "1", .n_outputs = 1};
    struct ms_infer_message m;
    moire_error err;
    (void)state;
    r.output[0].name = "y";
    r.output[0].tensor =
        (moire_tensor){.dtype = MOIRE_F32, .rank = 1, .shape = {2}, .data = y, .bytes = sizeof y};
    assert_int_equal(ms_infer_message_write(&r, &m, &err), MOIRE_OK);
    uint8_t bytes[200];
    const size_t n = inference__model_infer_response__pack(&m.message, bytes);
    Inference__ModelInferResponse *back = inference__model_infer_response__unpack(NULL, n, bytes);
    assert_non_null(back);
    assert_string_equal(back->outputs[0]->datatype, "FP32");
    assert_memory_equal(back->raw_output_contents[0].data, y, sizeof y);
    inference__model_infer_response__free_unpacked(back, NULL);
    r.output[0].tensor.dtype = MOIRE_NONE;
    assert_int_equal(ms_infer_message_write(&r, &m, &err), MOIRE_EUNSUPPORTED);
}

static void messages_of_json(void **state) {
    static const char text[] =
        "{\"name\":\"m\",\"max_batch_size\":8,\"unknown\":[1],\"platform\":7,"
        "\"input\":[{\"name\":\"x\",\"data_type\":\"TYPE_FP32\",\"dims\":[-1,3]},{\"data_type\":\"NO\"}],"
        "\"parameters\":{\"qos_ms\":{\"string_value\":\"15\"}}}";
    json_t *document = json_loads(text, 0, NULL);
    ProtobufCMessage *made = ms_message_of_json(&inference__model_config__descriptor, document);
    const Inference__ModelConfig *c = (const void *)made;
    (void)state;
    assert_non_null(made);
    assert_string_equal(c->name, "m");
    assert_string_equal(c->platform, ""); /* a number is no name */
    assert_int_equal(c->max_batch_size, 8);
    assert_int_equal(c->n_input, 2);
    assert_int_equal(c->input[0]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
    assert_int_equal(c->input[0]->dims[0], -1);
    assert_int_equal(c->n_parameters, 1);
    assert_string_equal(c->parameters[0]->key, "qos_ms");
    assert_string_equal(c->parameters[0]->value->string_value, "15");
    assert_true(protobuf_c_message_get_packed_size(made) > 20);
    protobuf_c_message_free_unpacked(made, NULL);
    json_decref(document);
}

/* A megabyte of empty inputs would be a hundred in memory. */
static void bounded_memory(void **state) {
    enum { BYTES = 1 << 20 };
    char *wire = malloc(BYTES);
    ProtobufCMessage *m;
    moire_error err;
    (void)state;
    assert_non_null(wire);
    for (int i = 0; i < BYTES; i += 2) {
        wire[i] = 0x2a; /* field 5, a message */
        wire[i + 1] = 0;
    }
    assert_int_equal(ms_message_read(&inference__model_infer_request__descriptor, wire, BYTES, &m, &err),
                     MOIRE_EINVAL);
    assert_int_equal(ms_message_read(&inference__model_infer_request__descriptor, wire, 100, &m, &err),
                     MOIRE_OK);
    protobuf_c_message_free_unpacked(m, NULL);
    assert_int_equal(ms_message_read(&inference__model_infer_request__descriptor, wire, 1, &m, &err),
                     MOIRE_EINVAL);
    free(wire);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_contents),       cmocka_unit_test(narrow_types),
        cmocka_unit_test(malformed_requests), cmocka_unit_test(answers),
        cmocka_unit_test(messages_of_json),   cmocka_unit_test(bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
