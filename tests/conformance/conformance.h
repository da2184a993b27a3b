/* SPDX-License-Identifier: Apache-2.0
 * conformance.h - the pieces of the conformance runner. */
#ifndef MO_CONFORMANCE_H
#define MO_CONFORMANCE_H
#include <stdbool.h>
#include <stdio.h>
#include "runtime/base/env.h"
#include "tools/moire/verify/dataset.h"

enum verdict { PASSED, FAILED, SKIPPED };

struct result {
    char name[160]; /* "node/test_relu" */
    enum verdict verdict;
    char reason[80];   /* skipped: the operator or type that is missing */
    char message[600]; /* failed or skipped: what was said */
};

/* Runs one case folder (model.onnx, test_data_set_k) three ways: the references on the imported graph, the
 * references after the passes, and the plan with its kernels.  With `gpu`: as a program for a GPU instead. */
struct case_gpu;
void run_case(const struct mo_env *env, struct case_gpu *gpu, const char *folder, struct result *out);

/* Output i of the case agrees with what was computed, or an error that says where not. */
int case_compare(const struct mo_dataset *data, int i, const moire_tensor *got, moire_error *err);
/* The fake GPU: `fakes` is the folder of the libraries that stand in for CUDA's. */
int case_gpu_open(const struct mo_env *env, const char *fakes, struct case_gpu **out, moire_error *err);
/* The model on a let of it, and where a library had a part by generated kernels alone, too.
 * MOIRE_EUNSUPPORTED: it does not lower. */
int case_run_gpu(const struct mo_env *env, struct case_gpu *gpu, const char *model,
                 const struct mo_dataset *data, moire_error *err);
/* Prints on which lets cases ran and who computed what, into `out`, and closes it: an error says what was
 * wrong with all of that. */
int case_gpu_close(struct case_gpu *gpu, FILE *out, moire_error *err);

/* Cases that may be skipped, one name a line; '#' starts a comment. */
struct baseline;
struct baseline *baseline_read(const char *path); /* NULL: cannot be read */
int baseline_has(const struct baseline *baseline, const char *name);
void baseline_free(struct baseline *baseline);

/* The table, and JSON. */
void report_table(const struct result *results, int n);
int report_json(const struct result *results, int n);
#endif
