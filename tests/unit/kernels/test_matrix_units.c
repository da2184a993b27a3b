/* SPDX-License-Identifier: Apache-2.0
 * test_matrix_units.c - the matrix units of this machine against their model in plain C: jobs of one and two
 * tiles and blocks, any steps, brief ones too, begun and gone on with.  Sums of bytes are alike bit for bit
 * at the ends of their types, too; those of bfloat16 on whole numbers, of which nothing is rounded.  And the
 * three terms of a float32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "variants/matrix/matrix.h"

enum { MOST_STEPS = 23, ROW_BYTES = 200, ROWS = 64, ASIDES = 2 };

struct room {
    _Alignas(64) char a[MO_MATRIX_TERMS][ROWS * ROW_BYTES + MOST_STEPS * MO_MATRIX_STEP];
    char b[MOST_STEPS * MO_MATRIX_TERMS * 2 * MO_MATRIX_TILE];
    int32_t steps[MOST_STEPS], start[32];
    char sums[2][MO_MATRIX_SUMS];
};

/* Bytes of every value, the ends often; or whole numbers that are bfloat16, small ones where six products are
 * added for one. */
static void fill(char *to, size_t n, enum mo_matrix_type type, uint64_t *seed) {
    for (size_t i = 0; type == MO_MATRIX_BYTES && i < n; i++) {
        const uint64_t x = mo_splitmix(seed);
        to[i] = (char)(x % 4 ? x >> 8 : x % 8 ? 0x80 : 0x7f);
    }
    const int range = type == MO_MATRIX_FLOATS ? 16 : 1;
    for (size_t i = 0; type != MO_MATRIX_BYTES && i + 1 < n; i += 2) {
        const int whole = (int)(mo_splitmix(seed) % 255) - 127, part = whole / range;
        const uint16_t half = mo_bfloat16((float)part);
        memcpy(to + i, &half, 2);
    }
}

static void count_aside(void *of) {
    ++*(int *)of;
}

/* The job twice, the second time from what the first has left. */
static void multiply(const struct mo_matrix_unit *unit, enum mo_matrix_type type, struct mo_matrix_job job,
                     int tiles, int blocks, const void *start) {
    int asides = 0;
    job.start = start;
    job.aside = count_aside, job.of = &asides, job.asides = ASIDES;
    unit->begin();
    unit->run[type](&job, tiles, blocks);
    job.start = NULL, job.zero = false;
    unit->run[type](&job, tiles, blocks);
    unit->end();
    assert_true(asides <= 2 * ASIDES);
}

/* Of usual jobs, brief ones, and brief ones from zeros. */
enum { USUAL, BRIEF, FROM_ZEROS, MANNERS };

static int differences(struct room *r, const struct mo_matrix_unit *unit, enum mo_matrix_type type, int steps,
                       int tiles, int blocks, int manner) {
    static const int32_t zeros[32];
    const int32_t *start = manner == FROM_ZEROS ? zeros : r->start;
    struct mo_matrix_job job = {.a = {r->a[0], r->a[0] + 17 * ROW_BYTES},
                                .a_row = ROW_BYTES,
                                .a_term = sizeof r->a[0],
                                .steps = r->steps,
                                .n_steps = steps,
                                .b = r->b,
                                .brief = manner != USUAL,
                                .zero = manner == FROM_ZEROS};
    memset(r->sums, 0x55, sizeof r->sums);
    job.sums = r->sums[0];
    multiply(&mo_matrix_model, type, job, tiles, blocks, start);
    job.sums = r->sums[1];
    multiply(unit, type, job, tiles, blocks, start);
    int wrong = 0;
    for (int block = 0; block < blocks; block++)
        for (int tile = 0; tile < tiles; tile++) {
            const size_t at = (size_t)(block * MO_MATRIX_PAIR + tile) * MO_MATRIX_TILE;
            wrong += memcmp(r->sums[0] + at, r->sums[1] + at, MO_MATRIX_TILE) != 0;
        }
    return wrong;
}

static void set_steps(struct room *r, uint64_t *seed) {
    for (int i = 0; i < MOST_STEPS; i++)
        r->steps[i] = (int32_t)(mo_splitmix(seed) % (MOST_STEPS * MO_MATRIX_STEP / 2) / 4 * 4);
}

