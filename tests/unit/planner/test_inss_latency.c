/* SPDX-License-Identifier: Apache-2.0
 * test_inss_latency.c - InSS's latency model on profiles whose law is known, and its formulas worked by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "runtime/planner/inss/inss_latency.h"

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static bool near(double a, double b, double within) {
    return fabs(a - b) <= within;
}

static const int batches[] = {1, 2, 4, 8, 16, 32}, shares[] = {200, 400, 500, 600, 800};
enum { BATCHES = 6, SHARES = 5 };

/* Of each query a part that the share divides and a part that it does not; and a plane in batch and share. */
static double amdahl(int b, int share) {
    return 1 + 0.5 * b + (0.2 + 0.3 * b) * 1000 / share;
}
static double plane(int b, int share) {
    return 3 + 0.5 * b - 0.002 * share;
}

/* Use of L2: 0.05 + 0.02 a query a ms; of memory: 0.4 - 0.1 a query a ms. */
static struct mo_share_profile *profile_of(double (*ms)(int, int)) {
    struct mo_share_profile *p = mo_share_create(the_env(), BATCHES, batches, SHARES, shares);
    assert_non_null(p);
    for (int i = 0; i < BATCHES; i++)
        for (int j = 0; j < SHARES; j++) {
            double t = ms(batches[i], shares[j]), rate = batches[i] / t;
            struct mo_share_cell cell = {(int64_t)(t * 1e6 + 0.5),
                                         {-1, 0.05 + 0.02 * rate, 0.4 - 0.1 * rate}};
            mo_share_record(p, i, j, &cell);
        }
    assert_int_equal(mo_share_finish(p, NULL), MOIRE_OK);
    return p;
}

static struct mo_inss_model model_of(double (*ms)(int, int), const struct mo_inss_shape *shape) {
    struct mo_inss_model m;
    const struct mo_inss_grid grid = mo_inss_grid();
    moire_error err = {0};
    struct mo_share_profile *p = profile_of(ms);
    if (mo_inss_fit_alone(p, &grid, shape, &m, &err)) fail_msg("%s", err.message);
    mo_share_destroy(p);
    return m;
}

static void sixteen_points_give_back_the_law_that_made_them(void **state) {
    (void)state;
    struct mo_inss_model m = model_of(amdahl, NULL);
    assert_int_equal(m.shape.terms, MO_INSS_AMDAHL);
    assert_true(m.shape_error < 1e-6);
    assert_true(near(mo_inss_alone_ms(&m, 8, 500), 10.2, 1e-5)); /* 1 + 4 + (0.2 + 2.4) 2 */
    for (int b = 1; b <= 64; b++)
        for (int s = 100; s <= 1000; s += 50)
            assert_true(near(mo_inss_alone_ms(&m, b, s) / amdahl(b, s), 1, 1e-5));
    /* the paper's plane in batch and share cannot: at one point of the grid left out it is far off */
    const struct mo_inss_shape linear = {MO_INSS_LINEAR, 0};
    assert_true(model_of(amdahl, &linear).shape_error > 0.05);
    m = model_of(plane, NULL);
    assert_int_equal(m.shape.terms, MO_INSS_LINEAR);
    assert_true(near(mo_inss_alone_ms(&m, 8, 500), 6, 1e-5));
}

/* A narrow width follows the points, a wide one the plane through all of them. */
static double bent(int b, int share) {
    return (b < 10 ? 10 : 30) + 0 * share;
}
static void the_width_says_how_local_the_plane_is(void **state) {
    (void)state;
    const struct mo_inss_shape narrow = {MO_INSS_LINEAR, 0.2}, wide = {MO_INSS_LINEAR, 100};
    struct mo_inss_model near_by = model_of(bent, &narrow), far = model_of(bent, &wide);
    assert_true(near(mo_inss_alone_ms(&near_by, 1, 400), 10, 0.1));
    assert_true(near(mo_inss_alone_ms(&near_by, 32, 400), 30, 0.1));
    assert_true(fabs(mo_inss_alone_ms(&far, 16, 400) - 30) > 3);
}

