/* SPDX-License-Identifier: Apache-2.0
 * verb_store.c - `moire store`: what the variant store holds, whether it is whole, and cleaning it. */
#define _GNU_SOURCE
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "codegen/search/known_models.h"
#include "codegen/search/upkeep.h"
#include "runtime/base/error.h"
#include "tools/moire/paths.h"
#include "tools/moire/programs.h"
#include "tools/moire/store_others.h"
#include "tools/moire/verb.h"
#include "variants/cpu.h"

static const char about[] =
    "What `moire compile` and `moire tune` have left in the variant store, for this machine's processor, "
    "and\n"
    "the programs and choices of kernels that GPUs have left in the folder beside it.\n"
    "\n"
    "  show   files and bytes by kind, kernels by family, compiled models by ONNX file, and what lies there\n"
    "         for other processors; the default\n"
    "  check  also reads all code and all compiled models and compares their checksums\n"
    "  clean  checks, then takes out what nothing needs: kernels of other versions of moire, beaten\n"
    "         candidates, models whose ONNX file is gone or has changed, damaged files.  Servers that use\n"
    "         them go on.  Refused while a compilation runs.  Of GPU programs: those of another format,\n"
    "         unfinished and damaged ones; which model they are of, and whether it will come again, no file\n"
    "         tells.  With --other-cpus: all kernels and models of other processors, and nothing else\n";

static const char notes[] = "Exit code 5: the check found damage.\n"
                            "\n"
                            "Examples:\n"
                            "  moire store\n"
                            "  moire store check --json\n"
                            "  moire store clean --dry-run\n"
                            "  moire store clean --other-cpus\n";

struct place {
    const struct mo_options *o;
    char store[4096], cache[4096];
};

/* The one thing a signal handler may touch. */
static volatile sig_atomic_t stop_requested;

static void on_signal(int number) {
    (void)number;
    stop_requested = 1;
}

/* --- sums --- */
struct sum {
    int files;
    int64_t bytes;
};

static struct sum count(const struct mo_upkeep *u, int kind, int state) {
    struct sum s = {0, 0};
    for (int i = 0; i < u->n; i++) {
        if ((int)u->item[i].kind != kind || (int)u->item[i].state != state) continue;
        s.files++;
        s.bytes += u->item[i].bytes;
    }
    return s;
}

/* The code beside entry i; entries of a name lie next to one another. */
static int64_t code_of(const struct mo_upkeep *u, int i) {
    for (int k = i + 1; k < u->n && !strcmp(u->item[k].name, u->item[i].name); k++)
        if (u->item[k].kind == MO_STORED_CODE) return u->item[k].bytes;
    return 0;
}

static bool is_kernel(const struct mo_stored *item, const char *family) {
    return item->kind == MO_STORED_ENTRY && item->state == MO_STORED_NEEDED &&
           (!family || !strcmp(item->family, family));
}

static struct sum family_of(const struct mo_upkeep *u, const char *family) {
    struct sum s = {0, 0};
    for (int i = 0; i < u->n; i++) {
        if (!is_kernel(&u->item[i], family)) continue;
        s.files++;
        s.bytes += code_of(u, i);
    }
    return s;
}

/* The first kernel of its family: where a row of that family is due. */
static bool is_first_of_family(const struct mo_upkeep *u, int i) {
    for (int k = 0; k < i; k++)
        if (is_kernel(&u->item[k], u->item[i].family)) return false;
    return is_kernel(&u->item[i], NULL);
}

static int64_t model_bytes(const struct mo_upkeep *u, const char *name) {
    for (int i = 0; i < u->n; i++)
        if (u->item[i].kind == MO_STORED_MODEL && !strcmp(u->item[i].name, name)) return u->item[i].bytes;
    return 0;
}

/* A model may have two stamps, with and without its shapes spelled out. */
static bool is_model_row(const struct mo_upkeep *u, int i) {
    const struct mo_stored *item = &u->item[i];
    if (item->kind != MO_STORED_STAMP || item->state != MO_STORED_NEEDED) return false;
    for (int k = 0; k < i; k++)
        if (u->item[k].kind == MO_STORED_STAMP && u->item[k].state == MO_STORED_NEEDED &&
            !strcmp(u->item[k].digest, item->digest) && !strcmp(u->item[k].label, item->label))
            return false;
    return true;
}

