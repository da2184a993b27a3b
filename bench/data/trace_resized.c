/* SPDX-License-Identifier: Apache-2.0
 * trace_resized.c - blocks of a trace whose cores come and go.
 *
 * A block that was resized ran on several core counts, so it says nothing of the profile of one: neither it
 * nor its cores' parts are among the trace's blocks and spans.  Its cores are kept track of, for the starts
 * of what follows on them.  A block that ended without some of its cores (they were late) did so at
 * BLOCK_DONE: what these tell afterwards is of no block any more. */
#include "bench/data/trace_impl.h"

int mo_trace_resize(const struct mo_trace_reader *r, struct mo_trace_query *q, int64_t in, int64_t out) {
    if (in < 0 || in > r->t->cores || out < 0 || out > r->t->cores || in + out < 1)
        return mo_trace_fail(r, "a block that gains and loses cores, but no number that can be");
    q->resized = true;
    return MOIRE_OK;
}

int mo_trace_core(struct mo_trace_reader *r, uint64_t query, int64_t core, int64_t time, bool joins) {
    if (core < 0 || core >= r->t->cores) return mo_trace_fail(r, "a core that is not there joins or leaves");
    struct mo_trace_running *b = &r->running[core];
    *b = (struct mo_trace_running){joins ? query : 0, time, joins ? b->ended : time};
    return MOIRE_OK;
}

int mo_trace_done(struct mo_trace_reader *r, struct mo_trace_query *q, int64_t late, int64_t time) {
    if (late < 0 || late > r->t->cores)
        return mo_trace_fail(r, "a block that ends without a number of cores that cannot be");
    bool began = !q->decided && q->left > 0;
    if (began && !q->resized && time >= r->t->since) {
        q->block_end = time;
        mo_trace_note_block(r->t, q);
    }
    q->left = 0;
    q->resized = false;
    return MOIRE_OK;
}
