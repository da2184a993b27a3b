/* SPDX-License-Identifier: Apache-2.0
 * exec.c - the libraries of one GPU, and programs loaded there: weights and arenas; code is in exec_code.c.
 */
#include "runtime/base/numbers.h"
#include "runtime/gpu/cuda/exec.h"

#include <stdio.h>
#include <string.h>

static void note_library(struct mo_cuda_exec *e, const char *name, const char *missing, size_t version) {
    size_t at = strlen(e->libraries);
    if (missing)
        snprintf(e->libraries + at, sizeof e->libraries - at, "%sno %s (%.100s)", at ? ", " : "", name,
                 missing);
    else
        snprintf(e->libraries + at, sizeof e->libraries - at, "%s%s %zu.%zu", at ? ", " : "", name,
                 version / 10000, version / 100 % 100);
}

/* cuDNN and cuBLASLt may be missing: generated kernels serve, more slowly. */
static void open_optional(struct mo_cuda_exec *e) {
    moire_error why = {0};
    const struct mo_cuda_exec_config *c = &e->config;
    e->has_dnn = !c->no_dnn && !mo_cuda_dnn_open(&e->dnn, e->env, e->cu, c->path, &why);
    note_library(e, "cuDNN", e->has_dnn ? NULL : c->no_dnn ? "not wanted" : why.message, e->dnn.version);
    e->has_blas = !c->no_blas && !mo_cuda_blas_open(&e->blas, e->env, c->path, &why);
    note_library(e, "cuBLASLt",
                 e->has_blas  ? NULL
                 : c->no_blas ? "not wanted"
                              : why.message,
                 e->blas.version);
    note_library(e, "NVRTC", NULL, (size_t)e->rtc.major * 10000 + (size_t)e->rtc.minor * 100);
}

static int set_up(struct mo_cuda_exec *e, moire_error *err) {
    unsigned r = e->cu->stream_create(&e->stream, MO_CU_STREAM_NON_BLOCKING, 0);
    if (!r) r = e->cu->memory_alloc(&e->zeros, MO_EXEC_ZEROS);
    if (!r) r = e->cu->fill(e->zeros, 0, MO_EXEC_ZEROS, e->stream);
    if (!r) r = mo_exec_wait(e, e->stream);
    return r ? mo_cuda_error(e->cu, r, err, "set up the execution of programs") : MOIRE_OK;
}

int mo_cuda_exec_open(const struct mo_cuda_exec_config *config, struct mo_cuda_exec **out, moire_error *err) {
    struct mo_cuda_exec *e = mo_alloc(config->env, sizeof *e);
    *out = NULL;
    if (!e) return mo_fail(err, MOIRE_ENOMEM, "no host memory to execute programs");
    e->config = *config;
    e->env = config->env;
    e->cu = config->driver;
    if (!e->config.workspace) e->config.workspace = 32 << 20;
    if (!e->config.hang_ns) e->config.hang_ns = 10000000000;
    int rc = mo_cuda_rtc_open(&e->rtc, e->env, config->path, err);
    if (!rc) rc = mo_cuda_cache_open(e->env, config->cache, &e->cache, err);
    if (!rc) rc = set_up(e, err);
    if (rc) {
        mo_cuda_exec_close(e);
        return rc;
    }
    open_optional(e);
    *out = e;
    return MOIRE_OK;
}

void mo_cuda_exec_close(struct mo_cuda_exec *e) {
    if (!e) return;
    while (e->loaded)
        mo_cuda_exec_unload(e->loaded);
    const bool usable = mo_exec_usable(e);
    if (e->has_dnn && usable) mo_cuda_dnn_close(&e->dnn);
    if (e->has_blas && usable) mo_cuda_blas_close(&e->blas);
    if (e->zeros && usable) e->cu->memory_free(e->zeros);
    if (e->trial && usable) e->cu->memory_free(e->trial);
    if (e->stream && usable) e->cu->stream_destroy(e->stream);
    mo_cuda_cache_close(e->cache);
    mo_cuda_rtc_close(&e->rtc);
    mo_free(e->env, e);
}

bool mo_exec_usable(const struct mo_cuda_exec *e) {
    return !e->abandoned && !(e->config.lost && atomic_load(e->config.lost));
}

