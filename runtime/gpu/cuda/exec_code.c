/* SPDX-License-Identifier: Apache-2.0
 * exec_code.c - machine code of a program's kernels: from the folder where it is kept, else by NVRTC.
 *
 * A program has a generated kernel beside each call of a library; most of them never run.  So its source is
 * compiled in *pieces*, each the prelude and some kernels: what is known to be needed when the program is
 * loaded, in a few pieces at once on threads of their own, and what stands in for a library when that has
 * refused.  A piece is a module of its own, and is kept by its text. */
#include <stdio.h>
#include <string.h>
#include "runtime/gpu/cuda/exec_impl.h"

enum { PIECES = 4, LEAST_KERNELS = 3 /* of a piece: the prelude costs as much as some kernels */ };
static const char suffix[] = MO_CUDA_CACHE_CODE;

struct mo_exec_module {
    struct mo_exec_module *next;
    mo_cu_library library;
};

struct piece {
    struct mo_cuda_loaded *l;
    bool *has; /* [n_kernels] */
    char *text;
    char name[MO_SHA256_HEX];
    struct mo_cuda_cache_item cached;
    void *image; /* compiled */
    size_t bytes;
    struct mo_thread thread;
    bool started;
    int rc;
    moire_error err;
};

/* --- source --------------------------------------------------------------------------------------------- */
/* Where the next kernel begins, or the end. */
static const char *next_kernel(const char *at) {
    const char *found = strstr(at, "\nMO_KERNEL(");
    return found ? found + 1 : at + strlen(at);
}

/* The prelude and the kernels of a piece: in the source they are in order. */
static int write_text(struct piece *p, moire_error *err) {
    const struct mo_cuda_loaded *l = p->l;
    const char *at = next_kernel(l->program.source);
    char *to = p->text = mo_alloc(l->exec->env, strlen(l->program.source) + 1);
    if (!to) return mo_fail(err, MOIRE_ENOMEM, "no host memory for the source of kernels");
    memcpy(to, l->program.source, (size_t)(at - l->program.source));
    to += at - l->program.source;
    for (int i = 0; i < l->program.n_kernels; i++) {
        const char *end = next_kernel(at), *symbol = at + strlen("MO_KERNEL(");
        const size_t n = strlen(l->program.kernels[i].symbol);
        if (end == at || strncmp(symbol, l->program.kernels[i].symbol, n) != 0 || symbol[n] != ',')
            return mo_fail(err, MOIRE_EINVAL, "a program's source has no kernel %s",
                           l->program.kernels[i].symbol);
        if (p->has[i]) {
            memcpy(to, at, (size_t)(end - at));
            to += end - at;
        }
        at = end;
    }
    *to = 0;
    return MOIRE_OK;
}

/* --- machine code --------------------------------------------------------------------------------------- */
static void *compile(void *arg) {
    struct piece *p = arg;
    const struct mo_cuda_exec *e = p->l->exec;
    p->rc = mo_cuda_rtc_compile(&e->rtc, p->text, e->config.major, e->config.minor, &p->image, &p->bytes,
                                &p->err);
    return NULL;
}

/* What is not kept is compiled, all but the last piece on threads of their own. */
static void make_images(struct mo_cuda_exec *e, struct piece *pieces, int n) {
    const struct mo_sys *sys = e->env->sys;
    int missing = 0;
    for (int i = 0; i < n; i++) {
        struct piece *p = &pieces[i];
        mo_cuda_rtc_name(&e->rtc, p->text, e->config.major, e->config.minor, p->name);
        missing += !mo_cuda_cache_find(e->cache, p->name, suffix, &p->cached);
    }
    for (int i = 0; i < n; i++) {
        struct piece *p = &pieces[i];
        if (p->cached.bytes) continue;
        p->started = --missing > 0 && !sys->thread_start(sys->self, &p->thread, compile, p);
        if (!p->started) compile(p);
    }
    for (int i = 0; i < n; i++)
        if (pieces[i].started) sys->thread_join(sys->self, pieces[i].thread);
}

