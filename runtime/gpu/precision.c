/* SPDX-License-Identifier: Apache-2.0
 * precision.c - the precisions of a program by name. */
#include <string.h>
#include "runtime/gpu/program.h"

static const struct {
    const char *name;
    int bytes;
} rows[] = {
    [MO_GPU_FP32] = {"fp32", 4},
    [MO_GPU_TF32] = {"tf32", 4},
    [MO_GPU_FP16] = {"fp16", 2},
    [MO_GPU_BF16] = {"bf16", 2},
};

int mo_gpu_storage_bytes(enum mo_gpu_precision precision) {
    return rows[precision].bytes;
}

const char *mo_gpu_precision_name(enum mo_gpu_precision precision) {
    return rows[precision].name;
}

bool mo_gpu_precision_of(const char *name, enum mo_gpu_precision *out) {
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++)
        if (!strcmp(rows[i].name, name)) {
            *out = (enum mo_gpu_precision)i;
            return true;
        }
    return false;
}
