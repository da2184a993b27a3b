/* SPDX-License-Identifier: Apache-2.0
 * probe.c - which SMs a let has, as a kernel on it sees them.
 * The kernel is PTX text, which the driver compiles: no NVRTC is needed.  Every block notes its SM and then
 * stays 100,000 cycles, so that the blocks of one launch spread over all SMs that there are. */
#include "runtime/device/cuda/cuda.h"

static const char source[] = ".version 7.0\n"
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
        const unsigned r = cu->library_load(&gpu->probe, source, NULL, NULL, 0, NULL, NULL, 0);
        if (r) return mo_cuda_fail(gpu, r, err, "compile the kernel that looks for SMs");
    }
    const unsigned r = cu->library_kernel(kernel, gpu->probe, "mo_probe");
    return r ? mo_cuda_fail(gpu, r, err, "find the kernel that looks for SMs") : MOIRE_OK;
}

static unsigned launch(struct mo_cuda_gpu *gpu, mo_cu_stream stream, mo_cu_kernel kernel, mo_cu_ptr seen,
                       uint32_t *host) {
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    void *arguments[] = {&seen};
    unsigned r = cu->fill(seen, 0, SEEN_BYTES, stream);
    if (!r)
        r = cu->launch((mo_cu_function)(void *)kernel, (unsigned)(gpu->info.sms * BLOCKS_AN_SM), 1, 1, 256, 1,
                       1, 0, stream, arguments, NULL);
    if (!r) r = cu->copy_out(host, seen, SEEN_BYTES, stream);
    const unsigned after = cu->stream_sync(stream);
    return r ? r : after;
}

int mo_cuda_let_probe(struct mo_gpu_let *let, uint64_t sms[MO_GPU_SM_WORDS], moire_error *err) {
    struct mo_cuda_context *c = let->track->context;
    struct mo_cuda_gpu *gpu = c->gpu;
    const struct mo_cuda_driver *cu = &gpu->system->cu;
    uint32_t host[SEEN] = {0};
    mo_cu_kernel kernel;
    mo_cu_ptr seen = 0;
    mo_lock_take(gpu->system->env->sys, &gpu->making);
    int rc = mo_cuda_enter(gpu, c, err);
    if (!rc) {
        unsigned r = cu->memory_alloc(&seen, SEEN_BYTES);
        if (r) rc = mo_cuda_fail(gpu, r, err, "memory to look for SMs");
        if (!rc) rc = load(gpu, &kernel, err);
        if (!rc && (r = launch(gpu, let->track->stream, kernel, seen, host)))
            rc = mo_cuda_fail(gpu, r, err, "look for SMs");
        if (seen && rc != MOIRE_EDEVICE) cu->memory_free(seen);
        mo_cuda_leave(gpu, c);
    }
    mo_lock_drop(gpu->system->env->sys, &gpu->making);
    if (rc) return rc;
    for (int w = 0; w < MO_GPU_SM_WORDS; w++)
        sms[w] = 0;
    for (int i = 0; i < SEEN; i++)
        if (host[i]) sms[i / 64] |= UINT64_C(1) << (i % 64);
    return MOIRE_OK;
}
