/* SPDX-License-Identifier: Apache-2.0
 * machine.c - reading machine files; see machine.h. */
#include "bench/data/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/profile/assumed_versions.h"

struct machine_raw {
    const char *name, *about, *profiles, *policy, *contention, *last_level, *stalls, *slow;
    int64_t cores, versions;
    json_t *caches, *isa, *ceilings, *team, *gpus, *power;
    double memory_gib_s, block_us, query_us, resize_us, ahead_us, noise, corun, interference_error;
};

const char *mo_bench_machine_folder(struct mo_region *region, const char *path, const char *given) {
    char out[1024];
    const char *slash = strrchr(path, '/');
    int dir = slash ? (int)(slash - path + 1) : 0;
    if (given)
        snprintf(out, sizeof out, "%.*s%s", given[0] == '/' ? 0 : dir, path, given);
    else
        snprintf(out, sizeof out, "%.*s", (int)strlen(path) - 5, path);
    return mo_region_string(region, out, strlen(out));
}

/* Cache of one core, and one slice of the last level. */
static struct mo_profile_machine read_caches(const json_t *caches, int cores, double bytes_ns) {
    struct mo_profile_machine m = {.cores = cores, .bytes_ns = bytes_ns};
    double level = 1;
    size_t i;
    json_t *c;
    json_array_foreach((json_t *)caches, i, c) {
        double l = json_number_value(json_object_get(c, "level"));
        double by = json_number_value(json_object_get(c, "shared_by"));
        double bytes = json_number_value(json_object_get(c, "kib")) * 1024;
        if (l == 2 && by <= 1) m.private_bytes = bytes;
        if (l <= level) continue;
        level = l;
        m.slice_bytes = bytes;
        m.slice_cores = by > 1 ? (int)by : 1;
    }
    return m;
}

/* What the file says of who slows whom; the memory ceiling counts where blocks share it. */
static int read_contention(struct mo_bench_machine *m, const struct machine_raw *raw, moire_error *err) {
    const struct mo_json_file *f = &m->file;
    bool sliced = raw->last_level && !strcmp(raw->last_level, "sliced");
    if (raw->contention && !mo_contention_parse(raw->contention, &m->sim.contention))
        return mo_json_fail(
            f, "contention", err,
            "must be memory, none, factor:M with M from 1 to 100, or versions:M with M from 1 "
            "to 7, not '%s'",
            raw->contention);
    if (raw->last_level && !sliced && strcmp(raw->last_level, "pooled") != 0)
        return mo_json_fail(f, "last_level", err, "must be pooled or sliced, not '%s'", raw->last_level);
    if (sliced && !m->caches.slice_cores)
        return mo_json_fail(f, "last_level", err, "sliced needs a level above 1 in \"caches\"");
    if (sliced) m->sim.slice_cores = m->caches.slice_cores;
    m->sim.contention.versions = m->caches.versions = (int)raw->versions;
    if (m->sim.contention.kind != MO_CONTENTION_MEMORY) m->sim.bytes_ns = 0;
    return MOIRE_OK;
}

static int read_stalls(struct mo_bench_machine *m, const struct machine_raw *raw, moire_error *err) {
    if (raw->stalls && !mo_bench_stalls_parse(raw->stalls, &m->stalls))
        return mo_json_fail(&m->file, "stalls", err,
                            "must be stalls a second of each core and their ms, like 2:10-50, not '%s'",
                            raw->stalls);
    if (raw->slow && !mo_bench_slow_parse(raw->slow, &m->stalls))
        return mo_json_fail(&m->file, "slow", err,
                            "must be a factor and mean seconds of fast and of slow times, like 2:1:0.5, not "
                            "'%s'",
                            raw->slow);
    if (mo_bench_stalls_any(&m->stalls) && m->n_gpus)
        return mo_json_fail(&m->file, "", err, "\"stalls\" and \"slow\" are for machines of cores alone");
    return MOIRE_OK;
}

