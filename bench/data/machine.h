/* SPDX-License-Identifier: Apache-2.0
 * machine.h - a kind of machine as data, and the profiles of models on it; the format is described in
 * bench/machines/README.md. */
#ifndef MO_BENCH_MACHINE_H
#define MO_BENCH_MACHINE_H
#include "bench/data/scenario.h"
#include "bench/data/stalls.h"
#include "runtime/planner/inss/inss_plan.h"
#include "runtime/profile/share_table.h"
#include "runtime/profile/profile_versions.h"
#include "runtime/sim/sim.h"

/* GPUs of one type. */
struct mo_bench_gpus {
    struct mo_plan_kind kind;
    int count;
    double copy_bytes_ns;  /* what the link to one GPU moves */
    int64_t reorganise_ns; /* from the wish for a let to its first batch: it is made, models are loaded */
    const char *profiles;  /* folder of NAME.csv files of shares */
    bool has_power;
    struct mo_power_kind power; /* of one GPU */
};

struct mo_bench_machine {
    const char *name, *about;
    const char *profiles; /* folder of NAME.csv files */
    const char *policy;   /* file of a trained policy for its GPUs; it need not be there */
    int n_gpus;           /* types; GPUs are numbered type by type, in the order of the file */
    struct mo_bench_gpus gpus[MO_PLAN_KINDS];
    struct mo_sim_machine sim;
    int64_t ahead_ns; /* mo_gpus.ahead_ns */
    struct mo_profile_machine caches;
    struct mo_bench_stalls stalls; /* of its cores */
    bool has_power;
    struct mo_power_kind power; /* of all its cores */
    struct mo_json_file file;   /* owns the strings */
};

/* Reads a machine file.  On success *out must be closed; `path` must outlive it.  `load` refuses a machine
 * without cores, `open` does not: its sim.n_cores is 0. */
int mo_bench_machine_open(const struct mo_env *env, const char *path, struct mo_bench_machine *out,
                          moire_error *err);
int mo_bench_machine_load(const struct mo_env *env, const char *path, struct mo_bench_machine *out,
                          moire_error *err);
/* As open, with n keys of the file replaced: "contention=factor:1.8", "resize_us=50".  MOIRE_EINVAL: a text
 * is not KEY=VALUE. */
int mo_bench_machine_open_with(const struct mo_env *env, const char *path, const char *const *with, int n,
                               struct mo_bench_machine *out, moire_error *err);
void mo_bench_machine_close(struct mo_bench_machine *machine);

/* What is known of a model on the machine: PROFILES/MODEL.csv; and its profile for that many cores, with the
 * versions of its layers. */
int mo_bench_machine_table(const struct mo_env *env, const struct mo_bench_machine *machine,
                           const char *model, struct mo_profile_table *out, moire_error *err);
int mo_bench_machine_profile(const struct mo_env *env, const struct mo_bench_machine *machine,
                             const char *model, struct mo_profile **out, moire_error *err);

/* The trained policy of a machine of GPUs: `weights`, or machine->policy where that is NULL.  Close *out;
 * also zeros after an error.  MOIRE_EINVAL: it is not there, it was trained for other GPUs, the machine has
 * GPUs of several types; those of mo_policy_read(). */
int mo_bench_machine_learned(const struct mo_env *env, const struct mo_bench_machine *machine,
                             const char *weights, struct mo_policy_file *out, moire_error *err);

/* The folder beside the machine file: "dir/cores64.json" keeps its profiles in "dir/cores64" unless it says
 * another.  NULL: out of memory. */
const char *mo_bench_machine_folder(struct mo_region *region, const char *path, const char *given);
/* FOLDER/MODEL.csv, MODEL without folder and ".onnx". */
enum { MO_BENCH_PROFILE_PATH = 1200 };
void mo_bench_machine_file(const char *folder, const char *model, char path[MO_BENCH_PROFILE_PATH]);
/* The file of its trained policy: `given` beside the machine file, "dir/cores64.mo" when that is NULL.  NULL:
 * out of memory. */
const char *mo_bench_machine_policy(struct mo_region *region, const char *path, const char *given);
/* Reads an object "power"; its texts are the file's. */
int mo_bench_machine_power(const struct mo_json_file *file, const char *where, const json_t *object,
                           struct mo_power_kind *out, moire_error *err);
/* The devices of its GPUs, or of its cores; false: the file does not say what they draw.  *out borrows from
 * the machine. */
bool mo_bench_machine_powered(const struct mo_bench_machine *machine, bool gpus,
                              struct mo_power_machine *out);
/* Reads the list "gpus" of a machine file into machine->gpus. */
int mo_bench_machine_gpus(struct mo_bench_machine *machine, const json_t *list, moire_error *err);
/* The profile of a model on shares of the GPUs of that index, with their link; freed by the caller. */
int mo_bench_machine_shares(const struct mo_env *env, const struct mo_bench_machine *machine, int gpus,
                            const char *model, struct mo_share_table *out, moire_error *err);
#endif
