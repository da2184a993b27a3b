/* SPDX-License-Identifier: Apache-2.0
 * net_backend.c - a model server under load over its network; see net_backend.h.
 *
 * The same arrivals, targets and scores as without a network: a query's time counts from its scheduled
 * arrival until its last byte is here.  Requests are made once a tenant, so that the generator adds little to
 * a query but its bytes. */
#define _GNU_SOURCE
#include "bench/client/net_backend.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/client/client.h"
#include "bench/client/server_folder.h"
#include "runtime/base/error.h"
#include "serve/protocol/kserve.h"

enum { NAME = 32, SOLO_S = 120, DRAIN_S = 60, WHY = 400 };

struct net_self {
    const struct mo_env *env;
    const char *family;
    struct mo_server_process server;
    struct mo_client *client;
    struct mo_client_model *models;
    char (*names)[NAME];
    moire_model **files; /* names of inputs are theirs */
    int n_models;
    struct mo_exchange *exchanges; /* of this run, by index */
    int n_exchanges;
    struct mo_bench_drive *drive;
    atomic_bool stops;
    bool stuck; /* the server did not answer what it had been asked */
};

/* --- loading ------------------------------------------------------------------------------------------ */
/* The shape that the scenario gives; NULL: none. */
static const moire_shape *given(const struct mo_bench_tenant *t, const char *input) {
    for (int i = 0; i < t->n_shapes; i++)
        if (!strcmp(t->shapes[i].input, input)) return &t->shapes[i];
    return NULL;
}

static int bind_shape(const struct mo_bench_tenant *t, const moire_port *port, moire_tensor *out,
                      moire_error *err) {
    const moire_shape *shape = given(t, port->name);
    *out = (moire_tensor){.dtype = port->dtype, .rank = shape ? shape->rank : port->rank};
    bool known = out->rank >= 0 && out->rank <= MOIRE_MAX_RANK;
    for (int k = 0; known && k < out->rank; k++) {
        out->shape[k] = shape ? shape->shape[k] : port->shape[k];
        if (out->shape[k] < 0 && k == 0) out->shape[k] = 1; /* one at a time */
        known = out->shape[k] > 0;
    }
    const int64_t n = known ? ms_elements(out) : -1;
    const size_t width = ms_type_bytes(port->dtype);
    if (!known || n < 1 || n > MO_CLIENT_ANSWER_BYTES)
        return mo_fail(err, MOIRE_ESHAPE, "%s: input '%s' needs a shape (--shape %s=...)", t->name,
                       port->name, port->name);
    if (!width) return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: input '%s' is of strings", t->name, port->name);
    out->bytes = (size_t)n * width;
    return MOIRE_OK;
}

/* The values that all systems are given (runner.py, moire_backend.c). */
static void fill(moire_tensor *t) {
    const size_t width = ms_type_bytes(t->dtype);
    for (size_t i = 0; i < t->bytes / width; i++) {
        const float value = (float)(i * 2654435761u % 1000) * 1e-3f;
        if (t->dtype == MOIRE_F32)
            ((float *)t->data)[i] = value;
        else
            ((char *)t->data)[i * width] = 1; /* a small one: wholes come with their lowest byte first */
    }
}

static int make_model(struct net_self *self, const struct mo_bench_job *job,
                      const struct mo_client_protocol *protocol, int i, moire_error *err) {
    const struct mo_bench_tenant *t = &job->tenants[i];
    struct mo_client_model *m = &self->models[i];
    moire_port port;
    if (t->app || t->shed_late)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s: %s cannot be said to a server", t->name,
                       t->app ? "an application of stages" : "\"shed_late\"");
    int code = moire_model_open(t->model, &self->files[i], err);
    if (code) return code;
    mo_server_model_name(i, self->names[i], NAME);
    m->name = self->names[i];
    m->json = job->json;
    if (moire_model_n_inputs(self->files[i]) > MO_BENCH_MAX_INPUTS)
        return mo_fail(err, MOIRE_ELIMIT, "%s: more than %d inputs", t->name, MO_BENCH_MAX_INPUTS);
    for (int k = 0; !code && k < moire_model_n_inputs(self->files[i]); k++) {
        moire_tensor *tensor = &m->tensor[k];
        code = moire_model_input(self->files[i], k, &port);
        if (!code) code = bind_shape(t, &port, tensor, err);
        if (code) return code;
        tensor->data = mo_alloc(self->env, tensor->bytes);
        m->input[k] = port.name;
        m->n_inputs = k + 1;
        if (!tensor->data) return mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", t->name);
        fill(tensor);
    }
    return code ? code : protocol->prepare(m, err);
}

static void backend_close(void *opaque) {
    struct net_self *self = opaque;
    mo_client_destroy(self->client);
    mo_server_stop(&self->server);
    for (int i = 0; self->models && i < self->n_models; i++) {
        for (int k = 0; k < self->models[i].n_inputs; k++)
            mo_free(self->env, self->models[i].tensor[k].data);
        ms_bytes_free(&self->models[i].request);
    }
    for (int i = 0; self->files && i < self->n_models; i++)
        moire_model_close(self->files[i]);
    mo_free(self->env, self->models);
    mo_free(self->env, (void *)self->names);
    mo_free(self->env, (void *)self->files);
    mo_free(self->env, self->exchanges);
    mo_free(self->env, self);
}

