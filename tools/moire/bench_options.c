/* SPDX-License-Identifier: Apache-2.0
 * bench_options.c - the command line of `moire bench`; see bench_options.h. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include "bench/load/cold.h"
#include "bench/kernels/kernels.h"
#include "bench/report/report.h"
#include "runtime/sched/policy.h"
#include "tools/moire/bench_options.h"
#include "tools/moire/paths.h"

int mo_bench_bad_flag(moire_error *err, const char *flag, const char *value, const char *wanted) {
    return mo_fail(err, MOIRE_EINVAL, "%s %s: %s", flag, value ? value : "", wanted);
}

int mo_bench_split(char *text, char **parts, int most) {
    int n = 0;
    char *save;
    for (char *p = strtok_r(text, ",", &save); p; p = strtok_r(NULL, ",", &save)) {
        if (n == most) return -1;
        parts[n++] = p;
    }
    return n;
}

int mo_bench_number(const char *flag, const char *text, double least, double most, double *out,
                    moire_error *err) {
    char wanted[80];
    if (mo_args_number(text, least, most, out)) return MOIRE_OK;
    snprintf(wanted, sizeof wanted, "must be a number between %g and %g", least, most);
    return mo_bench_bad_flag(err, flag, text, wanted);
}

int mo_bench_whole(const char *flag, const char *text, int least, int most, int *out, moire_error *err) {
    char wanted[80];
    int64_t v;
    snprintf(wanted, sizeof wanted, "must be a whole number, %d to %d", least, most);
    if (!mo_args_whole(text, least, most, &v)) return mo_bench_bad_flag(err, flag, text, wanted);
    *out = (int)v;
    return MOIRE_OK;
}

static int numbers(const char *flag, char *text, double min, double max, double *out, int most, int *n,
                   moire_error *err) {
    char *parts[64] = {0};
    *n = text ? mo_bench_split(text, parts, most < 64 ? most : 64) : 0;
    if (*n <= 0) return mo_bench_bad_flag(err, flag, text, "needs values with commas between");
    for (int i = 0; i < *n; i++) {
        int code = mo_bench_number(flag, parts[i], min, max, &out[i], err);
        if (code) return code;
    }
    return MOIRE_OK;
}

static int wholes(const char *flag, char *text, int64_t least, int64_t most, int64_t *out, int room, int *n,
                  moire_error *err) {
    char *parts[64] = {0}, wanted[80];
    *n = text ? mo_bench_split(text, parts, room < 64 ? room : 64) : 0;
    snprintf(wanted, sizeof wanted, "must be whole numbers from %lld to %lld, with commas between",
             (long long)least, (long long)most);
    if (*n <= 0) return mo_bench_bad_flag(err, flag, text, wanted);
    for (int i = 0; i < *n; i++)
        if (!mo_args_whole(parts[i], least, most, &out[i]))
            return mo_bench_bad_flag(err, flag, parts[i], wanted);
    return MOIRE_OK;
}

static int shape(struct mo_bench_options *o, char *text, moire_error *err) {
    char *equals = text ? strchr(text, '=') : NULL;
    if (!equals || o->latency.n_shapes == MO_BENCH_MAX_INPUTS)
        return mo_bench_bad_flag(err, "--shape", text, "must look like NAME=1,3,224,224");
    moire_shape *s = &o->shapes[o->latency.n_shapes++];
    *equals = 0;
    *s = (moire_shape){.input = text};
    return wholes("--shape", equals + 1, 1, 1000000000, s->shape, MOIRE_MAX_RANK, &s->rank, err);
}

static int policies(struct mo_bench_options *o, char *text, moire_error *err) {
    char *parts[MO_BENCH_MAX_SYSTEMS] = {0};
    int n = text ? mo_bench_split(text, parts, MO_BENCH_MAX_SYSTEMS) : 0;
    if (n <= 0) return mo_bench_bad_flag(err, "--policy", text, "needs names with commas between, or none");
    o->serve.n_policies = 0;
    for (int i = 0; i < n; i++) {
        if (!strcmp(parts[i], "none")) continue;
        bool clairvoyant = !strcmp(parts[i], "bound") || !strcmp(parts[i], "offline");
        if (!mo_policy_find(parts[i]) && !(o->simulated && clairvoyant)) {
            char known[700] = "no such policy; there are";
            const struct mo_policy *const *const tables[] = {mo_policies(),
                                                             o->simulated ? mo_policy_servers() : NULL};
            for (int k = 0; k < 2; k++)
                for (const struct mo_policy *const *p = tables[k]; p && *p; p++) {
                    size_t used = strlen(known);
                    snprintf(known + used, sizeof known - used, " %s", (*p)->name);
                }
            return mo_bench_bad_flag(err, "--policy", parts[i], known);
        }
        o->serve.policies[o->serve.n_policies++] = parts[i];
    }
    return MOIRE_OK;
}

static int lists(struct mo_bench_options *o, struct mo_args *args, bool *took, moire_error *err) {
    int64_t values[64];
    int n, code = MOIRE_OK;
    *took = true;
    if (mo_args_flag(args, "--threads", true)) {
        code = wholes("--threads", (char *)args->value, 1, 1024, values, 8, &n, err);
        for (int i = 0; !code && i < n; i++)
            o->latency.threads[i] = (int)values[i];
        o->latency.n_threads = n;
    } else if (mo_args_flag(args, "--load", true)) {
        code = numbers("--load", (char *)args->value, 0.001, 1000, o->serve.loads, MO_BENCH_MAX_LOADS,
                       &o->serve.n_loads, err);
    } else if (mo_args_flag(args, "--seed", true)) {
        code =
            wholes("--seed", (char *)args->value, 0, 9000000000000000, values, MO_BENCH_MAX_SEEDS, &n, err);
        for (int i = 0; !code && i < n; i++)
            o->serve.seeds[i] = (uint64_t)values[i];
        o->serve.n_seeds = n;
    } else if (mo_args_flag(args, "--seeds", true)) {
        code = mo_bench_whole("--seeds", args->value, 1, MO_BENCH_MAX_SEEDS, &n, err);
        for (int i = 0; !code && i < n; i++)
            o->serve.seeds[i] = (uint64_t)i + 1;
        if (!code) o->serve.n_seeds = n;
    } else if (mo_args_flag(args, "--shape", true)) {
        code = shape(o, (char *)args->value, err);
    } else if (mo_args_flag(args, "--policy", true)) {
        code = policies(o, (char *)args->value, err);
    } else if (mo_args_flag(args, "--arrivals", true)) {
        if (!args->value || !mo_process_parse(args->value, &o->serve.process))
            code = mo_bench_bad_flag(err, "--arrivals", args->value,
                                     "must be poisson, gamma:CV or mmpp:CV with a CV above 1, up to 20");
    } else {
        *took = false;
    }
    return code;
}

static int scalars(struct mo_bench_options *o, struct mo_args *args, bool *took, moire_error *err) {
    const struct {
        const char *flag;
        double *to, min, max;
    } rows[] = {
        {"--find-max", &o->serve.find_max, 0.01, 1},
        {"--step", &o->serve.step, 0.005, 100},
        {"--max-load", &o->serve.max_load, 0.01, 1000},
        {"--expect", &o->serve.expected, 0.001, 1000},
        {"--seconds", &o->seconds, 0.001, 86400},
        {"--warmup", &o->serve.warmup, 0, 3600},
        {"--calibrate", &o->serve.calibration_seconds, 0.01, 600},
    };
    *took = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (mo_args_flag(args, rows[i].flag, true))
            return mo_bench_number(rows[i].flag, args->value, rows[i].min, rows[i].max, rows[i].to, err);
    *took = false;
    return MOIRE_OK;
}

static int texts(struct mo_bench_options *o, struct mo_args *args, bool *took, moire_error *err) {
    const struct {
        const char *flag, **to;
    } rows[] = {
        {"--peers", &o->peers},
        {"--peer", &o->peers},
        {"--report", &o->report},
        {"--trace", &o->trace},
        {"--output", &o->output},
        {"--store", &o->store},
        {"--pressure", &o->pressure},
        {"--proxy", &o->proxy},
        {"--device", &o->device},
        {"--gpus", &o->gpus},
        {"--device-process", &o->process},
        {"--device-cache", &o->device_cache},
        {"--precision", &o->precision},
        {"--record", &o->record},
        {"--models", &o->models_folder},
        {"--calibration", &o->serve.calibration},
    };
    const struct {
        const char *flag;
        bool *to;
    } switches[] = {{"--json", &o->json},
                    {"--quiet", &o->quiet},
                    {"--generic", &o->generic},
                    {"--exact", &o->exact},
                    {"--resume", &o->resume},
                    {"--profile", &o->profile},
                    {"--only-generic", &o->only_generic}};
    *took = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!mo_args_flag(args, rows[i].flag, true)) continue;
        *rows[i].to = args->value;
        return args->value ? MOIRE_OK : mo_bench_bad_flag(err, rows[i].flag, NULL, "needs a value");
    }
    for (size_t i = 0; i < sizeof switches / sizeof switches[0]; i++)
        if (mo_args_flag(args, switches[i].flag, false)) {
            *switches[i].to = true;
            return MOIRE_OK;
        }
    *took = false;
    return MOIRE_OK;
}

/* --- which command reads what --------------------------------------------------------------------------- */
enum {
    ALONE = MO_READS_LATENCY | MO_READS_COLD | MO_READS_KERNELS,
    SCENARIO = MO_READS_SERVE | MO_READS_SIM | MO_READS_TABLES | MO_READS_CAPACITY | MO_READS_FIDELITY,
    LIVE = ALONE | MO_READS_SERVE | MO_READS_FIDELITY | MO_READS_PROFILE,
    LIMIT = MO_READS_SERVE | MO_READS_SIM | MO_READS_TABLES,
    DEVICE = MO_READS_SERVE | MO_READS_PROFILE | MO_READS_CHECK_DEVICE
};

