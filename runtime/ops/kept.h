/* SPDX-License-Identifier: Apache-2.0
 * kept.h - operators whose output shape takes all of their work: `infer` keeps what it has found for `run`,
 * where a caller asks for both with the same operands (struct mo_op_ctx.kept). */
#ifndef MO_OPS_KEPT_H
#define MO_OPS_KEPT_H
#include "runtime/ops/util.h"

/* A list of numbers that grows, up to the limit tensor_bytes. */
struct mo_number_list {
    int64_t *at; /* memory of mo_alloc() */
    int64_t n, room;
};

/* 0 or an error; the list is to be freed in any case. */
int mo_number_list_add(const struct mo_op_ctx *ctx, struct mo_number_list *list, const int64_t *from,
                       int64_t n);
/* In infer: `work`, memory of mo_alloc(), is for run where that follows, else freed. */
void mo_keep_work(const struct mo_op_ctx *ctx, void *work);
/* In run: what infer has kept, now the caller's to free; NULL: nothing, it has to be done again. */
void *mo_kept_work(const struct mo_op_ctx *ctx);
#endif
