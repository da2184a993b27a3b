/* SPDX-License-Identifier: Apache-2.0
 * driver.c - the driver's functions, by name. */
#include "runtime/gpu/cuda/driver.h"

static const struct mo_cuda_symbol symbols[] = {
#define ROW(field, symbol, arguments) {#symbol, offsetof(struct mo_cuda_driver, field)},
    MO_CU_FUNCTIONS(ROW)
#undef ROW
};

int mo_cuda_driver_open(struct mo_cuda_object *object, const struct mo_env *env, const char *path,
                        struct mo_cuda_driver *cu, moire_error *err) {
    static const struct mo_cuda_wanted wanted = {.file = {"libcuda.so.1"},
                                                 .needs = "the NVIDIA driver, R550 (CUDA 12.4) or newer",
                                                 .symbols = symbols,
                                                 .n_symbols = sizeof symbols / sizeof *symbols};
    return mo_cuda_object_open(object, env, path, &wanted, cu, err);
}