static bool reads(const struct mo_bench_options *o, const char *word) {
    static const struct {
        const char *flag;
        unsigned readers;
    } rows[] = {
        {"--threads", ALONE | MO_READS_PROFILE},
        {"--shape", ALONE | MO_READS_PROFILE | MO_READS_CHECK_DEVICE},
        {"--peers", ALONE | MO_READS_SERVE},
        {"--peer", MO_READS_KERNELS},
        {"--profile", MO_READS_LATENCY},
        {"--resume",
         MO_READS_LATENCY | MO_READS_KERNELS | MO_READS_TABLES | MO_READS_FIDELITY | MO_READS_PROFILE},
        {"--generic", LIVE},
        {"--only-generic", ALONE},
        {"--exact", ALONE | MO_READS_SERVE},
        {"--store", LIVE},
        {"--models", LIVE | MO_READS_CHECK_DEVICE},
        {"--policy", SCENARIO | MO_READS_WHATIF},
        {"--load", MO_READS_SERVE | MO_READS_SIM | MO_READS_FIDELITY},
        {"--find-max", LIMIT},
        {"--step", LIMIT},
        {"--max-load", LIMIT},
        {"--expect", MO_READS_SERVE | MO_READS_SIM},
        {"--seconds", SCENARIO | MO_READS_LATENCY | MO_READS_KERNELS},
        {"--warmup", MO_READS_SERVE | MO_READS_SIM},
        {"--seed", SCENARIO & ~(unsigned)MO_READS_TABLES},
        {"--seeds", MO_READS_SIM | MO_READS_TABLES},
        {"--arrivals", MO_READS_SERVE | MO_READS_SIM | MO_READS_CAPACITY},
        {"--calibrate", MO_READS_SERVE},
        {"--calibration", MO_READS_SERVE | MO_READS_SIM},
        {"--record", MO_READS_SERVE},
        {"--pressure", MO_READS_SERVE},
        {"--proxy", MO_READS_SERVE},
        {"--gpus", MO_READS_SERVE},
        {"--device", DEVICE},
        {"--device-process", DEVICE},
        {"--device-cache", DEVICE},
        {"--precision", DEVICE},
        {"--trace", MO_READS_SERVE | MO_READS_REPORT},
        {"--report", LIMIT | MO_READS_REPORT},
        {"--output", ~(unsigned)(MO_READS_REPORT | MO_READS_CAPACITY | MO_READS_CHECK_DEVICE)},
        {"--json", ~(unsigned)(MO_READS_REPORT | MO_READS_PROFILE)},
        {"--quiet", ~(unsigned)(MO_READS_WHATIF | MO_READS_CHECK_DEVICE | MO_READS_PROFILE)},
    };
    size_t n = strcspn(word, "=");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strncmp(rows[i].flag, word, n) && !rows[i].flag[n]) return rows[i].readers & o->reader;
    return word[0] != '-';
}

