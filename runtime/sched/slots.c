/* SPDX-License-Identifier: Apache-2.0
 * slots.c - short sorted arrays of query slots.  Most insertions are at the end (deadlines of one tenant
 * come in order), most removals at the front; 1,024 ints move in well under a microsecond. */
#include <string.h>
#include "runtime/sched/core_impl.h"

static bool before(const struct mo_view_query *view, int a, int b) {
    const struct mo_view_query *x = &view[a], *y = &view[b];
    if (x->deadline != y->deadline) return x->deadline < y->deadline;
    if (x->priority != y->priority) return x->priority > y->priority;
    return x->order < y->order;
}

/* First position whose slot does not come before `slot`. */
static int position(const struct mo_slot_list *list, const struct mo_view_query *view, int slot) {
    int lo = 0, hi = list->n;
    if (hi && before(view, list->slot[hi - 1], slot)) return hi;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (before(view, list->slot[mid], slot))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void mo_slot_insert(struct mo_slot_list *list, const struct mo_view_query *view, int slot) {
    int at = position(list, view, slot);
    memmove(&list->slot[at + 1], &list->slot[at], (size_t)(list->n - at) * sizeof *list->slot);
    list->slot[at] = slot;
    list->n++;
}

int mo_slot_find(const struct mo_slot_list *list, const struct mo_view_query *view, int slot) {
    int at = position(list, view, slot);
    return at < list->n && list->slot[at] == slot ? at : -1;
}

void mo_slot_take_turn(const struct mo_slot_list *list, struct mo_view_query *view, int slot) {
    for (int i = mo_slot_find(list, view, slot); i + 1 < list->n; i++) {
        struct mo_view_query *q = &view[list->slot[i]], *next = &view[list->slot[i + 1]];
        if (next->deadline != q->deadline || next->order > q->order) return;
        int64_t turn = q->order;
        q->order = next->order;
        next->order = turn;
    }
}

void mo_slot_cut(struct mo_slot_list *list, int at, int n) {
    list->n -= n;
    memmove(&list->slot[at], &list->slot[at + n], (size_t)(list->n - at) * sizeof *list->slot);
}

bool mo_slot_remove(struct mo_slot_list *list, const struct mo_view_query *view, int slot) {
    int at = mo_slot_find(list, view, slot);
    if (at >= 0) mo_slot_cut(list, at, 1);
    return at >= 0;
}
