/* SPDX-License-Identifier: Apache-2.0
 * machine_gpus.c - the GPUs of a machine file, and profiles of models on shares of them; see machine.h. */
#include <stdio.h>
#include <string.h>
#include "bench/data/machine.h"

#define COUNT(a) (int)(sizeof(a) / sizeof(a)[0])

static const double gib = 1073741824;

struct gpus_raw {
    const char *type, *profiles;
    int64_t count, units, min, align, max_lets;
    double memory_mib, copy_gib_s, reorganise_ms;
    bool shared_weights;
    json_t *sizes, *interference, *power;
};

/* "gpus[1].sizes" */
static const char *below(char out[96], const char *where, const char *key) {
    snprintf(out, 96, "%s.%s", where, key);
    return out;
}

static int read_sizes(const struct mo_json_file *f, const char *where, const json_t *sizes,
                      struct mo_plan_kind *kind, moire_error *err) {
    char path[96];
    size_t i;
    json_t *v;
    below(path, where, "sizes");
    if (!json_array_size(sizes) || json_array_size(sizes) > MO_PLAN_SIZES)
        return mo_json_fail(f, path, err, "needs 1 to %d sizes", MO_PLAN_SIZES);
    kind->n_sizes = 0;
    json_array_foreach((json_t *)sizes, i, v) {
        json_int_t size = json_is_integer(v) ? json_integer_value(v) : 0;
        if (size < 1 || size > kind->units || (i && size <= kind->sizes[i - 1]))
            return mo_json_fail(
                f, path, err, "must be whole numbers of units, rising, from 1 to the GPU's %d", kind->units);
        kind->sizes[kind->n_sizes++] = (int)size;
    }
    return MOIRE_OK;
}

static int read_interference(const struct mo_json_file *f, const char *where, const json_t *object,
                             struct mo_interference *out, moire_error *err) {
    const double most = 100;
    const struct mo_json_field fields[] = {
        {"l2_self", MO_JSON_NUMBER, true, offsetof(struct mo_interference, l2_self), -most, most},
        {"l2_other", MO_JSON_NUMBER, true, offsetof(struct mo_interference, l2_other), 0, most},
        {"dram_self", MO_JSON_NUMBER, true, offsetof(struct mo_interference, dram_self), -most, most},
        {"dram_other", MO_JSON_NUMBER, true, offsetof(struct mo_interference, dram_other), 0, most},
        {"constant", MO_JSON_NUMBER, true, offsetof(struct mo_interference, constant), 0, most},
    };
    char path[96];
    return mo_json_fields(f, below(path, where, "interference"), object, fields, COUNT(fields), out, err);
}

static int read_fields(const struct mo_json_file *f, const char *where, const json_t *object,
                       struct gpus_raw *raw, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"type", MO_JSON_STRING, true, offsetof(struct gpus_raw, type), 0, 0},
        {"count", MO_JSON_INT, false, offsetof(struct gpus_raw, count), 1, MO_PLAN_GPUS},
        {"units", MO_JSON_INT, true, offsetof(struct gpus_raw, units), 1, MO_PLAN_UNITS},
        {"sizes", MO_JSON_ARRAY, false, offsetof(struct gpus_raw, sizes), 0, 0},
        {"min", MO_JSON_INT, false, offsetof(struct gpus_raw, min), 1, MO_PLAN_UNITS},
        {"align", MO_JSON_INT, false, offsetof(struct gpus_raw, align), 1, MO_PLAN_UNITS},
        {"max_lets", MO_JSON_INT, false, offsetof(struct gpus_raw, max_lets), 1, MO_PLAN_UNITS},
        {"memory_mib", MO_JSON_NUMBER, true, offsetof(struct gpus_raw, memory_mib), 1, 1e7},
        {"copy_gib_s", MO_JSON_NUMBER, false, offsetof(struct gpus_raw, copy_gib_s), 0, 1e5},
        {"reorganise_ms", MO_JSON_NUMBER, false, offsetof(struct gpus_raw, reorganise_ms), 0, 1e7},
        {"shared_weights", MO_JSON_BOOL, false, offsetof(struct gpus_raw, shared_weights), 0, 0},
        {"interference", MO_JSON_OBJECT, false, offsetof(struct gpus_raw, interference), 0, 0},
        {"profiles", MO_JSON_STRING, false, offsetof(struct gpus_raw, profiles), 0, 0},
        {"power", MO_JSON_OBJECT, false, offsetof(struct gpus_raw, power), 0, 0},
    };
    int code = mo_json_fields(f, where, object, fields, COUNT(fields), raw, err);
    if (code) return code;
    if (!raw->type[0] || strchr(raw->type, '/'))
        return mo_json_fail(f, where, err, "\"type\" must be a name");
    if (raw->sizes && (raw->min || raw->align))
        return mo_json_fail(f, where, err, "needs either \"sizes\", or \"min\" and \"align\"");
    if (raw->min > raw->units)
        return mo_json_fail(f, where, err, "%d units are too small for any let: \"min\" is %d",
                            (int)raw->units, (int)raw->min);
    return MOIRE_OK;
}

