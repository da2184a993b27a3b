/* SPDX-License-Identifier: Apache-2.0
 * test_kserve.c - infer requests and answers as bytes, without a network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "serve/protocol/fault.h"
#include "serve/protocol/kserve.h"

static struct ms_request read_whole(const char *json) {
    struct ms_request r;
    moire_error err = {0};
    const int rc = ms_request_parse(json, strlen(json), strlen(json), &r, &err);
    if (rc) print_message("%s\n", err.message);
    assert_int_equal(rc, MOIRE_OK);
    return r;
}

static void refuses(const char *json, const char *why) {
    struct ms_request r;
    moire_error err = {0};
    assert_int_not_equal(ms_request_parse(json, strlen(json), strlen(json), &r, &err), MOIRE_OK);
    if (!strstr(err.message, why)) print_message("%s: %s\n", json, err.message);
    assert_non_null(strstr(err.message, why));
    assert_null(r.document);
}

static void test_json_tensors(void **state) {
    (void)state;
    struct ms_request r = read_whole(
        "{\"id\":\"7\",\"parameters\":{\"priority\":2,\"timeout\":5000},\"inputs\":[{\"name\":\"x\","
        "\"datatype\":\"FP32\",\"shape\":[2,2],\"data\":[[1,2.5],[-3,4e2]]},{\"name\":\"b\",\"datatype\":"
        "\"BOOL\",\"shape\":[2],\"data\":[true,false]}],\"outputs\":[{\"name\":\"y\"}]}");
    static const float wanted[] = {1, 2.5f, -3, 400};
    assert_string_equal(r.id, "7");
    assert_int_equal(r.priority, 2);
    assert_int_equal(r.timeout_us, 5000);
    assert_int_equal(r.n_inputs, 2);
    assert_memory_equal(r.input[0].tensor.data, wanted, sizeof wanted);
    assert_memory_equal(r.input[1].tensor.data, "\1\0", 2);
    assert_int_equal(r.n_outputs, 1);
    assert_false(r.output[0].binary);
    ms_request_close(&r);
}

static void test_whole_numbers_keep_all_bits(void **state) {
    (void)state;
    static const int64_t wanted[] = {INT64_MIN, INT64_MAX, 9007199254740993};
    struct ms_request r =
        read_whole("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"INT64\",\"shape\":[3],\"data\":"
                   "[-9223372036854775808,9223372036854775807,9007199254740993]}]}");
    assert_memory_equal(r.input[0].tensor.data, wanted, sizeof wanted);
    ms_request_close(&r);
}

static void test_binary_tensors_lie_in_the_body(void **state) {
    (void)state;
    static const char json[] =
        "{\"parameters\":{\"binary_data_output\":true},\"inputs\":[{\"name\":\"x\",\"datatype\":\"UINT8\","
        "\"shape\":[3],\"parameters\":{\"binary_data_size\":3}},{\"name\":\"y\",\"datatype\":\"INT16\","
        "\"shape\":"
        "[1],\"parameters\":{\"binary_data_size\":2}}]}abc\1\2";
    const size_t n = sizeof json - 1;
    struct ms_request r;
    moire_error err;
    assert_int_equal(ms_request_parse(json, n, n - 5, &r, &err), MOIRE_OK);
    assert_ptr_equal(r.input[0].tensor.data, json + n - 5);
    assert_ptr_equal(r.input[1].tensor.data, json + n - 2);
    assert_true(r.binary);
    ms_request_close(&r);
    assert_int_equal(ms_request_parse(json, n - 1, n - 5, &r, &err), MOIRE_EINVAL); /* a byte is missing */
    assert_non_null(strstr(err.message, "1 bytes are left"));
    assert_int_equal(ms_request_parse(json, n, n + 1, &r, &err), MOIRE_EINVAL);
}

#define INPUT(rest) "{\"inputs\":[{\"name\":\"x\"," rest "}]}"

