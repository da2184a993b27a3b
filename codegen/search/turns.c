/* SPDX-License-Identifier: Apache-2.0
 * turns.c - which candidates of which layers come next.
 *
 * A turn of a layer takes its next few candidates; turns come in chunks, which are compiled together. Without
 * a budget a layer has one turn, with all its candidates.  With a budget every layer has a first turn before
 * any has a second, the largest share of the predicted time first; after that the next turn is the one that
 * promises to save most of the models' time for each second it takes. */
#include <string.h>
#include "codegen/search/search_impl.h"

enum { FIRST_TURN = 2, LATER_TURN = 4, CHUNK = 32, BUDGET_CHUNK = 12 };
static const double FIRST_TURN_S = 1; /* a turn of FIRST_TURN candidates, roughly */

bool mo_job_wants_more(const struct mo_search *s, const struct search_job *job) {
    return job->next < job->n && (job->result.state != MO_LAYER_REUSED || s->options.refine);
}

int mo_jobs_by_share(const void *a, const void *b) {
    const struct search_job *x = *(struct search_job *const *)a, *y = *(struct search_job *const *)b;
    double p = x->n ? x->candidate[0].point.cost_ns * x->result.uses : 0;
    double q = y->n ? y->candidate[0].point.cost_ns * y->result.uses : 0;
    if (p != q) return p < q ? 1 : -1;
    return strcmp(x->result.signature, y->result.signature);
}

int mo_first_turn(const struct mo_search *s, int pending) {
    if (mo_search_versions(s) || s->options.budget_s <= 0) return MO_TURN_MOST;
    return s->options.budget_s > FIRST_TURN_S * pending ? FIRST_TURN : 1;
}

static int later_turn(const struct mo_search *s) {
    return s->options.budget_s > 0 ? LATER_TURN : MO_TURN_MOST;
}

int mo_turns_left(const struct mo_search *s, int first) {
    int turns = 0, later = later_turn(s);
    for (int i = 0; i < s->n; i++) {
        const struct search_job *job = s->jobs[i];
        if (!mo_job_wants_more(s, job)) continue;
        int left = job->n - job->next;
        if (job->next == 0) {
            turns++;
            left -= first;
        }
        if (left > 0) turns += (left + later - 1) / later;
    }
    return turns;
}

int mo_candidates_left(const struct mo_search *s, double *work) {
    int n = 0;
    *work = 0;
    for (int i = 0; i < s->n; i++) {
        const struct search_job *job = s->jobs[i];
        if (!mo_job_wants_more(s, job)) continue;
        n += job->n - job->next;
        for (int k = job->next; k < job->n; k++)
            *work += mo_effort_work(job->candidate[k].point.cost_ns);
    }
    return n;
}

/* Nanoseconds that a second of further search is expected to save: over many layers the best of the first k
 * candidates is some three per cent, divided by k, slower than the best of all. */
static double expected_saving(const struct search_job *job) {
    double k = job->next, seconds = job->spent_s > 0 ? LATER_TURN * job->spent_s / k : 1;
    return (1 / k - 1 / (k + LATER_TURN)) * job->result.min_ns * job->result.uses / seconds;
}

/* Of jobs that are both waiting, in order of share. */
static bool comes_before(const struct search_job *a, const struct search_job *b) {
    if (!a->next || !b->next) return !a->next && b->next;
    return expected_saving(a) > expected_saving(b);
}

static struct search_job *next_job(const struct mo_search *s, const struct mo_chunk *chunk) {
    struct search_job *next = NULL;
    for (int i = 0; i < s->n; i++) {
        bool taken = false;
        for (int k = 0; k < chunk->jobs; k++)
            taken |= chunk->job[k] == s->jobs[i];
        if (taken || !mo_job_wants_more(s, s->jobs[i])) continue;
        if (!next || comes_before(s->jobs[i], next)) next = s->jobs[i];
    }
    return next;
}

bool mo_next_chunk(const struct mo_search *s, int first, struct mo_chunk *chunk) {
    int cap = s->options.budget_s > 0 ? BUDGET_CHUNK : CHUNK; /* small ones end nearer to the budget */
    if (s->chunk_most && s->chunk_most < cap) cap = s->chunk_most;
    chunk->jobs = chunk->n = 0;
    while (chunk->n < cap) {
        struct search_job *job = next_job(s, chunk);
        if (!job) break;
        int turn = job->next ? later_turn(s) : first, left = job->n - job->next;
        if (turn > left) turn = left;
        chunk->turn[chunk->jobs] = turn;
        chunk->job[chunk->jobs++] = job;
        for (; turn > 0; turn--) {
            chunk->candidate[chunk->n] = &job->candidate[job->next++];
            chunk->of[chunk->n++] = job;
        }
    }
    return chunk->jobs > 0;
}
