/* SPDX-License-Identifier: Apache-2.0
 * gpu_host.c - a GPU of one thread: the fake NVRTC compiles, this runs one operation after the other. */
#define _GNU_SOURCE
#include "tests/cuda/gpu_host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/gpu/core_layer.h"
#include "runtime/gpu/cuda/rtc.h"
#include "tests/fake/cuda/image.h"

const char *gpu_host_fakes(void) {
    static char folder[400];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 16);
    if (n < 0) abort();
    folder[n] = 0;
    snprintf(strrchr(folder, '/'), 16, "/fake");
    return folder;
}

static void *open_image(const struct mo_env *env, const char *image, moire_error *err) {
    char file[MO_FAKE_FILE];
    if (!mo_fake_unpack(image, file)) return mo_fail(err, MOIRE_EFAILED, "no image of a fake"), NULL;
    void *object = env->sys->dl_open(env->sys->self, file, err->message, sizeof err->message);
    unlink(file);
    return object;
}

static void *compile(const struct mo_env *env, const char *fakes, const struct mo_gpu_program *p,
                     moire_error *err) {
    struct mo_cuda_rtc rtc;
    void *image = NULL, *module = NULL;
    size_t bytes;
    if (mo_cuda_rtc_open(&rtc, env, fakes, err)) return NULL;
    if (!mo_cuda_rtc_compile(&rtc, p->source, 9, 0, &image, &bytes, err))
        module = open_image(env, image, err);
    mo_free(env, image);
    mo_cuda_rtc_close(&rtc);
    return module;
}

static int run_op(const struct mo_env *env, const struct mo_gpu_program *p, const struct mo_gpu_op *op,
                  void *module, char *arena, moire_error *err) {
    void *value[MO_GPU_ARGS], *arguments[MO_GPU_ARGS];
    const struct mo_gpu_launch *launch = &op->launch;
    for (int i = 0; op->kind == MO_GPU_CORE && i < launch->n_args; i++)
        value[i] = arena + launch->args[i].offset;
    if (op->kind == MO_GPU_CORE) return mo_core_layer_run(env, op->core.layer, value, err);
    if (launch->kernel < 0) return mo_fail(err, MOIRE_EFAILED, "%.200s: no kernel", op->label);
    const struct mo_gpu_kernel *k = &p->kernels[launch->kernel];
    void (*entry)(void *const *, const unsigned *, const unsigned *);
    void *symbol = dlsym(module, k->symbol);
    if (!symbol) return mo_fail(err, MOIRE_EFAILED, "%s is not in the module", k->symbol);
    memcpy(&entry, &symbol, sizeof entry);
    for (int i = 0; i < launch->n_args; i++) {
        const struct mo_gpu_place *place = &launch->args[i];
        if (place->offset < 0 || (place->space == MO_GPU_ARENA && place->offset >= p->arena_bytes))
            return mo_fail(err, MOIRE_EFAILED, "%.200s: outside of the arena", op->label);
        value[i] = place->space == MO_GPU_ARENA
                       ? arena + place->offset
                       : (char *)(uintptr_t)p->weights[place->index].data + place->offset;
        arguments[i] = &value[i];
    }
    entry(arguments, k->grid, k->block);
    return MOIRE_OK;
}

int gpu_host_run(const struct mo_env *env, const char *fakes, const struct mo_gpu_program *p,
                 const moire_tensor *inputs, moire_tensor *outputs, moire_error *err) {
    int rc = MOIRE_OK;
    void *module = compile(env, fakes, p, err);
    char *arena = module ? aligned_alloc(MO_GPU_ALIGN, (size_t)p->arena_bytes + MO_GPU_ALIGN) : NULL;
    if (!arena) return err->code ? err->code : MOIRE_EFAILED;
    memset(arena, 0xff, (size_t)p->arena_bytes + MO_GPU_ALIGN);
    for (int i = 0; i < p->n_inputs; i++) {
        if (inputs[i].bytes != (size_t)p->inputs[i].bytes)
            rc = mo_fail(err, MOIRE_EFAILED, "size of input %d", i);
        else
            memcpy(arena + p->inputs[i].offset, inputs[i].data, inputs[i].bytes);
    }
    for (int i = 0; i < p->n_ops && !rc; i++)
        rc = run_op(env, p, &p->ops[i], module, arena, err);
    for (int i = 0; i < p->n_outputs; i++) {
        const struct mo_gpu_port *port = &p->outputs[i];
        outputs[i] = (moire_tensor){.dtype = port->dtype, .rank = port->rank, .bytes = (size_t)port->bytes};
        memcpy(outputs[i].shape, port->shape, sizeof port->shape);
        outputs[i].data = malloc(outputs[i].bytes);
        if (!outputs[i].data) abort();
        memcpy(outputs[i].data, arena + port->offset, outputs[i].bytes);
    }
    free(arena);
    dlclose(module);
    return rc;
}
