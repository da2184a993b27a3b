/* SPDX-License-Identifier: Apache-2.0
 * known.c - see known.h. */
#define _GNU_SOURCE
#include "tools/moire/command_line/known.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bench/load/session.h"
#include "models/zoo.h"
#include "runtime/base/nearest.h"
#include "runtime/base/text.h"
#include "runtime/planner/planner.h"
#include "runtime/proxy/source.h"
#include "runtime/sched/policy.h"

enum { PATH = 1200, NAME = 64 };

/* --- files
 * -------------------------------------------------------------------------------------------------- */
/* Where bench/FOLDER is: below the current folder, else beside the program.  False: no place is left. */
static bool data_folder(int place, const char *folder, char *out, size_t n) {
    static const char *const beside[] = {"../bench", "../share/moire"};
    char exe[512];
    if (!place) return snprintf(out, n, "bench/%s", folder) < (int)n;
    if (place > 2) return false;
    const struct mo_sys *sys = mo_sys_posix();
    if (sys->own_program(sys->self, exe, sizeof exe)) *exe = 0;
    char *slash = strrchr(exe, '/');
    if (slash) *slash = 0;
    return snprintf(out, n, "%s/%s/%s", *exe ? exe : ".", beside[place - 1], folder) < (int)n;
}

static void each_file(const char *kind, mo_known_taker take, void *ctx) {
    char folder[PATH];
    struct dirent **entries = NULL;
    int n = -1;
    for (int i = 0; n < 0 && data_folder(i, kind, folder, sizeof folder); i++)
        n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        size_t length = strlen(name);
        char bare[NAME];
        if (length > 5 && length < NAME && !strcmp(name + length - 5, ".json")) {
            snprintf(bare, sizeof bare, "%.*s", (int)length - 5, name);
            take(ctx, bare);
        }
        free(entries[i]);
    }
    free(entries);
}

/* --- tables
 * ------------------------------------------------------------------------------------------------- */
static void each_scenario(mo_known_taker take, void *ctx) {
    each_file("scenarios", take, ctx);
}

static void each_machine(mo_known_taker take, void *ctx) {
    each_file("machines", take, ctx);
}

static void each_model(mo_known_taker take, void *ctx) {
    int n;
    const struct mo_zoo_model *table = mo_zoo_table(&n);
    for (int i = 0; i < n; i++)
        take(ctx, table[i].name);
}

static void each_policy(mo_known_taker take, void *ctx) {
    const struct mo_policy *const *const tables[] = {mo_policies(), mo_policy_classes(), mo_policy_servers()};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct mo_policy *const *p = tables[i]; *p; p++)
            take(ctx, (*p)->name);
    take(ctx, "bound");
    take(ctx, "offline");
    take(ctx, "none");
}

static void each_planner(mo_known_taker take, void *ctx) {
    const struct mo_planner *const *const tables[] = {mo_planners(), mo_planners_published()};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct mo_planner *const *p = tables[i]; *p; p++)
            take(ctx, (*p)->name);
    take(ctx, "inss"); /* not in that table: they need what was trained */
    take(ctx, "inss-ni");
}

static void each_source(mo_known_taker take, void *ctx) {
    take(ctx, "auto");
    for (const struct mo_source *const *s = mo_sources(); *s; s++)
        take(ctx, (*s)->name);
}

static void each_peer(mo_known_taker take, void *ctx) {
    static const char *const families[] = {"openvino", "onnxruntime", "ncnn", "mnn", "tvm", "all", "none"};
    int n;
    const struct mo_bench_system *rows = mo_bench_peers(&n);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        take(ctx, families[i]);
    for (int i = 0; i < n; i++)
        take(ctx, rows[i].name);
}

static const struct {
    const char *what; /* "no WHAT 'word'" */
    const char *folder;
    void (*each)(mo_known_taker take, void *ctx);
} kinds[MO_KNOWN_KINDS] = {
    [MO_KNOWN_MODELS] = {"model", NULL, each_model},
    [MO_KNOWN_SCENARIOS] = {"scenario", "scenarios", each_scenario},
    [MO_KNOWN_MACHINES] = {"machine", "machines", each_machine},
    [MO_KNOWN_POLICIES] = {"policy", NULL, each_policy},
    [MO_KNOWN_PLANNERS] = {"planner", NULL, each_planner},
    [MO_KNOWN_SOURCES] = {"source of pressure", NULL, each_source},
    [MO_KNOWN_PEERS] = {"peer", NULL, each_peer},
};

void mo_known_each(enum mo_known kind, mo_known_taker take, void *ctx) {
    kinds[kind].each(take, ctx);
}

/* --- a name that stands for nothing
 * -------------------------------------------------------------------------- */
struct unknown {
    struct mo_text list;
    struct mo_nearest nearest;
    char kept[NAME];
};

static void consider(void *ctx, const char *name) {
    struct unknown *u = ctx;
    const char *before = u->nearest.name;
    mo_text_put(&u->list, "%s%s", u->list.n ? ", " : "", name);
    mo_nearest_offer(&u->nearest, name);
    if (u->nearest.name == before) return;
    snprintf(u->kept, sizeof u->kept, "%s", name);
    u->nearest.name = u->kept;
}

int mo_known_fail(enum mo_known kind, const char *flag, const char *word, moire_error *err) {
    char names[380], hint[NAME + 30];
    struct unknown u = {.list = mo_text_in(names, sizeof names), .nearest = {.word = word}};
    mo_known_each(kind, consider, &u);
    mo_nearest_text(&u.nearest, hint, sizeof hint);
    return mo_fail(err, MOIRE_EINVAL, "%s%sno %s '%.60s'%s%s %s%s", flag ? flag : "", flag ? ": " : "",
                   kinds[kind].what, word, hint, *hint ? "  There are:" : "; there are:", names,
                   u.list.cut ? "..." : "");
}

bool mo_known_is_path(const char *word) {
    struct stat st;
    return strpbrk(word, "./") || (stat(word, &st) == 0 && !S_ISDIR(st.st_mode));
}

int mo_known_find_data(enum mo_known kind, const char *word, char *path, size_t n, moire_error *err) {
    char folder[PATH];
    if (mo_known_is_path(word)) {
        if (snprintf(path, n, "%s", word) >= (int)n)
            return mo_fail(err, MOIRE_EINVAL, "%.80s...: path too long", word);
        if (access(word, R_OK) == 0) return MOIRE_OK;
        return mo_fail(err, MOIRE_EIO, "cannot read '%.300s': %s", word, strerror(errno));
    }
    for (int i = 0; data_folder(i, kinds[kind].folder, folder, sizeof folder); i++)
        if (snprintf(path, n, "%s/%s.json", folder, word) < (int)n && access(path, R_OK) == 0)
            return MOIRE_OK;
    return mo_known_fail(kind, NULL, word, err);
}