unsigned mo_exec_wait(struct mo_cuda_exec *e, mo_cu_stream stream) {
    const struct mo_sys *sys = e->env->sys;
    const int64_t begin = mo_now(e->env);
    unsigned r;
    while ((r = e->cu->stream_query(stream)) == MO_CU_NOT_READY) {
        const int64_t now = mo_now(e->env), age = now - begin;
        if (!mo_exec_usable(e) || age >= e->config.hang_ns) {
            e->abandoned = true;
            return MO_CU_LAUNCH_TIMEOUT;
        }
        const int64_t pause = age / 32;
        sys->sleep_until(sys->self, now + (pause < 10000 ? 10000 : pause > 200000 ? 200000 : pause));
    }
    return r;
}

size_t mo_exec_space(const struct mo_cuda_exec *exec) {
    return exec->has_dnn || exec->has_blas ? (size_t)exec->config.workspace : 0;
}

/* --- weights -------------------------------------------------------------------------------------------- */

static struct mo_exec_weight *find_weight(const struct mo_cuda_exec *e, uint64_t model,
                                          const struct mo_gpu_weight *w) {
    for (struct mo_exec_weight *p = e->weights; p; p = p->next)
        if (p->model == model && p->sum == w->sum && p->bytes == w->bytes) return p;
    return NULL;
}

/* Through page-locked memory, piece by piece. */
static unsigned copy_weight(struct mo_cuda_exec *e, mo_cu_ptr to, const struct mo_gpu_weight *w,
                            void *staging) {
    unsigned r = 0;
    for (int64_t done = 0; done < w->bytes && !r; done += MO_EXEC_STAGING) {
        const int64_t left = w->bytes - done;
        const size_t n = (size_t)(left < MO_EXEC_STAGING ? left : MO_EXEC_STAGING);
        memcpy(staging, (const char *)w->data + done, n);
        r = e->cu->copy_in(to + (mo_cu_ptr)done, staging, n, e->stream);
        if (!r) r = mo_exec_wait(e, e->stream);
    }
    return r;
}

static int add_weight(struct mo_cuda_exec *e, uint64_t model, const struct mo_gpu_weight *w, void *staging,
                      struct mo_exec_weight **out, moire_error *err) {
    struct mo_exec_weight *p = mo_alloc(e->env, sizeof *p);
    if (!p) return mo_fail(err, MOIRE_ENOMEM, "no host memory for a weight");
    *p = (struct mo_exec_weight){.model = model, .sum = w->sum, .bytes = w->bytes, .next = e->weights};
    unsigned r = e->cu->memory_alloc(&p->at, (size_t)w->bytes);
    if (!r) r = copy_weight(e, p->at, w, staging);
    if (r) {
        if (p->at && mo_exec_usable(e)) e->cu->memory_free(p->at);
        mo_free(e->env, p);
        return mo_cuda_error(e->cu, r, err, "put a weight of %lld bytes on the GPU", (long long)w->bytes);
    }
    e->weights = *out = p;
    return MOIRE_OK;
}

static int upload_all(struct mo_gpu_loaded *l, const struct mo_gpu_program *program, void *staging,
                      moire_error *err) {
    struct mo_cuda_exec *e = l->exec;
    for (int i = 0; i < program->n_weights; i++) {
        const struct mo_gpu_weight *w = &program->weights[i];
        struct mo_exec_weight *p = find_weight(e, program->model, w);
        if (!p) {
            int rc = add_weight(e, program->model, w, staging, &p, err);
            if (rc) return rc;
            l->bytes += w->bytes;
        }
        p->uses++;
        l->weights[i] = p;
    }
    return MOIRE_OK;
}

static int upload(struct mo_gpu_loaded *l, const struct mo_gpu_program *program, moire_error *err) {
    const struct mo_cuda_driver *cu = l->exec->cu;
    void *staging;
    unsigned r = cu->host_alloc(&staging, MO_EXEC_STAGING, MO_CU_HOST_PORTABLE);
    if (r) return mo_cuda_error(cu, r, err, "take page-locked memory to bring weights to the GPU");
    int rc = upload_all(l, program, staging, err);
    cu->host_free(staging);
    return rc;
}

static void drop_weight(struct mo_cuda_exec *e, struct mo_exec_weight *w) {
    struct mo_exec_weight **at = &e->weights;
    if (--w->uses) return;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (mo_exec_usable(e)) e->cu->memory_free(w->at);
    mo_free(e->env, w);
}

/* --- programs ------------------------------------------------------------------------------------------- */

