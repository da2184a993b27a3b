/* SPDX-License-Identifier: Apache-2.0
 * devices_power.h - what devices draw, for `moire devices --power`. */
#ifndef MO_DEVICES_POWER_H
#define MO_DEVICES_POWER_H
#include <jansson.h>
#include "runtime/gpu/loader.h"

/* Adds to each row of `list` (a "device" each, of GPUs a "gpu") what it draws over so many seconds: "power":
 * {"source", "line", "domains": [{"domain", "source", "watts", "part"}], and where nothing measures, by the
 * model, "idle_w" and "active_w"}; to the cores also "clock".  `gpus` are open, or NULL. */
int mo_devices_add_power(const struct mo_env *env, const struct mo_gpu_device *gpus, double seconds,
                         json_t *list, moire_error *err);
/* The same as lines below the row's own. */
void mo_devices_print_power(const json_t *row);
#endif
