/* SPDX-License-Identifier: Apache-2.0
 * other_cpus.c - folders of other processors in a store; see other_cpus.h. */
#include "codegen/search/other_cpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "codegen/search/writer.h"

enum { PATH_CAP = 4096, MOST_FOLDERS = 1024 };

/* A model may have several stamps. */
static bool is_new_model(const struct mo_upkeep *u, int i) {
    if (u->item[i].kind != MO_STORED_STAMP) return false;
    for (int k = 0; k < i; k++)
        if (u->item[k].kind == MO_STORED_STAMP && !strcmp(u->item[k].label, u->item[i].label)) return false;
    return true;
}

static void sum_up(const struct mo_upkeep *u, struct mo_other_cpu *out) {
    out->files = u->n;
    for (int i = 0; i < u->n; i++) {
        const struct mo_stored *item = &u->item[i];
        out->kernels += item->kind == MO_STORED_CODE;
        out->models += is_new_model(u, i);
        out->bytes += item->bytes;
        if (item->modified > out->modified) out->modified = item->modified;
    }
}

static int newest_first(const void *a, const void *b) {
    const struct mo_other_cpu *x = a, *y = b;
    if (x->modified != y->modified) return x->modified < y->modified ? 1 : -1;
    return strcmp(x->folder, y->folder);
}

int mo_other_cpus(const struct mo_env *env, const char *store, struct mo_other_cpu *out) {
    struct mo_store_cpus cpus;
    mo_store_cpus(env, store, &cpus);
    for (int i = 0; i < cpus.n; i++) {
        struct mo_upkeep u;
        moire_error why = {0};
        out[i] = (struct mo_other_cpu){.files = 0};
        memcpy(out[i].folder, cpus.other[i], sizeof out[i].folder);
        mo_store_cpu_name(cpus.other[i], out[i].name);
        if (mo_upkeep_open(env, store, cpus.other[i], &u, &why))
            mo_log(env, MOIRE_LOG_WARN, "variant store: %s: %s", out[i].name, why.message);
        else
            sum_up(&u, &out[i]);
        mo_upkeep_close(&u);
    }
    if (cpus.n) qsort(out, (size_t)cpus.n, sizeof *out, newest_first);
    return cpus.n;
}

/* --- taking out --- */
struct removal {
    const struct mo_env *env;
    const char *store;
    const struct mo_other_cpu *cpu;
    struct mo_writer *writer;
    int files;
    int64_t bytes;
};

/* What leads goes before what it leads to: a reader never finds half. */
static int remove_files(void *ctx, moire_error *err) {
    struct removal *r = ctx;
    struct mo_upkeep u;
    int rc = mo_upkeep_open(r->env, r->store, r->cpu->folder, &u, err);
    for (int kind = 0; !rc && kind < MO_STORED_KINDS; kind++)
        for (int i = 0; i < u.n; i++) {
            if ((int)u.item[i].kind != kind) continue;
            mo_writer_remove(r->writer, u.item[i].name, mo_stored_suffix((enum mo_stored_kind)kind));
            r->files++;
            r->bytes += u.item[i].bytes;
        }
    mo_upkeep_close(&u);
    return rc;
}

/* Folders below the processor's, and the locks in its work folders. */
struct folders {
    const struct mo_env *env;
    char base[PATH_CAP];
    int n;
    char name[MOST_FOLDERS][16];
};

static int take_folder(void *ctx, const char *name) {
    struct folders *f = ctx;
    bool subfolder = strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2;
    bool work = !strncmp(name, "work-", 5) && strlen(name) < sizeof f->name[0];
    if ((subfolder || work) && f->n < MOST_FOLDERS) snprintf(f->name[f->n++], sizeof f->name[0], "%s", name);
    return 0;
}

static void remove_folders(const struct mo_env *env, const char *store, const char *cpu) {
    const struct mo_sys *sys = env->sys;
    struct folders *f = mo_alloc(env, sizeof *f);
    char path[PATH_CAP + 64];
    if (!f || snprintf(f->base, sizeof f->base, "%s/v1/%s", store, cpu) >= (int)sizeof f->base) {
        mo_free(env, f);
        return;
    }
    sys->list(sys->self, f->base, take_folder, f);
    for (int i = 0; i < f->n; i++) {
        snprintf(path, sizeof path, "%s/%s/lock", f->base, f->name[i]);
        if (strlen(f->name[i]) > 2) sys->unlink(sys->self, path);
        snprintf(path, sizeof path, "%s/%s", f->base, f->name[i]);
        sys->rmdir(sys->self, path);
    }
    snprintf(path, sizeof path, "%s/lock", f->base);
    sys->unlink(sys->self, path);
    sys->rmdir(sys->self, f->base);
    mo_free(env, f);
}

int mo_other_cpu_remove(const struct mo_env *env, const char *store, const struct mo_other_cpu *cpu,
                        int *files, int64_t *bytes, moire_error *err) {
    struct removal r = {.env = env, .store = store, .cpu = cpu};
    int rc = mo_writer_open_for(env, store, cpu->folder, &r.writer, err);
    if (!rc) rc = mo_writer_alone(r.writer, remove_files, &r, err);
    mo_writer_close(r.writer);
    if (!rc) remove_folders(env, store, cpu->folder);
    *files = r.files;
    *bytes = r.bytes;
    return rc;
}