static struct sum count_programs(const struct mo_programs *p, int kind, int state) {
    struct sum s = {0, 0};
    for (int i = 0; i < p->n; i++) {
        if ((int)p->file[i].kind != kind || (int)p->file[i].state != state) continue;
        s.files++;
        s.bytes += p->file[i].bytes;
    }
    return s;
}

/* --- text --- */
static double mib(int64_t bytes) {
    return (double)bytes / (1 << 20);
}

static void print_kinds(const struct mo_upkeep *u) {
    printf("%-26s %7s %10s", "kind", "files", "MiB");
    for (int state = 1; state < MO_STORED_STATES; state++)
        printf(" %9s %9s", mo_stored_state_name((enum mo_stored_state)state), "MiB");
    putchar('\n');
    for (int kind = 0; kind < MO_STORED_KINDS; kind++) {
        printf("%-26s", mo_stored_kind_name((enum mo_stored_kind)kind));
        for (int state = 0; state < MO_STORED_STATES; state++) {
            struct sum s = count(u, kind, state);
            printf(state ? " %9d %9.1f" : " %7d %10.1f", s.files, mib(s.bytes));
        }
        putchar('\n');
    }
}

static void print_programs(const struct mo_programs *p) {
    if (!*p->folder) return;
    printf("\n%s\n", p->folder);
    for (int kind = 0; kind < MO_PROGRAM_KINDS; kind++) {
        printf("%-26s", mo_program_kind_name((enum mo_program_kind)kind));
        for (int state = 0; state < MO_STORED_STATES; state++) {
            struct sum s = count_programs(p, kind, state);
            printf(state ? " %9d %9.1f" : " %7d %10.1f", s.files, mib(s.bytes));
        }
        putchar('\n');
    }
}

static void print_surplus_programs(const struct mo_programs *p, bool damaged_only) {
    for (int i = 0; i < p->n; i++) {
        const struct mo_program_file *f = &p->file[i];
        if (f->state == MO_STORED_NEEDED || (damaged_only && f->state != MO_STORED_DAMAGED)) continue;
        printf("%-8s %10.2f MiB  %s: %s\n", mo_stored_state_name(f->state), mib(f->bytes), f->path, f->why);
    }
}

static void print_contents(const struct mo_upkeep *u) {
    printf("\n%-26s %7s %10s\n", "family", "kernels", "code, KiB");
    for (int i = 0; i < u->n; i++) {
        if (!is_first_of_family(u, i)) continue;
        struct sum s = family_of(u, u->item[i].family);
        printf("%-26s %7d %10.0f\n", u->item[i].family, s.files, (double)s.bytes / 1024);
    }
    printf("\n%10s %15s %14s  %s\n", "MiB", "verified layers", "largest error", "compiled model of");
    for (int i = 0; i < u->n; i++) {
        const struct mo_stored *m = &u->item[i];
        char verified[40];
        if (!is_model_row(u, i)) continue;
        snprintf(verified, sizeof verified, "%d of %d", m->verified, m->verified + m->unverified);
        printf("%10.1f %15s %14.1e  %s\n", mib(model_bytes(u, m->digest)), verified, m->error,
               *m->label ? m->label : "(path not kept)");
    }
}

static void print_surplus(const struct mo_upkeep *u, bool damaged_only) {
    for (int i = 0; i < u->n; i++) {
        const struct mo_stored *item = &u->item[i];
        if (item->state == MO_STORED_NEEDED || (damaged_only && item->state != MO_STORED_DAMAGED)) continue;
        printf("%-8s %10.2f MiB  %.2s/%s%s: %s\n", mo_stored_state_name(item->state), mib(item->bytes),
               item->name, item->name, mo_stored_suffix(item->kind), item->why);
    }
}

