/* SPDX-License-Identifier: Apache-2.0
 * inss_waiting.c - what InSS's model says of waiting, against queues in virtual time; see inss_check.h. */
#include <math.h>
#include "bench/fit/inss_errors.h"
#include "bench/fit/inss_queue.h"

enum { QUERIES = 20000, SHARE = 500 };
/* No batch that the solo runs of the default grid hold, and on no share of theirs. */
static const int batches[] = {2, 8, 24};
static const double loads[] = {0.3, 0.5, 0.7, 0.8, 0.9};
enum { LOADS = sizeof loads / sizeof *loads, BATCHES = sizeof batches / sizeof *batches };
static const double high = 0.75; /* above, an error of the batch's time counts several times */

enum { LOW, HIGH, WAITING, EACH, CASES };
static const char *const cases[CASES] = {"queue, load 30 to 70 %", "queue, load 80 and 90 %", "waiting",
                                         "equation 3"};

/* One queue: the mean latency of its queries with the measured batch against the model's own, and each query
 * against equation 3 with the model's own. */
static int one_queue(struct mo_inss_test *t, int m, int batch, double load, struct mo_inss_query *query,
                     struct mo_inss_errors out[CASES], moire_error *err) {
    double ms = (double)mo_share_latency(t->pairs->model[m].table.profile, batch, SHARE) * 1e-6;
    double predicted = mo_inss_alone_ms(&t->model[m], batch, SHARE), sum = 0;
    const struct mo_inss_queue queue = {batch, load * batch / ms * 1e3, ms, QUERIES, t->o->seed};
    int code = mo_inss_queue_run(t->pairs->env, &queue, query, err);
    if (code) return code;
    for (int i = 0; i < QUERIES; i++) {
        sum += query[i].latency_ms / QUERIES;
        double task = mo_inss_task_ms(batch, query[i].waiting, queue.rate, query[i].left_ms, predicted);
        mo_inss_count(&out[EACH], task, query[i].latency_ms);
    }
    double mean = mo_inss_mean_ms(batch, queue.rate, predicted);
    if (isfinite(mean)) mo_inss_count(&out[load < high ? LOW : HIGH], mean, sum);
    mo_inss_count(&out[WAITING], mo_inss_mean_ms(batch, queue.rate, ms), sum);
    return MOIRE_OK;
}

int mo_inss_test_queue(struct mo_inss_test *t, moire_error *err) {
    const struct mo_env *env = t->pairs->env;
    struct mo_inss_query *query = mo_alloc(env, QUERIES * sizeof *query);
    struct mo_inss_errors(*found)[CASES] = mo_alloc(env, (size_t)t->pairs->n_models * sizeof *found);
    int code = query && found ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for queues");
    for (int m = 0; !code && m < t->pairs->n_models; m++)
        for (int i = 0; !code && i < BATCHES * LOADS; i++)
            if (batches[i / LOADS] <= t->pairs->model[m].table.profile->max_batch)
                code = one_queue(t, m, batches[i / LOADS], loads[i % LOADS], query, found[m], err);
    for (int k = 0; k < CASES; k++)
        for (int m = 0; !code && m < t->pairs->n_models; m++)
            code = mo_inss_add_row(t, t->pairs->model[m].name, cases[k], "inss", &found[m][k], NULL, err);
    mo_free(env, found);
    mo_free(env, query);
    return code;
}
