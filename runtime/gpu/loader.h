/* SPDX-License-Identifier: Apache-2.0
 * loader.h - the plugin that drives GPUs (runtime/gpu/gpu_ops.h): found, loaded, checked; and what it sees as
 * a machine of the scheduler.
 *
 * A device is written "cuda" or "cuda:FILE".  Without FILE, libmoire-NAME.so is looked for as the dynamic
 * linker looks: beside the program or libmoire and in ../lib of it (their run path), then in the system's
 * folders.  Whatever is missing costs the GPU and nothing else, and is said in one line. */
#ifndef MO_GPU_LOADER_H
#define MO_GPU_LOADER_H
#include "runtime/gpu/gpu_ops.h"
#include "runtime/sched/gpus.h"

/* mo_gpus.ahead_ns of real GPUs: the watcher of a run sees its end up to 200 us late (docs/cuda-plugin.md),
 * and the decision, the graph's launch and a timer that wakes late come on top. */
enum { MO_GPU_AHEAD_NS = 300000 };

struct mo_gpu_device {
    const struct mo_env *env;
    void *object; /* of dl_open; NULL = the plugin is part of this program */
    const struct mo_gpu_ops *ops;
    struct mo_gpu_system *system;
    char file[256];
    char kind[MO_PLAN_KINDS][96]; /* names, by mo_gpu_device_gpus() */
};

/* Loads the plugin and opens its GPUs.  `config` may be NULL (env is filled in).  MOIRE_EINVAL: no such
 * device; MOIRE_EUNSUPPORTED: no plugin, one of another build, no driver, no GPU; else as ops.open(). */
int mo_gpu_device_open(const struct mo_env *env, const char *device, const struct mo_gpu_config *config,
                       struct mo_gpu_device *out, moire_error *err);
/* As above with a table at hand in place of a file. */
int mo_gpu_device_use(const struct mo_env *env, const struct mo_gpu_ops *ops,
                      const struct mo_gpu_config *config, struct mo_gpu_device *out, moire_error *err);
void mo_gpu_device_close(struct mo_gpu_device *device); /* zeroes are fine */

/* The GPUs as kinds and units, finished; names are the device's.  GPUs of one name are one kind; lets have
 * any number of units that the driver's least and alignment allow, at most `max_lets` a GPU (0 = 8), and
 * share weights. */
int mo_gpu_device_gpus(struct mo_gpu_device *device, int max_lets, struct mo_gpus *out, moire_error *err);
#endif
