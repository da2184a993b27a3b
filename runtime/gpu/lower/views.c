/* SPDX-License-Identifier: Apache-2.0
 * views.c - where tensors lie: strided views of buffers, and the plan of the arena. */
#include <stdlib.h>
#include <string.h>
#include "runtime/base/numbers.h"
#include "runtime/gpu/lower/lower.h"

const int *mo_gpu_channels_last(int rank) {
    static const int orders[][5] = {{0, 2, 1}, {0, 2, 3, 1}, {0, 2, 3, 4, 1}};
    return rank >= 3 && rank <= 5 ? orders[rank - 3] : NULL;
}

static struct mo_gpu_view nothing(void) {
    return (struct mo_gpu_view){.rank = -1};
}

int64_t mo_gpu_count(const struct mo_gpu_view *v) {
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++)
        n *= v->d[i];
    return n;
}

struct mo_gpu_view mo_lower_new(struct mo_lower *l, moire_dtype dtype, int rank, const int64_t *d,
                                const int *order) {
    struct mo_gpu_view v = {.place = {.space = MO_GPU_ARENA, .index = l->n_buffers}, .dtype = dtype};
    if (!mo_lower_grow(l, &l->buffers, l->n_buffers, &l->cap_buffers, sizeof *l->buffers)) return nothing();
    int64_t stride = 1;
    v.rank = rank;
    for (int k = rank - 1; k >= 0; k--) {
        int i = order ? order[k] : k;
        v.d[i] = d[i];
        v.stride[i] = stride;
        stride *= d[i];
    }
    if (stride < 1) {
        mo_lower_fail(l, MOIRE_EUNSUPPORTED, "a tensor without elements is not supported on a GPU");
        return nothing();
    }
    l->buffers[l->n_buffers++] =
        (struct mo_gpu_buffer){.bytes = mo_round_up(stride * (int64_t)mo_dtype_bytes(dtype), MO_GPU_ALIGN),
                               .first = l->program->n_ops,
                               .last = -1};
    return v;
}

moire_dtype mo_lower_dtype(const struct mo_lower *l, moire_dtype dtype) {
    return dtype == MOIRE_F32 ? l->storage : dtype;
}

bool mo_lower_has(const struct mo_lower *l, int k) {
    return k < l->node->n_in && l->node->in[k] >= 0 && k != l->node->fuse.residual;
}

struct mo_gpu_view mo_lower_in(struct mo_lower *l, int k) {
    if (l->rc) return nothing();
    int id = k < l->node->n_in ? l->node->in[k] : -1;
    if (id < 0) {
        mo_lower_fail(l, MOIRE_EINVAL, "input %d is required", k);
        return nothing();
    }
    const struct mo_tensor *t = l->graph->tensors[id];
    if (t->data) return mo_lower_weight(l, id, MO_FORM_AS_IS, t->dtype);
    if (l->views[id].rank < 0) mo_lower_fail(l, MOIRE_EINTERNAL, "input %d was not computed", k);
    return l->views[id];
}

struct mo_gpu_view mo_lower_stored(struct mo_lower *l, int k) {
    const bool constant =
        !l->rc && k < l->node->n_in && l->node->in[k] >= 0 && l->graph->tensors[l->node->in[k]]->data;
    return constant ? mo_lower_weight(l, l->node->in[k], MO_FORM_AS_IS, l->storage) : mo_lower_in(l, k);
}

struct mo_gpu_place mo_lower_bias(struct mo_lower *l) {
    if (!mo_lower_has(l, 2)) return (struct mo_gpu_place){MO_GPU_NONE, 0, 0};
    return mo_lower_ordered(l, mo_lower_stored(l, 2), NULL, l->storage).place;
}

