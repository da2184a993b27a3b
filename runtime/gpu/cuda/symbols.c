/* SPDX-License-Identifier: Apache-2.0
 * symbols.c - opens a shared object and fills a table of its functions. */
#include "runtime/gpu/cuda/symbols.h"

#include <stdio.h>
#include <string.h>

int mo_cuda_object_open(struct mo_cuda_object *object, const struct mo_env *env, const char *folder,
                        const char *file, const char *needs, const struct mo_cuda_symbol *symbols, int n,
                        void *table, moire_error *err) {
    const struct mo_sys *sys = env->sys;
    *object = (struct mo_cuda_object){.env = env};
    int len =
        snprintf(object->file, sizeof object->file, "%s%s%s", folder ? folder : "", folder ? "/" : "", file);
    if (len < 0 || (size_t)len >= sizeof object->file)
        return mo_fail(err, MOIRE_EINVAL, "the folder of %s is longer than %zu bytes", file,
                       sizeof object->file);
    char reason[200] = "";
    object->handle = sys->dl_open(sys->self, object->file, reason, sizeof reason);
    if (!object->handle)
        return mo_fail(err, MOIRE_EUNSUPPORTED, "%s cannot be loaded (%s); moire needs %s", object->file,
                       reason, needs);
    for (int i = 0; i < n; i++) {
        void *f = sys->dl_sym(sys->self, object->handle, symbols[i].name);
        if (!f && !symbols[i].optional) {
            mo_fail(err, MOIRE_EUNSUPPORTED, "%s has no %s; moire needs %s", object->file, symbols[i].name,
                    needs);
            mo_cuda_object_close(object);
            return MOIRE_EUNSUPPORTED;
        }
        memcpy((char *)table + symbols[i].at, &f, sizeof f);
    }
    return MOIRE_OK;
}

void mo_cuda_object_close(struct mo_cuda_object *object) {
    if (object->handle) object->env->sys->dl_close(object->env->sys->self, object->handle);
    object->handle = NULL;
}
