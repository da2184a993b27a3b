/* SPDX-License-Identifier: Apache-2.0
 * test_moved_elements.c - operators that move elements by index or stride give what their formulas say,
 * element by element, for random shapes and types of every width. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/ops/elements.h"
#include "tests/unit/kernels/op_case.h"

enum { ROUNDS = 400, MOST = 1 << 14 };
static const moire_dtype types[] = {MOIRE_U8, MOIRE_I16, MOIRE_F32, MOIRE_I64, MOIRE_F16, MOIRE_BOOL};
static double numbers[MOST], indices[MOST], updates[MOST];

static int draw(unsigned *seed, int n) {
    *seed = *seed * 1664525 + 1013904223;
    return (int)((*seed >> 8) % (unsigned)n);
}

/* Some dimensions are wide enough for more than one span, most are small, some are 1. */
static struct mo_shape draw_shape(unsigned *seed, int rank) {
    struct mo_shape s = {.rank = rank};
    int64_t room = MOST;
    for (int i = 0; i < rank; i++) {
        const int most = draw(seed, 4) ? 5 : 600;
        s.d[i] = 1 + draw(seed, room < most ? (int)room : most);
        room /= s.d[i];
    }
    return s;
}

static const char *text_of(const struct mo_shape *s, char *text) {
    int at = 0;
    for (int i = 0; i < s->rank; i++)
        at += snprintf(text + at, 100 - (size_t)at, "%s%lld", i ? "x" : "", (long long)s->d[i]);
    return text;
}

static void coordinates(const struct mo_shape *s, int64_t i, int64_t *at) {
    for (int d = s->rank - 1; d >= 0; d--) {
        at[d] = i % s->d[d];
        i /= s->d[d];
    }
}

static int64_t place(const struct mo_shape *s, const int64_t *at) {
    int64_t i = 0;
    for (int d = 0; d < s->rank; d++)
        i = i * s->d[d] + at[d];
    return i;
}

static void fill(unsigned *seed, moire_dtype type) {
    const int most = type == MOIRE_BOOL ? 2 : 100;
    for (int i = 0; i < MOST; i++) {
        numbers[i] = draw(seed, most);
        updates[i] = draw(seed, most);
    }
}

/* A case of data, and indices along an axis; the place in data of each. */
struct indexed {
    struct op_case c;
    struct mo_shape data, index;
    int64_t at[MOST];
};

static void open_indexed(struct indexed *x, unsigned *seed, const char *op, moire_dtype type) {
    char attrs[40], text[100];
    const int rank = 1 + draw(seed, 4), axis = draw(seed, rank);
    const bool alike = !draw(seed, 2);
    x->data = draw_shape(seed, rank);
    x->index = x->data;
    for (int i = 0; i < rank; i++)
        if (i == axis || !draw(seed, 3)) x->index.d[i] = 1 + draw(seed, (int)x->data.d[i]);
    op_case_open(&x->c, op, 16);
    snprintf(attrs, sizeof attrs, "axis=%d", axis - (draw(seed, 2) ? rank : 0));
    op_case_attrs(&x->c, attrs);
    for (int64_t i = 0; i < mo_shape_count(&x->index); i++) {
        int64_t at[MOIRE_MAX_RANK] = {0};
        const int64_t n = x->data.d[axis];
        coordinates(&x->index, i, at);
        /* alike: one index for all that has one coordinate along the axis, as an expanded list has */
        const int64_t v = alike ? at[axis] : draw(seed, (int)n);
        indices[i] = (double)(draw(seed, 3) || alike ? v : v - n);
        at[axis] = v;
        x->at[i] = place(&x->data, at);
    }
    op_case_input(&x->c, type, text_of(&x->data, text), numbers);
    op_case_input(&x->c, draw(seed, 3) ? MOIRE_I64 : MOIRE_I32, text_of(&x->index, text), indices);
}

static void gathers_by_index(void **state) {
    static struct indexed x;
    unsigned seed = 1;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        fill(&seed, types[round % 6]);
        open_indexed(&x, &seed, "GatherElements", types[round % 6]);
        if (op_case_run(&x.c, 1)) fail_msg("round %d: %s", round, x.c.err.message);
        for (int64_t i = 0; i < mo_shape_count(&x.index); i++)
            if (op_case_out(&x.c, 0, i) != numbers[x.at[i]])
                fail_msg("round %d, element %lld", round, (long long)i);
        op_case_close(&x.c);
    }
}

