/* SPDX-License-Identifier: Apache-2.0
 * upkeep_list.c - what lies in one CPU's subfolders of the variant store, each file with its kind; see
 * upkeep.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "codegen/search/upkeep.h"

enum { DIGITS = 64, PATH_CAP = 4096 };

static const struct {
    const char *name, *suffix;
} kinds[MO_STORED_KINDS] = {
    [MO_STORED_INDEX] = {"indices of layers", ".best.json"},
    [MO_STORED_FRONT] = {"fronts of layers", ".front.json"},
    [MO_STORED_STAMP] = {"stamps of ONNX files", ".stamp.json"},
    [MO_STORED_ENTRY] = {"descriptions of kernels", ".json"},
    [MO_STORED_CODE] = {"code", ".so"},
    [MO_STORED_SOURCE] = {"source", ".c"},
    [MO_STORED_MODEL] = {"compiled models", ".model"},
};

const char *mo_stored_kind_name(enum mo_stored_kind kind) {
    return kinds[kind].name;
}

const char *mo_stored_suffix(enum mo_stored_kind kind) {
    return kinds[kind].suffix;
}

const char *mo_stored_state_name(enum mo_stored_state state) {
    static const char *const names[MO_STORED_STATES] = {[MO_STORED_NEEDED] = "needed",
                                                        [MO_STORED_UNNEEDED] = "unneeded",
                                                        [MO_STORED_STALE] = "stale",
                                                        [MO_STORED_DAMAGED] = "damaged"};
    return names[state];
}

/* --- the list --- */
struct listing {
    struct mo_upkeep *upkeep;
    char subfolder[PATH_CAP + 8];
    int folder; /* the subfolder, open */
    int rc;
};

static struct mo_stored *append(struct mo_upkeep *u) {
    if (u->n == u->cap) {
        int cap = u->cap ? 2 * u->cap : 256;
        struct mo_stored *more = mo_alloc(u->env, (size_t)cap * sizeof *more);
        if (!more) return NULL;
        if (u->n) memcpy(more, u->item, (size_t)u->n * sizeof *more);
        mo_free(u->env, u->item);
        u->item = more;
        u->cap = cap;
    }
    return &u->item[u->n++];
}

static bool digits(const char *name, size_t n) {
    return strspn(name, "0123456789abcdef") >= n;
}

static int list_file(void *ctx, const char *name) {
    struct listing *l = ctx;
    const struct mo_sys *sys = l->upkeep->env->sys;
    int kind = 0;
    if (!digits(name, DIGITS)) return 0;
    while (kind < MO_STORED_KINDS && strcmp(name + DIGITS, kinds[kind].suffix))
        kind++;
    if (kind == MO_STORED_KINDS) return 0;
    struct mo_stat st;
    int fd = sys->open_at(sys->self, l->folder, name, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0) return 0; /* gone meanwhile */
    int rc = sys->stat(sys->self, fd, &st);
    sys->close(sys->self, fd);
    if (rc < 0) return 0;
    struct mo_stored *item = append(l->upkeep);
    if (!item) {
        l->rc = MOIRE_ENOMEM;
        return 1;
    }
    *item = (struct mo_stored){.kind = (enum mo_stored_kind)kind, .state = MO_STORED_UNNEEDED};
    memcpy(item->name, name, DIGITS);
    item->bytes = st.size;
    item->modified = st.modified;
    snprintf(item->why, sizeof item->why, "nothing leads to it");
    return 0;
}

static int list_subfolder(void *ctx, const char *name) {
    struct listing *l = ctx;
    const struct mo_env *env = l->upkeep->env;
    if (strlen(name) != 2 || !digits(name, 2)) return 0;
    snprintf(l->subfolder, sizeof l->subfolder, "%s/%.2s", l->upkeep->folder, name);
    l->rc = mo_trusted_walk(env, l->subfolder, &l->folder, NULL);
    if (l->rc || l->folder < 0) return l->rc != 0;
    env->sys->list(env->sys->self, l->subfolder, list_file, l);
    env->sys->close(env->sys->self, l->folder);
    return l->rc != 0;
}

int mo_upkeep_list(struct mo_upkeep *u) {
    const struct mo_sys *sys = u->env->sys;
    struct listing l = {.upkeep = u};
    sys->list(sys->self, u->folder, list_subfolder, &l);
    return l.rc;
}
