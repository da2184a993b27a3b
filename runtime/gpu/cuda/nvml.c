/* SPDX-License-Identifier: Apache-2.0
 * nvml.c - power, utilisation, clocks and temperature from NVML, where it is there.
 * A counter that cannot be read is negative and the reason is
 * told. */
#include "runtime/gpu/cuda/cuda.h"
#include "runtime/gpu/cuda/nvml.h"

#include <stdio.h>

struct mo_nvml {
#define FIELD(field, symbol, arguments) unsigned(*field) arguments;
    MO_NVML_FUNCTIONS(FIELD)
#undef FIELD
    const char *(*error_text)(unsigned result);
    struct mo_cuda_object object;
};

static const struct mo_cuda_symbol symbols[] = {
#define ROW(field, symbol, arguments) {#symbol, offsetof(struct mo_nvml, field)},
    MO_NVML_FUNCTIONS(ROW)
#undef ROW
        {"nvmlErrorString", offsetof(struct mo_nvml, error_text)},
};

/* Its absence is no failure: the reason stays in s->nvml_missing. */
void mo_cuda_nvml_open(struct mo_gpu_system *s) {
    static const struct mo_cuda_wanted wanted = {.file = {"libnvidia-ml.so.1"},
                                                 .needs = "NVML, a part of the driver",
                                                 .symbols = symbols,
                                                 .n_symbols = sizeof symbols / sizeof *symbols};
    moire_error err;
    struct mo_nvml *n = mo_alloc(s->env, sizeof *n);
    if (!n) {
        snprintf(s->nvml_missing, sizeof s->nvml_missing, "no host memory for NVML");
        return;
    }
    if (mo_cuda_object_open(&n->object, s->env, s->config.path, &wanted, n, &err)) {
        snprintf(s->nvml_missing, sizeof s->nvml_missing, "%.150s", err.message);
        mo_free(s->env, n);
        return;
    }
    const unsigned r = n->init();
    if (r) {
        snprintf(s->nvml_missing, sizeof s->nvml_missing, "NVML: %.120s", n->error_text(r));
        mo_cuda_object_close(&n->object);
        mo_free(s->env, n);
        return;
    }
    s->nvml = n;
}

void mo_cuda_nvml_close(struct mo_gpu_system *s) {
    if (!s->nvml) return;
    s->nvml->shutdown();
    mo_cuda_object_close(&s->nvml->object);
    mo_free(s->env, s->nvml);
    s->nvml = NULL;
}

/* Remembers the first counter that is not there. */
static bool there(const struct mo_nvml *n, unsigned r, const char *what, struct mo_gpu_counters *out) {
    if (r && !out->missing[0])
        snprintf(out->missing, sizeof out->missing, "NVML: %s: %.100s", what, n->error_text(r));
    return r == 0;
}

static void read_nvml(const struct mo_nvml *n, const char *bus, struct mo_gpu_counters *out) {
    mo_nvml_device d = NULL;
    unsigned value = 0;
    unsigned long long millijoule = 0;
    struct mo_nvml_utilisation rates = {0};
    if (!there(n, n->by_bus(bus, &d), "this GPU", out)) return;
    if (there(n, n->power(d, &value), "power", out)) out->power_w = value * 1e-3;
    if (there(n, n->energy(d, &millijoule), "energy", out)) out->energy_j = (double)millijoule * 1e-3;
    if (there(n, n->rates(d, &rates), "utilisation", out)) out->busy = rates.gpu * 0.01;
    if (there(n, n->temperature(d, MO_NVML_SENSOR_GPU, &value), "temperature", out))
        out->celsius = (int)value;
}

int mo_cuda_counters(struct mo_gpu_system *s, int index, struct mo_gpu_counters *out, moire_error *err) {
    struct mo_cuda_gpu *gpu = mo_cuda_gpu_of(s, index, err);
    if (!gpu) return MOIRE_EINVAL;
    const int rc = mo_cuda_enter(gpu, NULL, err);
    if (rc) return rc;
    size_t left = 0, total = 0;
    const unsigned r = s->cu.memory_info(&left, &total); /* an idle GPU is lost unseen, until it is asked */
    mo_cuda_leave(gpu, NULL);
    if (r) return mo_cuda_fail(gpu, r, err, "ask for its memory");
    if (!out) return MOIRE_OK;
    *out = (struct mo_gpu_counters){.memory_total = (int64_t)total,
                                    .memory_free = (int64_t)left,
                                    .power_w = -1,
                                    .energy_j = -1,
                                    .busy = -1,
                                    .celsius = -1};
    mo_lock_take(s->env->sys, &s->lock);
    out->memory_ours = gpu->used;
    mo_lock_drop(s->env->sys, &s->lock);
    if (s->nvml)
        read_nvml(s->nvml, gpu->info.bus, out);
    else
        snprintf(out->missing, sizeof out->missing, "%s", s->nvml_missing);
    return MOIRE_OK;
}