static int read_machine(struct mo_bench_machine *m, moire_error *err) {
    const struct mo_json_field fields[] = {
        {"name", MO_JSON_STRING, true, offsetof(struct machine_raw, name), 0, 0},
        {"about", MO_JSON_STRING, false, offsetof(struct machine_raw, about), 0, 0},
        {"cores", MO_JSON_INT, false, offsetof(struct machine_raw, cores), 1, MO_MAX_CORES},
        {"caches", MO_JSON_ARRAY, false, offsetof(struct machine_raw, caches), 0, 0},
        {"isa", MO_JSON_ARRAY, false, offsetof(struct machine_raw, isa), 0, 0},
        {"memory_gib_s", MO_JSON_NUMBER, false, offsetof(struct machine_raw, memory_gib_s), 0, 1e5},
        {"ceilings", MO_JSON_ARRAY, false, offsetof(struct machine_raw, ceilings), 0, 0},
        {"team", MO_JSON_OBJECT, false, offsetof(struct machine_raw, team), 0, 0},
        {"profiles", MO_JSON_STRING, false, offsetof(struct machine_raw, profiles), 0, 0},
        {"policy", MO_JSON_STRING, false, offsetof(struct machine_raw, policy), 0, 0},
        {"block_us", MO_JSON_NUMBER, false, offsetof(struct machine_raw, block_us), 0, 1e5},
        {"query_us", MO_JSON_NUMBER, false, offsetof(struct machine_raw, query_us), 0, 1e6},
        {"resize_us", MO_JSON_NUMBER, false, offsetof(struct machine_raw, resize_us), 0, 1e5},
        {"ahead_us", MO_JSON_NUMBER, false, offsetof(struct machine_raw, ahead_us), 0, 1e5},
        {"noise", MO_JSON_NUMBER, false, offsetof(struct machine_raw, noise), 0, 1},
        {"corun", MO_JSON_NUMBER, false, offsetof(struct machine_raw, corun), 0, 100},
        {"interference_error", MO_JSON_NUMBER, false, offsetof(struct machine_raw, interference_error), 0, 1},
        {"contention", MO_JSON_STRING, false, offsetof(struct machine_raw, contention), 0, 0},
        {"last_level", MO_JSON_STRING, false, offsetof(struct machine_raw, last_level), 0, 0},
        {"versions", MO_JSON_INT, false, offsetof(struct machine_raw, versions), 0, MO_PROFILE_VERSIONS},
        {"stalls", MO_JSON_STRING, false, offsetof(struct machine_raw, stalls), 0, 0},
        {"slow", MO_JSON_STRING, false, offsetof(struct machine_raw, slow), 0, 0},
        {"gpus", MO_JSON_ARRAY, false, offsetof(struct machine_raw, gpus), 0, 0},
        {"power", MO_JSON_OBJECT, false, offsetof(struct machine_raw, power), 0, 0},
    };
    struct machine_raw raw = {0};
    const struct mo_json_file *f = &m->file;
    int code = mo_json_fields(f, "", f->root, fields, (int)(sizeof fields / sizeof fields[0]), &raw, err);
    if (code) return code;
    if (raw.power && !raw.cores) return mo_json_fail(f, "power", err, "is of cores; GPUs have their own");
    m->has_power = raw.power != NULL;
    if (raw.power && (code = mo_bench_machine_power(f, "power", raw.power, &m->power, err))) return code;
    if (raw.gpus && (code = mo_bench_machine_gpus(m, raw.gpus, err))) return code;
    if (!raw.cores && !m->n_gpus) return mo_json_fail(f, "", err, "needs \"cores\", or \"gpus\"");
    size_t n = strlen(f->path);
    if (raw.cores && !raw.profiles && (n < 6 || strcmp(f->path + n - 5, ".json") != 0))
        return mo_json_fail(f, "", err, "needs \"profiles\": the file's own name does not end in .json");
    m->name = raw.name;
    m->about = raw.about ? raw.about : "";
    m->profiles = raw.cores ? mo_bench_machine_folder(f->region, f->path, raw.profiles) : "";
    m->policy = mo_bench_machine_policy(f->region, f->path, raw.policy);
    m->sim = (struct mo_sim_machine){.n_cores = (int)raw.cores,
                                     .block_ns = (int64_t)(raw.block_us * 1e3),
                                     .query_ns = (int64_t)(raw.query_us * 1e3),
                                     .resize_ns = (int64_t)(raw.resize_us * 1e3),
                                     .noise = raw.noise,
                                     .corun = raw.corun,
                                     .interference_error = raw.interference_error,
                                     .bytes_ns = raw.memory_gib_s * 1.073741824};
    m->ahead_ns = (int64_t)(raw.ahead_us * 1e3);
    m->caches = read_caches(raw.caches, m->sim.n_cores, m->sim.bytes_ns);
    if (m->caches.slice_cores)
        m->sim.cache_bytes = m->caches.slice_bytes * ceil((double)m->sim.n_cores / m->caches.slice_cores);
    if ((code = read_contention(m, &raw, err)) || (code = read_stalls(m, &raw, err))) return code;
    return m->profiles && m->policy ? MOIRE_OK : mo_fail(err, MOIRE_ENOMEM, "%s: out of memory", f->path);
}

/* The object that a key "power.idle_w" is in, and what it is called there; NULL = there is no such object. */
static json_t *holder(json_t *root, char *key, char **name) {
    char *dot = strchr(key, '.');
    *name = dot ? dot + 1 : key;
    if (!dot) return root;
    *dot = 0;
    json_t *part = json_object_get(root, key);
    *dot = '.';
    return json_is_object(part) && **name ? part : NULL;
}

