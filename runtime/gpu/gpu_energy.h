/* SPDX-License-Identifier: Apache-2.0
 * gpu_energy.h - the GPUs of a plugin as boards whose energy is measured (runtime/power/boards.h). */
#ifndef MO_GPU_ENERGY_H
#define MO_GPU_ENERGY_H
#include "runtime/gpu/loader.h"
#include "runtime/power/energy.h"

/* They look by the plugin's counters; `device` must stay open as long. */
struct mo_energy_boards mo_gpu_energy_boards(const struct mo_gpu_device *device);
#endif
