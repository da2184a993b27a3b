/* SPDX-License-Identifier: Apache-2.0
 * submit.c - the public calls that bring queries in: one, with options, many, and the blocking form.
 *
 * All go one way: the inputs of each are checked and copied or lent, and it counts as open; then the engine
 * takes all of them under one lock, and those that it refuses are given back and count as rejected. */
#include <stddef.h>
#include <string.h>
#include "runtime/serve/runtime.h"

void moire_query_options_init(moire_query_options *options) {
    *options = (moire_query_options){.size = sizeof *options};
}

/* The caller may have been built against an older, shorter struct. */
static int read_options(const moire_query_options *given, struct mo_arrival *out, moire_error *err) {
    moire_query_options o;
    moire_query_options_init(&o);
    if (given) {
        if (given->size < sizeof(size_t) || given->size > 4096)
            return mo_fail(err, MOIRE_EINVAL, "options: size is %zu; use moire_query_options_init()",
                           given->size);
        memcpy(&o, given, given->size < sizeof o ? given->size : sizeof o);
    }
    if (o.arrival_ns < 0 || o.deadline_ns < 0)
        return mo_fail(err, MOIRE_EINVAL, "options: %s is negative",
                       o.arrival_ns < 0 ? "arrival_ns" : "deadline_ns");
    *out =
        (struct mo_arrival){.arrival = o.arrival_ns,
                            .deadline = o.deadline_ns,
                            .expires = o.deadline_ns && o.deadline_ns != MOIRE_NO_DEADLINE && !o.late_goes_on,
                            .own_priority = o.own_priority != 0,
                            .priority = o.priority,
                            .tag = o.tag};
    _Static_assert(MOIRE_NO_DEADLINE == MO_NEVER, "the core's word for no deadline");
    return MOIRE_OK;
}

typedef void (*returned_call)(void *user);
/* Whom lent inputs go back to; NULL: they are copied. */
static returned_call lender(const moire_query_options *o) {
    return o && o->size >= offsetof(moire_query_options, returned) + sizeof o->returned ? o->returned : NULL;
}

/* A request with the inputs, or with the loan of them, for the tenant's first place. */
static struct mo_request_head *make_request(const moire_tenant *t, const moire_submission *s,
                                            moire_callback callback, const struct mo_arrival *arrival) {
    const struct mo_place *p = &t->place[0];
    const bool lent = lender(s->options) && p->calls->lend;
    struct mo_request_head *request = p->calls->take(p->self, lent);
    if (!request) return NULL;
    *request = (struct mo_request_head){.caller = {callback, s->user, arrival->tag},
                                        .arrival = *arrival,
                                        .loan = {.returned = lent ? lender(s->options) : NULL}};
    for (int i = 0; i < t->ports->n_inputs; i++)
        if (lent)
            p->calls->lend(p->self, request, i, s->inputs[i].data);
        else if (s->inputs[i].bytes)
            memcpy(p->calls->input(p->self, request, i), s->inputs[i].data, s->inputs[i].bytes);
    return request;
}

/* Checks a query, counts it and makes it ready for the engine. */
static int begin(moire_tenant *t, const moire_submission *s, int n_inputs, moire_callback callback,
                 struct mo_device_query *out, moire_error *err) {
    const moire_runtime *rt = t->runtime;
    const struct mo_sys *sys = rt->env.sys;
    struct mo_arrival *a = &out->arrival;
    int rc = read_options(s->options, a, err);
    if (!rc) rc = mo_request_check(t, s->inputs, n_inputs, err);
    if (rc) return rc;
    if (!mo_account_begin(sys, &t->accounting))
        return mo_fail(err, MOIRE_EUNLOADED, "'%s' drains or is being unloaded", t->name);
    if (atomic_load(&rt->closing))
        rc = mo_fail(err, MOIRE_ESHUTDOWN, "the runtime is shutting down");
    else if (!(a->user = make_request(t, s, callback, a)))
        rc = mo_fail(err, MOIRE_ENOMEM, "out of memory for the inputs of a query of '%s'", t->name);
    if (rc) mo_account_reject(sys, &t->accounting);
    return rc;
}

static void hand_over(const moire_tenant *t, struct mo_device_query *queries, int n, moire_error *err) {
    mo_engine_submit_all(t->runtime->engine, t->place[0].tenant, queries, n, err);
}

/* What the engine said of a query.  One that it took may be answered by now, and with the last answer the
 * tenant may be gone: nothing of it is read.  `lends`: its places take inputs on loan. */
static void settle(moire_tenant *t, bool lends, const struct mo_device_query *q, moire_submission *s) {
    s->code = q->code;
    if (!q->code) {
        s->handle = q->handle;
        if (lender(s->options) && !lends) lender(s->options)(s->user); /* they were copied */
        return;
    }
    const struct mo_place *p = &t->place[0];
    p->calls->give(p->self, q->arrival.user);
    mo_account_reject(t->runtime->env.sys, &t->accounting);
}

/* One query, which needs no room but the stack.  guest: as in struct mo_device_query. */
static int submit(moire_tenant *t, moire_submission *s, int n_inputs, moire_callback callback,
                  struct mo_device_guest *guest, moire_query *handle, moire_error *err) {
    struct mo_device_query q = {.guest = guest};
    int rc = mo_runtime_here(t->runtime, err);
    if (!rc) rc = begin(t, s, n_inputs, callback, &q, err);
    if (rc) return rc;
    const bool lends = t->place[0].calls->lend;
    hand_over(t, &q, 1, err);
    settle(t, lends, &q, s);
    if (!s->code && handle) *handle = s->handle;
    return s->code;
}

