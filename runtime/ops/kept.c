/* SPDX-License-Identifier: Apache-2.0
 * kept.c - see kept.h. */
#include "runtime/ops/kept.h"

#include <string.h>

enum { LEAST = 64 };

/* Twice as much each time, so that an element is copied twice at most. */
static int grow(const struct mo_op_ctx *ctx, struct mo_number_list *list, int64_t n) {
    int64_t room = 2 * list->room > LEAST ? 2 * list->room : LEAST;
    if (room < list->n + n) room = list->n + n;
    if ((list->n + n) * (int64_t)sizeof *list->at > ctx->env->limits.tensor_bytes)
        return mo_op_fail(ctx, MOIRE_ELIMIT, "its output is larger than the limit tensor_bytes");
    int64_t *at = mo_scratch(ctx, room, sizeof *at);
    if (!at) return MOIRE_ENOMEM;
    if (list->at) memcpy(at, list->at, (size_t)list->n * sizeof *at);
    mo_free(ctx->env, list->at);
    list->at = at;
    list->room = room;
    return MOIRE_OK;
}

int mo_number_list_add(const struct mo_op_ctx *ctx, struct mo_number_list *list, const int64_t *from,
                       int64_t n) {
    int rc = n > list->room - list->n || !list->at ? grow(ctx, list, n) : MOIRE_OK;
    if (rc || !list->at) return rc;
    if (n) memcpy(list->at + list->n, from, (size_t)n * sizeof *from);
    list->n += n;
    return MOIRE_OK;
}

void mo_keep_work(const struct mo_op_ctx *ctx, void *work) {
    if (ctx->kept)
        *ctx->kept = work;
    else
        mo_free(ctx->env, work);
}

void *mo_kept_work(const struct mo_op_ctx *ctx) {
    void *work = ctx->kept ? *ctx->kept : NULL;
    if (work) *ctx->kept = NULL;
    return work;
}
