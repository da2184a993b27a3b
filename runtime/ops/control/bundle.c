/* SPDX-License-Identifier: Apache-2.0
 * bundle.c - see bundle.h. */
#include "runtime/ops/control/bundle.h"

#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/ops/control/body.h"

enum { ALIGN = 64, MAGIC = 0x4d42 };

struct head {
    int32_t magic, kind, type, spare;
    int64_t n, spare2;
};

struct entry {
    int64_t dtype, rank, d[MOIRE_MAX_RANK], offset;
};

/* The head; NULL: these bytes are no bundle. */
static const struct head *head_of(const struct mo_value *v) {
    const struct head *h = v->data;
    if (v->dtype != MO_BUNDLE || !h || v->shape.rank != 1 || v->shape.d[0] < (int64_t)sizeof *h) return NULL;
    const int64_t most = (v->shape.d[0] - (int64_t)sizeof *h) / (int64_t)sizeof(struct entry);
    return h->magic == MAGIC && h->n >= 0 && h->n <= most ? h : NULL;
}

int64_t mo_bundle_count(const struct mo_value *v, enum mo_bundle_kind kind) {
    const struct head *h = head_of(v);
    return h && h->kind == (int32_t)kind ? h->n : -1;
}

moire_dtype mo_bundle_type(const struct mo_value *v) {
    const struct head *h = head_of(v);
    return h ? (moire_dtype)h->type : MOIRE_NONE;
}

struct mo_value mo_bundle_at(const struct mo_value *v, int64_t i) {
    const struct entry *e = (const struct entry *)((const struct head *)v->data + 1) + i;
    struct mo_value item = {.dtype = (moire_dtype)e->dtype, .shape = {.rank = (int)e->rank}};
    memcpy(item.shape.d, e->d, sizeof item.shape.d);
    item.data = (char *)v->data + e->offset;
    return item;
}

/* Bytes of the whole; -1: too many. */
static int64_t bytes_of(const struct mo_value *items, int64_t n) {
    int64_t all;
    if (__builtin_mul_overflow(n, (int64_t)sizeof(struct entry), &all)) return -1;
    all = mo_round_up(all + (int64_t)sizeof(struct head), ALIGN);
    for (int64_t i = 0; i < n; i++) {
        const int64_t bytes = mo_value_bytes(&items[i]);
        if (bytes < 0 || bytes > INT64_MAX - ALIGN ||
            __builtin_add_overflow(all, mo_round_up(bytes, ALIGN), &all))
            return -1;
    }
    return all;
}

int mo_bundle_make(const struct mo_env *env, enum mo_bundle_kind kind, moire_dtype type,
                   const struct mo_value *items, int64_t n, struct mo_value *out, moire_error *err) {
    const int64_t all = bytes_of(items, n);
    *out = (struct mo_value){.dtype = MO_BUNDLE, .shape = {.rank = 1, .d = {all}}};
    if (all < 0 || all > env->limits.tensor_bytes)
        return mo_fail(err, MOIRE_ELIMIT, "a sequence is over the limit tensor_bytes");
    out->data = mo_alloc(env, (size_t)all);
    if (!out->data) return mo_fail(err, MOIRE_ENOMEM, "out of memory for a sequence");
    struct head *h = out->data;
    struct entry *e = (struct entry *)(h + 1);
    *h = (struct head){.magic = MAGIC, .kind = (int32_t)kind, .type = (int32_t)type, .n = n};
    int64_t at = mo_round_up((int64_t)sizeof *h + n * (int64_t)sizeof *e, ALIGN);
    for (int64_t i = 0; i < n; i++) {
        const int64_t bytes = mo_value_bytes(&items[i]);
        e[i] = (struct entry){.dtype = items[i].dtype, .rank = items[i].shape.rank, .offset = at};
        memcpy(e[i].d, items[i].shape.d, sizeof e[i].d);
        if (bytes) memcpy((char *)out->data + at, items[i].data, (size_t)bytes);
        at += mo_round_up(bytes, ALIGN);
    }
    return MOIRE_OK;
}