int moire_submit_with(moire_tenant *t, const moire_tensor *inputs, int n_inputs,
                      const moire_query_options *options, moire_callback callback, void *user,
                      moire_query *handle, moire_error *err) {
    if (!t) return mo_fail(err, MOIRE_EINVAL, "moire_submit_with: no tenant given");
    moire_submission s = {.inputs = inputs, .options = options, .user = user};
    return submit(t, &s, n_inputs, callback, NULL, handle, err);
}

int moire_submit(moire_tenant *t, const moire_tensor *inputs, int n_inputs, int64_t arrival_ns,
                 moire_callback callback, void *user, moire_query *handle, moire_error *err) {
    if (!t) return mo_fail(err, MOIRE_EINVAL, "moire_submit: no tenant given");
    if (arrival_ns < 0) return mo_fail(err, MOIRE_EINVAL, "moire_submit: arrival_ns is negative");
    const moire_query_options options = {.size = sizeof options, .arrival_ns = arrival_ns};
    moire_submission s = {.inputs = inputs, .options = &options, .user = user};
    return submit(t, &s, n_inputs, callback, NULL, handle, err);
}

int moire_submit_many(moire_tenant *t, moire_submission *queries, int n, moire_callback callback,
                      moire_error *err) {
    if (!t || n < 0 || (n && !queries))
        return mo_fail(err, MOIRE_EINVAL, "moire_submit_many: tenant and queries must be given");
    const struct mo_env *env = &t->runtime->env;
    int rc = mo_runtime_here(t->runtime, err), ready = 0, bad = 0;
    if (rc || !n) return rc;
    struct mo_device_query *list = mo_alloc(env, (size_t)n * sizeof *list);
    if (!list) return mo_fail(err, MOIRE_ENOMEM, "out of memory for %d queries", n);
    moire_error early = {0}, late = {0};
    for (int i = 0; i < n; i++) {
        queries[i].handle = 0;
        queries[i].code =
            begin(t, &queries[i], t->ports->n_inputs, callback, &list[ready], early.code ? NULL : &early);
        ready += !queries[i].code;
    }
    const bool lends = t->place[0].calls->lend;
    if (ready) hand_over(t, list, ready, &late);
    for (int i = 0, k = 0; i < n; i++) {
        bool asked = !queries[i].code;
        if (asked) settle(t, lends, &list[k++], &queries[i]);
        if (!queries[i].code || rc) continue;
        rc = queries[i].code;
        bad = asked;
    }
    if (rc && err) *err = bad ? late : early;
    mo_free(env, list);
    return rc;
}

/* --- the blocking form --- */
enum { BRIEF_NS = 300000 };

struct waiter {
    const struct mo_sys *sys;
    const moire_tenant *tenant;
    moire_tensor *outputs;
    _Atomic uint32_t done;
    int code;
    moire_error err;
};

static int copy_output(struct waiter *w, int i, const moire_tensor *from) {
    moire_tensor *to = &w->outputs[i];
    moire_port port;
    moire_output(w->tenant, i, &port);
    if (!to->data || to->bytes < from->bytes)
        return mo_fail(&w->err, MOIRE_ESHAPE, "output %d '%s' needs %zu bytes, the tensor given has %zu", i,
                       port.name, from->bytes, to->data ? to->bytes : 0);
    void *data = to->data;
    memcpy(data, from->data, from->bytes);
    *to = *from;
    to->data = data;
    return MOIRE_OK;
}

static void finish(void *user, const moire_answer *answer) {
    struct waiter *w = user;
    w->code = answer->code;
    if (w->code) mo_fail(&w->err, w->code, "%s", answer->message);
    for (int i = 0; i < answer->n_outputs && !w->code; i++)
        w->code = copy_output(w, i, &answer->outputs[i]);
    const struct mo_sys *sys = w->sys;
    atomic_store(&w->done, 1); /* w belongs to the waiter again: only its address is used below */
    sys->futex_wake(sys->self, &w->done, 1);
}

/* To wake a worker, and to be woken, takes longer than such a model: the caller rather computes it itself. */
static bool is_brief(const moire_tenant *t) {
    const struct mo_profile *p = t->profile;
    return p && mo_profile_time(p, 1, 0, p->n_layers) < BRIEF_NS;
}

int moire_run(moire_tenant *t, const moire_tensor *inputs, int n_inputs, moire_tensor *outputs, int n_outputs,
              moire_error *err) {
    if (!t) return mo_fail(err, MOIRE_EINVAL, "moire_run: no tenant given");
    if (n_outputs != moire_n_outputs(t) || (n_outputs && !outputs))
        return mo_fail(err, MOIRE_EINVAL, "'%s' has %d outputs, %d were given", t->name, moire_n_outputs(t),
                       outputs ? n_outputs : 0);
    const moire_runtime *rt = t->runtime;
    struct waiter w = {.sys = rt->env.sys, .tenant = t, .outputs = outputs};
    struct mo_device_guest guest = {.cpu = w.sys->cpu(w.sys->self), .core = -1};
    moire_submission s = {.inputs = inputs, .user = &w};
    const int place = t->place[0].tenant;
    int rc = submit(t, &s, n_inputs, finish, is_brief(t) ? &guest : NULL, NULL, err);
    if (rc) return rc;
    if (guest.core >= 0) mo_engine_be_guest(rt->engine, place, guest.core);
    while (!atomic_load(&w.done))
        w.sys->futex_wait(w.sys->self, &w.done, 0, 0);
    if (w.code && err) *err = w.err;
    return w.code;
}