static int check(const struct mo_matrix_unit *unit, enum mo_matrix_type type) {
    static const int all_steps[] = {1, 2, 3, 9, MOST_STEPS};
    struct room *r = malloc(sizeof *r);
    uint64_t seed = 11;
    int wrong = 0;
    if (!unit || !unit->run[type]) print_message("no unit for type %d here\n", (int)type);
    for (int round = 0; unit && unit->run[type] && round < 8; round++) {
        fill(r->a[0], sizeof r->a, type, &seed);
        fill(r->b, sizeof r->b, type, &seed);
        set_steps(r, &seed);
        for (int i = 0; i < 32; i++) {
            const int32_t whole = (int32_t)(mo_splitmix(&seed) % 2001) - 1000;
            const float real = (float)whole;
            memcpy(&r->start[i], type == MO_MATRIX_BYTES ? (const void *)&whole : (const void *)&real, 4);
        }
        for (size_t s = 0; s < sizeof all_steps / sizeof *all_steps; s++)
            for (int shape = 0; shape < 4 * MANNERS; shape++)
                wrong +=
                    differences(r, unit, type, all_steps[s], 1 + shape % 2, 1 + shape / 2 % 2, shape / 4);
    }
    free(r);
    return wrong;
}

static void bytes_are_exact(void **state) {
    (void)state;
    assert_int_equal(check(mo_matrix_choose(MO_UNITS_OWN, mo_isa_detect(), MO_MATRIX_BYTES), MO_MATRIX_BYTES),
                     0);
}

static void whole_halves_are_exact(void **state) {
    (void)state;
    static const enum mo_units units[] = {MO_UNITS_OWN, MO_UNITS_VECTORS};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        assert_int_equal(
            check(mo_matrix_choose(units[i], mo_isa_detect(), MO_MATRIX_HALVES), MO_MATRIX_HALVES), 0);
}

static void whole_floats_are_exact(void **state) {
    (void)state;
    assert_int_equal(
        check(mo_matrix_choose(MO_UNITS_OWN, mo_isa_detect(), MO_MATRIX_FLOATS), MO_MATRIX_FLOATS), 0);
}

/* Some vectors of floats, as a unit packs them. */
enum { FLOATS = 32 };
static void gather(const struct mo_matrix_unit *unit, const float *x, char *to, int64_t term) {
    const struct mo_gather g = {.from = (const char *)x,
                                .plane = 64,
                                .pixel = 128,
                                .planes = 2,
                                .lanes = 16,
                                .n = 1,
                                .to = to,
                                .width = 64,
                                .term = term};
    unit->gather[MO_MATRIX_FLOATS](&g);
}

static int wrong_terms(float x, const uint16_t term[MO_MATRIX_TERMS]) {
    const float first = mo_bfloat16_wide(term[0]);
    const double sum = (double)first + mo_bfloat16_wide(term[1]) + mo_bfloat16_wide(term[2]);
    if (isnan(x)) return !isnan(first);
    if (isinf(first)) return fabsf(x) < 0x1.fep127f || term[1] || term[2];
    return fabs(sum - x) > 0x1p-126; /* subnormal terms count as zeros */
}

/* They are the number, all of it; and each unit's are alike. */
static void terms_are_the_number(void **state) {
    (void)state;
    static const float ends[] = {0,         -0.0F,           1,         INFINITY,  -INFINITY,
                                 NAN,       0x1.fffffep127f, 0x1p-126f, 0x1p-149f, 0x1.fep127f,
                                 -3.39e38F, 1e-38F,          65504.5F};
    const struct mo_matrix_unit *unit = mo_matrix_choose(MO_UNITS_OWN, mo_isa_detect(), MO_MATRIX_FLOATS);
    uint64_t seed = 3;
    int wrong = 0;
    for (size_t round = 0; round < 3000; round++) {
        float x[FLOATS];
        uint16_t model[MO_MATRIX_TERMS][FLOATS], own[MO_MATRIX_TERMS][FLOATS];
        for (int i = 0; i < FLOATS; i++) {
            const uint32_t bits = (uint32_t)(mo_splitmix(&seed) >> 32);
            memcpy(&x[i], &bits, 4);
            if (round == 0) x[i] = ends[(size_t)i % (sizeof ends / sizeof *ends)];
        }
        gather(&mo_matrix_model, x, (char *)model, sizeof model[0]);
        for (int i = 0; i < FLOATS; i++)
            wrong += wrong_terms(x[i], (uint16_t[]){model[0][i], model[1][i], model[2][i]});
        if (unit) gather(unit, x, (char *)own, sizeof own[0]);
        for (int i = 0; unit && i < FLOATS; i++)
            wrong += wrong_terms(x[i], (uint16_t[]){own[0][i], own[1][i], own[2][i]});
    }
    assert_int_equal(wrong, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_exact), cmocka_unit_test(whole_halves_are_exact),
        cmocka_unit_test(whole_floats_are_exact), cmocka_unit_test(terms_are_the_number)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