/* --- running ------------------------------------------------------------------------------------------ */
struct alone {
    struct mo_exchange x;
    sem_t done;
    int code;
};

static void alone_done(struct mo_exchange *x, int code) {
    struct alone *alone = x->user;
    alone->code = code;
    sem_post(&alone->done);
}

/* One query, by name where it fails. */
static int backend_solo(void *opaque, int tenant, moire_error *err) {
    struct net_self *self = opaque;
    struct alone alone = {.x = {.model = &self->models[tenant], .done = alone_done, .user = &alone}};
    char why[WHY];
    sem_init(&alone.done, 0, 0);
    int code = mo_client_ask(self->client, &alone.x);
    if (!code && mo_client_wait(self->client, SOLO_S * 1000)) {
        mo_client_destroy(self->client); /* which ends the query */
        self->client = NULL;
        self->stuck = true;
    }
    while (!code && sem_wait(&alone.done))
        continue;
    sem_destroy(&alone.done);
    if (!code) code = alone.code;
    if (self->client) mo_client_why(self->client, why, sizeof why);
    if (!code) return MOIRE_OK;
    return mo_fail(err, code, "%s", self->stuck ? "the server does not answer a query" : why);
}

static int backend_open(const struct mo_env *env, const struct mo_bench_job *job, void **out,
                        moire_error *err) {
    const struct mo_client_protocol *protocol = job->over ? mo_client_protocol(job->over) : NULL;
    struct net_self *self = mo_alloc(env, sizeof *self);
    if (!protocol || !self) {
        mo_free(env, self);
        return mo_fail(err, MOIRE_EINVAL, "the job says over what it is: http or grpc");
    }
    self->env = env;
    self->n_models = job->n_tenants;
    self->models = mo_alloc(env, (size_t)job->n_tenants * sizeof *self->models);
    self->names = mo_alloc(env, (size_t)job->n_tenants * sizeof *self->names);
    self->files = (moire_model **)mo_alloc(env, (size_t)job->n_tenants * sizeof *self->files);
    int code =
        self->models && self->names && self->files ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    for (int i = 0; !code && i < job->n_tenants; i++)
        code = make_model(self, job, protocol, i, err);
    if (!code) code = mo_server_start(job, &self->server, err);
    const bool http = !strcmp(protocol->name, mo_client_http.name);
    if (!code)
        code = mo_client_create(protocol, http ? self->server.http_port : self->server.grpc_port,
                                &self->client, err);
    /* what a server prepares at its first query is not what is measured */
    for (int i = 0; !code && i < job->n_tenants; i++)
        code = backend_solo(self, i, err);
    if (code)
        backend_close(self);
    else
        *out = self;
    return code;
}

static int backend_begin(void *opaque, int n) {
    struct net_self *self = opaque;
    if (self->stuck || !self->client) return MOIRE_EFAILED;
    atomic_store(&self->stops, false);
    self->drive = NULL;
    if (n <= self->n_exchanges) return MOIRE_OK;
    mo_free(self->env, self->exchanges);
    self->exchanges = mo_alloc(self->env, (size_t)n * sizeof *self->exchanges);
    self->n_exchanges = self->exchanges ? n : 0;
    return self->exchanges ? MOIRE_OK : MOIRE_ENOMEM;
}

/* What comes behind the end of the run is dropped, as everywhere. */
static void query_done(struct mo_exchange *x, int code) {
    struct net_self *self = x->user;
    const bool late = atomic_load(&self->stops);
    mo_bench_done(self->drive, x->index, 0, mo_now(self->env), late ? MOIRE_ECANCELLED : code);
}

static int backend_issue(void *opaque, struct mo_bench_drive *drive, int index, int tenant,
                         int64_t arrival_ns) {
    struct net_self *self = opaque;
    (void)arrival_ns; /* a server does not know when its client meant to ask */
    if (!self->drive) self->drive = drive;
    self->exchanges[index] = (struct mo_exchange){
        .model = &self->models[tenant], .done = query_done, .user = self, .index = index};
    return mo_client_ask(self->client, &self->exchanges[index]);
}

/* Nothing of this run is left on the server when the next one begins. */
static void backend_stop(void *opaque) {
    struct net_self *self = opaque;
    char why[WHY];
    atomic_store(&self->stops, true);
    const bool idle = !mo_client_wait(self->client, DRAIN_S * 1000);
    mo_client_why(self->client, why, sizeof why);
    if (*why) fprintf(stderr, "bench: the first query that failed: %s\n", why);
    if (idle) return;
    fprintf(stderr, "bench: the server did not answer all its queries within %d s\n", DRAIN_S);
    mo_client_destroy(self->client);
    self->client = NULL;
    self->stuck = true;
}

const struct mo_bench_backend *mo_net_backend(void) {
    static const struct mo_bench_backend backend = {.open = backend_open,
                                                    .solo = backend_solo,
                                                    .begin = backend_begin,
                                                    .issue = backend_issue,
                                                    .stop = backend_stop,
                                                    .answers_all = true,
                                                    .close = backend_close};
    return &backend;
}