static void odd_questions_get_an_answer(void **state) {
    (void)state;
    struct mo_inss_model m = model_of(plane, NULL); /* falls below nothing at a share of 1500 */
    assert_true(mo_inss_alone_ms(&m, 0, 500) == mo_inss_alone_ms(&m, 1, 500));
    assert_true(mo_inss_alone_ms(&m, -5, 5000) == mo_inss_alone_ms(&m, 1, 1000));
    assert_true(mo_inss_alone_ms(&m, 1, -1) == mo_inss_alone_ms(&m, 1, 1));
    for (int b = 1; b < 1000; b += 37)
        for (int s = 1; s <= 1000; s += 9) {
            double ms = mo_inss_alone_ms(&m, b, s);
            assert_true(isfinite(ms) && ms >= m.floor_ms && m.floor_ms > 0);
        }
}

static void use_goes_with_throughput(void **state) {
    (void)state;
    struct mo_inss_model m = model_of(amdahl, NULL);
    assert_true(near(m.slope.l2, 0.02, 1e-6) && near(m.base.l2, 0.05, 1e-6));
    assert_true(near(m.slope.dram, -0.1, 1e-6) && near(m.base.dram, 0.4, 1e-6));
    assert_true(near(m.use_explained.l2, 1, 1e-6) && m.use_filled == 0);
    struct mo_inss_use use = mo_inss_use_of(&m, 8, 4); /* 2 queries a ms */
    assert_true(near(use.l2, 0.09, 1e-6) && near(use.dram, 0.2, 1e-6));
    use = mo_inss_use_of(&m, 8, 0.08); /* 100 a ms: more than all, and less than nothing */
    assert_true(use.l2 == 1 && use.dram == 0);
    use = mo_inss_use_of(&m, 8, 0);
    assert_true(near(use.l2, 0.05, 1e-6));
}

static void neighbours_and_copies_add_up(void **state) {
    (void)state;
    const struct mo_inss_use others[] = {{0.1, 0.2}, {0.3, 0.4}};
    struct mo_inss_model m = model_of(amdahl, NULL);
    assert_true(mo_inss_slowdown(&m, others, 2) == 1);
    m.alpha.cache = 0.5;
    m.alpha.dram = 0.2;
    m.alpha.beside = 0.01;
    assert_true(near(mo_inss_slowdown(&m, others, 2), 1.33, 1e-12)); /* 1 + 0.01 + 0.5 0.4 + 0.2 0.6 */
    assert_true(near(mo_inss_slowdown(&m, others, 1), 1.1, 1e-12));
    assert_true(mo_inss_slowdown(&m, NULL, 0) == 1);
    m.upload.per_query = 0.06;
    m.upload.fixed = 0.5;
    m.download.per_query = 0.01;
    m.download.fixed = 0.1;
    assert_true(near(mo_inss_copy_ms(&m, 8), 1.16, 1e-12));
    assert_true(near(mo_inss_batch_ms(&m, 8, 500, others, 2), 10.2 * 1.33 + 1.16, 1e-4));
}

static void copies_come_from_the_profile(void **state) {
    (void)state;
    const struct mo_inss_grid grid = mo_inss_grid();
    struct mo_inss_model m;
    struct mo_share_profile *p = profile_of(amdahl);
    p->in_bytes = 602112;
    p->out_bytes = 4000;
    p->copy_bytes_ns = 10;
    assert_int_equal(mo_inss_fit_alone(p, &grid, NULL, &m, NULL), MOIRE_OK);
    assert_true(near(m.upload.per_query, 0.0602112, 1e-12) && near(m.download.per_query, 0.0004, 1e-12));
    assert_true(near(mo_inss_copy_ms(&m, 8), (double)mo_share_copy(p, 8) * 1e-6, 1e-6));
    mo_share_destroy(p);
}

