/* SPDX-License-Identifier: Apache-2.0
 * recent_blocks.c - moire_recent_blocks(): what cores have worked on lately (runtime/engine/recent.h). */
#include "runtime/engine/engine_cores.h"
#include "runtime/serve/runtime.h"

static void put(moire_block_row *rows, int room, int *n, int core, const struct mo_recent_block *b) {
    if (*n < room)
        rows[*n] = (moire_block_row){.tenant = b->owner,
                                     .core = core,
                                     .first_layer = b->first,
                                     .end_layer = b->stop,
                                     .start_ns = b->start,
                                     .end_ns = b->end};
    ++*n;
}

int moire_recent_blocks(moire_runtime *rt, int64_t since_ns, moire_block_row *rows, int room, int *n,
                        moire_error *err) {
    if (!rt || !n || room < 0 || (room && !rows))
        return mo_fail(err, MOIRE_EINVAL,
                       "moire_recent_blocks: runtime, n and room for the rows must be given");
    int rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    *n = 0;
    struct mo_recent *recent = mo_engine_cores_recent(rt->cores);
    struct mo_recent_block *blocks = mo_alloc(&rt->env, MO_RECENT_BLOCKS * sizeof *blocks);
    if (!blocks || mo_recent_watch(recent)) {
        mo_free(&rt->env, blocks);
        return mo_fail(err, MOIRE_ENOMEM, "moire_recent_blocks: out of memory");
    }
    for (int core = 0; core < recent->n_cores; core++) {
        const int found = mo_recent_read(recent, core, since_ns, blocks);
        for (int i = 0; i < found; i++)
            put(rows, room, n, core, &blocks[i]);
    }
    mo_free(&rt->env, blocks);
    return MOIRE_OK;
}
