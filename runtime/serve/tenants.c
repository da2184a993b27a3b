/* SPDX-License-Identifier: Apache-2.0
 * tenants.c - the list of a runtime's tenants, their states, and draining one.
 *
 * The list has a lock of its own, which is held for list work and copies only: who asks does not wait for a
 * load or an unload.  While it is held no tenant goes, so that what it points to can be read. */
#include <stdio.h>
#include "runtime/serve/runtime.h"

static void take(moire_runtime *rt) {
    mo_lock_take(rt->env.sys, &rt->listing);
}
static void drop(moire_runtime *rt) {
    mo_lock_drop(rt->env.sys, &rt->listing);
}

/* --- the list ------------------------------------------------------------------------------------------- */
void mo_tenants_load(moire_runtime *rt, struct mo_loading *loading) {
    take(rt);
    loading->number = ++rt->loads;
    loading->next = rt->being_loaded;
    rt->being_loaded = loading;
    drop(rt);
}

/* The lock is held. */
static void unlink_loading(moire_runtime *rt, const struct mo_loading *loading) {
    struct mo_loading **at = &rt->being_loaded;
    while (*at != loading)
        at = &(*at)->next;
    *at = loading->next;
}

void mo_tenants_not_loaded(moire_runtime *rt, struct mo_loading *loading) {
    take(rt);
    unlink_loading(rt, loading);
    drop(rt);
}

void mo_tenants_loaded(struct mo_loading *loading, moire_tenant *t) {
    moire_runtime *rt = t->runtime;
    take(rt);
    unlink_loading(rt, loading);
    t->next = rt->tenants;
    rt->tenants = t;
    rt->n_tenants++;
    drop(rt);
}

void mo_tenants_gone(moire_tenant *t) {
    moire_runtime *rt = t->runtime;
    take(rt);
    moire_tenant **at = &rt->tenants;
    while (*at && *at != t)
        at = &(*at)->next;
    if (*at) {
        *at = t->next;
        rt->n_tenants--;
        mo_account_add(rt->env.sys, &t->accounting, &rt->past);
    }
    drop(rt);
}

int mo_tenants_count(moire_runtime *rt) {
    take(rt);
    int n = rt->n_tenants;
    drop(rt);
    return n;
}

/* --- public --------------------------------------------------------------------------------------------- */
static int state_of(const moire_runtime *rt, moire_tenant *t) {
    return mo_account_is_closed(rt->env.sys, &t->accounting) ? MOIRE_TENANT_DRAINING : MOIRE_TENANT_READY;
}

static void put(moire_tenant_row *rows, int room, int *n, uint64_t id, moire_tenant *t, int state,
                const char *name) {
    if (*n < room) {
        rows[*n] = (moire_tenant_row){.id = id, .tenant = t, .state = state};
        snprintf(rows[*n].name, sizeof rows[*n].name, "%s", name);
    }
    ++*n;
}

/* The next larger number than `after`, of a tenant or a load; whichever it is, the other is NULL. */
static void next_of(const moire_runtime *rt, uint64_t after, moire_tenant **tenant,
                    struct mo_loading **loading) {
    uint64_t least = UINT64_MAX;
    *tenant = NULL;
    *loading = NULL;
    for (moire_tenant *t = rt->tenants; t; t = t->next)
        if (t->number > after && t->number < least) {
            least = t->number;
            *tenant = t;
        }
    for (struct mo_loading *l = rt->being_loaded; l; l = l->next)
        if (l->number > after && l->number < least) {
            least = l->number;
            *tenant = NULL;
            *loading = l;
        }
}

int moire_tenants(moire_runtime *rt, moire_tenant_row *rows, int room, int *n, moire_error *err) {
    if (!rt || !n || room < 0 || (room && !rows))
        return mo_fail(err, MOIRE_EINVAL, "moire_tenants: runtime, n and room for the rows must be given");
    int rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    *n = 0;
    moire_tenant *t;
    struct mo_loading *l;
    take(rt);
    for (next_of(rt, 0, &t, &l); t || l; next_of(rt, t ? t->number : l->number, &t, &l)) {
        if (t)
            put(rows, room, n, t->number, t, state_of(rt, t), t->name);
        else
            put(rows, room, n, l->number, NULL, MOIRE_TENANT_LOADING, l->name);
    }
    drop(rt);
    return MOIRE_OK;
}

int moire_tenant_get_state(moire_runtime *rt, uint64_t id, int *state, moire_error *err) {
    if (!rt || !state) return mo_fail(err, MOIRE_EINVAL, "moire_tenant_get_state: an argument is NULL");
    int rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    moire_tenant *t;
    struct mo_loading *l;
    take(rt);
    bool was = id > 0 && id <= rt->loads;
    next_of(rt, id - 1, &t, &l);
    *state = MOIRE_TENANT_UNLOADED;
    if (t && t->number == id) *state = state_of(rt, t);
    if (l && l->number == id) *state = MOIRE_TENANT_LOADING;
    drop(rt);
    return was ? MOIRE_OK
               : mo_fail(err, MOIRE_EINVAL, "no load of this runtime had the id %llu",
                         (unsigned long long)id);
}

uint64_t moire_tenant_id(const moire_tenant *t) {
    return t ? t->number : 0;
}

/* Places in their order: a later one takes over what an earlier one fails. */
int moire_tenant_drain(moire_tenant *t, moire_error *err) {
    if (!t) return mo_fail(err, MOIRE_EINVAL, "moire_tenant_drain: no tenant given");
    const moire_runtime *rt = t->runtime;
    int rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    mo_account_close(rt->env.sys, &t->accounting);
    mo_account_wait(rt->env.sys, &t->accounting);
    for (int i = 0; i < t->n_places; i++)
        mo_engine_quiet(rt->engine, t->place[i].tenant);
    return MOIRE_OK;
}