/* Puts "KEY=VALUE" into the document; what reads as a number is one. */
static int replace(struct mo_json_file *file, const char *with, moire_error *err) {
    const char *sign = strchr(with, '=');
    char key[32], *end, *name;
    if (!sign || sign == with || !sign[1] || sign - with >= (int)sizeof key)
        return mo_fail(err, MOIRE_EINVAL, "'%s' is no KEY=VALUE of a machine file", with);
    snprintf(key, sizeof key, "%.*s", (int)(sign - with), with);
    json_t *in = holder(file->root, key, &name);
    if (!in) return mo_fail(err, MOIRE_EINVAL, "'%s': the machine file has no object for '%s'", with, key);
    double number = strtod(sign + 1, &end);
    if (!*end && !isfinite(number)) return mo_fail(err, MOIRE_EINVAL, "'%s': not a finite number", with);
    json_t *value = *end                                             ? json_string(sign + 1)
                    : number == floor(number) && fabs(number) < 1e15 ? json_integer((json_int_t)number)
                                                                     : json_real(number);
    return json_object_set_new(in, name, value) ? mo_fail(err, MOIRE_ENOMEM, "out of memory") : MOIRE_OK;
}

int mo_bench_machine_open_with(const struct mo_env *env, const char *path, const char *const *with, int n,
                               struct mo_bench_machine *out, moire_error *err) {
    memset(out, 0, sizeof *out);
    int code = mo_json_load(env, path, &out->file, err);
    if (code) return code;
    for (int i = 0; !code && i < n; i++)
        code = replace(&out->file, with[i], err);
    if (!code) code = read_machine(out, err);
    if (code) mo_bench_machine_close(out);
    return code;
}

int mo_bench_machine_open(const struct mo_env *env, const char *path, struct mo_bench_machine *out,
                          moire_error *err) {
    return mo_bench_machine_open_with(env, path, NULL, 0, out, err);
}

int mo_bench_machine_load(const struct mo_env *env, const char *path, struct mo_bench_machine *out,
                          moire_error *err) {
    int code = mo_bench_machine_open(env, path, out, err);
    if (code || out->sim.n_cores) return code;
    code = mo_json_fail(&out->file, "", err, "has no \"cores\", and this works on cores alone");
    mo_bench_machine_close(out);
    return code;
}

void mo_bench_machine_close(struct mo_bench_machine *machine) {
    mo_json_close(&machine->file);
    memset(machine, 0, sizeof *machine);
}

void mo_bench_machine_file(const char *folder, const char *model, char path[MO_BENCH_PROFILE_PATH]) {
    const char *slash = strrchr(model, '/'), *base = slash ? slash + 1 : model;
    size_t n = strlen(base);
    if (n > 5 && !strcmp(base + n - 5, ".onnx")) n -= 5;
    snprintf(path, MO_BENCH_PROFILE_PATH, "%s/%.*s.csv", folder, (int)(n < 128 ? n : 128), base);
}

int mo_bench_machine_table(const struct mo_env *env, const struct mo_bench_machine *machine,
                           const char *model, struct mo_profile_table *out, moire_error *err) {
    char path[MO_BENCH_PROFILE_PATH];
    mo_bench_machine_file(machine->profiles, model, path);
    int code = mo_profile_table_read(env, path, out, err);
    if (code != MOIRE_EIO) return code;
    return mo_fail(err, MOIRE_EINVAL,
                   "%s: no profile of '%s' on machine '%s' (`moire profile` measures one there)", path, model,
                   machine->name);
}

/* Those that were measured count where blocks share memory: elsewhere every layer has one, or assumed ones.
 */
static int add_versions(const struct mo_bench_machine *machine, const struct mo_profile_table *table,
                        struct mo_profile *profile, moire_error *err) {
    switch (machine->sim.contention.kind) {
    case MO_CONTENTION_MEMORY:
        return mo_profile_versions(&machine->caches, table, profile, err);
    case MO_CONTENTION_VERSIONS:
        return mo_profile_assume_versions(profile, machine->sim.contention.versions)
                   ? mo_fail(err, MOIRE_ENOMEM, "out of memory for the versions of '%s'", table->model)
                   : MOIRE_OK;
    default:
        return MOIRE_OK;
    }
}

int mo_bench_machine_profile(const struct mo_env *env, const struct mo_bench_machine *machine,
                             const char *model, struct mo_profile **out, moire_error *err) {
    struct mo_profile_table table;
    int code = mo_bench_machine_table(env, machine, model, &table, err);
    if (code) return code;
    code = mo_profile_table_profile(env, &table, 0, machine->sim.n_cores, out, err);
    if (!code && (code = add_versions(machine, &table, *out, err))) mo_profile_destroy(*out);
    if (code) *out = NULL;
    mo_profile_table_free(&table);
    return code;
}
