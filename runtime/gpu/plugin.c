/* SPDX-License-Identifier: Apache-2.0
 * plugin.c - see plugin.h. */
#include "runtime/gpu/plugin.h"

int mo_gpu_plugin_check(const struct mo_gpu_ops *ops, const char *file, moire_error *err) {
    size_t bytes = sizeof(struct mo_env) + sizeof(struct mo_sys);
    if (ops && ops->abi == MO_GPU_ABI && ops->env_bytes == bytes) return MOIRE_OK;
    return mo_fail(err, MOIRE_EUNSUPPORTED,
                   "%s is of another version of moire (interface %d, this one has %d): build it again", file,
                   ops ? ops->abi : 0, MO_GPU_ABI);
}

int mo_gpu_plugin_load(const struct mo_env *env, const char *file, void **object,
                       const struct mo_gpu_ops **ops, moire_error *err) {
    const struct mo_sys *sys = env->sys;
    char reason[200] = "";
    void *loaded = sys->dl_open(sys->self, file, reason, sizeof reason);
    if (!loaded)
        return mo_fail(err, MOIRE_EUNSUPPORTED,
                       "no GPU plugin: %s (`make cuda` builds it; \"cuda:FILE\" names another)", reason);
    mo_gpu_plugin_function *plugin;
    int code = MOIRE_OK;
    *(void **)&plugin = sys->dl_sym(sys->self, loaded, MO_GPU_PLUGIN_SYMBOL);
    if (!plugin)
        code = mo_fail(err, MOIRE_EUNSUPPORTED, "%s is no plugin of moire: it has no %s", file,
                       MO_GPU_PLUGIN_SYMBOL);
    if (!code) code = mo_gpu_plugin_check(plugin(), file, err);
    if (code) {
        sys->dl_close(sys->self, loaded);
        return code;
    }
    *object = loaded;
    *ops = plugin();
    return MOIRE_OK;
}
