/* SPDX-License-Identifier: Apache-2.0
 * conformance.h - the pieces of the conformance runner. */
#ifndef MO_CONFORMANCE_H
#define MO_CONFORMANCE_H
#include <stdbool.h>
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
 * references after the passes, and the plan with its kernels.  With `fakes`, the folder of the libraries that
 * stand in for CUDA's: as a program for a GPU instead. */
void run_case(const struct mo_env *env, const char *fakes, const char *folder, struct result *out);

/* Output i of the case agrees with what was computed, or an error that says where not. */
int case_compare(const struct mo_dataset *data, int i, const moire_tensor *got, moire_error *err);
/* The model on the fake GPU; MOIRE_EUNSUPPORTED: it does not lower. */
int case_run_gpu(const struct mo_env *env, const char *fakes, const char *model,
                 const struct mo_dataset *data, moire_error *err);

/* Cases that may be skipped, one name a line; '#' starts a comment. */
struct baseline;
struct baseline *baseline_read(const char *path); /* NULL: cannot be read */
int baseline_has(const struct baseline *baseline, const char *name);
void baseline_free(struct baseline *baseline);

/* The table, and JSON. */
void report_table(const struct result *results, int n);
int report_json(const struct result *results, int n);
#endif
