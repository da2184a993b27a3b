/* SPDX-License-Identifier: Apache-2.0
 * journal.c - result documents that grow; see journal.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bench/data/experiment.h"
#include "bench/data/journal.h"
#include "bench/report/report.h"
#include "runtime/base/output.h"

static json_t *fresh(const struct mo_bench_session *s, const char *kind) {
    json_t *experiment = mo_bench_experiment(s->command, s->cores);
    if (experiment) json_object_set_new(experiment, "peers", mo_bench_peer_versions(s));
    return json_pack("{s:s, s:o, s:[], s:[], s:[], s:b}", "kind", kind, "experiment", experiment, "results",
                     "left_out", "done", "complete", 0);
}

/* The experiment's entries that results depend on, as a reader calls them. */
static const struct {
    enum mo_bench_basis basis;
    const char *key, *what;
} grounds[] = {{MO_BENCH_MEASURED, "cpu", "on another processor"},
               {MO_BENCH_MEASURED, "cores", "on another number of cores"},
               {MO_BENCH_MEASURED, "compiler", "by a build of another compiler"},
               {MO_BENCH_MEASURED, "sources", "by a build with other code"},
               {MO_BENCH_MEASURED, "peers", "beside other versions of peers"},
               {MO_BENCH_SIMULATED, "simulator", "by a build whose simulator or policies differ"}};

/* What an earlier experiment was that this one is not; NULL = they compare. */
static const char *differs(enum mo_bench_basis basis, const json_t *a, const json_t *b) {
    for (size_t i = 0; i < sizeof grounds / sizeof *grounds; i++)
        if (grounds[i].basis == basis &&
            !json_equal(json_object_get(a, grounds[i].key), json_object_get(b, grounds[i].key)))
            return grounds[i].what;
    return NULL;
}

/* Puts the earlier document in the place of the fresh one. */
static int take_up(struct mo_bench_journal *j, enum mo_bench_basis basis, moire_error *err) {
    struct mo_json_file file;
    int code = mo_json_load(j->session->env, j->path, &file, err);
    if (code) return code;
    json_t *old = file.root;
    const json_t *then = json_object_get(old, "experiment");
    const char *other = differs(basis, then, json_object_get(j->document, "experiment"));
    bool fits = json_equal(json_object_get(old, "kind"), json_object_get(j->document, "kind")) &&
                json_is_array(json_object_get(old, "results")) &&
                json_is_array(json_object_get(old, "left_out")) &&
                json_is_array(json_object_get(old, "done"));
    if (!fits)
        code = mo_fail(err, MOIRE_EINVAL, "%s: no result of this command to resume; name another --output",
                       j->path);
    else if (other)
        code = mo_fail(err, MOIRE_EINVAL,
                       "%s: was made %s (commit %s), so its results and new ones would not compare; name "
                       "another --output",
                       j->path, other, mo_json_text(then, "commit"));
    if (!code) {
        json_decref(j->document);
        j->document = json_incref(old);
    }
    mo_json_close(&file);
    return code;
}

int mo_bench_journal_open(const struct mo_bench_session *session, const char *kind, enum mo_bench_basis basis,
                          const char *path, bool resume, struct mo_bench_journal *out, moire_error *err) {
    *out = (struct mo_bench_journal){.session = session, .path = path, .document = fresh(session, kind)};
    if (!out->document) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    int code = MOIRE_OK;
    if (path) code = mo_output_check(session->env, path, err);
    out->keeps = path && mo_output_replaces(session->env, path);
    if (!code && resume && !path)
        code = mo_fail(err, MOIRE_EINVAL, "--resume needs --output F.json to go on with");
    if (!code && resume && out->keeps && access(path, F_OK) == 0) code = take_up(out, basis, err);
    if (!code) return MOIRE_OK;
    json_decref(out->document);
    out->document = NULL;
    return code;
}

json_t *mo_bench_journal_results(const struct mo_bench_journal *journal) {
    return json_object_get(journal->document, "results");
}

json_t *mo_bench_journal_left_out(const struct mo_bench_journal *journal) {
    return json_object_get(journal->document, "left_out");
}

json_t *mo_bench_journal_result(const struct mo_bench_journal *journal, const char *piece) {
    size_t i;
    json_t *one;
    json_array_foreach(mo_bench_journal_results(journal), i, one) {
        if (!strcmp(mo_json_text(one, "piece"), piece)) return one;
    }
    return NULL;
}

bool mo_bench_journal_has(struct mo_bench_journal *journal, const char *piece) {
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(journal->document, "done"), i, one) {
        if (strcmp(json_is_string(one) ? json_string_value(one) : "", piece) != 0) continue;
        journal->reused++;
        return true;
    }
    return false;
}

int mo_bench_journal_note(struct mo_bench_journal *journal, const char *piece, moire_error *err) {
    if (json_array_append_new(json_object_get(journal->document, "done"), json_string(piece)))
        return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    return journal->keeps ? mo_bench_write_json(journal->session->env, journal->document, journal->path, err)
                          : MOIRE_OK;
}

json_t *mo_bench_journal_finish(struct mo_bench_journal *journal, bool complete) {
    json_t *document = journal->document;
    json_object_set_new(document, "complete", json_boolean(complete));
    journal->document = NULL;
    return document;
}

void mo_bench_journal_drop(struct mo_bench_journal *journal) {
    json_decref(journal->document);
    journal->document = NULL;
}

int mo_bench_journal_make(const struct mo_bench_session *session, const struct mo_bench_journal_work *work,
                          struct mo_bench_journal *journal, json_t **out, moire_error *err) {
    int code = mo_bench_journal_open(session, work->kind, MO_BENCH_SIMULATED, work->output, work->resume,
                                     journal, err);
    if (code) return code;
    if ((code = work->pieces(work->self, false, err))) {
        mo_bench_journal_drop(journal);
        return code;
    }
    code = work->pieces(work->self, true, err);
    *out = mo_bench_journal_finish(journal, code == MOIRE_OK);
    moire_error why = {0};
    const int rest = work->conclude(work->self, *out, &why);
    if (rest && !code && err) *err = why;
    return code ? code : rest;
}
