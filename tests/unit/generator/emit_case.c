/* SPDX-License-Identifier: Apache-2.0
 * emit_case.c - see emit_case.h. */
#define _GNU_SOURCE
#include "tests/unit/generator/emit_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const march[MO_ISA_COUNT] = {"-march=x86-64-v2", "-march=x86-64-v3", "-march=x86-64-v4"};

static char folder[] = "/tmp/moire-emit-XXXXXX";

int emit_case_open(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

int emit_case_close(void **state) {
    char log[80];
    (void)state;
    snprintf(log, sizeof log, "%s/log", folder);
    remove(log);
    return rmdir(folder);
}

bool emit_case_have(const struct mo_env *env, const char *compiler) {
    return env->sys->spawn(env->sys->self, (const char *const[]){compiler, "--version", NULL}, NULL, 0) == 0;
}

static bool write_source(const char *path, const struct mo_emit_family *family, const struct mo_problem *p,
                         const struct mo_point *point, char *why, size_t n) {
    moire_error err = {.message = "cannot write the file"};
    FILE *out = fopen(path, "w");
    bool ok = out && !family->emit(p, point, out, &err);
    if (out && fclose(out)) ok = false;
    if (!ok) snprintf(why, n, "%s", err.message);
    return ok;
}

const struct mo_variant *emit_case_build(const struct mo_env *env, const char *compiler,
                                         const struct mo_emit_family *family, const struct mo_problem *p,
                                         const struct mo_point *point, char *why, size_t n) {
    static int serial;
    char c_file[80], so_file[80], log[80];
    snprintf(c_file, sizeof c_file, "%s/k%d.c", folder, serial);
    snprintf(so_file, sizeof so_file, "%s/k%d.so", folder, serial++);
    snprintf(log, sizeof log, "%s/log", folder);
    if (!write_source(c_file, family, p, point, why, n)) return NULL;
    const char *const argv[] = {
        compiler, "-std=c11", "-O1",     "-fPIC",      "-shared",     "-fvisibility=hidden",
        "-Wall",  "-Wextra",  "-Werror", "-Wno-psabi", march[p->isa], "-o",
        so_file,  c_file,     NULL};
    if (env->sys->spawn(env->sys->self, argv, log, 0)) {
        snprintf(why, n, "%s does not compile %s", compiler, c_file);
        return NULL;
    }
    void *object = env->sys->dl_open(env->sys->self, so_file, why, n);
    remove(c_file);
    remove(so_file);
    const struct mo_variant *v = object ? env->sys->dl_sym(env->sys->self, object, "mo_variant") : NULL;
    if (object && (!v || v->abi != MO_KERNEL_ABI)) snprintf(why, n, "no descriptor of this ABI");
    return v && v->abi == MO_KERNEL_ABI ? v : NULL;
}
