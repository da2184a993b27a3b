/* SPDX-License-Identifier: Apache-2.0
 * exec_code.c - machine code of a program's kernels: from the folder where it is kept, else by NVRTC.
 *
 * A program has a generated kernel beside each call of a library; most of them never run.  So its source is
 * compiled in two parts, each the prelude and some kernels: what is known to be needed when the program is
 * loaded, and what stands in for a library when that has refused.  A part is a module of its own, and is kept
 * by its text. */
#include <string.h>
#include "runtime/gpu/cuda/exec.h"

static const char suffix[] = MO_CUDA_CACHE_CODE;

struct mo_exec_module {
    struct mo_exec_module *next;
    mo_cu_library library;
};

/* Wanted and not there yet. */
static bool is_missing(const struct mo_gpu_loaded *l, const bool *wanted, int i) {
    return wanted[i] && !l->functions[i];
}

/* --- source --------------------------------------------------------------------------------------------- */
/* Where the next kernel begins, or the end. */
static const char *next_kernel(const char *at) {
    const char *found = strstr(at, "\nMO_KERNEL(");
    return found ? found + 1 : at + strlen(at);
}

/* The prelude and the kernels that are missing: in the source they are in order. */
static int write_text(const struct mo_gpu_loaded *l, const bool *wanted, char *to, moire_error *err) {
    const char *at = next_kernel(l->program.source);
    memcpy(to, l->program.source, (size_t)(at - l->program.source));
    to += at - l->program.source;
    for (int i = 0; i < l->program.n_kernels; i++) {
        const char *end = next_kernel(at), *symbol = at + strlen("MO_KERNEL(");
        const size_t n = strlen(l->program.kernels[i].symbol);
        if (end == at || strncmp(symbol, l->program.kernels[i].symbol, n) != 0 || symbol[n] != ',')
            return mo_fail(err, MOIRE_EINVAL, "a program's source has no kernel %s",
                           l->program.kernels[i].symbol);
        if (is_missing(l, wanted, i)) {
            memcpy(to, at, (size_t)(end - at));
            to += end - at;
        }
        at = end;
    }
    *to = 0;
    return MOIRE_OK;
}

/* --- machine code --------------------------------------------------------------------------------------- */
static int load_image(struct mo_gpu_loaded *l, const bool *wanted, const void *image, moire_error *err) {
    const struct mo_cuda_driver *cu = l->exec->cu;
    struct mo_exec_module *m = mo_region_alloc(l->region, sizeof *m);
    if (!m) return mo_fail(err, MOIRE_ENOMEM, "no host memory for a program");
    unsigned r = cu->library_load(&m->library, image, NULL, NULL, 0, NULL, NULL, 0);
    if (r) return mo_cuda_error(cu, r, err, "load the generated kernels");
    m->next = l->modules;
    l->modules = m;
    for (int i = 0; i < l->program.n_kernels && !r; i++) {
        mo_cu_kernel kernel;
        if (!is_missing(l, wanted, i)) continue;
        r = cu->library_kernel(&kernel, m->library, l->program.kernels[i].symbol);
        if (!r) l->functions[i] = (mo_cu_function)(void *)kernel;
    }
    return r ? mo_cuda_error(cu, r, err, "load the generated kernels") : MOIRE_OK;
}

/* False: no such code is kept, or the driver refuses it. */
static bool load_kept(struct mo_gpu_loaded *l, const bool *wanted, const char *name, int *rc,
                      moire_error *err) {
    struct mo_cuda_cache_item kept;
    if (!mo_cuda_cache_find(l->exec->cache, name, suffix, &kept)) return false;
    *rc = load_image(l, wanted, kept.bytes, err);
    mo_cuda_cache_give_back(l->exec->cache, &kept);
    return !*rc || *rc == MOIRE_EDEVICE || *rc == MOIRE_ENOMEM;
}

static int load_text(struct mo_gpu_loaded *l, const bool *wanted, const char *text, moire_error *err) {
    const struct mo_cuda_exec *e = l->exec;
    char name[MO_SHA256_HEX];
    void *image;
    size_t bytes;
    int rc;
    mo_cuda_rtc_name(&e->rtc, text, e->config.major, e->config.minor, name);
    if (load_kept(l, wanted, name, &rc, err)) return rc;
    rc = mo_cuda_rtc_compile(&e->rtc, text, e->config.major, e->config.minor, &image, &bytes, err);
    if (!rc) rc = load_image(l, wanted, image, err);
    if (!rc) mo_cuda_cache_put(e->cache, name, suffix, image, bytes);
    mo_free(e->env, image);
    return rc;
}

int mo_exec_code_load(struct mo_gpu_loaded *l, const bool *wanted, moire_error *err) {
    int i = 0;
    while (i < l->program.n_kernels && !is_missing(l, wanted, i))
        i++;
    if (i == l->program.n_kernels) return MOIRE_OK;
    char *text = mo_alloc(l->exec->env, strlen(l->program.source) + 1);
    if (!text) return mo_fail(err, MOIRE_ENOMEM, "no host memory for the source of kernels");
    int rc = write_text(l, wanted, text, err);
    if (!rc) rc = load_text(l, wanted, text, err);
    mo_free(l->exec->env, text);
    return rc;
}

void mo_exec_code_free(struct mo_gpu_loaded *l) {
    for (struct mo_exec_module *m = l->modules; m; m = m->next)
        if (mo_exec_usable(l->exec)) l->exec->cu->library_unload(m->library);
    l->modules = NULL;
}

/* --- what is wanted ------------------------------------------------------------------------------------- */
bool mo_exec_tries_kernel(const struct mo_cuda_exec *e, const struct mo_gpu_op *op) {
    if (op->kind == MO_GPU_CONV)
        return !e->has_dnn ||
               (!e->config.libraries_first && (op->conv.groups != 1 || op->conv.c < MO_EXEC_FEW_CHANNELS));
    return op->kind != MO_GPU_GEMM || !e->has_blas;
}

int mo_exec_code_begin(struct mo_gpu_loaded *l, moire_error *err) {
    bool *wanted = mo_region_alloc(l->region, (size_t)l->program.n_kernels + 1);
    if (!wanted) return mo_fail(err, MOIRE_ENOMEM, "no host memory for a program");
    for (int i = 0; i < l->program.n_ops; i++) {
        const struct mo_gpu_op *op = &l->program.ops[i];
        if (op->launch.kernel >= 0 && mo_exec_tries_kernel(l->exec, op)) wanted[op->launch.kernel] = true;
    }
    return mo_exec_code_load(l, wanted, err);
}
