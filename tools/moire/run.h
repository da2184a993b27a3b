/* SPDX-License-Identifier: Apache-2.0
 * run.h - the parts of `moire run`: options, timing, report. */
#ifndef MO_TOOLS_RUN_H
#define MO_TOOLS_RUN_H
#include "bench/kernels/layer_profile.h"
#include "runtime/plan/slow.h"

enum { MO_RUN_INPUTS = 64 };

/* struct mo_options for one run: the model's file, inputs by name, the instruction set. */
struct mo_run_options {
    const char *file, *output_dir, *trace, *svg;
    const char *input_name[MO_RUN_INPUTS]; /* "NAME=FILE"; the name ends at input_split */
    size_t input_split[MO_RUN_INPUTS];
    const char *input_file[MO_RUN_INPUTS];
    int n_inputs;
    int threads, repeat;        /* repeat 0: 1, or half a second of them with a profile */
    int64_t seed, mapped_bytes; /* mapped_bytes: of the compiled model that is run; 0: none is */
    enum mo_isa isa;
    bool reference, profile, json;
};

/* run_report.c; ceiling: of the profile, NULL without one; slow: NULL when references were asked for */
void mo_run_report(const struct mo_run_options *o, const struct mo_plan *plan, struct mo_instance *instance,
                   const struct mo_timing *times, const struct mo_ceiling *ceiling,
                   const struct mo_slow *slow);
#endif
