/* SPDX-License-Identifier: Apache-2.0
 * inss_waiting.c - what InSS's model says of waiting, against queues in virtual time; see inss_check.h. */
#include <math.h>
#include "bench/fit/inss_errors.h"
#include "bench/fit/inss_queue.h"

enum { QUERIES = 20000, SHARE = 500 };
static const double loads[] = {0.3, 0.5, 0.7, 0.8, 0.9};
static const int batches[] = {2, 8, 24}; /* none that the solo runs of the default grid hold */
enum { LOADS = sizeof loads / sizeof *loads, BATCHES = sizeof batches / sizeof *batches };

/* One queue: the mean latency of its queries with the measured batch against the model's own, and each query
 * against equation 3 with the model's own. */
static int one_queue(struct mo_inss_test *t, int m, int batch, double load, struct mo_inss_query *query,
                     struct mo_inss_errors *mean, struct mo_inss_errors *each, moire_error *err) {
    double ms = (double)mo_share_latency(t->pairs->model[m].table.profile, batch, SHARE) * 1e-6;
    double predicted = mo_inss_alone_ms(&t->model[m], batch, SHARE), sum = 0;
    const struct mo_inss_queue queue = {batch, load * batch / ms * 1e3, ms, QUERIES, t->o->seed};
    int code = mo_inss_queue_run(t->pairs->env, &queue, query, err);
    for (int i = 0; !code && i < QUERIES; i++) {
        sum += query[i].latency_ms / QUERIES;
        double task = mo_inss_task_ms(batch, query[i].waiting, queue.rate, query[i].left_ms, predicted);
        mo_inss_count(each, task, query[i].latency_ms);
    }
    if (!code) mo_inss_count(mean, mo_inss_mean_ms(batch, queue.rate, predicted), sum);
    return code;
}

int mo_inss_test_queue(struct mo_inss_test *t, moire_error *err) {
    struct mo_inss_query *query = mo_alloc(t->pairs->env, QUERIES * sizeof *query);
    int code = query ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d queries", QUERIES);
    for (int m = 0; !code && m < t->pairs->n_models; m++) {
        const char *name = t->pairs->model[m].name;
        struct mo_inss_errors mean = {0}, each = {0};
        for (int i = 0; !code && i < BATCHES * LOADS; i++)
            if (batches[i / LOADS] <= t->pairs->model[m].table.profile->max_batch)
                code = one_queue(t, m, batches[i / LOADS], loads[i % LOADS], query, &mean, &each, err);
        if (!code) code = mo_inss_add_row(t, name, "queue", "inss", &mean, NULL, err);
        if (!code) code = mo_inss_add_row(t, name, "equation 3", "inss", &each, NULL, err);
    }
    mo_free(t->pairs->env, query);
    return code;
}
