/* SPDX-License-Identifier: Apache-2.0
 * stuck.c - moire_stuck(): what does not come back, on every device. */
#include "runtime/serve/runtime.h"

/* Blocks and callbacks of all devices; those beyond `room` are counted.  Returns: cores that serve. */
static int look_at_devices(const moire_runtime *rt, struct mo_stuck *out, int room, int *n) {
    int left = 0;
    for (int i = 0; i < mo_engine_devices(rt->engine); i++) {
        struct mo_device *d = mo_engine_device(rt->engine, i);
        const int held = mo_device_stuck(d, out, room, n);
        if (d == rt->cores) left = mo_device_units(d) - held;
    }
    return left;
}

static bool is_lost(const moire_runtime *rt, const moire_tenant *t) {
    int lost = 0;
    for (int i = 0; i < t->n_places; i++)
        lost += mo_device_is_lost(mo_engine_device(rt->engine, mo_engine_device_of(t->place[i].tenant)));
    return lost == t->n_places;
}

/* Tenants that can run nowhere. */
static void look_at_tenants(moire_runtime *rt, struct mo_stuck *out, int room, int *n) {
    if (mo_engine_devices(rt->engine) == 1) return; /* cores are not lost */
    mo_lock_take(rt->env.sys, &rt->listing);
    for (const moire_tenant *t = rt->tenants; t; t = t->next)
        if (is_lost(rt, t) && (*n)++ < room)
            out[*n - 1] = (struct mo_stuck){.owner = t->number, .kind = MOIRE_STUCK_DEVICE, .unit = -1};
    mo_lock_drop(rt->env.sys, &rt->listing);
}

int moire_stuck(moire_runtime *rt, moire_stuck_row *rows, int room, int *n, int *cores_left,
                moire_error *err) {
    if (!rt || !n || room < 0 || (room && !rows))
        return mo_fail(err, MOIRE_EINVAL, "moire_stuck: runtime, n and room for the rows must be given");
    const int rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    struct mo_stuck *found = mo_alloc(&rt->env, ((size_t)room + 1) * sizeof *found);
    if (!found) return mo_fail(err, MOIRE_ENOMEM, "moire_stuck: out of memory for %d rows", room);
    *n = 0;
    const int left = look_at_devices(rt, found, room, n);
    look_at_tenants(rt, found, room, n);
    for (int i = 0; i < *n && i < room; i++)
        rows[i] = (moire_stuck_row){.tenant = found[i].owner,
                                    .kind = found[i].kind,
                                    .unit = found[i].unit,
                                    .first_layer = found[i].begin,
                                    .end_layer = found[i].end,
                                    .overdue_ns = found[i].ns};
    if (cores_left) *cores_left = left;
    mo_free(&rt->env, found);
    return MOIRE_OK;
}
