/* SPDX-License-Identifier: Apache-2.0
 * test_serve_functions.c - the functions that the command hands its server: what a run leaves outlives the
 * model, since an answer may be on its way when its model is unloaded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tools/moire/serve_functions.h"

static void outputs_outlive_the_model(void **state) {
    (void)state;
    struct ms_function row[MO_SERVE_FUNCTIONS];
    const struct ms_functions functions = mo_serve_functions(row);
    const struct ms_function *best = ms_function_find(&functions, "ocr_best");
    assert_non_null(best);

    enum { STEPS = 3, CLASSES = 4 };
    float probabilities[STEPS][CLASSES] = {{0, 0, 1, 0}, {1, 0, 0, 0}, {0, 0.25f, 0, 0.75f}};
    const moire_tensor in = {.dtype = MOIRE_F32,
                             .rank = 3,
                             .shape = {1, STEPS, CLASSES},
                             .data = probabilities,
                             .bytes = sizeof probabilities};
    moire_tensor out[2] = {{0}};
    moire_error err = {0};
    void *model = NULL, *memory = NULL;
    assert_int_equal(best->open(best, NULL, &model, &err), MOIRE_OK);
    assert_int_equal(best->run(best, model, &in, out, &memory, &err), MOIRE_OK);
    best->close(model);

    const int32_t *classes = out[0].data;
    const float *scores = out[1].data;
    assert_int_equal(classes[0], 2);
    assert_int_equal(classes[1], 0);
    assert_int_equal(classes[2], 3);
    assert_float_equal(scores[2], 0.75f, 0);
    best->release(memory);
}

static void a_run_that_fails_leaves_nothing(void **state) {
    (void)state;
    struct ms_function row[MO_SERVE_FUNCTIONS];
    const struct ms_functions functions = mo_serve_functions(row);
    const struct ms_function *page = ms_function_find(&functions, "ocr_page");
    assert_non_null(page);

    uint8_t pixel[3] = {0};
    const moire_tensor in = {
        .dtype = MOIRE_U8, .rank = 3, .shape = {0, 1, 3}, .data = pixel, .bytes = 0}; /* no row */
    moire_tensor out = {0};
    moire_error err = {0};
    void *model = NULL, *memory = NULL;
    assert_int_equal(page->open(page, NULL, &model, &err), MOIRE_OK);
    assert_int_not_equal(page->run(page, model, &in, &out, &memory, &err), MOIRE_OK);
    assert_null(memory);
    page->close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_outlive_the_model),
        cmocka_unit_test(a_run_that_fails_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
