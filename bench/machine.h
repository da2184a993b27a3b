/* SPDX-License-Identifier: Apache-2.0
 * machine.h - a kind of machine as data, and the profiles of models on it; the format is described in
 * bench/machines/README.md. */
#ifndef MO_BENCH_MACHINE_H
#define MO_BENCH_MACHINE_H
#include "bench/scenario.h"
#include "runtime/sched/profile_versions.h"
#include "runtime/sim/sim.h"

struct mo_bench_machine {
    const char *name, *about;
    const char *profiles; /* folder of NAME.csv files */
    struct mo_sim_machine sim;
    struct mo_profile_machine caches;
    struct mo_json_file file; /* owns the strings */
};

/* Reads a machine file.  On success *out must be closed; `path` must outlive it. */
int mo_bench_machine_load(const struct mo_env *env, const char *path, struct mo_bench_machine *out,
                          moire_error *err);
void mo_bench_machine_close(struct mo_bench_machine *machine);

/* What is known of a model on the machine: PROFILES/MODEL.csv, MODEL without folder and ".onnx"; and its
 * profile for that many cores, with the versions of its layers. */
int mo_bench_machine_table(const struct mo_env *env, const struct mo_bench_machine *machine,
                           const char *model, struct mo_profile_table *out, moire_error *err);
int mo_bench_machine_profile(const struct mo_env *env, const struct mo_bench_machine *machine,
                             const char *model, struct mo_profile **out, moire_error *err);
#endif
