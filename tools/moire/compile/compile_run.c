/* SPDX-License-Identifier: Apache-2.0
 * compile_run.c - see compile_run.h. */
#define _GNU_SOURCE
#include "tools/moire/compile/compile_run.h"

#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include "codegen/search/known_models.h"
#include "tools/moire/neighbour.h"
#include "tools/moire/verb.h"

/* What verifying and publishing may take beyond the budget before they are given up. */
enum { OVER_NS = 500000000 };

static void print_log(void *user, int level, const char *line) {
    const struct mo_compile_run *r = user;
    if (level == MOIRE_LOG_ERROR || (r->verbose && level <= MOIRE_LOG_WARN))
        fprintf(stderr, "moire %s: %s\n", r->verb, line);
}

/* What the user left open. */
static void fill_in(struct mo_compile_run *r, struct mo_compile_progress *progress) {
    struct mo_search_options *s = &r->compile.search;
    cpu_set_t set;
    int allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    if (!s->jobs) s->jobs = allowed;
    if (!s->cores) s->cores = allowed;
    s->store = r->store;
    s->interrupted = r->interrupted;
    s->began = mo_compile_show_began;
    s->progress = mo_compile_show_progress;
    s->budget_began = progress->started;
    s->ctx = progress;
}

/* Verifies and publishes; an exit code. */
static int finish(struct mo_compile_run *r, const struct mo_env *env) {
    const struct mo_search_options *s = &r->compile.search;
    struct mo_finish f = {.env = env,
                          .verb = r->verb,
                          .store = r->store,
                          .compile = &r->compile,
                          .search = r->search,
                          .interrupted = r->interrupted,
                          .ends =
                              s->budget_s > 0 ? s->budget_began + (int64_t)(s->budget_s * 1e9) + OVER_NS : 0,
                          .model = r->model,
                          .withdrawn = r->shown.withdrawn};
    int code = mo_compile_finish(&f);
    r->shown.model = r->model;
    r->shown.n_models = f.n;
    r->trouble = f.err;
    return code;
}

/* So that `--all` finds them; a model that cannot be noted is compiled all the same. */
static void note_models(const struct mo_compile_run *r, const struct mo_env *env) {
    const struct mo_compile_options *c = &r->compile;
    moire_shape *shapes = mo_alloc(env, ((size_t)c->n_shapes + 1) * sizeof *shapes);
    for (int i = 0; shapes && i < c->n_files; i++) {
        struct mo_known_model source;
        moire_error err = {0};
        int n;
        if (mo_compile_shapes(env, c, c->files[i], shapes, &n, &err)) continue;
        bool plain = mo_known_set(env, c->files[i], shapes, n, c->exact, &source);
        source.versions = c->search.versions;
        source.qos_ns = c->search.qos_ns;
        if (!plain)
            mo_fail(&err, MOIRE_ELIMIT, "its path or the name of an input is too long or no plain text");
        if (!plain || mo_known_note(env, r->store, &source, &err))
            fprintf(stderr, "moire %s: '%s': `--all` will not know of it: %s\n", r->verb, c->files[i],
                    err.message);
    }
    mo_free(env, shapes);
}

/* Now, with the compilers and the copies of this process that have ended. */
static struct mo_cpu_moment moment_now(void) {
    struct mo_cpu_moment m = mo_cpu_moment_now(0);
    struct rusage r;
    if (!getrusage(RUSAGE_CHILDREN, &r))
        m.own_s += (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
                   (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
    return m;
}

static int search(struct mo_compile_run *r, const struct mo_env *env, moire_error *err) {
    struct mo_search_options *s = &r->compile.search;
    struct mo_neighbour neighbour = {.stress = NULL};
    int rc = s->versions > 1 ? mo_neighbour_open(env, &neighbour, err) : MOIRE_OK;
    s->stress = neighbour.stress;
    if (!rc) rc = mo_compile_models(env, &r->compile, &r->search, err);
    mo_neighbour_close(&neighbour);
    return rc;
}

int mo_compile_run(struct mo_compile_run *r, int *exit_code, moire_error *err) {
    const struct mo_env *env = &r->logging;
    r->logging = *r->env;
    r->logging.log = print_log;
    r->logging.log_user = r;
    struct mo_compile_progress progress = {.env = env,
                                           .started = mo_now(env),
                                           .terminal = isatty(STDERR_FILENO),
                                           .versions = r->compile.search.versions};
    const struct mo_cpu_moment before = moment_now();
    fill_in(r, &progress);
    int rc = search(r, env, err);
    *exit_code = MO_EXIT_OK;
    if (r->search) note_models(r, env);
    r->shown.withdrawn = json_array();
    if (!rc) *exit_code = finish(r, env);
    const struct mo_cpu_moment after = moment_now();
    mo_others_add(&r->shown.others, &before, &after);
    r->shown.compile = &r->compile;
    r->shown.store = r->store;
    r->shown.err = &r->trouble;
    r->shown.seconds = (double)(mo_now(env) - progress.started) * 1e-9;
    if (rc && progress.terminal) fputc('\n', stderr);
    if (r->search && rc == MOIRE_EINTERRUPTED) {
        struct mo_compile_totals t = mo_compile_totals(r->search);
        fprintf(stderr, "moire %s: %d of %d layers are in the store; run the command again to go on\n",
                r->verb, t.layers - t.pending, t.layers);
    }
    return rc;
}

void mo_compile_run_close(struct mo_compile_run *r) {
    json_decref(r->shown.withdrawn);
    mo_search_destroy(r->search);
    r->shown.withdrawn = NULL;
    r->search = NULL;
}
