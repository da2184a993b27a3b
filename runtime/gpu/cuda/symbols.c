/* SPDX-License-Identifier: Apache-2.0
 * symbols.c - finds a shared object and fills a table of its functions; see symbols.h. */
#include "runtime/gpu/cuda/symbols.h"

#include <stdio.h>
#include <string.h>

enum { TRIED = 380 };

/* A search: what was tried without success, for the message. */
struct search {
    struct mo_cuda_object *object;
    const struct mo_cuda_wanted *wanted;
    void *table;
    char tried[TRIED];
};

static void note(struct search *s, const char *verb, const char *what, const char *end) {
    const size_t at = strlen(s->tried);
    snprintf(s->tried + at, sizeof s->tried - at, "%s%s %s%s%s", at ? "; " : "", s->object->file, verb, what,
             end);
}

/* dlerror() begins with the name that the message has already. */
static const char *without_name(const char *reason, const char *file) {
    const size_t n = strlen(file);
    return strncmp(reason, file, n) != 0 || strncmp(reason + n, ": ", 2) != 0 ? reason : reason + n + 2;
}

/* Tries object->file. */
static bool try_file(struct search *s) {
    struct mo_cuda_object *o = s->object;
    const struct mo_sys *sys = o->env->sys;
    char reason[200] = "";
    o->handle = sys->dl_open(sys->self, o->file, reason, sizeof reason);
    if (!o->handle) {
        note(s, "cannot be loaded (", without_name(reason, o->file), ")");
        return false;
    }
    for (int i = 0; i < s->wanted->n_symbols; i++) {
        const struct mo_cuda_symbol *symbol = &s->wanted->symbols[i];
        void *f = sys->dl_sym(sys->self, o->handle, symbol->name);
        if (!f) {
            note(s, "has no ", symbol->name, "");
            mo_cuda_object_close(o);
            return false;
        }
        memcpy((char *)s->table + symbol->at, &f, sizeof f);
    }
    return true;
}

/* In one folder, of n letters; 0: where the loader looks. */
static bool try_folder(struct search *s, const char *folder, size_t n) {
    for (int i = 0; i < MO_CUDA_NAMES && s->wanted->file[i]; i++) {
        const int length = snprintf(s->object->file, sizeof s->object->file, "%.*s%s%s", (int)n, folder,
                                    n ? "/" : "", s->wanted->file[i]);
        if (length < 0 || (size_t)length >= sizeof s->object->file)
            note(s, "", "is part of too long a name", "");
        else if (try_file(s))
            return true;
    }
    return false;
}

int mo_cuda_object_open(struct mo_cuda_object *object, const struct mo_env *env, const char *path,
                        const struct mo_cuda_wanted *wanted, void *table, moire_error *err) {
    struct search s = {.object = object, .wanted = wanted, .table = table};
    bool found = false;
    *object = (struct mo_cuda_object){.env = env};
    for (const char *at = path ? path : ""; *at && !found;) {
        const size_t n = strcspn(at, ":");
        if (n) found = try_folder(&s, at, n);
        at += n + (at[n] == ':');
    }
    if (!found && !try_folder(&s, "", 0))
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s; moire needs %s", s.tried, wanted->needs);
    if (*s.tried) mo_log(env, MOIRE_LOG_INFO, "%s is used, for %s", object->file, s.tried);
    return MOIRE_OK;
}

void mo_cuda_object_close(struct mo_cuda_object *object) {
    if (object->handle) object->env->sys->dl_close(object->env->sys->self, object->handle);
    object->handle = NULL;
}