struct mo_op_ctx mo_lower_ctx(const struct mo_lower *l, struct mo_value *in, int cap) {
    const struct mo_node *node = l->node;
    struct mo_op_ctx ctx = {
        .node = node, .env = l->env, .err = l->err, .in = in, .n_in = node->n_in < cap ? node->n_in : cap};
    for (int i = 0; i < ctx.n_in; i++)
        in[i] = node->in[i] >= 0 ? mo_tensor_value(l->graph->tensors[node->in[i]])
                                 : (struct mo_value){.dtype = MOIRE_NONE};
    return ctx;
}

struct mo_gpu_view mo_lower_out(struct mo_lower *l, int k, const int *order) {
    const struct mo_tensor *t = l->graph->tensors[l->node->out[k]];
    struct mo_gpu_view v = mo_lower_new(l, mo_lower_dtype(l, t->dtype), t->shape.rank, t->shape.d, order);
    mo_lower_set(l, k, v);
    return v;
}

void mo_lower_set(struct mo_lower *l, int k, struct mo_gpu_view view) {
    if (!l->rc) l->views[l->node->out[k]] = view;
}

/* Walks both shapes from the end; a group of new dimensions must fall into a run of old ones that is dense in
 * itself. */
bool mo_gpu_reshape(const struct mo_gpu_view *v, int rank, const int64_t *d, struct mo_gpu_view *out) {
    int i = v->rank - 1, k = rank - 1;
    *out = *v;
    out->rank = rank;
    memcpy(out->d, d, (size_t)rank * sizeof *d);
    for (; i >= 0 || k >= 0;) {
        int64_t old = 1, new = 1, run = 0, stride = 1;
        bool any = false;
        int from = k;
        do {
            if (old <= new &&i >= 0) {
                if (v->d[i] != 1) {
                    if (any && v->stride[i] != run) return false;
                    if (!any) stride = v->stride[i];
                    any = true;
                    run = v->stride[i] * v->d[i];
                }
                old *= v->d[i--];
            } else if (k >= 0) {
                new *= d[k--];
            } else {
                return false;
            }
        } while (old != new);
        for (int m = from; m > k; m--) {
            out->stride[m] = stride;
            stride *= d[m];
        }
    }
    return true;
}

struct mo_gpu_view mo_gpu_broadcast(const struct mo_gpu_view *v, int rank, const int64_t *d) {
    struct mo_gpu_view out = *v;
    out.rank = rank;
    for (int i = rank - 1, k = v->rank - 1; i >= 0; i--, k--) {
        out.d[i] = d[i];
        out.stride[i] = k < 0 || v->d[k] == 1 ? 0 : v->stride[k];
    }
    return out;
}

struct mo_gpu_view mo_gpu_by_channel(struct mo_gpu_view v, int rank) {
    for (int k = 1; k < rank - 1; k++) {
        v.d[k] = 1;
        v.stride[k] = 0;
        v.rank = k + 1;
    }
    return v;
}

struct mo_gpu_view mo_gpu_permute(const struct mo_gpu_view *v, const int *perm) {
    struct mo_gpu_view out = *v;
    for (int i = 0; i < v->rank; i++) {
        out.d[i] = v->d[perm[i]];
        out.stride[i] = v->stride[perm[i]];
    }
    return out;
}

struct mo_gpu_view mo_gpu_slice(const struct mo_gpu_view *v, int axis, int64_t start, int64_t n,
                                int64_t step) {
    struct mo_gpu_view out = *v;
    out.place.offset += start * v->stride[axis] * (int64_t)mo_dtype_bytes(v->dtype);
    out.d[axis] = n;
    out.stride[axis] *= step;
    return out;
}

bool mo_gpu_lies_in(const struct mo_gpu_view *v, const int *order) {
    int64_t stride = 1;
    for (int k = v->rank - 1; k >= 0; k--) {
        int i = order ? order[k] : k;
        if (v->d[i] != 1 && v->stride[i] != stride) return false;
        stride *= v->d[i];
    }
    return v->place.offset % 16 == 0;
}

