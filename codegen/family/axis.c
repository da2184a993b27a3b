/* SPDX-License-Identifier: Apache-2.0
 * axis.c - cuts an output axis into tiles of equal size +-1 and finds the classes of tiles. */
#include "codegen/family/walk.h"

#include <string.h>

bool mo_axis_balanced(int64_t n, int64_t most) {
    const int64_t tiles = (n + most - 1) / most;
    return most <= n && (n + tiles - 1) / tiles == most;
}

void mo_axis_emit_at(FILE *out, const struct mo_axis *a, const char *name) {
    fprintf(out, "INLINE i64 %s_at(i64 tile) { return tile * %lld + (tile < %lld ? tile : %lld); }\n", name,
            (long long)a->size, (long long)a->extra, (long long)a->extra);
}

int64_t mo_axis_start(const struct mo_axis *axis, int64_t tile) {
    return tile * axis->size + (tile < axis->extra ? tile : axis->extra);
}

static int add_class(struct mo_axis *a, int size, const uint32_t *valid) {
    for (int i = 0; i < a->n_classes; i++)
        if (a->cls[i].size == size && !memcmp(a->cls[i].valid, valid, sizeof a->cls[i].valid)) return i;
    if (a->n_classes == MO_AXIS_CLASSES) return -1;
    a->cls[a->n_classes].size = size;
    memcpy(a->cls[a->n_classes].valid, valid, sizeof a->cls[0].valid);
    return a->n_classes++;
}

bool mo_axis_cut(struct mo_axis *a, int64_t most) {
    if (most < 1 || a->taps > MO_AXIS_TAPS) return false;
    a->tiles = (a->out + most - 1) / most;
    a->size = a->out / a->tiles;
    a->extra = a->out % a->tiles;
    a->n_classes = a->n_runs = 0;
    for (int64_t t = 0; t < a->tiles; t++) {
        uint32_t valid[MO_AXIS_TAPS] = {0};
        int64_t start = mo_axis_start(a, t);
        int size = (int)(mo_axis_start(a, t + 1) - start);
        for (int64_t k = 0; k < a->taps; k++)
            for (int i = 0; i < size; i++) {
                int64_t at = (start + i) * a->stride + k * a->dilation - a->pad;
                if (at >= 0 && at < a->in) valid[k] |= 1u << i;
            }
        int cls = add_class(a, size, valid);
        if (cls < 0) return false;
        if (a->n_runs && a->run[a->n_runs - 1].cls == cls) continue;
        if (a->n_runs == MO_AXIS_RUNS) return false;
        a->run[a->n_runs].first = t;
        a->run[a->n_runs++].cls = cls;
    }
    return true;
}

int64_t mo_axis_work(const struct mo_axis *a) {
    int64_t work = 0;
    for (int64_t k = 0; k < a->taps; k++)
        for (int64_t i = 0; i < a->out; i++) {
            int64_t at = i * a->stride + k * a->dilation - a->pad;
            work += at >= 0 && at < a->in;
        }
    return work;
}
