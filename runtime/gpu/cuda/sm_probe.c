/* SPDX-License-Identifier: Apache-2.0
 * sm_probe.c - which SMs a let has, as a kernel on it sees them.
 * The kernel is PTX text, which the driver compiles: no NVRTC is needed.  Every block notes its SM and then
 * stays 100,000 cycles, so that the blocks of one launch spread over all SMs that there are. */
#include "runtime/gpu/cuda/cuda.h"

const char mo_cuda_sm_probe[] = ".version 7.0\n"
                                ".target sm_60\n"
                                ".address_size 64\n"
                                ".visible .entry mo_probe(.param .u64 seen)\n"
                                "{\n"
                                "    .reg .pred %p;\n"
                                "    .reg .b32 %sm, %one;\n"
                                "    .reg .b64 %at, %skip, %begin, %now, %spent;\n"
                                "    ld.param.u64 %at, [seen];\n"
                                "    cvta.to.global.u64 %at, %at;\n"
                                "    mov.u32 %sm, %smid;\n"
                                "    setp.ge.u32 %p, %sm, 512;\n"
                                "    @%p ret;\n"
                                "    mul.wide.u32 %skip, %sm, 4;\n"
                                "    add.s64 %at, %at, %skip;\n"
                                "    mov.u32 %one, 1;\n"
                                "    st.global.u32 [%at], %one;\n"
                                "    mov.u64 %begin, %clock64;\n"
                                "stay:\n"
                                "    mov.u64 %now, %clock64;\n"
                                "    sub.s64 %spent, %now, %begin;\n"
                                "    setp.lt.s64 %p, %spent, 100000;\n"
                                "    @%p bra stay;\n"
                                "    ret;\n"
                                "}\n";

enum { SEEN = MO_GPU_SM_WORDS * 64, SEEN_BYTES = SEEN * 4, BLOCKS_AN_SM = 16 };

static int load(struct mo_cuda_gpu *gpu, mo_cu_kernel *kernel, moire_error *err) {
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    if (!gpu->probe) {
        const unsigned r = cu->library_load(&gpu->probe, mo_cuda_sm_probe, NULL, NULL, 0, NULL, NULL, 0);
        if (r) return mo_cuda_fail(gpu, r, err, "compile the kernel that looks for SMs");
    }
    const unsigned r = cu->library_kernel(kernel, gpu->probe, "mo_probe");
    return r ? mo_cuda_fail(gpu, r, err, "find the kernel that looks for SMs") : MOIRE_OK;
}

/* One look: its run, and what it needs on GPU and host. */
struct look {
    struct mo_cuda_gpu *gpu;
    mo_cu_kernel kernel;
    mo_cu_ptr seen;
    uint32_t *host;
    _Atomic uint32_t done;
    int code;
    moire_error *err;
};

static int enqueue(void *work, struct mo_cuda_track *t, int part, moire_error *err) {
    struct look *l = work;
    const struct mo_cuda_driver *cu = &l->gpu->system->cu;
    void *arguments[] = {&l->seen};
    const unsigned blocks = (unsigned)(l->gpu->info.sms * BLOCKS_AN_SM);
    unsigned r;
    if (part == 0)
        r = cu->fill(l->seen, 0, SEEN_BYTES, t->stream);
    else if (part == 1)
        r = cu->launch((mo_cu_function)(void *)l->kernel, blocks, 1, 1, 256, 1, 1, 0, t->stream, arguments,
                       NULL);
    else
        r = cu->copy_out(l->host, l->seen, SEEN_BYTES, t->stream);
    return r ? mo_cuda_fail(l->gpu, r, err, "look for SMs") : MOIRE_OK;
}

static void looked(void *ctx, int code, const char *message, const struct mo_gpu_times *times) {
    struct look *l = ctx;
    (void)times;
    l->code = code;
    if (code) mo_fail(l->err, code, "%s", message);
    const struct mo_sys *sys = l->gpu->system->env->sys;
    atomic_store_explicit(&l->done, 1, memory_order_release);
    sys->futex_wake(sys->self, &l->done, 1);
}

/* Queues it as any run, so that a GPU that hangs is noticed, and waits. */
static int run(struct mo_gpu_let *let, struct look *l, moire_error *err) {
    const struct mo_sys *sys = l->gpu->system->env->sys;
    const struct mo_cuda_work work = {.enqueue = enqueue, .work = l, .done = looked, .ctx = l};
    const int rc = mo_cuda_submit(let, &work, err);
    if (rc) return rc;
    while (!atomic_load_explicit(&l->done, memory_order_acquire))
        sys->futex_wait(sys->self, &l->done, 0, 0);
    return l->code;
}

static int prepare(struct look *l, moire_error *err) {
    struct mo_cuda_gpu *gpu = l->gpu;
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    int rc = mo_cuda_enter(gpu, NULL, err);
    if (rc) return rc;
    const unsigned r = cu->memory_alloc(&l->seen, SEEN_BYTES);
    rc = r ? mo_cuda_fail(gpu, r, err, "memory to look for SMs") : load(gpu, &l->kernel, err);
    mo_cuda_leave(gpu, NULL);
    if (!rc) rc = mo_cuda_staging_alloc(gpu->system, SEEN_BYTES, (void **)&l->host, err);
    return rc;
}

static void clean_up(struct look *l) {
    mo_cuda_staging_free(l->gpu->system, l->host);
    if (!l->seen || mo_cuda_enter(l->gpu, NULL, NULL)) return;
    l->gpu->system->cu.memory_free(l->seen);
    mo_cuda_leave(l->gpu, NULL);
}

int mo_cuda_let_probe(struct mo_gpu_let *let, uint64_t sms[MO_GPU_SM_WORDS], moire_error *err) {
    struct mo_cuda_gpu *gpu = let->track->context->gpu;
    const struct mo_sys *sys = gpu->system->env->sys;
    struct look look = {.gpu = gpu, .err = err};
    mo_lock_take(sys, &gpu->making);
    int rc = prepare(&look, err);
    mo_lock_drop(sys, &gpu->making);
    if (!rc) rc = run(let, &look, err);
    for (int w = 0; w < MO_GPU_SM_WORDS; w++)
        sms[w] = 0;
    for (int i = 0; i < SEEN && !rc; i++)
        if (look.host[i]) sms[i / 64] |= UINT64_C(1) << (i % 64);
    clean_up(&look);
    return rc;
}
