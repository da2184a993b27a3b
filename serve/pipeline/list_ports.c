/* SPDX-License-Identifier: Apache-2.0
 * list_ports.c - what a list is: its items, and the ports of a step that runs for each; see list_step.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "serve/pipeline/list_step.h"
#include "serve/protocol/fault.h"

static const char suffix[] = ":shapes";

bool ms_list_is_shapes(const char *port) {
    const size_t n = strlen(port), of = sizeof suffix - 1;
    return n > of && !strcmp(port + n - of, suffix);
}

static bool as_lists(const moire_port *from, int n, moire_port *out, char (*name)[MS_PORT_NAME]) {
    if (n > MS_PORTS / 2) return false;
    for (int i = 0; i < n; i++) {
        if (snprintf(name[i], MS_PORT_NAME, "%s%s", from[i].name, suffix) >= MS_PORT_NAME) return false;
        out[2 * i] = (moire_port){.name = from[i].name, .dtype = from[i].dtype, .rank = 1, .shape = {-1}};
        out[2 * i + 1] = (moire_port){.name = name[i],
                                      .dtype = MOIRE_I64,
                                      .rank = 2,
                                      .shape = {-1, from[i].rank < 0 ? -1 : from[i].rank}};
    }
    return true;
}

bool ms_list_ports(struct ms_ports *ports, struct ms_list_ports *room) {
    if (!as_lists(ports->input, ports->n_inputs, room->port[0], room->name[0]) ||
        !as_lists(ports->output, ports->n_outputs, room->port[1], room->name[1]))
        return false;
    *ports = (struct ms_ports){room->port[0], room->port[1], 2 * ports->n_inputs, 2 * ports->n_outputs, 0};
    return true;
}

moire_tensor ms_list_item(const struct ms_list *l, int index, int64_t *bytes) {
    const int rank = (int)l->shapes->shape[1];
    moire_tensor t = {.dtype = l->values->dtype, .rank = rank};
    for (int k = 0; k < rank; k++)
        t.shape[k] = ((const int64_t *)l->shapes->data)[(int64_t)index * rank + k];
    const int64_t n = ms_elements(&t);
    *bytes = n < 0 ? -1 : n * (int64_t)ms_type_bytes(t.dtype);
    return t;
}

int ms_list_check(const struct ms_list *l, int n, moire_error *err) {
    const moire_tensor *s = l->shapes;
    size_t left = l->values->bytes;
    if (s->dtype != MOIRE_I64 || s->rank != 2 || s->shape[1] > MOIRE_MAX_RANK ||
        !ms_type_bytes(l->values->dtype))
        return ms_fail(err, MOIRE_ESHAPE, "'%.60s:shapes' are not shapes of items of numbers", l->port);
    if (s->shape[0] > MS_ITEMS)
        return ms_fail(err, MOIRE_ELIMIT, "the list '%.60s' has %" PRId64 " items, more than %d", l->port,
                       s->shape[0], MS_ITEMS);
    if (n >= 0 && s->shape[0] != n)
        return ms_fail(err, MOIRE_ESHAPE, "the list '%.60s' has %" PRId64 " items, another has %d", l->port,
                       s->shape[0], n);
    for (int i = 0; i < (int)s->shape[0]; i++) {
        int64_t bytes;
        ms_list_item(l, i, &bytes);
        if (bytes < 0 || (uint64_t)bytes > left)
            return ms_fail(err, MOIRE_ESHAPE, "the list '%.60s': the shape of item %d does not fit", l->port,
                           i);
        left -= (size_t)bytes;
    }
    if (left)
        return ms_fail(err, MOIRE_ESHAPE, "the list '%.60s': %zu bytes behind the last item", l->port, left);
    return MOIRE_OK;
}
