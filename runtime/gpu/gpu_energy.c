/* SPDX-License-Identifier: Apache-2.0
 * gpu_energy.c - see gpu_energy.h. */
#include "runtime/gpu/gpu_energy.h"

#include <stdio.h>

static bool look(void *self, int gpu, double *watts, double *joules, char *why, size_t n) {
    const struct mo_gpu_device *d = self;
    struct mo_gpu_counters c = {.power_w = -1, .energy_j = -1};
    moire_error err = {0};
    const bool told = d->ops->counters(d->system, gpu, &c, &err) == MOIRE_OK;
    *watts = told ? c.power_w : -1;
    *joules = told ? c.energy_j : -1;
    snprintf(why, n, "%s", told ? c.missing : err.message);
    return told && c.power_w >= 0 && c.energy_j >= 0;
}

struct mo_energy_boards mo_gpu_energy_boards(const struct mo_gpu_device *device) {
    return (struct mo_energy_boards){.self = (void *)(uintptr_t)device,
                                     .n = device->ops->count(device->system),
                                     .device = device->ops->name,
                                     .look = look};
}