/* --- waiting -------------------------------------------------------------------------------------------- */
static void equation_3_is_the_papers(void **state) {
    (void)state;
    assert_true(mo_inss_task_ms(8, 20, 1000, 3, 10) == 33); /* 3 + ceil(20 / 8) 10 */
    assert_true(mo_inss_task_ms(8, 8, 1000, 3, 10) == 13);  /* the batch is full */
    assert_true(mo_inss_task_ms(8, 5, 1000, 1, 10) == 13);  /* three more in 3 ms, then 10 */
    assert_true(mo_inss_task_ms(8, 5, 1000, 7, 10) == 17);  /* the batch before takes longer than they */
    assert_true(isinf(mo_inss_task_ms(8, 5, 0, 7, 10)));
    assert_true(mo_inss_task_ms(1, 1, 0, 0, 10) == 10);
}

static void the_mean_wait_is_that_of_known_queues(void **state) {
    (void)state;
    assert_true(near(mo_inss_mean_ms(1, 50, 10), 15, 1e-12)); /* M/D/1 at half load: half a service */
    assert_true(near(mo_inss_mean_ms(1, 80, 10), 30, 1e-9));  /* at 80 %: two services */
    /* 3 / 2 arrivals of 5 ms, 10 ms, and 10 (1/4 / 2) exp(-1.5) for the batches before */
    assert_true(near(mo_inss_mean_ms(4, 200, 10), 7.5 + 10 + 1.25 * exp(-1.5), 1e-9));
    assert_true(near(mo_inss_mean_ms(1, 0, 10), 10, 1e-12));
    assert_true(isinf(mo_inss_mean_ms(2, 0, 10)));
    assert_true(isinf(mo_inss_mean_ms(4, 400, 10)));
    assert_true(isinf(mo_inss_mean_ms(4, 500, 10)));
}

static void the_late_share_is_poissons(void **state) {
    (void)state;
    /* of two queries the second never waits, the first is late when none comes within 2 ms */
    assert_true(near(mo_inss_late(2, 1000, 0, 2), exp(-2) / 2, 1e-12));
    /* of three: none; fewer than one; fewer than two */
    assert_true(near(mo_inss_late(3, 1000, 0, 2), (exp(-2) + 3 * exp(-2)) / 3, 1e-12));
    /* M/D/1 at half load: half wait, 10 ms in the mean; of eight parts of these two wait more than 15 ms */
    assert_true(near(mo_inss_late(1, 50, 10, 25), 0.5 * 2 / 8, 1e-12));
    assert_true(near(mo_inss_late(1, 50, 10, 10), 0.5, 1e-12));
    assert_true(mo_inss_late(8, 1000, 10, 9) == 1);
    assert_true(mo_inss_late(8, 800, 10, 1000) == 1); /* as fast as the batches: waits for ever */
    assert_true(mo_inss_late(8, 1000, 0, 1e9) == 0);
    assert_true(mo_inss_late(0, 1000, 1, 10) == 1);
    double last = 1;
    for (int limit = 10; limit < 50; limit++) { /* more time, never more late */
        double late = mo_inss_late(8, 500, 10, limit);
        assert_true(late <= last + 1e-12 && late >= 0);
        last = late;
    }
}

/* --- coefficients --------------------------------------------------------------------------------------- */
enum { MODELS = 3, RUNS = 3 };

/* Three runs of each model beside the others, as models with these coefficients would run. */
static void invent(struct mo_inss_model models[MODELS], struct mo_inss_run runs[MODELS * RUNS]) {
    static const int batch[RUNS] = {1, 8, 32}, share[RUNS] = {200, 500, 800};
    for (int m = 0; m < MODELS; m++) {
        models[m] = model_of(amdahl, NULL);
        models[m].base.l2 += 0.03 * m;
        models[m].slope.dram += 0.05 * m;
        models[m].alpha.cache = 0.4 + 0.1 * m;
        models[m].alpha.dram = 0.3 - 0.1 * m;
    }
    for (int i = 0; i < MODELS * RUNS; i++) {
        int self = i / RUNS, other = (self + 1) % MODELS;
        struct mo_inss_run *r = &runs[i];
        *r = (struct mo_inss_run){{self, 4, 400}, {{other, batch[i % RUNS], share[i % RUNS]}}, 1, 0};
        double alone = mo_inss_alone_ms(&models[other], r->other[0].batch, r->other[0].share);
        struct mo_inss_use use = mo_inss_use_of(&models[other], r->other[0].batch, alone);
        r->ms = mo_inss_alone_ms(&models[self], 4, 400) * mo_inss_slowdown(&models[self], &use, 1);
    }
}