static int read_gpus(const struct mo_json_file *f, const char *where, const json_t *object,
                     struct mo_bench_gpus *out, moire_error *err) {
    struct gpus_raw raw = {.count = 1};
    char folder[160];
    int code = read_fields(f, where, object, &raw, err);
    if (code) return code;
    out->kind = (struct mo_plan_kind){.name = raw.type,
                                      .units = (int)raw.units,
                                      .max_lets = (int)(raw.max_lets ? raw.max_lets : raw.units),
                                      .memory_bytes = (int64_t)(raw.memory_mib * 1048576),
                                      .shared_weights = raw.shared_weights};
    out->count = (int)raw.count;
    out->copy_bytes_ns = raw.copy_gib_s * gib / 1e9;
    out->reorganise_ns = (int64_t)(raw.reorganise_ms * 1e6);
    if (raw.sizes)
        code = read_sizes(f, where, raw.sizes, &out->kind, err);
    else
        mo_plan_sizes(&out->kind, raw.min ? (int)raw.min : 1, raw.align ? (int)raw.align : 1);
    if (!code && raw.interference)
        code = read_interference(f, where, raw.interference, &out->kind.interference, err);
    if (!code && raw.power) {
        char path[96];
        out->has_power = true;
        code = mo_bench_machine_power(f, below(path, where, "power"), raw.power, &out->power, err);
    }
    if (code) return code;
    snprintf(folder, sizeof folder, "../gpus/%.100s", raw.type);
    out->profiles = mo_bench_machine_folder(f->region, f->path, raw.profiles ? raw.profiles : folder);
    return out->profiles ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
}

int mo_bench_machine_gpus(struct mo_bench_machine *m, const json_t *list, moire_error *err) {
    const struct mo_json_file *f = &m->file;
    size_t n = json_array_size(list);
    int all = 0;
    if (n < 1 || n > MO_PLAN_KINDS)
        return mo_json_fail(f, "gpus", err, "needs 1 to %d types of GPU", MO_PLAN_KINDS);
    for (size_t i = 0; i < n; i++) {
        char where[32];
        snprintf(where, sizeof where, "gpus[%zu]", i);
        int code = read_gpus(f, where, json_array_get(list, i), &m->gpus[i], err);
        if (code) return code;
        for (size_t j = 0; j < i; j++)
            if (!strcmp(m->gpus[i].kind.name, m->gpus[j].kind.name))
                return mo_json_fail(f, where, err, "a second entry of that type; one with a \"count\"");
        all += m->gpus[i].count;
    }
    if (all > MO_PLAN_GPUS) return mo_json_fail(f, "gpus", err, "%d GPUs; %d at most", all, MO_PLAN_GPUS);
    m->n_gpus = (int)n;
    return MOIRE_OK;
}

int mo_bench_machine_shares(const struct mo_env *env, const struct mo_bench_machine *machine, int gpus,
                            const char *model, struct mo_share_table *out, moire_error *err) {
    const struct mo_bench_gpus *g = &machine->gpus[gpus];
    char path[MO_BENCH_PROFILE_PATH];
    mo_bench_machine_file(g->profiles, model, path);
    int code = mo_share_table_read(env, path, out, err);
    if (!code) out->profile->copy_bytes_ns = g->copy_bytes_ns;
    if (code != MOIRE_EIO) return code;
    return mo_fail(err, MOIRE_EINVAL, "%s: no profile of '%s' on a GPU of type '%s'", path, model,
                   g->kind.name);
}
