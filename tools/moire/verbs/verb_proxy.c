/* SPDX-License-Identifier: Apache-2.0
 * verb_proxy.c - `moire proxy`: which hardware counters this machine has, samples of them under known
 * pressure, and the linear model that estimates cache contention from them. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include "bench/fit/proxy_fit.h"
#include "runtime/base/output.h"
#include "runtime/device/topology.h"
#include "runtime/proxy/proxy.h"
#include "tools/moire/verbs/bench_common.h"
#include "tools/moire/neighbour.h"

static const char about[] =
    "list     the sources of pressure, and what keeps those away that are not there\n"
    "measure  counters and the slowdown of a victim that streams a quarter of the shared cache, under the "
    "six\n"
    "         levels of the neighbour that `moire tune` measures under; wants the machine to itself\n"
    "fit      principal components of the counters and the least-squares line from them to the pressure, "
    "with\n"
    "         R2; FILE holds samples of `measure`, or is a run recorded by `moire bench serve --record` "
    "with\n"
    "         counters and tuned models\n";

static const char notes[] =
    "Examples:\n"
    "  moire proxy list\n"
    "  moire proxy measure -o samples.csv && moire proxy fit samples.csv -o proxy.csv\n"
    "  moire bench serve mix --policy veltair --proxy proxy.csv\n";

/* --- list ----------------------------------------------------------------------------------------------- */
/* why: what keeps it away; NULL: it works here. */
static void print_source(const struct mo_source *s, const char *why) {
    printf("%-9s %s: %s\n", s->name, why ? "no " : "yes", why ? why : s->about);
    for (int i = 0; !why && i < s->n; i++)
        printf("              %s, %s\n", s->observable[i], s->unit[i]);
}

static json_t *source_json(const struct mo_source *s, const char *why) {
    json_t *counters = json_array();
    for (int i = 0; i < s->n; i++)
        json_array_append_new(counters,
                              json_pack("{s:s, s:s}", "name", s->observable[i], "unit", s->unit[i]));
    json_t *row = json_pack("{s:s, s:b, s:s, s:o}", "source", s->name, "available", !why, "about", s->about,
                            "counters", counters);
    if (why) json_object_set_new(row, "missing", json_string(why));
    return row;
}

static int list(const struct mo_env *env, const struct mo_options *o, moire_error *err) {
    struct mo_topology *t;
    int code = mo_topology_create(env, NULL, 0, "", &t, err);
    if (code) return code;
    struct mo_source_config c = {.env = env, .cpu = t->cpu, .n_cpus = t->n_cores};
    json_t *rows = json_array();
    for (const struct mo_source *const *s = mo_sources(); *s; s++) {
        moire_error why;
        void *opened = NULL;
        bool there = !(*s)->open || !(*s)->open(&c, &opened, &why);
        if (o->json)
            json_array_append_new(rows, source_json(*s, there ? NULL : why.message));
        else
            print_source(*s, there ? NULL : why.message);
        if (opened) (*s)->close(opened);
    }
    if (o->json) code = mo_print_json(rows, err);
    json_decref(rows);
    mo_topology_destroy(t);
    return code;
}

/* --- measure -------------------------------------------------------------------------------------------- */
/* The source asked for, or the first that works. */
static int pick_source(const struct mo_source_config *c, const char *name, const struct mo_source **out,
                       moire_error *err) {
    void *opened;
    if (name && strcmp(name, "auto") != 0) {
        *out = mo_source_find(name);
        return *out ? MOIRE_OK : mo_source_unknown(name, err);
    }
    *out = mo_source_first(c, &opened);
    if (opened) (*out)->close(opened);
    return MOIRE_OK;
}

static int measure_on(const struct mo_env *env, const struct mo_options *o, const struct mo_topology *t,
                      struct mo_samples *samples, moire_error *err) {
    struct mo_proxy_measure m = {.cpu = t->cpu, .n_cpus = t->n_cores, .rounds = o->rounds};
    struct mo_source_config c = {.env = env, .cpu = t->cpu, .n_cpus = t->n_cores};
    struct mo_neighbour neighbour;
    if (t->n_cores < 2)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "one core only: a neighbour and its victim need one each");
    int code = pick_source(&c, o->source, &m.source, err);
    if (!code) code = mo_neighbour_open(env, &neighbour, err);
    if (code) return code;
    env->sys->pin(env->sys->self, neighbour.spared);
    m.stress = neighbour.stress;
    code = mo_proxy_measure(&m, samples, err);
    mo_neighbour_close(&neighbour);
    if (!code) code = mo_samples_write(samples, "levels 0 to 5 of moire stress over 5", o->output, err);
    if (!code && !o->json) printf("%d rows of %s in %s\n", samples->n, m.source->name, o->output);
    if (code || !o->json) return code;
    json_t *document =
        json_pack("{s:s, s:s, s:i}", "file", o->output, "source", m.source->name, "rows", samples->n);
    code = mo_print_json(document, err);
    json_decref(document);
    return code;
}

