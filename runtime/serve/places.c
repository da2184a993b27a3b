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

/* With the inputs of the request that `from` has. */
static struct mo_request_head *copy(const moire_tenant *t, const struct mo_place *from,
                                    const struct mo_place *to, struct mo_request_head *request) {
    const struct mo_graph *ports = t->ports;
    struct mo_request_head *same = to->calls->take(to->self, false);
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
    same->arrival.arrival = a->arrival;
    same->arrival.user = same;
    if (!mo_engine_take_over(t->runtime->engine, to->tenant, &same->arrival, a->query, NULL)) return true;
    to->calls->give(to->self, same);
    return false;
}