struct mo_gpu_view mo_lower_ordered(struct mo_lower *l, struct mo_gpu_view v, const int *order,
                                    moire_dtype dtype) {
    if (l->rc || (v.dtype == dtype && mo_gpu_lies_in(&v, order))) return v;
    struct mo_gpu_view copy = mo_lower_new(l, dtype, v.rank, v.d, order);
    mo_lower_copy(l, &v, &copy);
    return copy;
}

void mo_gpu_order_of(const struct mo_gpu_view *like, int order[MO_VIEW_RANK]) {
    for (int i = 0; i < like->rank; i++) { /* insertion by stride; extents of 1 stay before */
        int k = i;
        int64_t own = like->d[i] == 1 ? INT64_MAX : like->stride[i];
        for (; k > 0; k--) {
            int j = order[k - 1];
            if (like->d[j] == 1 || like->stride[j] >= own || like->d[i] == 1) break;
            order[k] = j;
        }
        order[k] = i;
    }
}

/* --- the arena ------------------------------------------------------------------------------------------ */

static bool meet(const struct mo_gpu_buffer *a, const struct mo_gpu_buffer *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* Largest first; among equals the earlier one. */
static int larger(const void *left, const void *right) {
    const struct mo_gpu_buffer *a = *(struct mo_gpu_buffer *const *)left,
                               *b = *(struct mo_gpu_buffer *const *)right;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return a < b ? -1 : 1;
}

/* The lowest offset that meets none of the placed buffers that live at the same time. */
static int64_t lowest(struct mo_gpu_buffer *const *placed, int n, const struct mo_gpu_buffer *b) {
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const struct mo_gpu_buffer *o = placed[i];
            if (!meet(o, b) || o->offset + o->bytes <= at || at + b->bytes <= o->offset) continue;
            at = o->offset + o->bytes;
            moved = true;
        }
    }
    return at;
}

static void settle(const struct mo_lower *l, struct mo_gpu_place *place) {
    if (place->space != MO_GPU_ARENA) return;
    place->offset += l->buffers[place->index].offset;
    place->index = 0;
}

static void settle_op(const struct mo_lower *l, struct mo_gpu_op *op) {
    struct mo_gpu_place *conv[] = {&op->conv.x, &op->conv.weights, &op->conv.bias, &op->conv.residual,
                                   &op->conv.y},
                        *gemm[] = {&op->gemm.a.at, &op->gemm.b.at, &op->gemm.c.at, &op->gemm.d.at,
                                   &op->gemm.bias};
    for (int i = 0; i < 5 && mo_gpu_has_library(op); i++)
        settle(l, op->kind == MO_GPU_CONV ? conv[i] : gemm[i]);
    for (int i = 0; i < op->launch.n_args; i++)
        settle(l, &op->launch.args[i]);
}

int mo_lower_arena(struct mo_lower *l) {
    struct mo_gpu_program *p = l->program;
    struct mo_gpu_buffer **order =
        l->rc ? NULL : mo_region_array(p->region, (size_t)l->n_buffers + 1, sizeof(void *));
    if (!order) return mo_lower_fail(l, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; i < l->n_buffers; i++)
        order[i] = &l->buffers[i];
    qsort(order, (size_t)l->n_buffers, sizeof *order, larger);
    for (int i = 0; i < l->n_buffers; i++) {
        order[i]->offset = lowest(order, i, order[i]);
        if (order[i]->offset + order[i]->bytes > p->arena_bytes)
            p->arena_bytes = order[i]->offset + order[i]->bytes;
    }
    if (p->arena_bytes > l->env->limits.arena_bytes)
        return mo_lower_fail(l, MOIRE_ELIMIT, "activations take %lld bytes, over the limit arena_bytes",
                             (long long)p->arena_bytes);
    for (int i = 0; i < p->n_ops; i++)
        settle_op(l, &p->ops[i]);
    return MOIRE_OK;
}
