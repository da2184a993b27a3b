/* SPDX-License-Identifier: Apache-2.0
 * ensemble_check.c - whether the models of an ensemble fit each other; see ensemble.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "serve/pipeline/ensemble.h"
#include "serve/pipeline/list_step.h"

struct checker {
    const struct ms_ensemble *e;
    const char *name;
    struct ms_faults *faults;
    const moire_port *made[MS_TENSORS]; /* what a tensor is; NULL: not known */
    moire_port kept[MS_TENSORS];        /* of models, whose ports may go */
    struct ms_list_ports lists;         /* of the step that is looked at */
};

static const moire_port *port_of(const moire_port *ports, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(ports[i].name, name)) return &ports[i];
    return NULL;
}

static void print_port(const moire_port *p, char *text, size_t room) {
    const char *type = ms_type_name(p->dtype);
    size_t n = (size_t)snprintf(text, room, "%s [", type ? type : "?");
    for (int i = 0; i < p->rank && n + 24 < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%" PRId64, i ? "," : "", p->shape[i]);
    snprintf(text + n, room - n, "%s]", p->rank < 0 ? "any" : "");
}

static bool fits(const moire_port *a, const moire_port *b) {
    if (a->dtype != b->dtype) return false;
    if (a->rank < 0 || b->rank < 0) return true;
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++)
        same = a->shape[i] < 0 || b->shape[i] < 0 || a->shape[i] == b->shape[i];
    return same;
}

/* Says where a tensor is not what somebody takes it for. */
static void compare(const struct checker *c, int tensor, const moire_port *wanted, const char *by) {
    char is[200], takes[200];
    const moire_port *made = tensor < 0 ? NULL : c->made[tensor];
    if (!made || fits(made, wanted)) return;
    print_port(made, is, sizeof is);
    print_port(wanted, takes, sizeof takes);
    ms_fault_say(c->faults, "%s: tensor '%.60s' is %s, but %.160s takes %s", c->name,
                 c->e->tensor[tensor].name, is, by, takes);
}

static void check_inputs(const struct checker *c, int at, const struct ms_ports *ports) {
    const struct ms_step *s = &c->e->step[at];
    for (int i = 0; i < s->n_in; i++) {
        char by[200];
        const moire_port *p = port_of(ports->input, ports->n_inputs, s->in[i].port);
        snprintf(by, sizeof by, "input '%.60s' of model '%.60s' (step %d)", s->in[i].port, s->model, at);
        if (p)
            compare(c, s->in[i].tensor, p, by);
        else
            ms_fault_say(c->faults, "%s: step %d: model '%.60s' has no input '%.60s'", c->name, at, s->model,
                         s->in[i].port);
    }
    for (int i = 0; i < ports->n_inputs; i++) {
        bool given = false;
        for (int k = 0; k < s->n_in; k++)
            given = given || !strcmp(s->in[k].port, ports->input[i].name);
        if (!given)
            ms_fault_say(c->faults, "%s: step %d: input_map lacks input '%.60s' of model '%.60s'", c->name,
                         at, ports->input[i].name, s->model);
    }
}

static void take_outputs(struct checker *c, int at, const struct ms_ports *ports) {
    const struct ms_step *s = &c->e->step[at];
    for (int i = 0; i < s->n_out; i++) {
        const int tensor = s->out[i].tensor;
        const moire_port *p = port_of(ports->output, ports->n_outputs, s->out[i].port);
        if (!p) {
            ms_fault_say(c->faults, "%s: step %d: model '%.60s' has no output '%.60s'", c->name, at, s->model,
                         s->out[i].port);
            continue;
        }
        c->kept[tensor] = *p;
        c->made[tensor] = &c->kept[tensor];
    }
}

static void check_step(struct checker *c, int at, ms_ports_find find, void *user) {
    const struct ms_step *s = &c->e->step[at];
    struct ms_ports ports;
    if (!find(user, s, &ports, c->faults)) return;
    if (ports.max_batch && c->e->max_batch > ports.max_batch)
        ms_fault_say(c->faults,
                     "%s: max_batch_size is %" PRId64 ", more than %" PRId64 " of model '%.60s' (step %d)",
                     c->name, c->e->max_batch, ports.max_batch, s->model, at);
    if (s->is_list && !ms_list_ports(&ports, &c->lists)) {
        ms_fault_say(c->faults,
                     "%s: step %d: model '%.60s' has too many or too long names of ports for a list", c->name,
                     at, s->model);
        return;
    }
    check_inputs(c, at, &ports);
    take_outputs(c, at, &ports);
}

void ms_ensemble_check(const struct ms_ensemble *e, const char *name, ms_ports_find find, void *user,
                       struct ms_faults *faults) {
    struct checker c = {.e = e, .name = name, .faults = faults};
    for (int i = 0; i < e->n_tensors; i++)
        if (e->tensor[i].producer == -1) c.made[i] = &e->input[e->tensor[i].input];
    for (int i = 0; i < e->n_steps; i++)
        check_step(&c, e->order[i], find, user);
    for (int i = 0; i < e->n_outputs; i++) {
        char by[120];
        snprintf(by, sizeof by, "the ensemble's output '%.60s'", e->output[i].name);
        compare(&c, e->of_output[i], &e->output[i], by);
    }
}
