/* SPDX-License-Identifier: Apache-2.0
 * test_inss_check.c - the test of InSS's latency model on the pairs of a V100, what it may be fitted to, and
 * the queue in virtual time that its waiting is held against. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "bench/fit/inss_errors.h"
#include "bench/fit/inss_queue.h"
#include "runtime/base/output.h"

#define V100 "bench/gpus/v100/pairs.csv"

static const struct mo_env *the_env(void) {
    static struct mo_env env;
    if (!env.sys) env = mo_env_default();
    return &env;
}

static void load(struct mo_pairs *p) {
    moire_error err = {0};
    if (mo_pairs_load(the_env(), V100, p, &err)) fail_msg("%s", err.message);
}

/* What the document says of all models in a case: how many, the worst mean. */
static int worst_mean(const json_t *d, const char *what, const char *predictor, double *worst) {
    const json_t *row;
    size_t i;
    int n = 0;
    *worst = 0;
    json_array_foreach(json_object_get(d, "latency_model"), i, row) {
        if (strcmp(mo_json_text(row, "case"), what) || strcmp(mo_json_text(row, "predictor"), predictor))
            continue;
        assert_true(mo_json_number(row, "mean_error_pct") <= mo_json_number(row, "max_error_pct"));
        assert_true(json_is_true(json_object_get(row, "held_out")) == !strchr(predictor, ','));
        if (!strcmp(what, "solo")) assert_int_equal(mo_json_number(row, "n"), 5 * 32 + 2 * 3 - 16);
        *worst = fmax(*worst, mo_json_number(row, "mean_error_pct"));
        n++;
    }
    return n;
}

static void a_v100_is_predicted_within_the_papers_claim(void **state) {
    (void)state;
    struct mo_pairs p;
    json_t *d = NULL, *again = NULL;
    moire_error err = {0};
    double worst, other;
    const struct mo_inss_options o = {1, 2, mo_inss_grid()};
    load(&p);
    if (mo_inss_document(&p, &o, &d, &err)) fail_msg("%s", err.message);
    assert_int_equal(worst_mean(d, "solo", "inss", &worst), 4);
    assert_true(worst < 5);
    assert_int_equal(worst_mean(d, "solo", "inss as printed", &other), 4);
    assert_true(other > worst);
    assert_int_equal(worst_mean(d, "beside one", "inss", &worst), 4);
    assert_true(worst < 5);
    assert_int_equal(worst_mean(d, "beside one", "none", &other), 4);
    assert_true(other > 2 * worst);
    assert_int_equal(worst_mean(d, "beside one", "gpu-let", &other), 4);
    assert_int_equal(worst_mean(d, "beside a model never seen", "inss", &other), 4);
    assert_int_equal(worst_mean(d, "beside four", MO_INSS_MODEL_ONLY, &other), 4);
    assert_int_equal(worst_mean(d, "waiting", "inss", &other), 4);
    assert_true(other < 5);
    assert_true(json_array_size(json_object_get(d, "points")) > 40);
    assert_int_equal(mo_inss_document(&p, &o, &again, &err), MOIRE_OK);
    assert_true(json_equal(d, again));
    json_decref(again);
    json_decref(d);
    mo_pairs_free(&p);
}

/* Times of the tested half are never looked at: with others, the fitted models stay. */
static void the_tested_half_does_not_touch_the_fit(void **state) {
    (void)state;
    struct mo_pairs p;
    json_t *d = NULL, *other = NULL;
    const struct mo_inss_options o = {7, 1, mo_inss_grid()};
    load(&p);
    bool *chosen = calloc((size_t)p.n / 2, sizeof *chosen);
    assert_non_null(chosen);
    assert_int_equal(mo_inss_document(&p, &o, &d, NULL), MOIRE_OK);
    mo_pairs_split(&p, o.seed, chosen);
    for (int i = 0; i < p.n; i++)
        if (!chosen[i / 2]) p.side[i].us *= 3;
    assert_int_equal(mo_inss_document(&p, &o, &other, NULL), MOIRE_OK);
    assert_true(json_equal(json_object_get(d, "models"), json_object_get(other, "models")));
    assert_false(json_equal(json_object_get(d, "latency_model"), json_object_get(other, "latency_model")));
    for (int i = 0; i < p.n; i++)
        if (chosen[i / 2]) p.side[i].us *= 3;
    json_decref(other);
    assert_int_equal(mo_inss_document(&p, &o, &other, NULL), MOIRE_OK);
    assert_false(json_equal(json_object_get(d, "models"), json_object_get(other, "models")));
    json_decref(other);
    json_decref(d);
    free(chosen);
    mo_pairs_free(&p);
}

