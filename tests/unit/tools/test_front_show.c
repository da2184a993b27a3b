/* SPDX-License-Identifier: Apache-2.0
 * test_front_show.c - the front of a whole model adds up, every sampled kernel has its reason, and the page
 * says both. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tools/moire/front/front_show.h"

/* A point whose time goes from `alone` to `full` pressure, in us. */
static struct mo_store_point point(enum mo_point_state state, double alone, double full, int64_t parallelism,
                                   int64_t block, int64_t traffic) {
    struct mo_store_point p = {.family = "direct",
                               .knobs = "tile=14,unroll=4",
                               .state = state,
                               .units = 8,
                               .parallelism_milli = parallelism,
                               .block_bytes = block,
                               .l3_bytes = traffic};
    for (int level = 0; level < MO_STORE_LEVELS; level++)
        p.ns[level] = 1000 * (alone + (full - alone) * level / (MO_STORE_LEVELS - 1));
    return p;
}

/* Two versions that cross at half pressure, and one of each kind that was not kept. */
static void fill(struct mo_front_row *row) {
    *row = (struct mo_front_row){.layer = "Conv 3x3 <+relu>", .uses = 2};
    struct mo_store_front *f = &row->front;
    f->cores = 1;
    f->versions = 2;
    f->share_ns = 150000;
    f->n = 6;
    f->point[0] = point(MO_POINT_VERSION, 100, 200, 4000, 400, 9000);
    f->point[1] = point(MO_POINT_VERSION, 110, 190, 6000, 300, 8000);
    f->point[2] = point(MO_POINT_COVERED, 112, 180, 5000, 350, 8500);
    f->point[3] = point(MO_POINT_SPARE, 98, 0, 7000, 200, 7000);
    f->point[4] = point(MO_POINT_DOMINATED, 120, 0, 3000, 400, 9000);
    f->point[5] = point(MO_POINT_LATE, 170, 0, 9000, 900, 100);
    for (int i = 3; i < 6; i++)
        for (int level = 1; level < MO_STORE_LEVELS; level++)
            f->point[i].ns[level] = 0;
    for (int i = 0; i < 6; i++)
        row->packed_bytes[i] = i == 3 ? 1500000 : 500000;
    row->n_refused = 1;
    row->refused[0] = (struct mo_front_refused){"winograd", "m=6", "wrong result"};
}

static void has_reason(const struct mo_front_row *row, int at, const char *part) {
    char why[MO_FRONT_WHY];
    mo_front_why(row, at, why);
    if (!strstr(why, part)) fail_msg("point %d: \"%s\" lacks \"%s\"", at, why, part);
}

static void every_point_has_its_reason(void **state) {
    (void)state;
    struct mo_front_row row;
    fill(&row);
    has_reason(&row, 0, "kept: runs without pressure");
    has_reason(&row, 1, "kept: the fastest from pressure 0.50 on");
    has_reason(&row, 2, "covered: at no pressure is it more than 5.6 % faster");
    has_reason(&row, 3, "on the front, but only 2 versions were wanted");
    has_reason(&row, 3, "2.0 % faster than the first version, whose packed weights are 1.00 MB smaller");
    has_reason(&row, 4,
               "dominated: number 1 has no less parallelism and blocking, no more traffic and is 20.0 %");
    has_reason(&row, 5, "late: 170.0 us on 1 core, the layer's share of the target is 150.0 us");
    row.packed_bytes[3] = 500000;
    has_reason(&row, 3, "less than the margin of 3 %");
    row.front.point[3].ns[0] = 50000;
    has_reason(&row, 3, "but not in times of the built-in kernel");
    row.front.point[1].state = MO_POINT_SPARE;
    has_reason(&row, 0, "kept: the only version");
    row.front.point[0].state = MO_POINT_SPARE;
    has_reason(&row, 0, "the built-in kernel is faster than all of them");
}

static void a_model_is_the_sum_of_its_layers(void **state) {
    (void)state;
    struct mo_front_row row[2];
    fill(&row[0]);
    fill(&row[1]);
    row[1].uses = 1;
    row[1].front.point[1].state = MO_POINT_COVERED;
    struct mo_fronts all = {.model = "m.onnx", .row = row, .n = 2};
    struct mo_front_model m = mo_front_model_of(&all);
    const int last = MO_STORE_LEVELS - 1;
    assert_true(m.layers == 3 && m.several == 2);
    assert_float_equal(m.chosen_ns[0], 300000, 1e-6);
    assert_float_equal(m.single_ns[last], 600000, 1e-6);
    assert_float_equal(m.chosen_ns[last], 2 * 190000 + 200000, 1e-6);
    assert_true(m.changed[0] == 0 && m.changed[last] == 2);
    assert_float_equal(m.parallelism[0], 4, 1e-9);
    assert_float_equal(m.parallelism[last], (380 * 6.0 + 200 * 4.0) / 580, 1e-9);
    for (int level = 0; level < MO_STORE_LEVELS; level++)
        assert_true(m.chosen_ns[level] <= m.single_ns[level]);
}

static void the_page_begins_with_the_model(void **state) {
    (void)state;
    struct mo_env env = mo_env_default();
    struct mo_front_row row;
    fill(&row);
    struct mo_fronts all = {.model = "/x/m.onnx", .row = &row, .n = 1, .untuned = 4};
    char path[] = "/tmp/moire-front-XXXXXX";
    moire_error err = {0};
    close(mkstemp(path));
    assert_int_equal(mo_front_html(&env, &all, path, &err), MOIRE_OK);
    static char page[200000];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    page[fread(page, 1, sizeof page - 1, f)] = 0;
    fclose(f);
    unlink(path);
    const char *answer = strstr(page, "saves 5.0 %"), *layer = strstr(page, "Conv 3x3 &#60;+relu&#62;");
    assert_non_null(answer);
    assert_non_null(layer);
    assert_true(answer < layer);
    assert_non_null(strstr(page, "4 layers of the model have no front"));
    assert_non_null(strstr(page, "never used: wrong result"));
    assert_non_null(strstr(page, "</html>"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_point_has_its_reason),
        cmocka_unit_test(a_model_is_the_sum_of_its_layers),
        cmocka_unit_test(the_page_begins_with_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
