/* SPDX-License-Identifier: Apache-2.0
 * store_others.c - see store_others.h. */
#include "tools/moire/store_others.h"

#include <stdio.h>
#include <time.h>
#include "codegen/search/other_cpus.h"
#include "codegen/search/known_models.h"

static double mib(int64_t bytes) {
    return (double)bytes / (1 << 20);
}

void mo_age_text(double seconds, char *out, size_t n) {
    static const struct {
        double seconds;
        const char *name;
    } units[] = {
        {365.0 * 86400, "year"}, {30.0 * 86400, "month"}, {86400, "day"}, {3600, "hour"}, {60, "minute"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        int many = (int)(seconds / units[i].seconds);
        if (many < 1) continue;
        snprintf(out, n, "%d %s%s", many, units[i].name, many > 1 ? "s" : "");
        return;
    }
    snprintf(out, n, "less than a minute");
}

static void print_cpu(const struct mo_other_cpu *cpu) {
    char age[40] = "-";
    if (cpu->modified)
        mo_age_text(difftime(time(NULL), (time_t)(cpu->modified / 1000000000)), age, sizeof age);
    printf("%-26s %7d %7d %7d %10.1f  %s\n", cpu->name, cpu->files, cpu->kernels, cpu->models,
           mib(cpu->bytes), age);
}

static void print_head(void) {
    printf("%-26s %7s %7s %7s %10s  %s\n", "other processors", "files", "kernels", "models", "MiB",
           "newest, age");
}

void mo_store_others_print(const struct mo_env *env, const char *store) {
    struct mo_other_cpu cpu[MO_STORE_CPUS];
    struct mo_known_model *source;
    int n = mo_other_cpus(env, store, cpu), known, gone = 0;
    if (n) putchar('\n');
    if (n) print_head();
    for (int i = 0; i < n; i++)
        print_cpu(&cpu[i]);
    if (n) printf("`moire store clean --other-cpus` takes these out\n");
    if (mo_known_list(env, store, &source, &known, NULL)) return;
    for (int i = 0; i < known; i++)
        gone += !mo_known_is_there(env, &source[i]);
    if (known)
        printf("\n%d model%s known; `moire compile --all` compiles all of them anew", known,
               known > 1 ? "s" : "");
    if (gone) printf(" but %d, whose file%s gone", gone, gone > 1 ? "s are" : " is");
    if (known) putchar('\n');
    mo_free(env, source);
}

static json_t *cpu_json(const struct mo_other_cpu *cpu) {
    return json_pack("{ss ss si si si sI sI}", "cpu", cpu->name, "folder", cpu->folder, "files", cpu->files,
                     "kernels", cpu->kernels, "models", cpu->models, "bytes", (json_int_t)cpu->bytes,
                     "modified", (json_int_t)(cpu->modified / 1000000000));
}

json_t *mo_store_others_json(const struct mo_env *env, const char *store) {
    struct mo_other_cpu cpu[MO_STORE_CPUS];
    json_t *rows = json_array();
    int n = mo_other_cpus(env, store, cpu);
    for (int i = 0; i < n; i++)
        json_array_append_new(rows, cpu_json(&cpu[i]));
    return rows;
}

json_t *mo_store_models_json(const struct mo_env *env, const char *store) {
    json_t *rows = json_array();
    struct mo_known_model *source;
    int n;
    if (mo_known_list(env, store, &source, &n, NULL)) return rows;
    for (int i = 0; i < n; i++)
        json_array_append_new(rows,
                              json_pack("{ss sb sb}", "file", source[i].path, "there",
                                        mo_known_is_there(env, &source[i]), "tuned", source[i].versions > 1));
    mo_free(env, source);
    return rows;
}

int mo_store_others_clean(const struct mo_env *env, const char *store, const struct mo_options *o) {
    struct mo_other_cpu cpu[MO_STORE_CPUS];
    int n = mo_other_cpus(env, store, cpu), files = 0, rc = MOIRE_OK;
    int64_t bytes = 0;
    moire_error err = {0};
    json_t *rows = json_array();
    if (n && !o->json) print_head();
    for (int i = 0; i < n && !rc; i++) {
        int went = cpu[i].files;
        int64_t size = cpu[i].bytes;
        if (!o->json) print_cpu(&cpu[i]);
        json_array_append_new(rows, cpu_json(&cpu[i]));
        if (!o->dry_run) rc = mo_other_cpu_remove(env, store, &cpu[i], &went, &size, &err);
        files += went;
        bytes += size;
    }
    json_t *doc =
        json_pack("{ss so sb s{si sI}}", "store", store, "other_cpus", rows, "dry_run", o->dry_run, "removed",
                  "files", o->dry_run ? 0 : files, "bytes", (json_int_t)(o->dry_run ? 0 : bytes));
    if (rc) {
        int code = mo_verb_fail_with(o, &err, doc);
        json_decref(doc);
        return code;
    }
    if (o->json) rc = mo_print_json(doc, &err);
    json_decref(doc);
    if (!o->json)
        printf("%s: %d files, %.1f MiB of %d other processor%s\n",
               o->dry_run ? "would take out" : "taken out", files, mib(bytes), n, n == 1 ? "" : "s");
    return rc ? mo_verb_fail(o, &err) : MO_EXIT_OK;
}