static int copy_program(struct mo_gpu_loaded *l, const struct mo_gpu_program *p, moire_error *err) {
    void *packed = mo_region_alloc(l->region, mo_gpu_packed_bytes(p));
    l->functions = mo_region_array(l->region, (size_t)p->n_kernels + 1, sizeof *l->functions);
    l->weights = mo_region_array(l->region, (size_t)p->n_weights + 1, sizeof(void *));
    l->arenas = mo_region_array(l->region, (size_t)l->instances, sizeof *l->arenas);
    if (!packed || !l->functions || !l->weights || !l->arenas)
        return mo_fail(err, MOIRE_ENOMEM, "no host memory for a program");
    mo_gpu_pack(p, NULL, packed);
    l->program = *mo_gpu_unpack(packed);
    return MOIRE_OK;
}

static bool uses_library(const struct mo_gpu_program *p) {
    int i = 0;
    while (i < p->n_ops && !mo_gpu_has_library(&p->ops[i]))
        i++;
    return i < p->n_ops;
}

static int make_arenas(struct mo_gpu_loaded *l, moire_error *err) {
    struct mo_cuda_exec *e = l->exec;
    l->space = uses_library(&l->program) ? (int64_t)mo_exec_space(e) : 0;
    l->arena_bytes = mo_round_up(l->program.arena_bytes, MO_GPU_ALIGN) + l->space;
    for (int i = 0; i < l->instances; i++) {
        unsigned r = e->cu->memory_alloc(&l->arenas[i], (size_t)l->arena_bytes + 1);
        if (r)
            return mo_cuda_error(e->cu, r, err, "take %.1f MB for activations on the GPU",
                                 (double)l->arena_bytes * 1e-6);
        l->bytes += l->arena_bytes;
    }
    return MOIRE_OK;
}

int mo_cuda_exec_load(struct mo_cuda_exec *e, const struct mo_gpu_program *program, int instances,
                      struct mo_gpu_loaded **out, moire_error *err) {
    struct mo_region *region = mo_region_create(e->env);
    struct mo_gpu_loaded *l = region ? mo_region_alloc(region, sizeof *l) : NULL;
    *out = NULL;
    if (!l) {
        mo_region_destroy(region);
        return mo_fail(err, MOIRE_ENOMEM, "no host memory for a program");
    }
    *l = (struct mo_gpu_loaded){.exec = e, .region = region, .instances = instances};
    l->next = e->loaded;
    e->loaded = l;
    int rc = copy_program(l, program, err);
    if (!rc) rc = mo_exec_code_begin(l, err);
    if (!rc) rc = upload(l, program, err);
    if (!rc) rc = make_arenas(l, err);
    if (!rc) rc = mo_exec_core_begin(l, err);
    if (rc)
        mo_cuda_exec_unload(l);
    else
        *out = l;
    return rc;
}

static void free_graphs(struct mo_gpu_loaded *l, struct mo_exec_graphs *g) {
    for (int i = 0; i < mo_exec_graph_count(&l->program); i++)
        if (g->segment[i] && mo_exec_usable(l->exec)) l->exec->cu->graph_exec_destroy(g->segment[i]);
    mo_free(l->exec->env, g);
}

void mo_cuda_exec_unload(struct mo_gpu_loaded *l) {
    if (!l) return;
    struct mo_cuda_exec *e = l->exec;
    struct mo_gpu_loaded **at = &e->loaded;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    while (l->graphs) {
        struct mo_exec_graphs *g = l->graphs;
        l->graphs = g->next;
        free_graphs(l, g);
    }
    mo_exec_choices_free(l);
    for (int i = 0; l->arenas && i < l->instances; i++)
        if (l->arenas[i] && mo_exec_usable(e)) e->cu->memory_free(l->arenas[i]);
    for (int i = 0; l->weights && i < l->program.n_weights; i++)
        if (l->weights[i]) drop_weight(e, l->weights[i]);
    mo_exec_core_free(l);
    mo_exec_code_free(l);
    mo_region_destroy(l->region);
}

void mo_cuda_exec_forget(struct mo_cuda_exec *e, uint32_t place) {
    for (struct mo_gpu_loaded *l = e->loaded; l; l = l->next) {
        mo_lock_take(e->env->sys, &l->listing);
        for (struct mo_exec_graphs **at = &l->graphs, *g; (g = *at);) {
            if (g->place != place) {
                at = &g->next;
                continue;
            }
            *at = g->next;
            free_graphs(l, g);
        }
        mo_lock_drop(e->env->sys, &l->listing);
    }
}
