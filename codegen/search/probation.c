/* SPDX-License-Identifier: Apache-2.0
 * probation.c - the first runs of emitted code, in a copy of this process under a time limit.
 *
 * A candidate that crashes or never ends takes the copy with it, not the command: it is rejected, and a new
 * copy goes on with those behind it.  Only what computed right there is loaded and timed here.  One copy
 * serves all candidates of a turn, so that a sound family costs one fork a turn. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "codegen/search/search_impl.h"

enum { DEFAULT_LIMIT_S = 60 };

/* What the copy tells, candidate by candidate. */
struct outcome {
    bool good;
    int code; /* of the call that failed */
    char verdict[64], message[500];
};

struct report {
    int done; /* candidates before this one have an outcome; it is in work */
    struct outcome outcome[];
};

struct trial {
    struct mo_search *s;
    struct search_job *job;
    struct mo_harness *h;
    int from;
};

static void tell(struct outcome *o, const char *verdict, const moire_error *err) {
    o->code = err->code;
    snprintf(o->verdict, sizeof o->verdict, "%s", verdict);
    snprintf(o->message, sizeof o->message, "%s", err->message);
}

static int load_code(const struct mo_search *s, const struct candidate *c, void **code,
                     struct mo_variant *variant, moire_error *err) {
    struct mo_store_object o = {.bytes = c->object, .n = c->object_bytes, .open = {.fd = -1}};
    mo_sha256_hex(o.bytes, o.n, o.digest);
    return mo_store_load(s->env, &o, code, variant, err);
}

static void examine(struct mo_search *s, struct mo_harness *h, const struct candidate *c, struct outcome *o) {
    struct mo_variant variant;
    moire_error err = {0};
    void *code;
    if (load_code(s, c, &code, &variant, &err)) {
        tell(o, "object refused", &err);
        return;
    }
    struct mo_runnable r = mo_variant_runnable(&variant);
    if (mo_harness_pack(h, variant.packing, &err))
        tell(o, "unknown packing", &err);
    else if (!mo_verify(h, &r, &err))
        tell(o, "wrong result", &err);
    else
        o->good = true;
    s->env->sys->dl_close(s->env->sys->self, code);
}

static void run_trial(void *ctx, void *shared) {
    const struct trial *t = ctx;
    struct report *report = shared;
    for (int i = t->from; i < t->job->next; i++) {
        if (t->job->candidate[i].state == CANDIDATE_COMPILED)
            examine(t->s, t->h, &t->job->candidate[i], &report->outcome[i]);
        report->done = i + 1;
    }
}

/* Loads what proved good; rejects the others. */
static int take(struct mo_search *s, struct candidate *c, const struct outcome *o, moire_error *err) {
    if (c->state != CANDIDATE_COMPILED) return MOIRE_OK;
    if (!o->good) {
        mo_fail(&c->err, o->code, "%s", o->message);
        mo_candidate_reject(s, c, o->verdict);
        return o->code == MOIRE_ENOMEM ? mo_fail(err, MOIRE_ENOMEM, "%s", o->message) : MOIRE_OK;
    }
    int rc = load_code(s, c, &c->code, &c->variant, &c->err);
    if (rc) return mo_fail(err, rc, "%s", c->err.message);
    c->state = CANDIDATE_GOOD;
    snprintf(c->verdict, sizeof c->verdict, "ok");
    return MOIRE_OK;
}

/* The candidate that ended its copy; `status` as from sys->fork. */
static void reject_ended(struct mo_search *s, struct candidate *c, int status, double limit_s) {
    if (status == -ETIMEDOUT)
        mo_fail(&c->err, MOIRE_EFAILED, "it did not end within %.3g s", limit_s);
    else if (status > 128)
        mo_fail(&c->err, MOIRE_EFAILED, "it crashed with signal %d", status - 128);
    else
        mo_fail(&c->err, MOIRE_EFAILED, "it ended its process with status %d", status);
    mo_candidate_reject(s, c, status == -ETIMEDOUT ? "hangs" : "crashes");
}

static int try_all(struct trial *t, struct report *report, moire_error *err) {
    const struct mo_sys *sys = t->s->env->sys;
    struct candidate *candidate = t->job->candidate;
    double limit_s = t->s->options.probation_s > 0 ? t->s->options.probation_s : DEFAULT_LIMIT_S;
    int rc = MOIRE_OK;
    while (!rc && t->from < t->job->next) {
        if (mo_search_interrupted(t->s)) return mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
        if (mo_search_over(t->s)) return MOIRE_OK;
        report->done = t->from;
        int status =
            sys->fork(sys->self, run_trial, t, report, mo_search_limit(t->s, (int64_t)(limit_s * 1e9)));
        if (status < 0 && status != -ETIMEDOUT)
            return mo_fail(err, MOIRE_EIO, "cannot start a process to try kernels in: %s", strerror(-status));
        for (; !rc && t->from < report->done; t->from++)
            rc = take(t->s, &candidate[t->from], &report->outcome[t->from], err);
        if (!rc && status == -ETIMEDOUT && mo_search_over(t->s)) return MOIRE_OK;
        if (!rc && status && t->from < t->job->next)
            reject_ended(t->s, &candidate[t->from++], status, limit_s);
    }
    return rc;
}

int mo_job_examine(struct mo_search *s, struct search_job *job, struct mo_harness *h, moire_error *err) {
    const struct mo_sys *sys = s->env->sys;
    struct trial trial = {s, job, h, 0};
    while (trial.from < job->next && job->candidate[trial.from].state != CANDIDATE_COMPILED)
        trial.from++;
    if (trial.from == job->next) return MOIRE_OK;
    size_t bytes = sizeof(struct report) + (size_t)job->next * sizeof(struct outcome);
    struct report *report = sys->share(sys->self, bytes);
    if (!report) return mo_fail(err, MOIRE_ENOMEM, "out of memory trying kernels");
    int rc = try_all(&trial, report, err);
    sys->unshare(sys->self, report, bytes);
    return rc;
}