static int load_image(struct mo_cuda_loaded *l, const struct piece *p, const void *image, moire_error *err) {
    const struct mo_cuda_driver *cu = l->exec->cu;
    struct mo_exec_module *m = mo_region_alloc(l->region, sizeof *m);
    if (!m) return mo_fail(err, MOIRE_ENOMEM, "no host memory for a program");
    unsigned r = cu->library_load(&m->library, image, NULL, NULL, 0, NULL, NULL, 0);
    if (r) return mo_cuda_error(cu, r, err, "load the generated kernels");
    m->next = l->modules;
    l->modules = m;
    for (int i = 0; i < l->program.n_kernels && !r; i++) {
        mo_cu_kernel kernel;
        if (!p->has[i]) continue;
        r = cu->library_kernel(&kernel, m->library, l->program.kernels[i].symbol);
        if (!r) l->functions[i] = (mo_cu_function)(void *)kernel;
    }
    return r ? mo_cuda_error(cu, r, err, "load the generated kernels") : MOIRE_OK;
}

/* A kept image that the driver refuses is compiled again. */
static int load_piece(struct mo_cuda_loaded *l, struct piece *p, moire_error *err) {
    int rc;
    if (p->cached.bytes) {
        rc = load_image(l, p, p->cached.bytes, err);
        if (!rc || rc == MOIRE_EDEVICE || rc == MOIRE_ENOMEM) return rc;
        compile(p);
    }
    if (p->rc) return mo_fail(err, p->rc, "%s", p->err.message);
    rc = load_image(l, p, p->image, err);
    if (!rc) mo_cuda_cache_put(l->exec->cache, p->name, suffix, p->image, p->bytes);
    return rc;
}

static void free_piece(struct piece *p) {
    const struct mo_env *env = p->l->exec->env;
    mo_cuda_cache_give_back(p->l->exec->cache, &p->cached);
    mo_free(env, p->text);
    mo_free(env, p->image);
    mo_free(env, p->has);
}

/* Distributes the kernels; sizes are alike enough. */
static int distribute(struct mo_cuda_loaded *l, const bool *wanted, int n_wanted, struct piece *pieces, int n,
                      moire_error *err) {
    int rc = MOIRE_OK;
    for (int i = 0; i < n && !rc; i++) {
        pieces[i].l = l;
        pieces[i].has = mo_alloc(l->exec->env, (size_t)l->program.n_kernels);
        if (!pieces[i].has) rc = mo_fail(err, MOIRE_ENOMEM, "no host memory for kernels");
    }
    for (int i = 0, given = 0; i < l->program.n_kernels && !rc; i++)
        if (wanted[i] && !l->functions[i]) pieces[given++ * n / n_wanted].has[i] = true;
    for (int i = 0; i < n && !rc; i++)
        rc = write_text(&pieces[i], err);
    return rc;
}

int mo_exec_code_load(struct mo_cuda_loaded *l, const bool *wanted, moire_error *err) {
    struct piece pieces[PIECES] = {{0}};
    int n_wanted = 0;
    for (int i = 0; i < l->program.n_kernels; i++)
        n_wanted += wanted[i] && !l->functions[i];
    if (!n_wanted) return MOIRE_OK;
    int n = (n_wanted + LEAST_KERNELS - 1) / LEAST_KERNELS;
    if (n > PIECES) n = PIECES;
    int rc = distribute(l, wanted, n_wanted, pieces, n, err);
    if (!rc) make_images(l->exec, pieces, n);
    for (int i = 0; i < n && !rc; i++)
        rc = load_piece(l, &pieces[i], err);
    for (int i = 0; i < n && pieces[i].l; i++)
        free_piece(&pieces[i]);
    return rc;
}

void mo_exec_code_free(struct mo_cuda_loaded *l) {
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

int mo_exec_code_begin(struct mo_cuda_loaded *l, moire_error *err) {
    bool *wanted = mo_region_alloc(l->region, (size_t)l->program.n_kernels + 1);
    if (!wanted) return mo_fail(err, MOIRE_ENOMEM, "no host memory for a program");
    for (int i = 0; i < l->program.n_ops; i++) {
        const struct mo_gpu_op *op = &l->program.ops[i];
        if (op->launch.kernel >= 0 && mo_exec_tries_kernel(l->exec, op)) wanted[op->launch.kernel] = true;
    }
    return mo_exec_code_load(l, wanted, err);
}