static void runs_are_chosen_by_what_is_run(void **state) {
    (void)state;
    struct mo_pairs p;
    int at[MO_INSS_RUNS];
    load(&p);
    bool *chosen = calloc((size_t)p.n / 2, sizeof *chosen);
    assert_non_null(chosen);
    for (int m = 0; m < p.n_models; m++) {
        unsigned seen = 0;
        assert_int_equal(mo_inss_pick_runs(&p, NULL, true, m, -1, at), MO_INSS_RUNS);
        for (int i = 0; i < MO_INSS_RUNS; i++) { /* the measured centre, once beside each of the others */
            const struct mo_pair_side *self = &p.side[at[i]], *other = &p.side[at[i] ^ 1];
            assert_true(self->model == m && self->batch == 8 && self->share == 500);
            assert_true(other->batch == 8 && other->share == 500 && !(seen >> other->model & 1));
            seen |= 1u << other->model;
        }
        mo_pairs_split(&p, 3, chosen);
        int without = (m + 1) % p.n_models;
        assert_int_equal(mo_inss_pick_runs(&p, chosen, true, m, without, at), MO_INSS_RUNS);
        for (int i = 0; i < MO_INSS_RUNS; i++) {
            assert_true(chosen[at[i] / 2] && p.side[at[i]].model == m && p.side[at[i] ^ 1].model != without);
            for (int k = 0; k < i; k++)
                assert_int_not_equal(at[i], at[k]);
        }
    }
    memset(chosen, 0, (size_t)p.n / 2);
    assert_int_equal(mo_inss_pick_runs(&p, chosen, true, 0, -1, at), 0);
    free(chosen);
    mo_pairs_free(&p);
}

/* Two models with these profiles and n equal pairs of them; the error of the document. */
static void document_of(const char *profile, int n, moire_error *err) {
    char folder[] = "/tmp/moire-inss-XXXXXX", path[2][80], pairs[80], *text = NULL;
    static const char *const names[] = {"one", "two"};
    const struct mo_inss_options o = {1, 1, mo_inss_grid()};
    size_t bytes;
    json_t *d = NULL;
    struct mo_pairs p;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s.csv", folder, names[i]);
        assert_int_equal(mo_output_write(the_env(), path[i], profile, strlen(profile), NULL), MOIRE_OK);
    }
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    fputs("# moire-pairs 1\na,b,batch_a,batch_b,share_a,share_b,us_a,us_b\n", f);
    for (int i = 0; i < n; i++)
        fputs("one,two,1,1,200,800,60,30\n", f);
    fclose(f);
    snprintf(pairs, sizeof pairs, "%s/pairs.csv", folder);
    if (mo_pairs_parse(the_env(), pairs, text, bytes, &p, err)) fail_msg("%s", err->message);
    assert_int_equal(mo_inss_document(&p, &o, &d, err), MOIRE_EINVAL);
    assert_null(d);
    mo_pairs_free(&p);
    free(text);
    for (int i = 0; i < 2; i++)
        assert_int_equal(remove(path[i]), 0);
    assert_int_equal(remove(folder), 0);
}

static void a_profile_that_lacks_something_is_named(void **state) {
    (void)state;
    moire_error err = {0};
    document_of("# moire-profile 1\nbatch,what,200,800\n1,us,40,20\n1,l2,5,10\n", 20, &err);
    assert_non_null(strstr(err.message, "one.csv"));
    assert_non_null(strstr(err.message, "no batch 4"));
    document_of("# moire-profile 1\nbatch,what,200,800\n1,us,40,20\n1,l2,5,10\n", 3, &err);
    assert_non_null(strstr(err.message, "3 pairs are too few"));
}

/* --- queues --------------------------------------------------------------------------------------------- */
enum { QUERIES = 50000 };

static void queues_agree_with_theory(void **state) {
    (void)state;
    struct mo_inss_query *q = calloc(QUERIES, sizeof *q);
    assert_non_null(q);
    for (int batch = 1; batch <= 16; batch *= 4)
        for (int k = 0; k < 3; k++) { /* loads 0.30, 0.55 and 0.80 */
            const double load = 0.3 + 0.25 * k;
            const double ms = 4;
            const struct mo_inss_queue queue = {batch, load * batch / ms * 1e3, ms, QUERIES, 11};
            const double limit = 3 * ms + batch / queue.rate * 1e3 / 2;
            double mean = 0, late = 0;
            assert_int_equal(mo_inss_queue_run(the_env(), &queue, q, NULL), MOIRE_OK);
            for (int i = 0; i < QUERIES; i++) {
                assert_true(q[i].latency_ms > ms - 1e-6 && q[i].left_ms >= 0 && q[i].left_ms < ms + 1e-6);
                assert_true(q[i].waiting >= 1);
                mean += q[i].latency_ms / QUERIES;
                late += (q[i].latency_ms > limit) / (double)QUERIES;
            }
            if (fabs(mo_inss_mean_ms(batch, queue.rate, ms) / mean - 1) > 0.1)
                fail_msg("batch %d, load %g: %g, not %g", batch, load, mo_inss_mean_ms(batch, queue.rate, ms),
                         mean);
            if (fabs(mo_inss_late(batch, queue.rate, ms, limit) - late) > 0.06)
                fail_msg("batch %d, load %g: %g late, not %g", batch, load,
                         mo_inss_late(batch, queue.rate, ms, limit), late);
        }
    free(q);
}

static void queues_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct mo_inss_queue bad[] = {{0, 100, 1, 10, 1},  {1, 0, 1, 10, 1},  {1, 100, 0, 10, 1},
                                               {4, 4000, 1, 10, 1}, {1, 100, 1, 0, 1}, {1, NAN, 1, 10, 1}};
    struct mo_inss_query q[10];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mo_inss_queue_run(the_env(), &bad[i], q, NULL), MOIRE_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_v100_is_predicted_within_the_papers_claim),
        cmocka_unit_test(the_tested_half_does_not_touch_the_fit),
        cmocka_unit_test(runs_are_chosen_by_what_is_run),
        cmocka_unit_test(a_profile_that_lacks_something_is_named),
        cmocka_unit_test(queues_agree_with_theory),
        cmocka_unit_test(queues_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