int mo_bench_options_take(struct mo_bench_options *o, struct mo_args *args, bool *took, moire_error *err) {
    static int (*const parsers[])(struct mo_bench_options *, struct mo_args *, bool *,
                                  moire_error *) = {lists, scalars, texts};
    *took = false;
    if (!reads(o, args->argv[args->at])) return MOIRE_OK;
    for (size_t i = 0; !*took && i < sizeof parsers / sizeof parsers[0]; i++) {
        int code = parsers[i](o, args, took, err);
        if (code) return code;
    }
    if (*took) return MOIRE_OK;
    if (o->latency.n_models == MO_BENCH_MAX_MODELS)
        return mo_fail(err, MOIRE_ELIMIT, "more than %d models", MO_BENCH_MAX_MODELS);
    o->models[o->latency.n_models++] = args->argv[args->at++];
    *took = true;
    return MOIRE_OK;
}

int mo_bench_options_parse(struct mo_bench_options *o, struct mo_args *args, moire_error *err) {
    while (args->at < args->argc) {
        bool took;
        int code = mo_bench_options_take(o, args, &took, err);
        if (code) return code;
        if (!took)
            return mo_bench_bad_flag(err, args->argv[args->at], NULL, "no such flag; see moire bench --help");
    }
    return MOIRE_OK;
}