/* The last of those that have one place stays, or all are summed. */
static void scatters_by_index(void **state) {
    static struct indexed x;
    static double want[MOST];
    char text[100];
    unsigned seed = 2;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const bool sums = round % 6 < 4 && round % 3 == 0;
        fill(&seed, types[round % 6]);
        open_indexed(&x, &seed, "ScatterElements", types[round % 6]);
        if (sums) op_case_attrs(&x.c, "reduction:add");
        op_case_input(&x.c, types[round % 6], text_of(&x.index, text), updates);
        memcpy(want, numbers, sizeof want);
        for (int64_t i = 0; i < mo_shape_count(&x.index); i++)
            want[x.at[i]] = updates[i] + (sums ? want[x.at[i]] : 0);
        if (op_case_run(&x.c, 1)) fail_msg("round %d: %s", round, x.c.err.message);
        for (int64_t i = 0; i < mo_shape_count(&x.data); i++)
            if (op_case_out(&x.c, 0, i) !=
                (types[round % 6] == MOIRE_U8 ? (double)((int64_t)want[i] & 255) : want[i]))
                fail_msg("round %d, element %lld", round, (long long)i);
        op_case_close(&x.c);
    }
}

/* Indices of fewer dimensions, or of length 1 in some, stand for what they are repeated to. */
static void scatters_by_repeated_indices(void **state) {
    static double want[MOST];
    char text[100], attrs[40];
    unsigned seed = 5;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int rank = 1 + draw(&seed, 4), axis = draw(&seed, rank), lead = draw(&seed, axis + 1);
        const struct mo_shape data = draw_shape(&seed, rank), four = {.rank = 1, .d = {rank}};
        struct mo_shape all = data, own = {.rank = rank - lead};
        double to[MOIRE_MAX_RANK];
        struct op_case c;
        for (int i = 0; i < rank; i++) {
            if (i == axis || !draw(&seed, 3)) all.d[i] = 1 + draw(&seed, (int)data.d[i]);
            to[i] = (double)all.d[i];
        }
        for (int i = 0; i < own.rank; i++)
            own.d[i] = draw(&seed, 2) ? all.d[lead + i] : 1;
        fill(&seed, types[round % 6]);
        for (int64_t i = 0; i < mo_shape_count(&own); i++)
            indices[i] = draw(&seed, (int)data.d[axis]) - (draw(&seed, 2) ? 0.0 : (double)data.d[axis]);
        memcpy(want, numbers, sizeof want);
        for (int64_t i = 0; i < mo_shape_count(&all); i++) {
            int64_t at[MOIRE_MAX_RANK] = {0}, from[MOIRE_MAX_RANK] = {0};
            coordinates(&all, i, at);
            for (int d = 0; d < own.rank; d++)
                from[d] = own.d[d] == 1 ? 0 : at[lead + d];
            const int64_t v = (int64_t)indices[place(&own, from)];
            at[axis] = v < 0 ? v + data.d[axis] : v;
            want[place(&data, at)] = updates[i];
        }
        op_case_open(&c, "moire.ScatterElements", 1);
        snprintf(attrs, sizeof attrs, "axis=%d", axis);
        op_case_attrs(&c, attrs);
        op_case_input(&c, types[round % 6], text_of(&data, text), numbers);
        op_case_input(&c, draw(&seed, 3) ? MOIRE_I64 : MOIRE_I32, text_of(&own, text), indices);
        op_case_input(&c, types[round % 6], text_of(&all, text), updates);
        op_case_input(&c, MOIRE_I64, text_of(&four, text), to);
        if (op_case_run(&c, 1)) fail_msg("round %d: %s", round, c.err.message);
        for (int64_t i = 0; i < mo_shape_count(&data); i++)
            if (op_case_out(&c, 0, i) != want[i]) fail_msg("round %d, element %lld", round, (long long)i);
        op_case_close(&c);
    }
}

/* An index out of range is found wherever it is. */
static void refuses_indices_outside(void **state) {
    static const int at[] = {0, 255, 256, 599};
    (void)state;
    for (size_t k = 0; k < 8; k++) {
        struct op_case c;
        memset(indices, 0, sizeof indices);
        indices[at[k / 2]] = k % 2 ? 3 : -4;
        op_case_open(&c, "GatherElements", 16);
        op_case_input(&c, MOIRE_F32, "3x600", NULL);
        op_case_input(&c, MOIRE_I64, "1x600", indices);
        assert_int_equal(op_case_run(&c, 1), MOIRE_EINVAL);
        assert_non_null(strstr(c.err.message, k % 2 ? "index 3 is outside [-3, 3)" : "index -4 is outside"));
        op_case_close(&c);
    }
}