/* --- JSON --- */
static json_t *json_kinds(const struct mo_upkeep *u) {
    json_t *rows = json_array();
    for (int kind = 0; kind < MO_STORED_KINDS; kind++) {
        json_t *row = json_pack("{ss}", "kind", mo_stored_kind_name((enum mo_stored_kind)kind));
        for (int state = 0; state < MO_STORED_STATES; state++) {
            struct sum s = count(u, kind, state);
            json_object_set_new(row, mo_stored_state_name((enum mo_stored_state)state),
                                json_pack("{si sI}", "files", s.files, "bytes", (json_int_t)s.bytes));
        }
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *json_programs(const struct mo_programs *p) {
    json_t *rows = json_array(), *surplus = json_array();
    for (int kind = 0; kind < MO_PROGRAM_KINDS; kind++) {
        json_t *row = json_pack("{ss}", "kind", mo_program_kind_name((enum mo_program_kind)kind));
        for (int state = 0; state < MO_STORED_STATES; state++) {
            struct sum s = count_programs(p, kind, state);
            json_object_set_new(row, mo_stored_state_name((enum mo_stored_state)state),
                                json_pack("{si sI}", "files", s.files, "bytes", (json_int_t)s.bytes));
        }
        json_array_append_new(rows, row);
    }
    for (int i = 0; i < p->n; i++)
        if (p->file[i].state != MO_STORED_NEEDED)
            json_array_append_new(surplus, json_pack("{ss ss sI ss}", "path", p->file[i].path, "state",
                                                     mo_stored_state_name(p->file[i].state), "bytes",
                                                     (json_int_t)p->file[i].bytes, "why", p->file[i].why));
    return json_pack("{ss so so}", "folder", p->folder, "kinds", rows, "surplus", surplus);
}

static void print_json(const struct place *at, const struct mo_upkeep *u, const struct mo_programs *p,
                       const struct sum *removed, const moire_error *err) {
    json_t *families = json_array(), *models = json_array(), *surplus = json_array();
    for (int i = 0; i < u->n; i++) {
        const struct mo_stored *item = &u->item[i];
        struct sum s = family_of(u, item->family);
        if (is_first_of_family(u, i))
            json_array_append_new(families, json_pack("{ss si sI}", "family", item->family, "kernels",
                                                      s.files, "code_bytes", (json_int_t)s.bytes));
        if (is_model_row(u, i))
            json_array_append_new(
                models, json_pack("{ss ss sI si si sf}", "model", item->digest, "path", item->label, "bytes",
                                  (json_int_t)model_bytes(u, item->digest), "verified", item->verified,
                                  "unverified", item->unverified, "error", item->error));
        if (item->state != MO_STORED_NEEDED)
            json_array_append_new(surplus, json_pack("{ss ss ss sI ss}", "name", item->name, "suffix",
                                                     mo_stored_suffix(item->kind), "state",
                                                     mo_stored_state_name(item->state), "bytes",
                                                     (json_int_t)item->bytes, "why", item->why));
    }
    json_t *doc =
        json_pack("{ss ss so so so so so s{si sI}}", "store", at->store, "folder", u->folder, "kinds",
                  json_kinds(u), "families", families, "models", models, "surplus", surplus, "gpu_programs",
                  json_programs(p), "removed", "files", removed->files, "bytes", (json_int_t)removed->bytes);
    json_object_set_new(doc, "other_cpus", mo_store_others_json(u->env, at->store));
    json_object_set_new(doc, "known_models", mo_store_models_json(u->env, at->store));
    if (err->code) mo_failure_put(doc, err);
    (void)mo_print_json(doc, NULL);
    json_decref(doc);
}

/* --- actions --- */
static bool on_progress(void *ctx, int64_t done, int64_t total) {
    const struct place *at = ctx;
    if (!at->o->json && isatty(STDERR_FILENO))
        fprintf(stderr, "\rchecking %.0f of %.0f MiB%s", mib(done), mib(total), done == total ? "\n" : "");
    return !stop_requested;
}

static bool is_damaged(const struct mo_upkeep *u, const struct mo_programs *p) {
    bool damaged = false;
    for (int i = 0; i < u->n; i++)
        damaged |= u->item[i].state == MO_STORED_DAMAGED;
    for (int i = 0; i < p->n; i++)
        damaged |= p->file[i].state == MO_STORED_DAMAGED;
    return damaged;
}

/* Store and GPU programs as the action wants them; what was taken out. */
static int look(const struct mo_env *env, struct place *at, struct mo_upkeep *u, struct mo_programs *p,
                struct sum *removed, moire_error *err) {
    const bool cleans = at->o->command == MO_DO_STORE_CLEAN && !at->o->dry_run;
    const bool checks = at->o->command != MO_DO_STORE_SHOW && !cleans;
    struct sum more = {0, 0};
    int rc = mo_programs_open(env, at->cache, p, err);
    if (!rc && checks) rc = mo_programs_check(p, err);
    if (!rc && cleans) rc = mo_programs_clean(p, &more.files, &more.bytes, err);
    if (!rc)
        rc = cleans ? mo_upkeep_clean(env, at->store, u, &removed->files, &removed->bytes, err)
                    : mo_upkeep_open(env, at->store, NULL, u, err);
    if (!rc && checks) rc = mo_upkeep_check(u, on_progress, at, err);
    removed->files += more.files;
    removed->bytes += more.bytes;
    return rc;
}

static void print_text(enum mo_command command, bool cleaned, const struct mo_upkeep *u,
                       const struct mo_programs *p, const struct sum *removed) {
    int files, more;
    int64_t bytes = mo_upkeep_surplus(u, &files) + mo_programs_surplus(p, &more);
    files += more;
    printf("%s\n", u->folder);
    print_kinds(u);
    if (command == MO_DO_STORE_SHOW) print_contents(u);
    print_programs(p);
    if (command != MO_DO_STORE_SHOW) print_surplus(u, command == MO_DO_STORE_CHECK);
    if (command != MO_DO_STORE_SHOW) print_surplus_programs(p, command == MO_DO_STORE_CHECK);
    if (cleaned)
        printf("taken out: %d files, %.1f MiB\n", removed->files, mib(removed->bytes));
    else if (files)
        printf("`moire store clean` would take out %d files, %.1f MiB\n", files, mib(bytes));
}

static int act(const struct mo_env *env, struct place *at, struct mo_upkeep *u, struct mo_programs *p,
               moire_error *err) {
    const struct mo_options *o = at->o;
    struct sum removed = {0, 0};
    if (look(env, at, u, p, &removed, err)) return mo_verb_fail(o, err);
    int forgotten = o->command == MO_DO_STORE_CLEAN ? mo_known_forget(env, at->store, o->dry_run) : 0;
    if (o->command == MO_DO_STORE_CHECK && is_damaged(u, p))
        mo_fail(err, MOIRE_EFAILED, "there are damaged files; `moire store clean` takes them out");
    if (o->json)
        print_json(at, u, p, &removed, err);
    else
        print_text(o->command, o->command == MO_DO_STORE_CLEAN && !o->dry_run, u, p, &removed);
    if (!o->json && o->command == MO_DO_STORE_SHOW) mo_store_others_print(env, at->store);
    if (!o->json && forgotten)
        printf("models whose ONNX file is gone: %d %s\n", forgotten,
               o->dry_run ? "would be forgotten" : "forgotten");
    return err->code ? mo_failure_say(o->argv[0], false, err) : MO_EXIT_OK;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    struct place at = {.o = o};
    struct sigaction action = {.sa_handler = on_signal};
    struct mo_upkeep upkeep = {.env = env};
    struct mo_programs programs = {.env = env};
    moire_error err = {0};
    char path[4096];
    if (mo_path_store_there(o->store, at.store, sizeof at.store, &err)) return mo_verb_fail(o, &err);
    if (o->other_cpus) return mo_store_others_clean(env, at.store, o);
    if (o->cache || !o->store)
        snprintf(at.cache, sizeof at.cache, "%s", mo_path_device_cache(o->cache, path, sizeof path));
    sigaction(SIGINT, &action, NULL);
    int code = act(env, &at, &upkeep, &programs, &err);
    mo_upkeep_close(&upkeep);
    mo_programs_close(&programs);
    return code;
}

const struct mo_verb mo_verb_store = {
    .name = "store",
    .group = MO_GROUP_KERNELS,
    .summary = "show, check and clean the compiled kernels and models",
    .about = about,
    .notes = notes,
    .commands = {{.name = "show", .command = MO_DO_STORE_SHOW},
                 {.name = "check", .command = MO_DO_STORE_CHECK},
                 {.name = "clean", .command = MO_DO_STORE_CLEAN}},
    .first_is_default = true,
    .run = run,
};
