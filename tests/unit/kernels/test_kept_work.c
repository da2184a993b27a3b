/* SPDX-License-Identifier: Apache-2.0
 * test_kept_work.c - operators whose output shape takes all of their work do it once where infer and run
 * follow each other, and give what run alone gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "tests/unit/kernels/op_case.h"
#include "runtime/ops/util.h"

enum { BOXES = 40, NUMBERS = 300 };
static double boxes[BOXES * 4], scores[2 * BOXES], numbers[NUMBERS];

static void make_numbers(void) {
    for (int i = 0; i < BOXES; i++) {
        const double side = 1 + i % 7, at = i * 37 % 11;
        const double box[4] = {at, at / 2, at + side, at / 2 + side};
        memcpy(boxes + (size_t)i * 4, box, sizeof box);
    }
    for (int i = 0; i < 2 * BOXES; i++)
        scores[i] = i * 53 % 97 / 97.0;
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i * 29 % 13 - 6;
}

static const struct {
    const char *op;
    int n_in, n_out;
} rows[] = {{"NonMaxSuppression", 4, 1}, {"NonZero", 1, 1}, {"Unique", 1, 4}};

static void open(struct op_case *c, size_t row) {
    static const double most[] = {30}, overlap[] = {0.3};
    op_case_open(c, rows[row].op, 16);
    if (row) {
        op_case_input(c, MOIRE_F32, "15x20", numbers);
        return;
    }
    op_case_input(c, MOIRE_F32, "1x40x4", boxes);
    op_case_input(c, MOIRE_F32, "1x2x40", scores);
    op_case_input(c, MOIRE_I64, "1", most);
    op_case_input(c, MOIRE_F32, "1", overlap);
}

/* Between the two the operands are cleared: who looks at them again finds something else. */
static void run_does_not_do_it_again(void **state) {
    (void)state;
    make_numbers();
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++) {
        struct op_case c;
        struct mo_value out[4] = {{0}};
        void *kept = NULL;
        open(&c, row);
        if (op_case_run(&c, rows[row].n_out)) fail_msg("%s", c.err.message);
        assert_true(mo_count(&c.out[0]) > 0);
        struct mo_op_ctx ctx = {.node = c.node,
                                .env = &c.env,
                                .n_in = rows[row].n_in,
                                .n_out = rows[row].n_out,
                                .in = c.in,
                                .out = out,
                                .err = &c.err,
                                .kept = &kept};
        assert_int_equal(mo_op_infer(&ctx), MOIRE_OK);
        if (!kept) fail_msg("%s keeps nothing", rows[row].op);
        for (int i = 0; i < rows[row].n_out; i++) {
            assert_true(out[i].dtype == c.out[i].dtype && mo_shape_equal(&out[i].shape, &c.out[i].shape));
            out[i].data =
                mo_region_alloc(c.g->region, (size_t)mo_count(&out[i]) * mo_dtype_bytes(out[i].dtype) + 1);
        }
        if (!strcmp(rows[row].op, "Unique")) /* whose values are taken from the operand */
            out[0].data = NULL;
        memset(c.in[row ? 0 : 1].data, 0,
               (size_t)mo_count(&c.in[row ? 0 : 1]) * mo_dtype_bytes(c.in[0].dtype));
        assert_int_equal(c.node->op->run(&ctx), MOIRE_OK);
        for (int i = 0; i < rows[row].n_out; i++)
            if (out[i].data)
                assert_memory_equal(out[i].data, c.out[i].data,
                                    (size_t)mo_count(&out[i]) * mo_dtype_bytes(out[i].dtype));
        mo_free(&c.env, kept);
        op_case_close(&c);
    }
}

/* More than the limit of a tensor is refused before it is there. */
static void what_is_kept_is_bounded(void **state) {
    (void)state;
    struct op_case c;
    make_numbers();
    open(&c, 1);
    c.env.limits.tensor_bytes = 1000;
    assert_int_equal(op_case_infer(&c, 1), MOIRE_ELIMIT);
    assert_non_null(strstr(c.err.message, "tensor_bytes"));
    op_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(run_does_not_do_it_again),
                                       cmocka_unit_test(what_is_kept_is_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
