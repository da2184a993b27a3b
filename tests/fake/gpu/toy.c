/* SPDX-License-Identifier: Apache-2.0
 * toy.c - the toy of tests/unit/gpu/toy_gpu.h as a plugin that a child process can load. */
#include "tests/unit/gpu/toy_gpu.h"

__attribute__((visibility("default"))) mo_gpu_plugin_function mo_gpu_plugin;

const struct mo_gpu_ops *mo_gpu_plugin(void) {
    return toy_gpu_ops();
}