static void three_runs_give_back_the_coefficients(void **state) {
    (void)state;
    const struct mo_inss_pull own = {false, 0, 0}, all = {false, 1e9, 0};
    struct mo_inss_pull chosen;
    struct mo_inss_model m[MODELS];
    struct mo_inss_run runs[MODELS * RUNS];
    invent(m, runs);
    assert_int_equal(mo_inss_fit_beside(m, MODELS, runs, MODELS * RUNS, &own, &chosen, NULL), MOIRE_OK);
    for (int i = 0; i < MODELS; i++) {
        assert_true(near(m[i].alpha.cache, 0.4 + 0.1 * i, 1e-6));
        assert_true(near(m[i].alpha.dram, 0.3 - 0.1 * i, 1e-6));
        assert_true(m[i].alpha.beside == 0);
    }
    assert_true(chosen.error < 1e-6 && !chosen.beside && chosen.weight == 0);
    /* a choice finds that too: leaving out a run costs nothing when each model has coefficients of its own */
    assert_int_equal(mo_inss_fit_beside(m, MODELS, runs, MODELS * RUNS, NULL, &chosen, NULL), MOIRE_OK);
    assert_true(chosen.weight == 0 && chosen.error < 1e-6);
    /* drawn hard enough, all have the same; so has a model without runs */
    assert_int_equal(mo_inss_fit_beside(m, MODELS, runs, 2 * RUNS, &all, NULL, NULL), MOIRE_OK);
    assert_true(near(m[0].alpha.cache, m[1].alpha.cache, 1e-6));
    assert_true(near(m[0].alpha.cache, m[2].alpha.cache, 1e-6));
    assert_true(m[0].alpha.cache + m[0].alpha.dram > 0.1);
}

/* A neighbour never speeds anything up; what everybody pays is found when it is asked for. */
static void coefficients_are_never_negative(void **state) {
    (void)state;
    const struct mo_inss_pull own = {false, 0, 0}, beside = {true, 0, 0};
    struct mo_inss_model m[MODELS];
    struct mo_inss_run runs[MODELS * RUNS];
    invent(m, runs);
    for (int i = 0; i < MODELS * RUNS; i++)
        runs[i].ms = mo_inss_alone_ms(&m[runs[i].self.model], 4, 400) * 0.9;
    assert_int_equal(mo_inss_fit_beside(m, MODELS, runs, MODELS * RUNS, &own, NULL, NULL), MOIRE_OK);
    for (int i = 0; i < MODELS; i++)
        assert_true(m[i].alpha.cache == 0 && m[i].alpha.dram == 0);
    for (int i = 0; i < MODELS * RUNS; i++)
        runs[i].ms *= 1.1 / 0.9;
    assert_int_equal(mo_inss_fit_beside(m, MODELS, runs, MODELS * RUNS, &beside, NULL, NULL), MOIRE_OK);
    for (int i = 0; i < MODELS * RUNS;
         i++) { /* use is linear in throughput, so there are many ways to say that */
        const struct mo_inss_load *o = &runs[i].other[0];
        double alone = mo_inss_alone_ms(&m[o->model], o->batch, o->share);
        struct mo_inss_use use = mo_inss_use_of(&m[o->model], o->batch, alone);
        assert_true(near(mo_inss_slowdown(&m[runs[i].self.model], &use, 1), 1.1, 1e-6));
    }
}

