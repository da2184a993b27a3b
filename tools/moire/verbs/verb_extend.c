/* SPDX-License-Identifier: Apache-2.0
 * verb_extend.c - `moire extend`: profiles for a machine that is not at hand; see bench/sim/extend.h. */
#include <stdio.h>
#include <string.h>
#include "bench/sim/extend.h"
#include "bench/data/machine.h"
#include "runtime/base/output.h"
#include "tools/moire/verbs/bench_common.h"

static const char about[] =
    "Writes DIR/MODEL.csv: what each model would take on the machine TO, from its profile on the machine\n"
    "FROM.  The models named by --tie have profiles on both and tie the two together; the model between\n"
    "them (core speed, cost of a barrier, memory ceiling) is fitted to those\n"
    "and nothing else.  Its error is printed first: each tying model as predicted by the others.\n"
    "\n"
    "Versions of layers (`moire tune`, `moire profile`) are carried over with what they say of parallelism\n"
    "and locality.\n"
    "\n"
    "MACHINE is a file or a name in bench/machines.  A profile that was measured or published on TO is\n"
    "never replaced; one of a tying model keeps its times and gets the versions of its convolutions.\n";

static const char notes[] =
    "Example:\n"
    "  moire extend mobilenet-v2 bert-large --from cloud-2core-zen4 --to cores64 --tie resnet50,googlenet\n";

enum { MAX_TIES = 8 };
static const char made[] = "predicted by `moire extend`";

struct work {
    const struct mo_env *env;
    const struct mo_options *options;
    struct mo_bench_machine from, to;
    struct mo_profile_table here[MAX_TIES], there[MAX_TIES];
    struct mo_extend_tie ties[MAX_TIES];
    struct mo_extend_model model;
    json_t *document; /* of --json */
};

static int open_machine(const struct mo_env *env, const char *word, struct mo_bench_machine *out, char *path,
                        size_t n, moire_error *err) {
    int code = mo_known_find_data(MO_KNOWN_MACHINES, word, path, n, err);
    return code ? code : mo_bench_machine_load(env, path, out, err);
}

static int read_ties(struct work *w, moire_error *err) {
    int code = MOIRE_OK;
    for (int i = 0; !code && i < w->options->ties.n; i++) {
        code = mo_bench_machine_table(w->env, &w->from, w->options->ties.word[i], &w->here[i], err);
        if (!code) code = mo_bench_machine_table(w->env, &w->to, w->options->ties.word[i], &w->there[i], err);
        if (!code && !strncmp(w->there[i].source, made, sizeof made - 1))
            code = mo_fail(err, MOIRE_EINVAL, "'%s' on '%s' is itself a prediction: it ties nothing",
                           w->options->ties.word[i], w->to.name);
        w->ties[i] = (struct mo_extend_tie){&w->here[i], &w->there[i]};
    }
    return code;
}

/* A tying model as predicted by the others. */
static void report_left_out(struct work *w, int i, const struct mo_extend_model *model) {
    const struct mo_extend_error e = mo_extend_validate(model, &w->ties[i]);
    const bool json = w->options->json;
    json_t *curve = json_array();
    if (!json)
        printf("%s, left out of the fit: off by %.1f %% in the mean over core counts, %.1f %% at worst (%d "
               "cores)\n",
               w->options->ties.word[i], 100 * e.mean, 100 * e.worst, e.worst_cores);
    for (int k = 0; k < w->ties[i].there->n_counts; k++) {
        double guess, truth;
        mo_extend_curve(model, &w->ties[i], k, &guess, &truth);
        if (json)
            json_array_append_new(curve,
                                  json_pack("{s:i, s:f, s:f}", "cores", w->ties[i].there->counts[k],
                                            "predicted_ms", guess * 1e-3, "published_ms", truth * 1e-3));
        else
            printf("  %3d cores: predicted %8.3f ms, published %8.3f ms\n", w->ties[i].there->counts[k],
                   guess * 1e-3, truth * 1e-3);
    }
    json_array_append_new(json_object_get(w->document, "left_out"),
                          json_pack("{s:s, s:f, s:f, s:i, s:o}", "model", w->options->ties.word[i],
                                    "mean_error", e.mean, "worst_error", e.worst, "worst_cores",
                                    e.worst_cores, "curve", curve));
}

static int leave_one_out(struct work *w, moire_error *err) {
    for (int i = 0; i < w->options->ties.n && w->options->ties.n > 1; i++) {
        struct mo_extend_tie others[MAX_TIES];
        struct mo_extend_model model;
        for (int k = 0, n = 0; k < w->options->ties.n; k++)
            if (k != i) others[n++] = w->ties[k];
        int code = mo_extend_fit(others, w->options->ties.n - 1, w->to.sim.bytes_ns * 1e3, &model, err);
        if (code) return code;
        report_left_out(w, i, &model);
    }
    return MOIRE_OK;
}

/* The tie of a model, NULL when it is none. */
static const struct mo_extend_tie *tie_of(const struct work *w, const char *name) {
    for (int i = 0; i < w->options->ties.n; i++)
        if (!strcmp(w->options->ties.word[i], name)) return &w->ties[i];
    return NULL;
}

