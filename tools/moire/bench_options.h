/* SPDX-License-Identifier: Apache-2.0
 * bench_options.h - the command line of `moire bench`. */
#ifndef MO_BENCH_OPTIONS_H
#define MO_BENCH_OPTIONS_H
#include "bench/load/serve.h"
#include "tools/moire/verb.h"

enum { MO_BENCH_MAX_MODELS = 64 };

/* The commands that share this command line; each takes the flags that it reads, and no others. */
enum mo_bench_reader {
    MO_READS_LATENCY = 1,
    MO_READS_COLD = 2,
    MO_READS_KERNELS = 4,
    MO_READS_MACHINE = 8,
    MO_READS_SERVE = 16,
    MO_READS_REPORT = 32,
    MO_READS_SIM = 64,
    MO_READS_TABLES = 128,
    MO_READS_WHATIF = 256,
    MO_READS_FIDELITY = 512,
    MO_READS_CAPACITY = 1024,
    MO_READS_PROFILE = 2048,
    MO_READS_CHECK_DEVICE = 4096
};

struct mo_bench_options {
    enum mo_bench_reader reader; /* set before parsing */
    struct mo_bench_latency_options latency;
    struct mo_bench_serve_options serve;
    const char *models[MO_BENCH_MAX_MODELS], *families[8];
    moire_shape shapes[MO_BENCH_MAX_INPUTS];
    const char *peers, *report, *trace, *record, *output, *store, *models_folder, *pressure, *proxy, *device,
        *process, *device_cache, *gpus, *precision;
    char store_path[4096]; /* --store or the default, without symbolic links */
    char cache_path[1024]; /* --device-cache, likewise */
    double seconds;
    bool json, quiet, generic, only_generic, exact, resume, profile;
    bool simulated; /* the pseudo-policy "bound" is a policy too */
};

/* Reads everything after the sub-command; list values are cut up in place. */
int mo_bench_options_parse(struct mo_bench_options *options, struct mo_args *args, moire_error *err);
/* One word, or one flag with its value; *took = false: a flag that options->reader does not read. */
int mo_bench_options_take(struct mo_bench_options *options, struct mo_args *args, bool *took,
                          moire_error *err);
struct mo_bench_serve_options mo_bench_serve_defaults(void);
/* session->store from --store or the default one.  MOIRE_EIO: --store names no folder. */
int mo_bench_use_store(struct mo_bench_session *session, struct mo_bench_options *options, moire_error *err);
/* What holds for every command that serves a scenario: one scenario, a policy or peer, a grid that fits. */
int mo_bench_check_serve(const struct mo_bench_options *options, moire_error *err);
/* A file, or the name of one in bench/FOLDER ("scenarios", "machines") as the repository or an installation
 * keeps them: its path. */
int mo_bench_find_data(const struct mo_bench_session *session, const char *folder, const char *word,
                       char *path, size_t n, moire_error *err);
/* The document on stdout.  MOIRE_EIO: it could not be written. */
int mo_bench_print_json(const json_t *document, moire_error *err);
/* Tables or JSON to stdout, and the files that were asked for. */
int mo_bench_write_outputs(struct mo_bench_session *session, const struct mo_bench_options *options,
                           json_t *document, moire_error *err);
/* bench_plans.c: `moire bench plans`, with flags of its own. */
int mo_bench_run_plans(const struct mo_env *env, int argc, char **argv, moire_error *err);
/* bench_alone.c: the commands that run one thing at a time. */
int mo_bench_run_latency(struct mo_bench_session *session, struct mo_bench_options *options,
                         json_t **document, moire_error *err);
int mo_bench_run_kernels(struct mo_bench_session *session, struct mo_bench_options *options,
                         json_t **document, moire_error *err);
int mo_bench_run_cold(struct mo_bench_session *session, struct mo_bench_options *options, json_t **document,
                      moire_error *err);
int mo_bench_run_machine(struct mo_bench_session *session, struct mo_bench_options *options,
                         json_t **document, moire_error *err);
/* Cuts `text` at commas, in place; returns the number of parts, -1 for more than `most`. */
int mo_bench_split(char *text, char **parts, int most);
/* The value of a flag as a number, or a whole one, from least to most; MOIRE_EINVAL says what it must be. */
int mo_bench_number(const char *flag, const char *text, double least, double most, double *out,
                    moire_error *err);
int mo_bench_whole(const char *flag, const char *text, int least, int most, int *out, moire_error *err);
/* MOIRE_EINVAL with the flag, its value (may be NULL) and what it should be. */
int mo_bench_bad_flag(moire_error *err, const char *flag, const char *value, const char *wanted);
#endif