/* --- what is refused ------------------------------------------------------------------------------------ */
static void a_profile_without_what_the_grid_needs_is_refused(void **state) {
    (void)state;
    static const struct {
        struct mo_inss_grid grid;
        const char *says;
    } rows[] = {
        {{{1, 3, 16, 32}, {200, 400, 600, 800}}, "no batch 3"},
        {{{1, 4, 16, 64}, {200, 400, 600, 800}}, "no batch 64"},
        {{{1, 4, 16, 32}, {100, 400, 600, 800}}, "no share 100"},
        {{{1, 4, 16, 32}, {200, 400, 600, 1000}}, "no share 1000"},
        {{{1, 4, 4, 32}, {200, 400, 600, 800}}, "rising"},
        {{{0, 4, 16, 32}, {200, 400, 600, 800}}, "rising"},
        {{{1, 4, 16, 32}, {200, 400, 600, 1200}}, "rising"},
    };
    struct mo_share_profile *p = profile_of(amdahl);
    const struct mo_inss_grid grid = mo_inss_grid();
    struct mo_inss_model m;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        moire_error err = {0};
        assert_int_equal(mo_inss_fit_alone(p, &rows[i].grid, NULL, &m, &err), MOIRE_EINVAL);
        if (!strstr(err.message, rows[i].says)) fail_msg("row %zu: '%s'", i, err.message);
    }
    const struct mo_inss_shape bad = {MO_INSS_LINEAR, -1};
    assert_int_equal(mo_inss_fit_alone(p, &grid, &bad, &m, NULL), MOIRE_EINVAL);
    moire_error err = {0};
    const struct mo_share_cell cell = p->cell[2 * SHARES], hole = {0, {-1, -1, -1}};
    mo_share_record(p, 2, 0, &hole);
    assert_int_equal(mo_inss_fit_alone(p, &grid, NULL, &m, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "batch 4 has no time at share 200"));
    /* use may come from another share of the batch, but must come from one */
    const struct mo_share_cell time_only = {cell.ns, {-1, -1, -1}};
    mo_share_record(p, 2, 0, &time_only);
    assert_int_equal(mo_inss_fit_alone(p, &grid, NULL, &m, &err), MOIRE_OK);
    assert_int_equal(m.use_filled, 1);
    for (int j = 0; j < SHARES; j++) {
        struct mo_share_cell no_memory = p->cell[2 * SHARES + j];
        no_memory.use.dram = -1;
        mo_share_record(p, 2, j, &no_memory);
    }
    assert_int_equal(mo_inss_fit_alone(p, &grid, NULL, &m, &err), MOIRE_EINVAL);
    assert_non_null(strstr(err.message, "batch 4 has no use of memory"));
    mo_share_destroy(p);
}

static void runs_that_are_none_are_refused(void **state) {
    (void)state;
    struct mo_inss_model m[MODELS];
    struct mo_inss_run runs[MODELS * RUNS], bad;
    invent(m, runs);
    for (int i = 0; i < 6; i++) {
        bad = runs[0];
        if (i == 0) bad.self.model = MODELS;
        if (i == 1) bad.other[0].model = -1;
        if (i == 2) bad.n_others = 0;
        if (i == 3) bad.n_others = MO_INSS_BESIDE + 1;
        if (i == 4) bad.ms = 0;
        if (i == 5) bad.ms = NAN;
        assert_int_equal(mo_inss_fit_beside(m, MODELS, &bad, 1, NULL, NULL, NULL), MOIRE_EINVAL);
    }
    assert_int_equal(mo_inss_fit_beside(m, 0, runs, 0, NULL, NULL, NULL), MOIRE_EINVAL);
    assert_int_equal(mo_inss_fit_beside(m, MO_INSS_MODELS + 1, runs, 0, NULL, NULL, NULL), MOIRE_EINVAL);
    assert_int_equal(mo_inss_fit_beside(m, MODELS, runs, 0, NULL, NULL, NULL), MOIRE_OK);
    assert_true(m[0].alpha.cache == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sixteen_points_give_back_the_law_that_made_them),
        cmocka_unit_test(the_width_says_how_local_the_plane_is),
        cmocka_unit_test(odd_questions_get_an_answer),
        cmocka_unit_test(use_goes_with_throughput),
        cmocka_unit_test(neighbours_and_copies_add_up),
        cmocka_unit_test(copies_come_from_the_profile),
        cmocka_unit_test(equation_3_is_the_papers),
        cmocka_unit_test(the_mean_wait_is_that_of_known_queues),
        cmocka_unit_test(the_late_share_is_poissons),
        cmocka_unit_test(three_runs_give_back_the_coefficients),
        cmocka_unit_test(coefficients_are_never_negative),
        cmocka_unit_test(a_profile_without_what_the_grid_needs_is_refused),
        cmocka_unit_test(runs_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