static int predict(const struct work *w, const char *name, struct mo_profile_table *table, char *note,
                   size_t n, moire_error *err) {
    struct mo_profile_table here;
    int code = mo_bench_machine_table(w->env, &w->from, name, &here, err);
    if (code) return code;
    code = mo_extend_table(w->env, &w->model, &here, w->to.sim.n_cores, table, err);
    mo_profile_table_free(&here);
    snprintf(note, n, "from %s: %.4g x its one-core time shared by its cores + %.4g us + %.4g us a core",
             w->from.name, w->model.ratio, w->model.sync_us, w->model.sync_core_us);
    if (code) return code;
    table->machine = w->to.name;
    table->source = made;
    table->note = note;
    return MOIRE_OK;
}

/* Published times stay as they are and get versions. */
static int add_versions(const struct work *w, const struct mo_extend_tie *tie, struct mo_profile_table *table,
                        char *note, size_t n, moire_error *err) {
    static const char added[] = "; versions: times relative to the first as on ";
    int code = mo_extend_versions(w->env, &w->model, tie, table, err);
    if (code) return code;
    const char *before = tie->there->note, *end = strstr(before, added);
    snprintf(note, n, "%.*s%s%s", (int)(end ? (size_t)(end - before) : strlen(before)), before, added,
             w->from.name);
    table->machine = tie->there->machine;
    table->source = tie->there->source;
    table->note = note;
    return MOIRE_OK;
}

static int write_one(const struct work *w, const char *name, moire_error *err) {
    struct mo_profile_table old, table;
    const struct mo_extend_tie *tie = tie_of(w, name);
    char path[1200], note[512];
    const char *folder = w->options->output ? w->options->output : w->to.profiles;
    int code = MOIRE_OK;
    snprintf(path, sizeof path, "%s/%s.csv", folder, name);
    bool known = !mo_profile_table_read(w->env, path, &old, NULL);
    if (known && !tie && strncmp(old.source, made, sizeof made - 1) != 0)
        code =
            mo_fail(err, MOIRE_EINVAL, "%s: was measured or published; --output DIR writes elsewhere", path);
    if (known) mo_profile_table_free(&old);
    if (!code)
        code = tie ? add_versions(w, tie, &table, note, sizeof note, err)
                   : predict(w, name, &table, note, sizeof note, err);
    if (code) return code;
    size_t n;
    const char *text = mo_profile_table_text(&table, &n);
    code = text ? mo_output_write(w->env, path, text, n, err)
                : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", path);
    mo_profile_table_free(&table);
    if (!code && !w->options->json) printf("%s\n", path);
    if (!code) json_array_append_new(json_object_get(w->document, "files"), json_string(path));
    return code;
}

static int extend(const struct mo_bench_session *s, struct work *w, moire_error *err) {
    const struct mo_options *o = w->options;
    char from[1024], to[1024];
    int code = open_machine(s->env, o->from, &w->from, from, sizeof from, err);
    if (!code) code = open_machine(s->env, o->to, &w->to, to, sizeof to, err);
    if (!code) code = read_ties(w, err);
    if (!code) code = mo_extend_fit(w->ties, o->ties.n, w->to.sim.bytes_ns * 1e3, &w->model, err);
    if (!code) code = leave_one_out(w, err);
    if (!code)
        json_object_set_new(w->document, "fit",
                            json_pack("{s:f, s:f, s:f}", "one_core_ratio", w->model.ratio, "sync_us",
                                      w->model.sync_us, "sync_core_us", w->model.sync_core_us));
    if (!code && !o->json)
        printf(
            "fitted to all: %.3f x the one-core time of %s, %.2f us and %.3f us a core for a shared layer\n",
            w->model.ratio, w->from.name, w->model.sync_us, w->model.sync_core_us);
    for (int i = 0; !code && i < o->operands.n; i++)
        code = write_one(w, o->operands.word[i], err);
    return code;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    moire_error err = {0};
    struct mo_bench_session session;
    struct work w = {.env = env, .options = o, .document = json_pack("{s:[], s:[]}", "left_out", "files")};
    int code = w.document ? mo_bench_session_open(env, o->argc, o->argv, &session, &err)
                          : mo_fail(&err, MOIRE_ENOMEM, "out of memory");
    if (!code) {
        code = extend(&session, &w, &err);
        for (int i = 0; i < o->ties.n; i++) {
            mo_profile_table_free(&w.here[i]);
            mo_profile_table_free(&w.there[i]);
        }
        mo_bench_machine_close(&w.from);
        mo_bench_machine_close(&w.to);
        mo_bench_session_close(&session);
    }
    if (!code && o->json) code = mo_print_json(w.document, &err);
    code = code ? mo_verb_fail_with(o, &err, w.document) : MO_EXIT_OK;
    json_decref(w.document);
    return code;
}

const struct mo_verb mo_verb_extend = {
    .name = "extend",
    .group = MO_GROUP_SIMULATE,
    .summary = "predict a model's profile on a machine that is not at hand",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_EXTEND, .operands = "MODEL ..."}},
    .run = run,
};