static void test_what_is_refused(void **state) {
    (void)state;
    refuses("", "no JSON");
    refuses("[]", "no JSON object");
    refuses("{\"inputs\":{}}", "\"inputs\" of the request is of the wrong JSON type");
    refuses("{\"id\":\"a\",\"id\":\"b\"}", "no JSON");
    refuses("{\"inputs\":[{}]}", "needs \"name\" and \"datatype\"");
    refuses(INPUT("\"datatype\":\"FP31\",\"shape\":[1]"), "no datatype 'FP31'");
    refuses(INPUT("\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"a\"]"), "takes BYTES");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[-1]"), "dimension 0");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[1.5]"), "dimension 0");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[2],\"data\":[1]"), "has 1 elements, its shape 2");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1,2]"), "more than the 1 elements");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[1],\"data\":[\"1\"]"), "element 0 is no number");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1e39]"), "out of the range of FP32");
    refuses(INPUT("\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[256]"), "out of the range of UINT8");
    refuses(INPUT("\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[1.0]"), "not of type UINT8");
    refuses(INPUT("\"datatype\":\"FP16\",\"shape\":[1],\"data\":[1]"), "binary data only");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[4294967296,4294967296],\"data\":[1]"), "more elements");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[1]"), "has no \"data\"");
    refuses(INPUT("\"datatype\":\"FP32\",\"shape\":[1],\"data\":[[[[[[[[[[1]]]]]]]]]]"), "nested deeper");
    refuses("{\"parameters\":{\"timeout\":-1}}", "negative");
    refuses("{\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":-1}}]}", "negative");
    refuses("{\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":\"1\"}}]}", "wrong JSON type");
    refuses("{\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":1}}]}", "true or false");
    refuses("{\"parameters\":{\"a\":[]}}", "'a'");
    refuses("{\"parameters\":{\"triton_x\":1}}", "'triton_x'");
    refuses("{\"parameters\":{\"sequence_id\":1}}", "sequences are not served");
}

static void test_answers(void **state) {
    (void)state;
    float real[] = {1.5f, -0.1f};
    uint64_t big[] = {UINT64_MAX};
    struct ms_response r = {.model = "m\"", .version = "1", .id = "7", .n_outputs = 2};
    r.output[0] = (struct ms_output){.name = "y", .tensor = {MOIRE_F32, 2, {1, 2}, real, sizeof real}};
    r.output[1] = (struct ms_output){.name = "z", .tensor = {MOIRE_U64, 1, {1}, big, sizeof big}};
    struct ms_bytes to = {0};
    size_t json;
    moire_error err;
    assert_int_equal(ms_response_write(&r, &to, &json, &err), MOIRE_OK);
    ms_bytes_put(&to, "", 1);
    assert_string_equal(to.at, "{\"model_name\":\"m\\\"\",\"model_version\":\"1\",\"id\":\"7\",\"outputs\":[{"
                               "\"name\":\"y\",\"datatype\":"
                               "\"FP32\",\"shape\":[1,2],\"data\":[1.5,-0.100000001]},{\"name\":\"z\","
                               "\"datatype\":\"UINT64\",\"shape\":[1],"
                               "\"data\":[18446744073709551615]}]}");
    assert_int_equal(json, 0);
    ms_bytes_free(&to);
    r.output[0].binary = true;
    assert_int_equal(ms_response_write(&r, &to, &json, &err), MOIRE_OK);
    assert_int_equal(to.n, json + sizeof real);
    assert_memory_equal(to.at + json, real, sizeof real);
    ms_bytes_free(&to);
    r.output[0].binary = false;
    real[0] = NAN;
    assert_int_equal(ms_response_write(&r, &to, &json, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "ask for binary data"));
    ms_bytes_free(&to);
}

static void test_every_code_has_a_status(void **state) {
    (void)state;
    for (int code = -1; code > -24; code--)
        assert_in_range(ms_http_status(code), 400, 599);
    assert_int_equal(ms_http_status(MOIRE_OK), 200);
    assert_int_equal(ms_http_status(MOIRE_EBUSY), 429);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_tensors),
        cmocka_unit_test(test_whole_numbers_keep_all_bits),
        cmocka_unit_test(test_binary_tensors_lie_in_the_body),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_every_code_has_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
