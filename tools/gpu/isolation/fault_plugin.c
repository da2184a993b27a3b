/* SPDX-License-Identifier: Apache-2.0
 * fault_plugin.c - libmoire-fault.so: the CUDA plugin, but for models that ask for a fault.
 *
 * It forwards to libmoire-cuda.so beside it.  A model whose first input is called moire_fault_KIND gets a
 * fault into its kernels, which strikes when the first number of that input exceeds 1e30: so one query of one
 * tenant does what a broken kernel does, on a real GPU, in the process that has the plugin.  "memory" needs
 * no kernel: its program asks for more device memory than there is.  For tools/gpu-acceptance; never
 * installed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/gpu/gpu_ops.h"
#include "runtime/gpu/program.h"

static const char prefix[] = "moire_fault_";

static const struct fault {
    const char *kind, *gpu; /* CUDA C in the kernel */
    int fake;               /* result of the fake driver, 0: the kernel hangs */
} faults[] = {
    {"illegal", "*(volatile int *)16 = 1;", 700},
    {"trap", "asm(\"trap;\");", 719},
    {"hang", "while (*(const volatile float *)a0 > 1e30f) __nanosleep(1000);", 0},
};

/* The real plugin's table, once it is open, and the one that stands before it. */
static const struct mo_gpu_ops *real;
static struct mo_gpu_ops table;

/* The source with the fault at the begin of every kernel whose first argument is the input. */
static char *spoil(const char *source, const struct fault *fault) {
    static const char argument[] = "(const float *a0, ";
    size_t n = strlen(source), kernels = 0;
    for (const char *at = source; (at = strstr(at, argument)); at++)
        kernels++;
    char *out = malloc(n + 1 + kernels * 256), *to = out;
    if (!out) return NULL;
    for (const char *at = source, *next; *at; at = next) {
        const char *found = strstr(at, argument), *open = found ? strstr(found, "{\n") : NULL;
        next = open ? open + 2 : source + n;
        memcpy(to, at, (size_t)(next - at));
        to += next - at;
        if (open)
            to += snprintf(to, 256,
                           "    if (*a0 > 1e30f) {\n#ifdef __CUDA_ARCH__\n        %s\n#else\n"
                           "        mo_fake_fault(%d);\n#endif\n    }\n",
                           fault->gpu, fault->fake);
    }
    *to = 0;
    return out;
}

static int program_load(struct mo_gpu_system *system, int gpu, const struct mo_gpu_program *program,
                        int instances, struct mo_gpu_loaded **out, moire_error *err) {
    const char *name = program->n_inputs ? program->inputs[0].name : "";
    struct mo_gpu_program own = *program;
    const char *kind = strncmp(name, prefix, sizeof prefix - 1) ? "" : name + sizeof prefix - 1;
    const struct fault *fault = NULL;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (!strcmp(kind, faults[i].kind)) fault = &faults[i];
    char *source = fault ? spoil(program->source, fault) : NULL;
    if (fault && !source) return mo_fail(err, MOIRE_ENOMEM, "no memory for the source of a fault");
    if (source) own.source = source;
    if (!strcmp(kind, "memory")) own.arena_bytes = INT64_C(1) << 45;
    int code = real->program_load(system, gpu, &own, instances, out, err);
    free(source);
    return code;
}

__attribute__((visibility("default"))) mo_gpu_plugin_function mo_gpu_plugin;

/* NULL, as a plugin of another version is refused, when the real one is not there. */
const struct mo_gpu_ops *mo_gpu_plugin(void) {
    void *object = real ? NULL : dlopen("libmoire-cuda.so", RTLD_NOW | RTLD_LOCAL);
    void *symbol = object ? dlsym(object, MO_GPU_PLUGIN_SYMBOL) : NULL;
    mo_gpu_plugin_function *plugin;
    if (symbol) {
        memcpy(&plugin, &symbol, sizeof plugin);
        real = plugin();
        table = *real;
        table.program_load = program_load;
    }
    return real ? &table : NULL;
}