static int measure(const struct mo_env *env, const struct mo_options *o, moire_error *err) {
    struct mo_samples samples = {.env = env};
    struct mo_topology *t;
    int code = mo_topology_create(env, NULL, 0, "", &t, err);
    if (code) return code;
    code = measure_on(env, o, t, &samples, err);
    mo_samples_free(&samples);
    mo_topology_destroy(t);
    return code;
}

/* --- fit ------------------------------------------------------------------------------------------------ */
/* Marks the columns of --use, all without it. */
static int columns(const struct mo_source *s, const char *list, bool use[MO_SAMPLE_CELLS], moire_error *err) {
    for (int c = 0; c < MO_SAMPLE_CELLS; c++)
        use[c] = !list;
    while (list && *list) {
        size_t n = strcspn(list, ",");
        int c = MO_SAMPLE_SLOWDOWN;
        while (c < mo_samples_columns(s) &&
               (strlen(mo_samples_column(s, c)) != n || strncmp(list, mo_samples_column(s, c), n) != 0))
            c++;
        if (c == mo_samples_columns(s))
            return mo_fail(err, MOIRE_EINVAL, "--use %s: no such column of %s", list, s->name);
        use[c] = true;
        list += n + (list[n] == ',');
    }
    return MOIRE_OK;
}

static int write_proxy(const struct mo_env *env, const struct mo_fit *f, const struct mo_source *source,
                       const char *path, moire_error *err) {
    struct mo_proxy p = {.source = source, .intercept = f->intercept};
    char text[1024], note[160];
    if (!source || !source->open)
        return mo_fail(err, MOIRE_EINVAL,
                       "no counters in the rows: observed slowdown needs no proxy, each tuned model has its "
                       "own curve");
    for (int i = 0; i < f->k; i++)
        p.coefficient[f->column[i] - MO_SAMPLE_FIRST] = f->coefficient[i];
    snprintf(note, sizeof note, "R2 %.4f, %.4f on rows left out, over %d rows", f->r2, f->r2_left_out, f->n);
    size_t n = mo_proxy_text(&p, note, text, sizeof text);
    return n ? mo_output_write(env, path, text, n, err) : mo_fail(err, MOIRE_EINTERNAL, "%s: too long", path);
}

static int fit_samples(const struct mo_env *env, const struct mo_options *o, struct mo_samples *s,
                       moire_error *err) {
    struct mo_fit fit;
    bool use[MO_SAMPLE_CELLS];
    int code = columns(s->source, o->columns, use, err);
    if (!code) code = mo_fit_samples(s, use, &fit, err);
    if (code) return code;
    json_t *document = mo_fit_json(&fit, s->source);
    if (!document) return mo_fail(err, MOIRE_ENOMEM, "out of memory");
    if (!o->json) mo_fit_print(document);
    if (o->output) code = write_proxy(env, &fit, s->source, o->output, err);
    if (!code && o->json) code = mo_print_json(document, err);
    json_decref(document);
    return code;
}

static int fit(const struct mo_env *env, const struct mo_options *o, moire_error *err) {
    struct mo_samples samples = {.env = env};
    int code = MOIRE_OK;
    for (int i = 0; !code && i < o->operands.n; i++)
        code = mo_proxy_load(&samples, o->operands.word[i], err);
    if (!code) code = fit_samples(env, o, &samples, err);
    mo_samples_free(&samples);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    int code = o->command == MO_DO_PROXY_LIST      ? list(env, o, &err)
               : o->command == MO_DO_PROXY_MEASURE ? measure(env, o, &err)
                                                   : fit(env, o, &err);
    return code ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}

const struct mo_verb mo_verb_proxy = {
    .name = "proxy",
    .group = MO_GROUP_MEASURE,
    .summary = "estimate cache contention from hardware counters",
    .about = about,
    .notes = notes,
    .commands = {{.name = "list", .command = MO_DO_PROXY_LIST},
                 {.name = "measure", .command = MO_DO_PROXY_MEASURE},
                 {.name = "fit", .command = MO_DO_PROXY_FIT, .operands = "FILE ..."}},
    .run = run,
};
