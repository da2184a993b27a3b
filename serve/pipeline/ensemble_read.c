/* SPDX-License-Identifier: Apache-2.0
 * ensemble_read.c - reads an ensemble's configuration and checks what can be checked without its models; see
 * ensemble.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "serve/pipeline/ensemble.h"
#include "serve/pipeline/list_step.h"
#include "serve/repository/repository.h"

struct reader {
    struct ms_ensemble *e;
    const char *name;
    struct ms_faults *faults;
};

#define SAY(r, ...) ms_fault_say((r)->faults, "%s: config.pbtxt: " __VA_ARGS__)

/* --- ports --- */
static moire_dtype type_of(const char *text, bool is_output) {
    if (!text || strncmp(text, "TYPE_", 5) != 0) return MOIRE_NONE;
    if (is_output && !strcmp(text + 5, "STRING")) return MOIRE_STRING;
    const moire_dtype type = ms_type_find(text + 5);
    return ms_type_bytes(type) ? type : MOIRE_NONE;
}

/* A fault of a port is said by its name; the first that is found is enough. */
static const char *read_port(const json_t *from, bool batched, bool is_output, moire_port *out) {
    const json_t *dims = json_object_get(from, "dims");
    *out = (moire_port){.name = json_string_value(json_object_get(from, "name")),
                        .dtype = type_of(json_string_value(json_object_get(from, "data_type")), is_output)};
    if (!out->name) return "needs a 'name'";
    if (out->dtype == MOIRE_NONE) return "needs a 'data_type' of numbers: TYPE_FP32 and the like";
    if (json_object_get(from, "reshape")) return "has a 'reshape', which is not served";
    if (!json_array_size(dims)) return "needs 'dims'";
    if (json_array_size(dims) + batched > MOIRE_MAX_RANK) return "has too many 'dims'";
    if (batched) out->shape[out->rank++] = -1;
    for (size_t i = 0; i < json_array_size(dims); i++) {
        const json_t *d = json_array_get(dims, i);
        if (!json_is_integer(d) || json_integer_value(d) < -1)
            return "has 'dims' that are no sizes (-1: any)";
        out->shape[out->rank++] = json_integer_value(d);
    }
    return NULL;
}

static void read_ports(struct reader *r, const json_t *config, const char *key, moire_port *ports, int *n) {
    const json_t *list = json_object_get(config, key);
    const bool batched = r->e->max_batch > 0;
    *n = 0;
    if (!json_array_size(list) || json_array_size(list) > MS_PORTS) {
        SAY(r, "an ensemble has 1 to %d '%s'", r->name, MS_PORTS, key);
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        moire_port *p = &ports[*n];
        const char *why = read_port(json_array_get(list, i), batched, ports == r->e->output, p);
        for (int k = 0; k < *n && !why; k++)
            if (!strcmp(ports[k].name, p->name)) why = "stands twice";
        if (why)
            SAY(r, "%s '%.60s' %s", r->name, key, p->name ? p->name : "?", why);
        else
            ++*n;
    }
}

/* --- tensors --- */
/* The tensor of that name, a new one where there is none; -1: too many. */
static int tensor_of(struct reader *r, const char *name) {
    struct ms_ensemble *e = r->e;
    for (int i = 0; i < e->n_tensors; i++)
        if (!strcmp(e->tensor[i].name, name)) return i;
    if (e->n_tensors == MS_TENSORS) {
        SAY(r, "more than %d tensors", r->name, MS_TENSORS);
        return -1;
    }
    e->tensor[e->n_tensors] = (struct ms_tensor){.name = name, .producer = MS_STEPS}; /* none yet */
    return e->n_tensors++;
}

static void produce(struct reader *r, int tensor, int step, int input) {
    struct ms_tensor *t = &r->e->tensor[tensor];
    if (t->producer == -1)
        SAY(r, "tensor '%.60s' is an input and comes from step %d", r->name, t->name, step);
    else if (t->producer != MS_STEPS)
        SAY(r, "tensor '%.60s' comes from step %d and from step %d", r->name, t->name, t->producer, step);
    t->producer = step;
    t->input = input;
}

/* --- steps --- */
static struct ms_link *read_map(struct reader *r, const json_t *from, int step, const char *key, int *n) {
    json_t *map = json_object_get(from, key);
    const size_t size = json_object_size(map);
    struct ms_link *links = size && size <= MS_PORTS ? calloc(size, sizeof *links) : NULL;
    const char *port;
    json_t *value;
    if (!links) {
        SAY(r, "step %d needs an '%s' of 1 to %d ports", r->name, step, key, MS_PORTS);
        return NULL;
    }
    json_object_foreach(map, port, value) {
        const char *name = json_string_value(value);
        if (!name) SAY(r, "step %d: '%s' of '%.60s' is no name of a tensor", r->name, step, key, port);
        const int tensor = name ? tensor_of(r, name) : -1;
        if (tensor < 0) continue;
        links[*n] = (struct ms_link){.port = port, .tensor = tensor};
        ++*n;
    }
    return links;
}

static void read_version(struct reader *r, const json_t *from, int step) {
    const json_t *v = json_object_get(from, "model_version");
    if (!v || json_integer_value(v) == -1) return;
    if (json_integer_value(v) < 1)
        SAY(r, "step %d: 'model_version' is a version's number, or -1: the newest", r->name, step);
    else
        snprintf(r->e->step[step].version, MS_VERSION, "%lld", (long long)json_integer_value(v));
}

