/* SPDX-License-Identifier: Apache-2.0
 * plugin.h - the file of a GPU plugin: loaded and checked. */
#ifndef MO_GPU_PLUGIN_H
#define MO_GPU_PLUGIN_H
#include "runtime/gpu/gpu_ops.h"

/* MOIRE_EUNSUPPORTED: no such file, no plugin, or one of another build. */
int mo_gpu_plugin_load(const struct mo_env *env, const char *file, void **object,
                       const struct mo_gpu_ops **ops, moire_error *err);
/* Is the table of this build? */
int mo_gpu_plugin_check(const struct mo_gpu_ops *ops, const char *file, moire_error *err);
#endif
