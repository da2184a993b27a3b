/* SPDX-License-Identifier: Apache-2.0
 * places.c - the devices that a tenant is loaded on, in the order in which its queries try them.
 *
 * A query that a device has failed (lost, out of memory, an illegal access) goes to the next place with the
 * inputs that it was submitted with, its arrival time and the handle that its user has. */
#include <string.h>
#include "runtime/serve/runtime.h"

int mo_tenant_open_place(moire_tenant *t, int device, const struct mo_device_tenant *config,
                         const struct mo_place *place, moire_error *err) {
    int tenant, rc = mo_engine_open(t->runtime->engine, device, config, &tenant, err);
    if (rc) return rc;
    memmove(&t->place[1], &t->place[0], (size_t)t->n_places * sizeof *place);
    t->place[0] = *place;
    t->place[0].tenant = tenant;
    t->n_places++;
    return MOIRE_OK;
}

static const struct mo_place *place_of(const moire_tenant *t, const void *self) {
    const struct mo_place *p = t->place;
    while (p->self != self)
        p++;
    return p;
}

int mo_tenant_index(const moire_tenant *t, const void *self) {
    return mo_engine_index(place_of(t, self)->tenant);
}

void mo_tenant_close_places(moire_tenant *t, int code) {
    for (int i = 0; i < t->n_places; i++)
        mo_engine_close(t->runtime->engine, t->place[i].tenant, code);
}

int moire_submit(moire_tenant *t, const moire_tensor *inputs, int n_inputs, int64_t arrival_ns,
                 moire_callback callback, void *user, moire_query *handle, moire_error *err) {
    if (!t) return mo_fail(err, MOIRE_EINVAL, "moire_submit: no tenant given");
    if (arrival_ns < 0) return mo_fail(err, MOIRE_EINVAL, "moire_submit: arrival_ns is negative");
    moire_runtime *rt = t->runtime;
    const struct mo_place *p = &t->place[0];
    int rc = mo_runtime_here(rt, err);
    if (rc) return rc;
    if (atomic_load(&rt->closing)) return mo_fail(err, MOIRE_ESHUTDOWN, "the runtime is shutting down");
    rc = mo_request_check(t, inputs, n_inputs, err);
    if (rc) return rc;
    struct mo_request_head *request = p->calls->take(p->self);
    if (!request)
        return mo_fail(err, MOIRE_ENOMEM, "out of memory for the inputs of a query of '%s'", t->name);
    *request = (struct mo_request_head){callback, user};
    for (int i = 0; i < n_inputs; i++)
        if (inputs[i].bytes) memcpy(p->calls->input(p->self, request, i), inputs[i].data, inputs[i].bytes);
    rc = mo_engine_submit(rt->engine, p->tenant, arrival_ns, request, handle, err);
    if (rc) p->calls->give(p->self, request);
    return rc;
}

/* With the inputs of the request that `from` has. */
static struct mo_request_head *copy(const moire_tenant *t, const struct mo_place *from,
                                    const struct mo_place *to, struct mo_request_head *request) {
    const struct mo_graph *ports = t->ports;
    struct mo_request_head *same = to->calls->take(to->self);
    if (!same) return NULL;
    *same = *request;
    for (int i = 0; i < ports->n_inputs; i++)
        memcpy(to->calls->input(to->self, same, i), from->calls->input(from->self, request, i),
               (size_t)mo_tensor_bytes(ports->tensors[ports->inputs[i]]));
    return same;
}

bool mo_tenant_move(moire_tenant *t, const void *self, struct mo_request_head *request,
                    const struct mo_answer *a) {
    const struct mo_place *from = place_of(t, self), *to = from + 1;
    bool failed = a->code == MOIRE_EDEVICE || a->code == MOIRE_ENOMEM || a->code == MOIRE_EFAILED;
    if (!failed || to == &t->place[t->n_places] || atomic_load(&t->runtime->closing)) return false;
    struct mo_request_head *same = copy(t, from, to, request);
    if (!same) return false;
    if (!mo_engine_take_over(t->runtime->engine, to->tenant, a->arrival, same, a->query, NULL)) return true;
    to->calls->give(to->self, same);
    return false;
}
