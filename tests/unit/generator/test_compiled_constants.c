/* SPDX-License-Identifier: Apache-2.0
 * test_compiled_constants.c - compiled models keep the large constants that binders read beside weights: the
 * bias of a wide product, the first states of a recurrence over many sequences.  Publishing loads what it has
 * written, and fails where that answers differently. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "tests/unit/codegen/onnx_build.h"
#include "tests/unit/generator/toy_family.h"
#include "tools/moire/compile/publish.h"

static void must_publish(struct ob *b) {
    char folder[64], path[96];
    struct mo_env env = mo_env_default();
    struct mo_published done = {0};
    moire_error err = {0};
    toy_folder(folder);
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    assert_true(ob_save(b, path));
    const struct mo_compiled_request request = {.path = path, .isa = mo_isa_detect()};
    const int rc = mo_publish(&env, folder, &request, NULL, &done, &err);
    toy_remove(folder);
    ob_destroy(b);
    if (rc) fail_msg("%s", err.message);
    assert_true(done.packed_bytes > 0);
}

static void the_bias_of_a_wide_product(void **state) {
    (void)state;
    struct ob *b = ob_create(14);
    ob_input(b, "x", MOIRE_F32, "4,16");
    ob_random(b, "w", "16,9000");
    ob_random(b, "bias", "9000");
    ob_node(b, "Gemm", "x w bias", "y");
    ob_output(b, "y");
    must_publish(b);
}

static void first_states_of_many_sequences(void **state) {
    (void)state;
    struct ob *b = ob_create(14);
    ob_input(b, "x", MOIRE_F32, "3,160,16");
    ob_random(b, "w", "1,256,16");
    ob_random(b, "r", "1,256,64");
    ob_random(b, "h", "1,160,64");
    ob_random(b, "c", "1,160,64");
    ob_node(b, "LSTM", "x w r - - h c", "y");
    ob_int(b, "hidden_size", 64);
    ob_output(b, "y");
    must_publish(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bias_of_a_wide_product),
        cmocka_unit_test(first_states_of_many_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
