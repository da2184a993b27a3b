/* SPDX-License-Identifier: Apache-2.0
 * tabulated.c - what `moire tables` and `moire grid` have in common; see tabulated.h. */
#include "tools/moire/verbs/tabulated.h"

#include <string.h>
#include "bench/report/headline.h"
#include "bench/report/report.h"

/* --- options -------------------------------------------------------------------------------------------- */
/* Defaults that differ from those of one simulation. */
static int fill_serve(const struct mo_options *o, struct mo_bench_serve_options *s, moire_error *err) {
    enum { SEEDS = 10 };
    int code = mo_bench_serve_options(o, true, s, err);
    for (int i = 0; !o->seed_count && i < SEEDS; i++)
        s->seeds[i] = (uint64_t)i + 1;
    if (!o->seed_count) s->n_seeds = SEEDS;
    s->n_loads = 0; /* those of --load are not points of the search */
    return code ? code : mo_bench_check_grid(s, err);
}

int mo_tabulated_fill(const struct mo_options *o, struct mo_tabulated_paths *paths,
                      struct mo_bench_simulate_options *s, const char **scenarios, int *n, moire_error *err) {
    static const char *const shipped[] = {"veltair-light", "veltair-medium", "veltair-heavy", "veltair-mix"};
    int given = o->operands.n, named = given ? given : (int)(sizeof shipped / sizeof *shipped);
    if (given > MO_BENCH_MAX_PIECES)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d scenarios", MO_BENCH_MAX_PIECES);
    int code = fill_serve(o, &s->serve, err);
    if (!code)
        code = mo_known_find_data(MO_KNOWN_MACHINES, o->machine, paths->machine, sizeof paths->machine, err);
    for (*n = 0; !code && *n < named; ++*n) {
        code = mo_known_find_data(MO_KNOWN_SCENARIOS, given ? o->operands.word[*n] : shipped[*n],
                                  paths->scenario[*n], sizeof paths->scenario[*n], err);
        scenarios[*n] = paths->scenario[*n];
    }
    s->machine = paths->machine;
    s->jobs = o->jobs;
    s->n_with = o->with.n;
    memcpy(s->with, o->with.word, (size_t)o->with.n * sizeof *s->with);
    return code;
}

/* --- the document --------------------------------------------------------------------------------------- */
static int write_files(const struct mo_env *env, const struct mo_options *o, const struct mo_tabulated *how,
                       const json_t *document, moire_error *err) {
    int code = o->output ? mo_bench_write_json(env, document, o->output, err) : MOIRE_OK;
    if (!code && o->report) code = how->html(env, document, o->report, err);
    return code;
}

/* The document with what its tables say before everything else; itself when memory is out.  Takes it. */
static json_t *say_first(const struct mo_tabulated *how, json_t *document) {
    json_t *said = mo_headline_before(how->headline(document), document);
    if (!said) return document;
    json_decref(document);
    return said;
}

static int make_document(struct mo_bench_session *session, const struct mo_options *o,
                         const struct mo_tabulated *how, json_t **document, moire_error *err) {
    struct mo_tabulated_paths *paths = mo_alloc(session->env, sizeof *paths);
    void *work = mo_alloc(session->env, how->bytes);
    int code = paths && work ? how->fill(o, work, paths, err) : mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!code) code = how->make(session, work, document, err);
    mo_free(session->env, work);
    mo_free(session->env, paths);
    return code;
}

static int make(struct mo_bench_session *session, const struct mo_options *o,
                const struct mo_tabulated *how) {
    json_t *document = NULL;
    moire_error err = {0}, why = {0};
    int code = make_document(session, o, how, &document, &err);
    if (document) document = say_first(how, document);
    if (document && !o->json) how->print(document);
    if (document && write_files(session->env, o, how, document, &why) && !code) {
        code = why.code;
        err = why;
    }
    if (!code && o->json) code = mo_print_json(document, &err);
    int exit = code ? mo_verb_fail_with(o, &err, document) : MO_EXIT_OK;
    json_decref(document);
    return exit;
}

int mo_tabulated_run(const struct mo_env *env, const struct mo_options *o, const struct mo_tabulated *how) {
    moire_error err = {0};
    struct mo_bench_session session;
    struct mo_bench_paths paths;
    int code = mo_bench_open(env, o, &session, &paths, &err);
    if (code) return mo_verb_fail(o, &err);
    code = make(&session, o, how);
    mo_bench_session_close(&session);
    return code;
}
