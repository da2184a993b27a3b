/* SPDX-License-Identifier: Apache-2.0
 * store_cpus.c - for which processors a variant store has kernels: the names of its folders tell. */
#include <stdio.h>
#include <string.h>
#include "variants/cpu.h"
#include "variants/store_format.h"

enum { DIGITS = 12, PATH_CAP = 4096 };
static const char machine[] = "x86_64-";

/* The part of a folder's name that people read; 0: it is no processor's. */
static size_t head_of(const char *name) {
    size_t n = strlen(name);
    if (n < DIGITS + 2 || n >= MO_CPU_FOLDER || name[n - DIGITS - 1] != '-') return 0;
    for (size_t i = 0; i < n; i++) {
        const char c = name[i];
        bool plain =
            (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || strchr("-_", c);
        if (!plain || (i + DIGITS >= n && !strchr("0123456789abcdef", c))) return 0;
    }
    return n - DIGITS - 1;
}

void mo_store_cpu_name(const char *folder, char out[MO_CPU_FOLDER]) {
    size_t n = head_of(folder), skip = strncmp(folder, machine, sizeof machine - 1) ? 0 : sizeof machine - 1;
    snprintf(out, MO_CPU_FOLDER, "%.*s", (int)(n > skip ? n - skip : 0), folder + (n > skip ? skip : 0));
}

static int is_filled(void *ctx, const char *name) {
    bool *filled = ctx;
    *filled = strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2;
    return *filled;
}

/* Work and locks alone are no kernels. */
static bool has_kernels(const struct mo_env *env, const char *versions, const char *cpu) {
    char folder[PATH_CAP + MO_CPU_FOLDER];
    bool filled = false;
    snprintf(folder, sizeof folder, "%s/%s", versions, cpu);
    env->sys->list(env->sys->self, folder, is_filled, &filled);
    return filled;
}

struct listing {
    const struct mo_env *env;
    char folder[PATH_CAP];
    struct mo_store_cpus *out;
};

static int take(void *ctx, const char *name) {
    struct listing *l = ctx;
    char here[MO_CPU_FOLDER];
    if (!head_of(name) || !has_kernels(l->env, l->folder, name)) return 0;
    mo_cpu_folder(here);
    if (!strcmp(name, here))
        l->out->here = true;
    else if (l->out->n < MO_STORE_CPUS)
        snprintf(l->out->other[l->out->n++], MO_CPU_FOLDER, "%s", name);
    return 0;
}

void mo_store_cpus(const struct mo_env *env, const char *path, struct mo_store_cpus *out) {
    struct listing l = {.env = env, .out = out};
    *out = (struct mo_store_cpus){0};
    if (snprintf(l.folder, sizeof l.folder, "%s/v1", path) < (int)sizeof l.folder)
        env->sys->list(env->sys->self, l.folder, take, &l);
}

bool mo_store_elsewhere(const struct mo_env *env, const char *path, char *out, size_t n) {
    struct mo_store_cpus cpus;
    char first[MO_CPU_FOLDER], here[MO_CPU_FOLDER], own[MO_CPU_FOLDER], more[32] = "";
    *out = 0;
    mo_store_cpus(env, path, &cpus);
    if (cpus.here || !cpus.n) return false;
    mo_cpu_folder(own);
    mo_store_cpu_name(own, here);
    mo_store_cpu_name(cpus.other[0], first);
    if (cpus.n > 1) snprintf(more, sizeof more, " and %d other%s", cpus.n - 1, cpus.n > 2 ? "s" : "");
    snprintf(out, n, "kernels for %s%s are there, none for this CPU%s%s: run `moire compile --all`", first,
             more, strcmp(first, here) ? ", " : " with its present features, ", here);
    return true;
}