static void read_step(struct reader *r, const json_t *from, int at) {
    static const char *const known[] = {"model_name", "model_version", "input_map", "output_map"};
    struct ms_step *s = &r->e->step[at];
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, key, value) {
        bool ok = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            ok = ok || !strcmp(known[i], key);
        if (!ok) SAY(r, "'%.60s' of step %d is not served", r->name, key, at);
    }
    s->model = json_string_value(json_object_get(from, "model_name"));
    if (!s->model) {
        SAY(r, "step %d needs a 'model_name'", r->name, at);
        s->model = "";
    } else if (!strcmp(s->model, r->name)) {
        SAY(r, "step %d is the ensemble itself", r->name, at);
    }
    read_version(r, from, at);
    s->in = read_map(r, from, at, "input_map", &s->n_in);
    s->out = read_map(r, from, at, "output_map", &s->n_out);
    for (int i = 0; i < s->n_in; i++) {
        r->e->tensor[s->in[i].tensor].consumers++;
        s->is_list = s->is_list || ms_list_is_shapes(s->in[i].port);
    }
    for (int i = 0; i < s->n_out; i++)
        produce(r, s->out[i].tensor, at, 0);
}

/* --- the graph --- */
static void check_ends(struct reader *r) {
    const struct ms_ensemble *e = r->e;
    for (int i = 0; i < e->n_tensors; i++) {
        const struct ms_tensor *t = &e->tensor[i];
        if (t->producer == MS_STEPS)
            SAY(r, "tensor '%.60s' is no input and comes from no step", r->name, t->name);
        if (t->producer == -1 && !t->consumers) SAY(r, "no step takes the input '%.60s'", r->name, t->name);
    }
}

static bool can_come(const struct ms_ensemble *e, const struct ms_step *s, const bool *placed) {
    for (int i = 0; i < s->n_in; i++) {
        const int from = e->tensor[s->in[i].tensor].producer;
        if (from >= 0 && from < MS_STEPS && !placed[from]) return false;
    }
    return true;
}

static void put_in_order(struct reader *r) {
    struct ms_ensemble *e = r->e;
    bool placed[MS_STEPS] = {false};
    int n = 0;
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < e->n_steps; i++) {
            if (placed[i] || !can_come(e, &e->step[i], placed)) continue;
            e->order[n++] = i;
            placed[i] = more = true;
        }
    }
    for (int i = 0; i < e->n_steps && n < e->n_steps; i++)
        if (!placed[i]) {
            SAY(r, "step %d ('%.60s') waits for itself, in a circle", r->name, i, e->step[i].model);
            return;
        }
}

static void read_scheduling(struct reader *r, const json_t *scheduling) {
    const json_t *steps = json_object_get(scheduling, "step");
    const json_t *most = json_object_get(scheduling, "max_inflight_requests");
    const size_t n = json_array_size(steps);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)scheduling, key,
                        value) if (strcmp(key, "step") != 0 && strcmp(key, "max_inflight_requests") != 0)
        SAY(r, "there is no field '%.60s' of ensemble_scheduling", r->name, key);
    if (!n || n > MS_STEPS) SAY(r, "ensemble_scheduling has 1 to %d 'step'", r->name, MS_STEPS);
    if (most &&
        (!json_is_integer(most) || json_integer_value(most) < 0 || json_integer_value(most) > 1 << 14))
        SAY(r, "'max_inflight_requests' must be a whole number from 0 to %d", r->name, 1 << 14);
    r->e->most = json_integer_value(most) > 0 ? (int)json_integer_value(most) : MS_IN_FLIGHT;
    for (size_t i = 0; i < n && i < MS_STEPS; i++) {
        r->e->n_steps++;
        read_step(r, json_array_get(steps, i), (int)i);
    }
}

struct ms_ensemble *ms_ensemble_read(const json_t *config, const char *name, struct ms_faults *faults) {
    struct ms_ensemble *e = calloc(1, sizeof *e);
    struct reader r = {.e = e, .name = name, .faults = faults};
    if (!e) return NULL;
    e->max_batch = json_integer_value(json_object_get(config, "max_batch_size"));
    read_ports(&r, config, "input", e->input, &e->n_inputs);
    read_ports(&r, config, "output", e->output, &e->n_outputs);
    for (int i = 0; i < e->n_inputs; i++)
        produce(&r, tensor_of(&r, e->input[i].name), -1, i);
    read_scheduling(&r, json_object_get(config, "ensemble_scheduling"));
    for (int i = 0; i < e->n_outputs; i++) {
        e->of_output[i] = tensor_of(&r, e->output[i].name);
        if (e->of_output[i] >= 0 && e->tensor[e->of_output[i]].producer == -1)
            SAY(&r, "the output '%.60s' is an input", name, e->output[i].name);
    }
    check_ends(&r);
    put_in_order(&r);
    return e;
}

void ms_ensemble_free(struct ms_ensemble *e) {
    for (int i = 0; e && i < e->n_steps; i++) {
        if (e->step[i].member) ms_repository_give(e->step[i].member);
        free(e->step[i].in);
        free(e->step[i].out);
    }
    free(e);
}
