/* SPDX-License-Identifier: Apache-2.0
 * machine_power.c - what a machine file says of power; see machine.h and bench/machines/README.md. */
#include <string.h>
#include "bench/data/machine.h"

#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

static const double most_watts = 1e5, most_wake_ms = 600000;

struct power_raw {
    double off_w, idle_w, active_w, shared, wake_ms, wake_j;
    const char *basis, *source;
    json_t *clocks;
};

static int read_clocks(const struct mo_json_file *f, const char *where, const json_t *list,
                       struct mo_power_kind *out, moire_error *err) {
    const size_t n = json_array_size(list);
    if (n < 1 || n > MO_POWER_CLOCKS)
        return mo_json_fail(f, where, err, "\"clocks\" needs 1 to %d pairs of speed and power",
                            MO_POWER_CLOCKS);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(list, i);
        struct mo_power_clock *c = &out->clock[i];
        *c = (struct mo_power_clock){json_number_value(json_array_get(pair, 0)),
                                     json_number_value(json_array_get(pair, 1))};
        if (json_array_size(pair) != 2 || !(c->speed > 0 && c->speed <= 1) ||
            !(c->power > 0 && c->power <= 1) || (i && (c->speed <= c[-1].speed || c->power < c[-1].power)))
            return mo_json_fail(f, where, err,
                                "\"clocks\": pairs of speed and power above 0, rising, up to [1, 1]");
    }
    if (out->clock[n - 1].speed < 1 || out->clock[n - 1].power < 1)
        return mo_json_fail(f, where, err, "\"clocks\": the last is the profiles' own: [1, 1]");
    out->n_clocks = (int)n;
    return MOIRE_OK;
}

static int read_basis(const struct mo_json_file *f, const char *where, const char *name,
                      struct mo_power_kind *out, moire_error *err) {
    for (int b = MO_POWER_ASSUMED; b <= MO_POWER_MEASURED; b++)
        if (!strcmp(name, mo_power_basis_name((enum mo_power_basis)b))) {
            out->basis = (enum mo_power_basis)b;
            return MOIRE_OK;
        }
    return mo_json_fail(f, where, err, "\"basis\" must be measured, published or assumed, not '%s'", name);
}

int mo_bench_machine_power(const struct mo_json_file *f, const char *where, const json_t *object,
                           struct mo_power_kind *out, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"off_w", MO_JSON_NUMBER, true, offsetof(struct power_raw, off_w), 0, most_watts},
        {"idle_w", MO_JSON_NUMBER, true, offsetof(struct power_raw, idle_w), 0, most_watts},
        {"active_w", MO_JSON_NUMBER, true, offsetof(struct power_raw, active_w), 0, most_watts},
        {"shared", MO_JSON_NUMBER, false, offsetof(struct power_raw, shared), 0, 1},
        {"wake_ms", MO_JSON_NUMBER, false, offsetof(struct power_raw, wake_ms), 0, most_wake_ms},
        {"wake_j", MO_JSON_NUMBER, false, offsetof(struct power_raw, wake_j), 0, most_watts},
        {"clocks", MO_JSON_ARRAY, false, offsetof(struct power_raw, clocks), 0, 0},
        {"basis", MO_JSON_STRING, true, offsetof(struct power_raw, basis), 0, 0},
        {"source", MO_JSON_STRING, true, offsetof(struct power_raw, source), 0, 0},
    };
    struct power_raw raw = {.shared = 1};
    int code = mo_json_fields(f, where, object, fields, COUNT(fields), &raw, err);
    if (code) return code;
    if (raw.off_w > raw.idle_w || raw.idle_w > raw.active_w)
        return mo_json_fail(f, where, err, "needs off_w <= idle_w <= active_w, and here are %g, %g, %g",
                            raw.off_w, raw.idle_w, raw.active_w);
    *out = (struct mo_power_kind){.off_w = raw.off_w,
                                  .idle_w = raw.idle_w,
                                  .active_w = raw.active_w,
                                  .shared = raw.shared,
                                  .wake_j = raw.wake_j,
                                  .wake_ns = (int64_t)(raw.wake_ms * 1e6),
                                  .source = raw.source};
    code = read_basis(f, where, raw.basis, out, err);
    if (!code && raw.clocks) code = read_clocks(f, where, raw.clocks, out, err);
    return code;
}

static void add_device(struct mo_power_machine *out, const struct mo_power_kind *kind, int units) {
    const int d = out->n_devices++;
    out->kind[d] = kind;
    out->first[d + 1] = out->n_units += units;
}

bool mo_bench_machine_powered(const struct mo_bench_machine *m, bool gpus, struct mo_power_machine *out) {
    memset(out, 0, sizeof *out);
    for (int k = 0; gpus && k < m->n_gpus; k++)
        for (int i = 0; i < m->gpus[k].count; i++) {
            if (!m->gpus[k].has_power) return false;
            add_device(out, &m->gpus[k].power, m->gpus[k].kind.units);
        }
    if (!gpus && m->has_power) add_device(out, &m->power, m->sim.n_cores);
    return out->n_devices > 0;
}