/* --- defaults and results, for the verbs that serve a scenario ------------------------------------------ */
struct mo_bench_serve_options mo_bench_serve_defaults(void) {
    return (struct mo_bench_serve_options){.policies = {"moire", "fcfs", "fcfs-1"},
                                           .n_policies = 3,
                                           .step = 0.05,
                                           .max_load = 1.2,
                                           .seconds = 10,
                                           .warmup = 1,
                                           .seeds = {1},
                                           .n_seeds = 1,
                                           .calibration_seconds = 0.6};
}

int mo_bench_find_data(const struct mo_bench_session *s, const char *folder, const char *word, char *path,
                       size_t n, moire_error *err) {
    FILE *f = fopen(word, "re");
    snprintf(path, n, "%s", word);
    if (!f && !strchr(word, '/')) {
        const char *slash = strrchr(s->exe, '/');
        const int dir = (int)(slash ? slash - s->exe : 0);
        static const char *const places[] = {"../bench", "../share/moire"};
        snprintf(path, n, "bench/%s/%s.json", folder, word);
        f = fopen(path, "re");
        for (int i = 0; !f && i < 2; i++) {
            snprintf(path, n, "%.*s/%s/%s/%s.json", dir, s->exe, places[i], folder, word);
            f = fopen(path, "re");
        }
    }
    if (!f) return mo_fail(err, MOIRE_EINVAL, "%s: neither a file nor a name in bench/%s", word, folder);
    fclose(f);
    return MOIRE_OK;
}

int mo_bench_use_store(struct mo_bench_session *s, struct mo_bench_options *o, moire_error *err) {
    int rc = mo_path_store_there(o->store, o->store_path, sizeof o->store_path, err);
    s->store = rc ? NULL : o->store_path; /* without a home there is no default, and no compiled kernel */
    return o->store ? rc : MOIRE_OK;
}

int mo_bench_check_serve(const struct mo_bench_options *o, moire_error *err) {
    if (o->latency.n_models != 1) return mo_fail(err, MOIRE_EINVAL, "needs exactly one scenario");
    if (o->serve.max_load / o->serve.step > 64)
        return mo_fail(err, MOIRE_EINVAL, "--step: over 64 steps to --max-load");
    if (!o->serve.n_policies && !o->serve.n_peers)
        return mo_fail(err, MOIRE_EINVAL, "neither a policy nor a peer");
    return MOIRE_OK;
}

int mo_bench_print_json(const json_t *document, moire_error *err) {
    if (!json_dumpf(document, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) && putchar('\n') != EOF)
        return MOIRE_OK;
    return mo_fail(err, MOIRE_EIO, "stdout: write failed");
}

int mo_bench_write_outputs(struct mo_bench_session *s, const struct mo_bench_options *o, json_t *document,
                           moire_error *err) {
    static const struct {
        const char *kind;
        void (*print)(const json_t *document);
    } printers[] = {{"latency", mo_bench_latency_print},
                    {"cold", mo_bench_cold_print},
                    {"kernels", mo_bench_kernels_print}};
    const char *kind = json_string_value(json_object_get(document, "kind"));
    void (*print)(const json_t *) = mo_bench_serve_print; /* a served scenario has no "kind" */
    for (size_t i = 0; kind && i < sizeof printers / sizeof *printers; i++)
        if (!strcmp(kind, printers[i].kind)) print = printers[i].print;
    int code = MOIRE_OK;
    if (o->json) code = mo_bench_print_json(document, err);
    if (!o->json && json_array_size(json_object_get(document, "results")) > 0) print(document);
    if (!code && o->output) code = mo_bench_write_json(s->env, document, o->output, err);
    if (!code && !kind && o->trace) code = mo_bench_write_trace(s->env, document, o->trace, err);
    if (!code && !kind && o->report) code = mo_bench_write_html(s->env, document, o->report, err);
    if (!code && !kind && o->report) mo_bench_say(s, "report in %s", o->report);
    return code;
}
