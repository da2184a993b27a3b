/* SPDX-License-Identifier: Apache-2.0
 * machine_measure.c - what `moire bench machine` writes; see machine_measure.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bench/kernels/ceiling.h"
#include "bench/data/experiment.h"
#include "bench/kernels/machine_measure.h"
#include "bench/kernels/team_cost.h"

enum { INDICES = 8 };

static bool cache_entry(int index, const char *name, char *out, int n) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(out, n, f);
    if (f) fclose(f);
    return ok;
}

/* How many numbers a list like "0-3,8" holds. */
static int list_count(const char *text) {
    int n = 0;
    for (char *at = (char *)text, *end;; at = end + 1) {
        long first = strtol(at, &end, 10), last = first;
        if (end == at) return n;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        n += last >= first ? (int)(last - first) + 1 : 1;
        if (*end != ',') return n;
    }
}

/* Data caches of the first core; threads of one core count once. */
static json_t *caches(void) {
    json_t *list = json_array();
    int siblings = 0;
    for (int i = 0; i < INDICES; i++) {
        char level[16], type[32], size[32], shared[1024];
        if (!cache_entry(i, "level", level, sizeof level) || !cache_entry(i, "type", type, sizeof type) ||
            !cache_entry(i, "size", size, sizeof size) || !strncmp(type, "Instruction", 11))
            continue;
        int by = cache_entry(i, "shared_cpu_list", shared, sizeof shared) ? list_count(shared) : 1;
        if (!siblings) siblings = by > 0 ? by : 1; /* the first level belongs to one core */
        char *unit;
        long kib = strtol(size, &unit, 10);
        json_array_append_new(list, json_pack("{s:i, s:I, s:i}", "level", (int)strtol(level, NULL, 10), "kib",
                                              (json_int_t)(*unit == 'M' ? kib * 1024 : kib), "shared_by",
                                              by > siblings ? by / siblings : 1));
    }
    return list;
}

static json_t *describe(const struct mo_bench_session *s, json_t *ceilings, double memory_gib_s,
                        json_t *team) {
    json_t *experiment = mo_bench_experiment(s->command, s->cores), *isa = json_array();
    const char *cpu = json_string_value(json_object_get(experiment, "cpu"));
    const char *date = json_string_value(json_object_get(experiment, "date"));
    char name[80], about[400];
    snprintf(name, sizeof name, "%dcore-%s", s->cores, mo_isa_name(mo_isa_detect()));
    snprintf(about, sizeof about, "%.200s, measured %.40s", cpu ? cpu : "unknown", date ? date : "");
    for (int i = mo_isa_next(-1); i < MO_ISA_COUNT; i = mo_isa_next(i))
        json_array_append_new(isa, json_string(mo_isa_name((enum mo_isa)i)));
    json_decref(experiment);
    return json_pack("{s:s, s:s, s:i, s:o, s:o, s:f, s:o, s:o*}", "name", name, "about", about, "cores",
                     s->cores, "caches", caches(), "isa", isa, "memory_gib_s", memory_gib_s, "ceilings",
                     ceilings, "team", team);
}

int mo_bench_machine(struct mo_bench_session *session, json_t **out, moire_error *err) {
    json_t *ceilings = json_array();
    struct mo_ceiling c = {0};
    int code = MOIRE_OK;
    for (int threads = 1, done = 0; !code && !done; threads *= 2) {
        done = threads >= session->cores;
        const int n = done ? session->cores : threads;
        if (mo_bench_interrupted(session)) code = mo_fail(err, MOIRE_EINTERRUPTED, "interrupted");
        mo_bench_say(session, "ceilings of %d thread%s", n, n == 1 ? "" : "s");
        if (!code) code = mo_ceiling_measure(session->env, mo_isa_detect(), n, &c, err);
        if (!code) json_array_append_new(ceilings, mo_ceiling_json(&c));
    }
    struct mo_team_cost team;
    if (!code && session->cores > 1) code = mo_team_cost_measure(session->env, &team, err);
    if (code) {
        json_decref(ceilings);
        return code;
    }
    *out = describe(session, ceilings, c.level[MO_LEVEL_MEMORY].read_gb / 1.073741824,
                    session->cores > 1 ? mo_team_cost_json(&team) : NULL);
    return *out ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "out of memory");
}
