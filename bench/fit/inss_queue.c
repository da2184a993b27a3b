/* SPDX-License-Identifier: Apache-2.0
 * inss_queue.c - arrivals first, then batch after batch; see inss_queue.h.
 *
 * Invariants: batch k holds the arrivals [k batch, (k + 1) batch) and starts at the later of its last arrival
 * and the end of batch k - 1.  What a query meets follows from the starts of earlier batches only. */
#include "bench/fit/inss_queue.h"

#include <math.h>
#include "bench/data/process.h"

/* Which batches had started when query i came: the first that had not. */
static int first_waiting(const double *start, int from, int n, double now) {
    while (from < n && start[from] <= now)
        from++;
    return from;
}

static void serve(const struct mo_inss_queue *q, const double *came, double *start, int n_batches, int skip,
                  struct mo_inss_query *out) {
    double end = 0;
    for (int k = 0; k < n_batches; k++) {
        start[k] = fmax(came[(k + 1) * q->batch - 1], end);
        end = start[k] + q->batch_ms;
    }
    for (int i = skip, at = 0; i < skip + q->queries; i++) {
        /* the batch that this query fills may start with it; it has still to be waited for as equation 3 has
         * it */
        at = first_waiting(start, at, n_batches, came[i]);
        int before = at > i / q->batch ? i / q->batch : at;
        double left = before ? start[before - 1] + q->batch_ms - came[i] : 0;
        out[i - skip] = (struct mo_inss_query){.waiting = i + 1 - before * q->batch,
                                               .left_ms = fmax(left, 0),
                                               .latency_ms = start[i / q->batch] + q->batch_ms - came[i]};
    }
}

int mo_inss_queue_run(const struct mo_env *env, const struct mo_inss_queue *q, struct mo_inss_query *out,
                      moire_error *err) {
    const int most = 1 << 24;
    if (q->batch < 1 || q->queries < 1 || q->queries > most || !(q->rate > 0) || !(q->batch_ms > 0) ||
        !(q->rate * q->batch_ms < 1e3 * q->batch))
        return mo_fail(err, MOIRE_EINVAL, "a queue of batches of %d, %g ms each, cannot hold %g queries/s",
                       q->batch, q->batch_ms, q->rate);
    int skip = q->queries / 10, n_batches = (skip + q->queries) / q->batch + 1, n = n_batches * q->batch;
    double *came = mo_alloc(env, (size_t)n * sizeof *came), now = 0;
    double *start = mo_alloc(env, (size_t)n_batches * sizeof *start);
    struct mo_rng rng;
    mo_rng_seed(&rng, q->seed, 0);
    for (int i = 0; came && i < n; i++)
        came[i] = now += -log(1 - mo_rng_uniform(&rng)) * 1e3 / q->rate;
    if (came && start) serve(q, came, start, n_batches, skip, out);
    int code = came && start ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory for %d queries", n);
    mo_free(env, came);
    mo_free(env, start);
    return code;
}