static void expands(void **state) {
    unsigned seed = 3;
    char text[100];
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int rank = 1 + draw(&seed, 5), lead = draw(&seed, rank);
        const struct mo_shape y = draw_shape(&seed, rank);
        struct mo_shape x = {.rank = rank - lead}, rank_1 = {.rank = 1, .d = {rank}};
        double to[MOIRE_MAX_RANK];
        struct op_case c;
        for (int i = 0; i < rank; i++)
            to[i] = (double)y.d[i];
        for (int i = 0; i < x.rank; i++)
            x.d[i] = draw(&seed, 2) ? y.d[lead + i] : 1;
        fill(&seed, types[round % 6]);
        op_case_open(&c, "Expand", 13);
        op_case_input(&c, types[round % 6], text_of(&x, text), numbers);
        op_case_input(&c, MOIRE_I64, text_of(&rank_1, text), to);
        if (op_case_run(&c, 1)) fail_msg("round %d: %s", round, c.err.message);
        for (int64_t i = 0; i < mo_shape_count(&y); i++) {
            int64_t at[MOIRE_MAX_RANK] = {0};
            coordinates(&y, i, at);
            for (int d = 0; d < x.rank; d++)
                at[d] = x.d[d] == 1 ? 0 : at[lead + d];
            if (op_case_out(&c, 0, i) != numbers[place(&x, at)])
                fail_msg("round %d, element %lld", round, (long long)i);
        }
        op_case_close(&c);
    }
}

/* Any steps, forwards and backwards. */
static void slices(void **state) {
    unsigned seed = 4;
    char text[100];
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int rank = 1 + draw(&seed, 4);
        const struct mo_shape x = draw_shape(&seed, rank), rank_1 = {.rank = 1, .d = {rank}};
        double start[4], end[4], axis[4], step[4];
        struct op_case c;
        for (int i = 0; i < rank; i++) {
            const int n = (int)x.d[i], from = draw(&seed, n), to = draw(&seed, n);
            const bool whole = !draw(&seed, 2), back = !whole && from > to;
            axis[i] = i;
            step[i] = whole ? 1 : (1 + draw(&seed, 2)) * (back ? -1 : 1);
            start[i] = whole ? 0 : from;
            end[i] = whole ? n : back ? to : to + 1;
        }
        fill(&seed, types[round % 6]);
        op_case_open(&c, "Slice", 13);
        op_case_input(&c, types[round % 6], text_of(&x, text), numbers);
        const double *lists[] = {start, end, axis, step};
        for (int k = 0; k < 4; k++)
            op_case_input(&c, MOIRE_I64, text_of(&rank_1, text), lists[k]);
        if (op_case_run(&c, 1)) fail_msg("round %d: %s", round, c.err.message);
        for (int64_t i = 0; i < mo_shape_count(&c.out[0].shape); i++) {
            int64_t at[MOIRE_MAX_RANK] = {0};
            coordinates(&c.out[0].shape, i, at);
            for (int d = 0; d < rank; d++)
                at[d] = (int64_t)start[d] + at[d] * (int64_t)step[d];
            if (op_case_out(&c, 0, i) != numbers[place(&x, at)])
                fail_msg("round %d, element %lld", round, (long long)i);
        }
        op_case_close(&c);
    }
}

static void transposes(void **state) {
    unsigned seed = 5;
    char text[100], attrs[60];
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int rank = 2 + draw(&seed, 3);
        const struct mo_shape x = draw_shape(&seed, rank);
        int perm[5] = {0, 1, 2, 3, 4};
        struct op_case c;
        for (int i = rank - 1; i > 0; i--) {
            const int k = draw(&seed, i + 1), swap = perm[i];
            perm[i] = perm[k];
            perm[k] = swap;
        }
        int length = snprintf(attrs, sizeof attrs, "perm=%d", perm[0]);
        for (int i = 1; i < rank; i++)
            length += snprintf(attrs + length, sizeof attrs - (size_t)length, ",%d", perm[i]);
        fill(&seed, types[round % 6]);
        op_case_open(&c, "Transpose", 13);
        op_case_attrs(&c, attrs);
        op_case_input(&c, types[round % 6], text_of(&x, text), numbers);
        if (op_case_run(&c, 1)) fail_msg("round %d: %s", round, c.err.message);
        for (int64_t i = 0; i < mo_shape_count(&x); i++) {
            int64_t at[MOIRE_MAX_RANK] = {0}, from[MOIRE_MAX_RANK] = {0};
            coordinates(&c.out[0].shape, i, at);
            for (int d = 0; d < rank; d++)
                from[perm[d]] = at[d];
            if (op_case_out(&c, 0, i) != numbers[place(&x, from)])
                fail_msg("round %d, element %lld", round, (long long)i);
        }
        op_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_by_index),
        cmocka_unit_test(scatters_by_index),
        cmocka_unit_test(scatters_by_repeated_indices),
        cmocka_unit_test(refuses_indices_outside),
        cmocka_unit_test(expands),
        cmocka_unit_test(slices),
        cmocka_unit_test(transposes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
